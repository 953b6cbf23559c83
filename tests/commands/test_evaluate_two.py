"""`clozeworks evaluate A B FILE`: two models on the same items, and whether they differ."""

import json

import pytest

import clozeworks as cw
from clozeworks.errors import InputError
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.tag import Tag

TEXTS = ["the cat sat", "the dog lay", "the house", "on the mat", "a garden", "a new house"]
LABELS = ["good", "bad", "good", "bad", "bad", "good"]


@pytest.fixture(scope="module")
def folders(tiny_models, tmp_path_factory):
    made = tmp_path_factory.mktemp("two")
    tasks = {
        "classify": Classify(labels=("bad", "good")),
        "tag": Tag(labels=("O", "B-PER", "I-PER")),
        "answer": Answer(),
    }
    for name, task in tasks.items():
        for copy in "ab":
            cw.load(tiny_models["bert"]).for_task(task).save(made / f"{name}-{copy}")
    return made


@pytest.fixture
def reviews(tmp_path):
    path = tmp_path / "a.csv"
    rows = "".join(f"{text},{label}\n" for text, label in zip(TEXTS, LABELS, strict=True))
    path.write_text("text,label\n" + rows)
    return path


def test_the_page_names_both_and_says_whether_they_differ(command, folders, reviews):
    a, b = folders / "classify-a", folders / "classify-b"
    outcome = command("evaluate", a, b, reviews)
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert lines[:4] == [f"classify on {reviews}: 6 texts", "", f"A  {a}", f"B  {b}"]
    assert lines[5].split() == ["A", "B", "B", "less", "A", "95", "%", "interval"]
    assert lines[6].split()[0] == "accuracy"
    assert any(line.startswith("A and B") and "accuracy" in line for line in lines)


def test_values_are_those_of_measuring_each_alone(command, folders, reviews):
    a, b = folders / "classify-a", folders / "classify-b"
    found = json.loads(command("evaluate", a, b, reviews, "--json").out)
    alone = [json.loads(command("evaluate", each, reviews, "--json").out) for each in (a, b)]
    assert [each["values"] for each in found["models"]] == [each["values"] for each in alone]
    first = found["differences"][0]
    values = [each["values"]["accuracy"] for each in alone]
    assert (first["name"], first["first"], first["second"]) == ("accuracy", *values)
    assert first["difference"] == pytest.approx(values[1] - values[0])
    assert first["low"] <= first["difference"] <= first["high"]
    assert first["is_real"] is False and first["count"] == 6


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("tag", '{"words": ["the", "cat"], "tags": ["O", "B-PER"]}\n'),
        ("answer", '{"question": "x", "context": "the cat", "answers": ["cat"]}\n'),
    ],
)
def test_other_tasks_are_compared_too(command, folders, tmp_path, name, content):
    path = tmp_path / "a.jsonl"
    path.write_text(content)
    outcome = command("evaluate", folders / f"{name}-a", folders / f"{name}-a", path)
    assert "A and B have the same f1 on 1 item." in outcome.out, outcome.err


def test_what_does_not_go_together_is_said(command, folders, reviews, tmp_path):
    a, b = folders / "classify-a", folders / "classify-b"
    outcome = command("evaluate", a, b, reviews, "--predictions", tmp_path / "o.jsonl")
    assert outcome.code == 2
    assert "it holds what one model says, and two are compared; leave it out." in outcome.err
    outcome = command("evaluate", a, b, a, reviews)
    assert outcome.code == 2
    assert "these are 3 models and a file; write evaluate MODEL FILE, or" in outcome.err
    outcome = command("evaluate", a, b, reviews, "--metric", "calibration_error")
    assert (
        "calibration_error has no interval, so a difference in it cannot be judged;" in outcome.err
    )


def test_results_of_other_data_are_refused(folders, reviews):
    model = cw.load(folders / "classify-a")
    whole = model.evaluate(reviews)
    part = model.evaluate({"text": TEXTS[::-1], "label": LABELS[::-1]})
    with pytest.raises(InputError, match="were not measured on the same items; measure both on"):
        whole.differences(part)
    assert not whole.differences(whole)[0].is_real


def test_what_holds_for_both_is_said_once(command, folders, reviews):
    a, b = folders / "classify-a", folders / "classify-b"
    outcome = command("evaluate", a, b, reviews, "--task", "embed")
    notes = [line for line in outcome.out.splitlines() if line.startswith("note")]
    assert "note: a text counts if the nearest other one has its class." in notes
    assert len({line.partition(": ")[2] for line in notes}) == len(notes)
