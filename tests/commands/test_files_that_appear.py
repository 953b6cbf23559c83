"""An output file that another program makes while a command works: both are kept."""

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.cli.commands.data import PARTS
from clozeworks.cli.main import Terminated
from clozeworks.cli.outputs import open_output
from clozeworks.errors import InputError
from clozeworks.tasks.classify import Classify


@pytest.fixture(scope="module")
def model(tiny_models, tmp_path_factory):
    task = Classify(labels=("bad", "good"))
    return cw.load(tiny_models["bert"]).for_task(task).save(tmp_path_factory.mktemp("a") / "model")


@pytest.fixture
def taken(tmp_path, monkeypatch):
    """Makes a file that the first look did not see."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rows.csv").write_text("text,label\nthe cat,good\nthe dog,bad\n")
    monkeypatch.setattr("clozeworks.data.files.vectors.check_output", lambda path, **options: None)

    def make(name):
        (tmp_path / name).write_text("theirs")
        return tmp_path / name

    return make


def said(path):
    place = path.with_name(f"{path.stem}.2{path.suffix}")
    return place, (
        f"clozeworks: {path.name} exists by now, and is not replaced; the results are in {place}; "
        "keep those you want."
    )


def test_answers(command, model, taken):
    path = taken("out.jsonl")
    place, sentence = said(path)
    outcome = command("classify", model, "the cat", "--out", path.name)
    assert outcome.code == 2 and outcome.err.strip() == sentence
    assert path.read_text() == "theirs" and '"the cat"' in place.read_text()
    assert command("classify", model, "the cat", "--out", path.name, "--overwrite").code == 0
    assert path.read_text() == place.read_text()


@pytest.mark.parametrize("stop", [KeyboardInterrupt(), Terminated(143), InputError("a is odd.")])
def test_who_stops_is_told_where_results_are(taken, capsys, tmp_path, stop):
    path, partial = tmp_path / "out.jsonl", tmp_path / "out.partial.jsonl"
    place = tmp_path / "out.partial.2.jsonl"

    def done():
        return "2 texts"

    with (
        pytest.raises(type(stop)) as caught,
        open_output(path, "texts", done, overwrite=False, errors=True) as file,
    ):
        file.write("ours")
        taken(partial.name)
        raise stop
    assert caught.value is stop
    sentence = (
        f"2 texts until then; {partial} exists by now, and is not replaced; the results are in "
        f"{place}; keep those you want."
    )
    told = capsys.readouterr().err.splitlines() + getattr(stop, "__notes__", [])
    assert told == [sentence]
    assert partial.read_text() == "theirs" and place.read_text() == "ours"
    assert not path.exists()


def test_vectors(command, model, taken):
    path = taken("out.npy")
    place, sentence = said(path)
    outcome = command("embed", model, "the cat", "--out", path.name)
    assert outcome.code == 2 and outcome.err.strip() == sentence
    assert path.read_text() == "theirs" and np.load(place).shape[0] == 1


def test_predictions_come_behind_the_measures(command, model, taken):
    path = taken("out.jsonl")
    place, sentence = said(path)
    outcome = command("evaluate", model, "rows.csv", "--predictions", path.name, "--json")
    assert outcome.code == 2 and outcome.err.strip().endswith(sentence)
    assert '"accuracy"' in outcome.out
    assert path.read_text() == "theirs" and len(place.read_text().splitlines()) == 2


def test_a_recipe(command, taken, monkeypatch):
    monkeypatch.setattr(
        "clozeworks.jobs.recipe_text.recipe_text", lambda *given: taken("recipe.toml") and "ours"
    )
    outcome = command("init", "pretrain")
    place, sentence = said(taken("recipe.toml"))
    assert outcome.code == 2 and outcome.err.strip() == sentence
    assert place.read_text() == "ours"


@pytest.mark.parametrize(
    "theirs", [["train"], ["dev"], ["test"], ["dev", "test", "train"]], ids="-".join
)
def test_parts(command, taken, tmp_path, monkeypatch, theirs):
    monkeypatch.setattr("clozeworks.cli.commands.data._check", lambda *given: None)
    rows = "".join(f"text {number},{'good' if number % 2 else 'bad'}\n" for number in range(40))
    (tmp_path / "rows.csv").write_text("text,label\n" + rows)
    folder = tmp_path / "parts"
    folder.mkdir()
    paths = [taken(f"parts/{name}.csv") for name in theirs]
    outcome = command("data", "split", "rows.csv", "--task", "classify", "--out", "parts")
    sentences = [
        f"parts/{name}.csv exists by now, and is not replaced; the results are in "
        f"{folder / name}.2.csv; keep those you want."
        for name in theirs
    ]
    assert (outcome.code, outcome.err) == (2, f"clozeworks: {' '.join(sentences)}\n")
    assert all(path.read_text() == "theirs" for path in paths)
    ours = [f"{name}.2.csv" if name in theirs else f"{name}.csv" for name in PARTS]
    lines = [line for name in ours for line in (folder / name).read_text().splitlines()[1:]]
    assert sorted(lines) == sorted(rows.splitlines())
    assert {path.name for path in folder.iterdir()} == {*ours, *(path.name for path in paths)}
