"""What a step sees and what labelled files hold, as a page is told."""

import os
import shutil

import pytest

from clozeworks.serve.workspace import data_endpoints
from clozeworks.serve.workspace.data_endpoints import BatchBody, seen_step
from clozeworks.serve.workspace.endpoints import workspace_endpoints
from clozeworks.serve.workspace.workspace import Workspace


@pytest.fixture
def client(tmp_path, small_corpus, asking):
    """A client of a folder with a corpus and labelled files."""
    folder = tmp_path / "work"
    shutil.copytree(small_corpus, folder / "corpus")
    (folder / "reviews.csv").write_text("text,label\n" + "a text,good\na text,bad\nlong,good\n" * 9)
    workspace = Workspace([folder])
    with asking(endpoints=workspace_endpoints(workspace), host="testserver") as opened:
        opened.folder = folder
        yield opened
    workspace.close()


def test_a_corpus_is_described(client):
    found = client.get("/v1/corpora").json()
    (corpus,) = found["corpora"]
    assert corpus["name"] == "corpus" and set(corpus["splits"]) == {"train", "validation"}
    train = corpus["splits"]["train"]
    assert sum(train["document_lengths"]) == train["documents"] > 100
    assert {"bert", "t5"} <= set(found["objectives"])
    (client.folder / "corpus" / "manifest.json").write_text("{}")
    assert "damaged" in client.get("/v1/corpora").json()["corpora"][0]["problem"]


def test_a_step_is_what_the_command_prints(client, command):
    query = {"corpus": "corpus", "step": 7, "seed": 3, "tokens": 256, "show": 2}
    found = client.get("/v1/corpora/batch", params=query).json()
    words = ["corpus", "batch", client.folder / "corpus", "--step", 7, "--seed", 3]
    printed = command(*words, "--tokens", 256, "--show", 2).out.splitlines()
    lines = []
    for example in found["examples"]:
        shown = [
            text if state not in ("masked", "replaced", "kept")
            else f"⟨{text}⟩" if original is None else f"⟨{original}→{text}⟩"
            for text, state, original in example["tokens"]
        ]  # fmt: skip
        lines += [" ".join(shown), *example["targets"]]
    assert lines and all(f"  {line}" in printed for line in lines)
    assert f"step 7 of bert, epoch {found['epoch']:,.2f}: " in printed[0]
    assert {state for each in found["examples"] for _, state, _ in each["tokens"]} >= {
        "", "special", "masked"
    }  # fmt: skip


def test_every_token_that_is_asked_has_a_state(client):
    found = seen_step(client.folder / "corpus", BatchBody(corpus="corpus", show=20, tokens=512))
    states = [state for each in found["examples"] for _, state, _ in each["tokens"]]
    asked = sum(states.count(each) for each in ("masked", "replaced", "kept"))
    assert asked == found["asked"]["masked_lm"] and states.count("masked") > 0.6 * asked
    kept = [each for one in found["examples"] for each in one["tokens"] if each[1] == "kept"]
    assert all(original is None for _, _, original in kept)


@pytest.mark.parametrize(
    ("query", "status", "sentence"),
    [
        ({"corpus": "../corpus"}, 404, "there is no corpus"),
        ({"corpus": "corpus", "objective": "nothing"}, 422, "nothing"),
        ({"corpus": "corpus", "objective": '{kind = "masked_lm"'}, 422, ""),
        ({"corpus": "corpus", "step": -1}, 422, "step"),
        ({"corpus": "corpus", "tokens": 10**9}, 422, "tokens"),
        ({"corpus": "corpus", "split": "test"}, 422, "split"),
        ({"corpus": "corpus", "other": "1"}, 422, "other"),
        ({}, 422, "corpus is missing"),
    ],
)
def test_what_is_refused(client, query, status, sentence):
    reply = client.get("/v1/corpora/batch", params=query)
    assert reply.status_code == status and sentence in reply.json()["error"]["message"]


def test_a_labelled_file_is_reported_on(client):
    listed = client.get("/v1/files").json()
    assert [each["name"] for each in listed["files"]] == ["reviews.csv"]
    assert "classify" in [each["name"] for each in listed["tasks"]]
    query = {"file": "reviews.csv", "task": "classify"}
    found = client.get("/v1/files/check", params=query).json()
    assert {each["name"] for each in found["report"]["findings"]} == {
        "duplicates", "contradictions"
    }  # fmt: skip
    amounts = {each["name"]: each["count"] for each in found["report"]["train"]["labels"]}
    assert amounts == {"good": 18, "bad": 9}
    assert found["rows"][0]["texts"] == ["a text"] and found["rows"][0]["labels"] == ["good"]
    assert len(found["rows"]) == 20


def test_halves_of_characters_in_a_file(client):
    lines = ['{"text": "a \\ud800 b", "label": "\\ud800"}', '{"text": "c", "label": "x"}']
    (client.folder / "odd.jsonl").write_text("\n".join(lines * 3))
    client.get("/v1/files")
    query = {"file": "odd.jsonl", "task": "classify"}
    reply = client.get("/v1/files/check", params=query)
    assert reply.status_code in (200, 404, 422)


@pytest.mark.parametrize("what", ["large", "compressed", "pipe", "gone", "task"])
def test_files_that_are_not_read(client, monkeypatch, what):
    path, task, status = client.folder / "reviews.csv", "classify", 422
    client.get("/v1/files")
    if what == "large":
        monkeypatch.setattr(data_endpoints, "LARGEST_FILE", 10)
        status = 413
    elif what == "compressed":
        workspace_file = client.folder / "more.csv.gz"
        workspace_file.write_bytes(b"\x1f\x8b")
        monkeypatch.setattr(Workspace, "file", lambda self, name: workspace_file)
        status = 413
    elif what == "pipe":
        path.unlink()
        os.mkfifo(path)
    elif what == "gone":
        path.unlink()
    else:
        task = "nothing"
    query = {"file": "reviews.csv", "task": task}
    reply = client.get("/v1/files/check", params=query)
    assert reply.status_code in (status, 404) and reply.json()["error"]["message"]


def test_the_server_tells_what_it_measures(asking):
    with asking("bert") as client:
        before = client.get("/v1/server").json()
        assert before["requests"] == [] and before["stages"] == {}
        for _ in range(3):
            client.post("/v1/embed", json={"inputs": "the cat"})
        client.post("/v1/embed", json={"inputs": 5})
        found = client.get("/v1/server").json()
    counts = {(each["path"], each["status"]): each["count"] for each in found["requests"]}
    assert counts == {("/v1/embed", "200"): 3, ("/v1/embed", "422"): 1}
    total = found["stages"]["total"]
    assert total["count"] == 4 and total["below"][-1] == [None, 4] and total["sum"] > 0
    assert found["tokens"]["read"] == found["batch_tokens"] > 0
    assert found["in_flight"] == 0 and found["most_tokens"] == 131_072
