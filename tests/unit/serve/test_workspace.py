"""What lies in folders that were opened: found, listed, and never anything outside of them."""

import json
import os
from contextlib import contextmanager
from pathlib import Path

import pytest

import clozeworks as cw
from clozeworks.errors import InputError
from clozeworks.serve.workspace import contents as walking
from clozeworks.serve.workspace.contents import find_contents
from clozeworks.serve.workspace.endpoints import workspace_endpoints
from clozeworks.serve.workspace.workspace import Workspace

HOSTILE = "<img src=x onerror=alert(1)>"


@pytest.fixture
def place(tmp_path, small_corpus, tiny_models, new_run):
    """A folder with something of each kind, partly below others, and links that lead out of it."""
    folder = tmp_path / "work"
    new_run(folder / "runs" / "first", [{"step": 1, "loss": 2.0}])
    new_run(folder / "runs" / HOSTILE)
    (folder / "corpus").symlink_to(small_corpus)
    cw.load(tiny_models["bert"]).save(folder / "models" / "words")
    cw.load(tiny_models["bert"]).save(folder / "runs" / "first" / "model")
    cw.Index.build(["the cat sat"], tiny_models["bert"], folder / "pets")
    (folder / "reviews.csv").write_text("text,label\na,b\n")
    (folder / "recipe.json").write_text("{}")
    outside = tmp_path / "outside"
    new_run(outside / "secret")
    (outside / "secret.csv").write_text("text,label\na,b\n")
    (folder / "link").symlink_to(outside)
    (folder / "link.csv").symlink_to(outside / "secret.csv")
    os.mkfifo(folder / "pipe.csv")
    (folder / "runs" / "odd").mkdir()
    os.mkfifo(folder / "runs" / "odd" / "state.json")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "a.csv").write_text("")
    return folder


@contextmanager
def opened(asking, *sources, **settings):
    """A client of what is opened."""
    workspace = Workspace(sources, seconds=0.02)
    try:
        with asking(
            endpoints=workspace_endpoints(workspace), host="127.0.0.1", **settings
        ) as client:
            client.base_url = "http://127.0.0.1:8000"
            client.workspace = workspace
            yield client
    finally:
        workspace.close()


def test_what_there_is_is_found_and_nothing_outside(place):
    found = find_contents([place])
    assert sorted(found.models) == ["models/words", "pets", "runs/first"]
    assert sorted(found.runs) == [f"runs/{HOSTILE}", "runs/first"]
    assert list(found.files) == ["reviews.csv"] and found.corpora == {} and not found.is_cut


def test_what_is_named_may_be_anything(place, small_corpus):
    words, run = place / "models" / "words", place / "runs" / "first"
    found = find_contents([words, run, run, place / "corpus", place / "link.csv", "google/bert"])
    assert list(found.models) == ["words", "first", "google/bert"]
    assert found.models["first"] == run / "model"
    assert list(found.runs) == ["first"] and list(found.corpora) == [small_corpus.name]
    assert list(found.files) == ["link.csv"]
    with pytest.raises(InputError, match=r"nowhere does not exist"):
        find_contents([place / "nowhere"])
    with pytest.raises(InputError, match="neither a file nor a folder"):
        find_contents([place / "pipe.csv"])


def test_the_walk_is_bounded(tmp_path, monkeypatch, new_run):
    deep = tmp_path / "a" / "b" / "c" / "d" / "e" / "f"
    new_run(deep)
    found = find_contents([tmp_path])
    assert found.runs == {} and found.is_cut
    assert list(find_contents([deep.parent]).runs) == ["f"]
    monkeypatch.setattr(walking, "MOST_FOLDERS", 3)
    for number in range(5):
        new_run(tmp_path / "many" / str(number))
    found = find_contents([tmp_path / "many"])
    assert len(found.runs) == 2 and found.is_cut
    monkeypatch.setattr(walking, "MOST_ENTRIES", 1)
    assert len(find_contents([tmp_path / "many"]).runs) == 1


def test_a_name_that_is_no_utf8(tmp_path, new_run):
    new_run(Path(os.fsdecode(os.fsencode(tmp_path) + b"/work/\xff\xfe")))
    assert list(find_contents([tmp_path / "work"]).runs) == ["\ufffd\ufffd"]


def test_equal_names_get_numbers(tmp_path, new_run):
    first, second = new_run(tmp_path / "a" / "run"), new_run(tmp_path / "b" / "run")
    assert find_contents([first, second]).runs == {"run": first, "run (2)": second}


def test_everything_is_listed(place, asking):
    with opened(asking, place) as client:
        found = client.get("/v1/workspace").json()
        assert found["files"] == ["reviews.csv"] and found["folders"] == [str(place)]
        runs = client.get("/v1/runs").json()["runs"]
        assert {each["name"]: each["status"] for each in runs} == {
            "runs/first": "stopped",
            f"runs/{HOSTILE}": "stopped",
        }
        assert [each.name for each in client.workspace.models] == found["models"]


def test_names_are_looked_up_and_never_paths(place, asking):
    with opened(asking, place) as client:
        for name in ("../outside/secret", str(place / "runs" / "first"), "runs/../runs/first", ""):
            reply = client.get("/v1/runs/details", params={"run": name})
            assert reply.status_code == 404 and "there is no run" in reply.text
        for part in ("..", "../..", "model", "/"):
            query = {"run": "runs/first", "part": part}
            assert client.get("/v1/runs/curves", params=query).status_code == 404
        assert client.get("/v1/runs/curves", params={"columns": 5}).status_code == 422


def test_only_its_own_names_are_answered(place, asking):
    with opened(asking, place) as client:
        for host in ("127.0.0.1:8000", "localhost:1", "LOCALHOST", "[::1]:80"):
            assert client.get("/v1/runs", headers={"host": host}).status_code == 200
        for host in ("evil.example", "127.0.0.1.evil.example", "192.168.1.2", ""):
            for path in ("/v1/runs", "/", "/metrics", "/health"):
                refused = client.get(path, headers={"host": host})
                assert refused.status_code == 421
                assert "is not asked by this name" in refused.text


def test_changes_are_for_the_page_alone(place, asking):
    with opened(asking, place) as client:
        for path in ("/v1/runs/stop", "/v1/runs/continue"):
            for origin in (None, "null", "http://evil.example", "https://127.0.0.1:8000"):
                headers = {} if origin is None else {"origin": origin}
                refused = client.post(path, json={"run": "runs/first"}, headers=headers)
                assert refused.status_code == 403 and "for the page of this server" in refused.text
            own = {"origin": "http://127.0.0.1:8000"}
            taken = client.post(path, json={"run": "runs/first"}, headers=own)
            assert taken.status_code == 409
            assert client.get(path, headers=own).status_code == 405


def test_where_others_may_look_nobody_elsewhere_changes(place, asking):
    workspace = Workspace([place])
    with asking(endpoints=workspace_endpoints(workspace), host="0.0.0.0") as client:
        own = {"host": "192.168.1.2:8000", "origin": "http://192.168.1.2:8000"}
        assert client.get("/v1/runs", headers=own).status_code == 200
        refused = client.post("/v1/runs/stop", json={"run": "runs/first"}, headers=own)
        assert refused.status_code == 403 and "on their own machine alone" in refused.text
        assert client.get("/v1/runs", headers={"host": "evil.example"}).status_code == 421
    workspace.close()


def test_a_report_is_shown_without_rights(place, asking, tmp_path):
    run = place / "runs" / "first"
    with opened(asking, place) as client:

        def report():
            return client.get("/v1/runs/report", params={"run": "runs/first"})

        assert report().status_code == 404 and "has no report that can be shown" in report().text
        (run / "report.html").write_text("<h1>A report</h1><script>alert(1)</script>")
        shown = report()
        assert shown.headers["content-type"] == "text/html; charset=utf-8"
        policy = shown.headers["content-security-policy"]
        assert policy.startswith("sandbox; default-src 'none'; ") and "script" not in policy
        assert shown.headers["x-content-type-options"] == "nosniff"
        (run / "report.html").unlink()
        (tmp_path / "secret").write_text("a secret")
        (run / "report.html").symlink_to(tmp_path / "secret")
        assert report().status_code == 404 and "a secret" not in report().text
        (run / "report.html").unlink()
        os.mkfifo(run / "report.html")
        assert report().status_code == 404


def test_settings_notes_and_sessions(place, asking):
    run = place / "runs" / "first"
    (run / "recipe.json").write_text(json.dumps({"seed": 3, "model": {"start": HOSTILE}}))
    (run / "notes.jsonl").write_text('{"at": "now", "step": 2, "note": "a spike"}\ndamaged\n[]\n')
    with opened(asking, place) as client:
        found = client.get("/v1/runs/details", params={"run": "runs/first"}).json()
        assert found["settings"] == {"seed": "3", "model.start": f'"{HOSTILE}"'}
        assert [each["note"] for each in found["notes"]] == ["a spike"]
        (run / "recipe.json").write_text("[" * 100_000)
        found = client.get("/v1/runs/details", params={"run": "runs/first"}).json()
        assert found["settings"] == {} and found["sessions"] == []


def test_a_run_that_vanishes_is_told(place, asking):
    with opened(asking, place) as client:
        client.get("/v1/runs")
        (place / "runs" / "first").rename(place.parent / "elsewhere")
        for path in ("details", "curves", "report"):
            reply = client.get(f"/v1/runs/{path}", params={"run": "runs/first"})
            assert reply.status_code in (200, 404) and reply.status_code != 500


def test_a_state_that_is_a_pipe_keeps_nobody_waiting(place):
    from clozeworks.runs.state import read_state
    from clozeworks.storage.locks import held

    state = read_state(place / "runs" / "odd")
    assert state.status == "damaged" and "not a regular file" in state.problem
    os.mkfifo(place / "runs" / "odd" / ".lock")
    assert not held(place / "runs" / "odd")


def test_a_state_that_json_cannot_send(place, asking, new_run):
    huge, half = 10**40, "\ud800"
    folder = place / "runs" / "huge"
    new_run(folder, step=huge, steps=huge, part=half, problem=half, metric=half)
    (folder / "notes.jsonl").write_text(json.dumps({"at": half, "step": huge, "note": half}))
    (folder / "recipe.json").write_text(json.dumps({half: half, "seed": huge}))
    with opened(asking, place) as client:
        reply = client.get("/v1/runs")
        assert reply.status_code == 200
        (record,) = [each for each in reply.json()["runs"] if each["name"] == "runs/huge"]
        assert record["step"] is None and record["problem"] == "?"
        found = client.get("/v1/runs/details", params={"run": "runs/huge"})
        assert found.status_code == 200 and found.json()["notes"][0]["note"] == "?"
