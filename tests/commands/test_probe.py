"""`clozeworks probe`: the table, the JSON, the folder it writes, and what it refuses."""

import json
import shutil

import pytest

import clozeworks as cw

SENTENCES = ["the cat sat on the mat", "the dog lay on the rug", "a cat in the garden"]
SENTENCES += ["a dog of the house", "the capital of France"]


@pytest.fixture
def data(tmp_path):
    path = tmp_path / "animals.csv"
    rows = [
        f"{text} {animal} {animal},{animal}"
        for text in SENTENCES
        for animal in ("cat", "dog")
        for _ in range(2)
    ]
    path.write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    return path


def test_a_table_of_layers_beside_the_baseline(command, tiny_models, data):
    found = command("probe", "classify", tiny_models["bert"], data, "--layers", "0,last,mix")
    assert found.code == 0, found.err
    lines = found.out.splitlines()
    assert lines[0].startswith("Columns: text=text (by its name), label=label (by its name)")
    assert lines[1] == (
        f"No development file was given; held out of {data} (seed 0): 4 of 20 items."
    )
    assert lines[2] == (
        f"{tiny_models['bert']}, frozen; mean pooling; 16 items to train on, 4 to measure on."
    )
    head = next(number for number, line in enumerate(lines) if line.startswith("layers "))
    assert lines[head].split() == ["layers", "accuracy", "95", "%", "strength", "seconds"]
    rows = {line.split("  ")[0]: line.split() for line in lines[head + 1 : head + 5]}
    assert list(rows) == ["most frequent", "0", "last", "mix"]
    assert rows["most frequent"][2:] == ["0.500", "0.000", "to", "1.000"]
    assert rows["last"][1] == "1.000"
    assert (
        "\nBest here: 0. It was chosen on these items, so its value is slightly optimistic; "
        in (found.out)
    )
    assert "\nmix, from the embeddings to the last layer: 0." in found.out
    assert lines[-1] == (
        f"Train the whole model: clozeworks finetune classify {tiny_models['bert']} {data}"
    )


def test_the_verdict(command, tiny_models, data, tmp_path):
    found = command("probe", "classify", tiny_models["bert"], data, "--layers", "last")
    assert found.out.splitlines()[-4:-1] == [
        "",
        "last beats the baseline, which reads nothing: accuracy 1.000 instead of 0.500; "
        "but their intervals overlap: with 4 items it may be chance.",
        "",
    ]
    found = command("probe", "classify", tiny_models["bert"], data, "--dev", data)
    assert (
        "\nlast beats the baseline, which reads nothing: accuracy 1.000 instead of "
        "0.500.\n" in found.out
    )
    alike = tmp_path / "alike.csv"
    rows = [f"the cat,{label}" for label in ("yes", "no", "no") * 8]
    alike.write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    found = command("probe", "classify", tiny_models["bert"], alike, "--dev", alike)
    assert "\nNo layers beat the baseline, which reads nothing.\n" in found.out


def test_json_holds_all_values(command, tiny_models, data):
    words = ("probe", "classify", tiny_models["bert"], data, "--dev", data, "--json")
    found = json.loads(command(*words, "--pooling", "max", "--limit", "10").out)
    assert (found["task"], found["pooling"], found["train"], found["dev"]) == (
        "classify",
        "max",
        10,
        10,
    )
    assert [row["layers"] for row in found["rows"]] == ["last"]
    assert found["notes"] == [
        "Drawn with seed 0: 10 of 20 train items.",
        "Drawn with seed 0: 10 of 20 dev items.",
    ]
    measured = found["rows"][0]["measured"]
    assert measured["primary"] == "accuracy" and "accuracy" in measured["intervals"]


def test_a_folder_that_classify_asks(command, tiny_models, data, tmp_path):
    made = tmp_path / "made"
    found = command("probe", "classify", tiny_models["bert"], data, "--out", made)
    assert found.code == 0, found.err
    assert (
        f"{made}: the model with the probe on the last layer as its head.\nUse it: clozeworks"
        in found.out
    )
    model = cw.load(made)
    assert model.task.labels == ("cat", "dog") and model.task.pooling == "mean"
    assert [model.classify(f"the mat {word} {word}").label for word in ("cat", "dog")] == [
        "cat",
        "dog",
    ]


def test_what_is_refused_leaves_nothing_behind(refused, tiny_models, data, tmp_path):
    words = ("probe", "classify", tiny_models["bert"])
    refused("TRAIN is missing. See: clozeworks probe --help", *words)
    refused(
        "--layers is 0; the head of a model reads the last layer; add last.",
        *(*words, data, "--layers", "0", "--out", tmp_path / "made"),
    )
    refused(
        "--layers is 'sum_last_four'; it needs four layers, and this model has 2; leave it out, or "
        "use a deeper model.",
        *(*words, data, "--layers", "sum_last_four"),
    )
    refused(
        f"{tmp_path} holds files, but neither a model nor a tokenizer, so it is not replaced; "
        "choose another name, or empty it yourself.",
        *(*words, data, "--out", tmp_path),
    )


def test_bad_rows_are_refused_or_dropped_and_counted(command, tiny_models, data, tmp_path):
    bad = shutil.copy(data, tmp_path / "bad.csv")
    with bad.open("a") as file:
        file.write("\nthe mat,\n")
    words = ("probe", "classify", tiny_models["bert"], bad, "--layers", "last")
    refusal = command(*words)
    assert refusal.code == 2 and refusal.err.endswith("drop the row with --skip-bad-rows.\n")
    found = command(*words, "--skip-bad-rows")
    assert "\n1 bad row was dropped.\n" in found.out
