"""What the guide to tasks says can be typed, can be."""

import re
import shlex
from pathlib import Path

import pytest

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "tasks.md"
TEXT = GUIDE.read_text(encoding="utf-8")
ANIMALS = ("cat", "dog", "house", "garden")


def rows(first, last):
    """Made-up reviews."""
    found = ["text,label"]
    for number in range(first, last):
        word, label = ("good", "yes") if number % 2 else ("bad", "no")
        found.append(f"the {ANIMALS[number % 4]} is {word} on day {number},{label}")
    return "\n".join(found) + "\n"


@pytest.fixture(scope="module")
def place(tiny_models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("guide")
    (folder / "model").symlink_to(tiny_models["bert"])
    (folder / "reviews.csv").write_text(rows(0, 40), encoding="utf-8")
    (folder / "more.csv").write_text(rows(40, 60), encoding="utf-8")
    return folder


def test_the_commands_of_the_guide_run_in_order(place, command, monkeypatch):
    monkeypatch.chdir(place)
    lines = re.findall(r"^\$ clozeworks (.*)$", TEXT, flags=re.MULTILINE)
    assert len(lines) >= 6
    for line in lines:
        outcome = command(*shlex.split(line))
        assert outcome.code == 0, f"{line}: {outcome.err}"
    assert (place / "reviews" / "model" / "config.json").exists()
    assert len((place / "answers.jsonl").read_text().splitlines()) == 20
    code = re.search(r"```python\n(.*?)```", TEXT, re.DOTALL).group(1)
    names: dict[str, object] = {}
    exec(compile(code, "tasks.md", "exec"), names)
    assert names["found"][1].windows > 1


def test_every_setting_of_the_guide_is_one():
    from clozeworks.jobs.finetune_recipe import read_finetune_recipe

    for change in re.findall(r"`((?:training|task|choosing)\.[\w.]+=[^`]+)`", TEXT):
        kind = "tag" if "crf" in change or "scheme" in change else "classify"
        least = {"run": "r", "model": "m", "task": {"kind": kind}, "data": {"train": ["t.csv"]}}
        read_finetune_recipe(least, [change])
