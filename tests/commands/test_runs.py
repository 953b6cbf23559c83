"""`clozeworks runs`: a table, or JSON."""

import json
import re
from datetime import UTC, datetime

import pytest

import clozeworks as cw
from clozeworks.errors import UnfinishedRun
from clozeworks.runs.state import RunState
from clozeworks.storage.locks import locked


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A folder with a run that was stopped and one that is damaged."""
    monkeypatch.chdir(tmp_path)
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    state = RunState(
        "pretrain",
        "running",  # and then it was killed
        step=1234,
        steps=2000,
        loss=2.5,
        tokens_per_second=4321.0,
        updated=datetime.now(UTC).isoformat(timespec="seconds"),
        command=("/bin/clozeworks", "pretrain", "r.toml"),
    )
    state.write(tmp_path / "first")
    (tmp_path / "first" / "recipe.json").write_text("{}")
    (tmp_path / "first" / "snapshots" / "step-000001000").mkdir(parents=True)
    (tmp_path / "second" / "state.json").write_text("{")
    return tmp_path


def test_a_table(place, command):
    found = command("runs")
    assert (found.code, found.err) == (0, "")
    said = re.sub(r"\d+ s ago", "… ago", found.out)
    assert said.splitlines() == [
        "run     state              step  held-out loss  tokens/s  last updated",
        "first   stopped  1,000 of 2,000          2.500     4,321  … ago",
        "second  damaged",
        "second: state.json is not the state of a run.",
        "Continue first with: clozeworks pretrain r.toml",
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [("command", 5), ("command", [1]), ("ranks", "x"), ("where", []), ("pid", {}), ("loss", "2")],
)
def test_a_state_with_other_types_is_damaged(place, command, key, value):
    path = place / "first" / "state.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), key: value}))
    found = command("runs")
    assert (found.code, found.err) == (0, "")
    assert "first: state.json is not the state of a run." in found.out
    assert json.loads(command("runs", "--json").out)[0]["status"] == "damaged"


def test_json(place, command):
    found = json.loads(command("runs", place, "--json").out)
    assert [run["status"] for run in found] == ["stopped", "damaged"]
    assert found[0]["run"] == str(place / "first")
    assert found[0]["step"] == 1000
    assert found[0]["continue_command"] == "clozeworks pretrain r.toml"
    assert found[1]["problem"] == "state.json is not the state of a run"


def test_no_runs(tmp_path, command, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert command("runs").out == "No runs here. Start one: clozeworks init pretrain\n"
    assert command("runs", tmp_path).out == (
        f"No runs in {tmp_path}. Start one: clozeworks init pretrain\n"
    )
    assert command("runs", "--json").out == "[]\n"


def test_a_folder_that_is_not_there(tmp_path, refused):
    where = tmp_path / "nothing"
    refused(f"{where} does not exist; check the name and the folder.", "runs", where)


def test_no_heavy_library_is_imported(place, start):
    code = (
        "import sys; from clozeworks.cli.main import run; run(['runs']); "
        "heavy = {'torch', 'numpy', 'matplotlib'} & set(sys.modules); "
        "sys.exit(str(heavy) if heavy else 0)"
    )
    process = start(["-c", code])
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert "Continue first with" in out


def test_the_model_of_a_run_that_is_not_at_its_end(place, refused):
    first = "first/model is not there; the run first has not come to its end; "
    for words in (("fill", "first/model", "a [MASK]"), ("embed", "first/model", "a text")):
        refused(f"{first}continue it with: clozeworks pretrain r.toml", *words)
    refused(
        f"{first}continue it with: clozeworks pretrain r.toml",
        *("evaluate", "first/model", "rows.csv"),
    )
    (place / "first" / "state.json").unlink()
    refused(f"{first}run the command it was begun with again.", "show", "first/model")
    with locked(place / "first"):
        refused(f"{first}wait for it.", "show", "first/model")
    with pytest.raises(UnfinishedRun) as caught:
        cw.load(place / "first" / "model")
    assert caught.value.run == str(place / "first")
