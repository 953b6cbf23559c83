"""The quick start: a text everybody has, and everything up to a model that fills gaps."""

import sys
from pathlib import Path

import pytest

from clozeworks.jobs.quickstart.python_documentation import python_documentation


@pytest.fixture(scope="module")
def short(monkeypatch_module):
    """The first documents alone, so that it takes seconds."""
    documents = python_documentation()[300:800]
    monkeypatch_module.setattr(
        "clozeworks.jobs.quickstart.job.python_documentation", lambda: documents
    )


@pytest.fixture(scope="module")
def monkeypatch_module():
    with pytest.MonkeyPatch.context() as patch:
        yield patch


@pytest.fixture
def place(short, tmp_path):
    return tmp_path / "out"


FEW = [
    "training.steps=4",
    "training.schedule.warmup_steps=1",
    "logging.every_steps=2",
    "--seeds",
    "0",
]


def test_it_goes_from_text_to_filled_gaps(command, place):
    done = command("quickstart", *FEW, "--out", str(place))
    assert done.code == 0, done.err
    assert "The text: 500 documents" in done.out and "The corpus:" in done.out
    assert "Guessing by frequency costs" in done.out
    assert done.out.count("before  ") == done.out.count("after   ") == 6
    assert "report.html" in done.out and "clozeworks fill" in done.out
    assert done.out.endswith(f"\nSee it all in a browser: clozeworks open {place}\n")
    for name in ("README.md", "README.zh.md"):
        readme = (Path(__file__).resolve().parents[2] / name).read_text(encoding="utf-8")
        block = readme.partition("$ clozeworks quickstart\n")[2].partition("```")[0]
        assert block.endswith("\nSee it all in a browser: clozeworks open quickstart-out\n")
    assert (place / "run" / "model" / "config.json").exists()
    assert (place / "run" / "curves.png").exists()


def test_it_goes_on_where_it_was_and_is_the_same_twice(command, place, tmp_path, hashes):
    assert command("quickstart", *FEW, "--out", str(place)).code == 0
    again = command("quickstart", *FEW, "--out", str(place))
    assert again.code == 0 and "nothing is left to train" in again.err
    other = tmp_path / "other"
    assert command("quickstart", *FEW, "--out", str(other)).code == 0
    name = "model.safetensors"
    assert hashes(place / "run" / "model")[name] == hashes(other / "run" / "model")[name]


def test_it_shows_what_pre_training_bought(command, place, monkeypatch, tmp_path):
    from clozeworks.jobs.quickstart import task as quickstart_task
    from clozeworks.tasks.classify import TextItem

    areas = ("files", "text")
    rows = [TextItem(f"about {areas[n % 2]} and number {n}", areas[n % 2]) for n in range(60)]
    monkeypatch.setattr(quickstart_task, "area_items", lambda: rows)
    monkeypatch.setattr(quickstart_task, "FEW", 20)
    monkeypatch.setattr(quickstart_task, "_EPOCHS", {"few": 0.5, "all": 0.5})
    done = command("quickstart", *FEW[:-1], "1", "--out", str(place))
    assert done.code == 0, done.err
    table = done.out[done.out.index("Which of") :].splitlines()
    assert table[1].split() == ["20", "labels", "48", "labels"]
    assert [line[:22].strip() for line in table[2:5]] == [
        "pre-trained",
        "fresh weights",
        "pre-trained, frozen",
    ]
    assert all(0 <= float(cell) <= 1 for line in table[2:5] for cell in line[22:].split())


def test_areas_are_told_apart():
    from clozeworks.jobs.quickstart.python_areas import area_items

    items = area_items()
    assert len({item.label for item in items}) == 12
    assert len(items) > 3_000 and len({item.text for item in items}) == len(items)


def test_a_folder_that_holds_something_else_is_refused(command, place):
    place.mkdir()
    (place / "letter.txt").write_text("dear")
    done = command("quickstart", "--out", str(place))
    assert done.code == 2 and "holds 'letter.txt' already" in done.err


@pytest.mark.slow
def test_the_text_is_large_and_always_the_same():
    documents = python_documentation()
    assert sum(map(len, documents)) > 1_000_000 and len(documents) == len(set(documents))
    assert documents == python_documentation()


def test_a_program_does_not_change_the_text(monkeypatch):
    """Hooks that a program puts into `sys` have docstrings, too."""

    def hook(unraisable):
        """A sentence that is long enough to be taken for a document of the standard library."""

    before = python_documentation()
    monkeypatch.setattr(sys, "unraisablehook", hook)
    assert python_documentation() == before
