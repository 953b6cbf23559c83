"""`clozeworks rerank`: documents in order, files of pairs, and training by the command."""

import io
import json
import sys

import pytest
import torch

import clozeworks as cw
from clozeworks.tasks.rerank.task import Rerank

QUERY = "the cat sat"
DOCUMENTS = ["the dog lay on the rug", "the cat", "我爱北京", "the cat sat on the mat", "the cat"]


@pytest.fixture(scope="module")
def folder(tiny_models, tmp_path_factory):
    model = cw.load(tiny_models["bert"]).for_task(Rerank(activation="identity"), seed=3)
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.model.named_parameters():
        if name.startswith("heads."):
            parameter.data.normal_(std=0.5, generator=generator)
    return model.save(tmp_path_factory.mktemp("reranker") / "model")


def objects(outcome):
    assert outcome.code == 0, outcome.err
    return [json.loads(line) for line in outcome.out.splitlines()]


@pytest.fixture
def files(tmp_path):
    contents = {
        "a.txt": "".join(f"{text}\n" for text in DOCUMENTS),
        "a.csv": "n,text\n" + "".join(f"1,{text}\n" for text in DOCUMENTS),
        "a.jsonl": "".join(json.dumps({"document": text}) + "\n" for text in DOCUMENTS),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    return [tmp_path / name for name in contents]


def test_documents_of_files_come_the_best_first(command, folder, files, monkeypatch):
    wanted = cw.load(folder).rerank(QUERY, DOCUMENTS)
    places = [each.index for each in wanted]
    assert sorted(places) == list(range(5)) and places != list(range(5))
    assert places.index(1) + 1 == places.index(4)  # equal documents stay in order
    lines = files[0].read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    for source in [*files, "-"]:
        found = objects(command("rerank", folder, QUERY, source))
        assert [each["document"] for each in found] == [each.document for each in wanted]
        assert [each["rank"] for each in found] == [1, 2, 3, 4, 5]
        for each, right in zip(found, wanted, strict=True):
            assert each["score"] == pytest.approx(right.score, abs=1e-5)
    assert found[0]["source_location"] == f"standard input, line {places[0] + 1}"
    few = command("rerank", folder, QUERY, *DOCUMENTS, "--top", "2", "--no-json")
    assert few.out.splitlines() == [
        f"{rank:>3}  {each.score:.4f}  {each.document}" for rank, each in enumerate(wanted[:2], 1)
    ]


def test_rows_of_a_file_are_scored_in_their_order(command, folder, tmp_path):
    rows = [{"question": QUERY, "answer": text, "label": 1} for text in DOCUMENTS]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    found = objects(command("rerank", folder, tmp_path / "a.jsonl"))
    assert [(each["query"], each["document"]) for each in found] == [(QUERY, d) for d in DOCUMENTS]
    wanted = cw.load(folder).predict([(QUERY, text) for text in DOCUMENTS])
    assert [each["score"] for each in found] == pytest.approx(
        [e.scores[0] for e in wanted], abs=1e-5
    )


def test_what_cannot_be_put_in_order(refused, folder, tiny_models, files, tmp_path):
    refused("--top is 0; it must be at least 1.", *("rerank", folder, QUERY, "a", "--top", "0"))
    refused(
        "--top is 3; every row of a file is scored, and there is no order; leave it out, or give a "
        "query and documents.",
        *("rerank", folder, files[1], "--top", "3"),
    )
    (tmp_path / "empty.txt").write_text("")
    refused(
        f"{tmp_path / 'empty.txt'} has no rows; there must be at least one; check where it comes "
        "from.",
        *("rerank", folder, QUERY, tmp_path / "empty.txt"),
    )
    refused(
        f"{tiny_models['bert']} cannot rerank documents: it has no head for a task; use a "
        "checkpoint with such a head (…ForSequenceClassification with one label: a cross-encoder), "
        "or train one with clozeworks finetune.",
        *("rerank", tiny_models["bert"], QUERY, "a"),
    )


def test_training_measuring_and_splitting(command, tiny_models, tmp_path):
    rows = [
        {"query": f"cat {n}", "document": f"{'the cat' if m == n % 4 else 'a dog'} {m}", "bm25": m}
        | {"label": int(m == n % 4)}
        for n in range(8)
        for m in range(4)
    ]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    run = tmp_path / "run"
    options = ("training.epochs=1", "training.batch_size=8", "--out", run)
    outcome = command("finetune", "rerank", tiny_models["bert"], path, *options)
    assert outcome.code == 0, outcome.err
    assert "The rows hold queries and documents with 0 or 1: the loss is binary_cross_entropy." in (
        outcome.err
    )
    assert "first_stage_map" in outcome.out + outcome.err
    config = json.loads((run / "model" / "config.json").read_text())
    assert config["sentence_transformers"]["activation_fn"].endswith("Sigmoid")
    assert "CrossEncoder" in (run / "model" / "README.md").read_text()
    measured = command("evaluate", run / "model", path)
    assert measured.code == 0, measured.err
    assert "ndcg@10" in measured.out and "first_stage_ndcg@10" in measured.out
    parts = command("data", "split", path, "--task", "rerank", "--out", tmp_path / "parts")
    assert "The rows about one query are in one part." in parts.out
    checked = command("data", "check", path, "--task", "rerank")
    assert checked.code == 0 and "not relevant" in checked.out
