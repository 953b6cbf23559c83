"""`clozeworks finetune`: from rows to a model by one command, stopped and gone on."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

ANIMALS = ("cat", "dog", "house", "garden")


@pytest.fixture
def bert(tiny_models):
    return tiny_models["bert"]


@pytest.fixture
def rows(tmp_path):
    lines = ["text,label"]
    for number in range(40):
        word, label = ("good", "yes") if number % 2 else ("bad", "no")
        lines.append(f"the {ANIMALS[number % 4]} is {word} on day {number},{label}")
    place = tmp_path / "rows.csv"
    place.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return place


def test_one_command_gives_a_model_and_says_what_to_type_next(command, bert, rows, tmp_path):
    run = tmp_path / "run"
    outcome = command(
        "finetune", "classify", bert, rows, "--out", run, "--probe", "training.epochs=1"
    )
    assert outcome.code == 0, outcome.err
    assert "Columns: text=text (by its name), label=label (by its name)" in outcome.err
    assert "There is no dev file: 4 of 40 items are taken to judge by" in outcome.err
    assert "Seed 0: 2 steps of 32 items (1 epoch)" in outcome.err
    assert f"The model is in {run}/model; try it: clozeworks classify {run}/model" in outcome.out
    assert "Without training the encoder:" in outcome.out
    assert "Fine-tuned: accuracy" in outcome.out
    asked = command("classify", run / "model", "the cat is good", "--json")
    assert json.loads(asked.out)["label"] in ("yes", "no")
    again = command("finetune", "classify", bert, rows, "--out", run, "training.epochs=1")
    assert again.code == 0


def test_short_forms_are_settings_of_the_recipe(command, bert, rows, tmp_path):
    run = tmp_path / "run"
    typed = ["finetune", "classify", bert, rows, "--out", run, "--epochs", 0.5, "batch_size=8"]
    outcome = command(*typed, "--lr", 3e-3, "--dtype", "float32", "--device", "cpu")
    assert outcome.code == 0, outcome.err
    recipe = json.loads((run / "recipe.json").read_text())
    training = recipe["training"]
    assert (training["epochs"], training["batch_size"], training["learning_rate"]) == (0.5, 8, 3e-3)
    assert recipe["device"] == "cpu"
    again = command(*typed, "--lr", 3e-3, "--seeds", 2)
    assert again.code == 0, again.err
    fewer = command(*typed, "--lr", 3e-3)
    assert fewer.err.endswith(
        "clozeworks: --seeds is [0]; --out holds the seeds 0, 1, and its model is the best of "
        "them; have them all, or name another folder.\n"
    )


def test_a_recipe_does_the_same(command, bert, rows, tmp_path):
    recipe = tmp_path / "recipe.toml"
    recipe.write_text(
        f'run = "{tmp_path / "run"}"\nmodel = "{bert}"\ntask = {{kind = "classify"}}\n'
        f'data = {{train = ["{rows}"]}}\ntraining = {{epochs = 1.0}}\n'
    )
    assert command("finetune", recipe, "seeds=[0,1]").code == 0
    numbers = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert set(numbers["seeds"]) == {"0", "1"}


def test_several_settings_are_tried_and_reported_on_items_that_had_no_say(
    command, bert, rows, tmp_path
):
    run = tmp_path / "run"
    typed = ["finetune", "classify", bert, rows, "--out", run, "data.dev_fraction=0.5"]
    typed += ["training.epochs=1", "search.learning_rates=[1e-9,0.01]"]
    outcome = command(*typed)
    assert outcome.code == 0, outcome.err
    assert "Trial 1: learning_rate 0.01." in outcome.err
    assert "Best of 2 trials: learning_rate " in outcome.out
    assert "On the 10 items that had no say: accuracy " in outcome.out
    assert f"try it: clozeworks classify {run}/model" in outcome.out
    page = (run / "report.html").read_text()
    assert "Trials" in page
    assert "items that were not used to choose anything" in page
    assert "10 items" in page
    assert len((run / "predictions.jsonl").read_text().splitlines()) == 10
    assert "The best of 2 settings was learning_rate" in (run / "model" / "README.md").read_text()
    assert command(*typed).out == outcome.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["classify", "{bert}", "{rows}", "search.learning_rates=[0.1]"],
            "search.learning_rates is [0.1]; there is one setting only",
        ),
        (
            ["classify", "{bert}", "{rows}", "search.rate=[0.1]"],
            "known: batch_sizes, epochs, learning_rates, trials",
        ),
        (
            ["classify", "{bert}", "{rows}", "search.learning_rates=[0.1,0.2]", "--probe"],
            "--probe is set; it cannot be combined with a search; use",
        ),
        (
            ["tagg"],
            "tagg is neither a task nor a recipe; write finetune answer|classify|compare|embed"
            "|rerank|tag|text-to-text MODEL TRAIN, or name a .toml file. Did you mean 'tag'?",
        ),
        (
            ["clasify", "{bert}", "{rows}", "--out", "a"],  # --out is an option of a task
            "clasify is neither a task nor a recipe; write finetune answer|classify|compare|embed"
            "|rerank|tag|text-to-text MODEL TRAIN, or name a .toml file. Did you mean 'classify'?",
        ),
        (["classify", "{bert}"], "TRAIN is missing. See: clozeworks finetune classify --help"),
        (["classify", "{bert}", "epochs=1"], "no labelled file was named; give at least one after"),
        (
            ["classify", "{bert}", "{rows}", "run=b", "--out", "a"],
            "run is 'b'; --out says the same thing; leave one of them out.",
        ),
        (
            ["classify", "{bert}", "{rows}", "seeds=[3]", "--seeds", "2"],
            "seeds is '[3]'; --seeds says the same thing; leave one of them out.",
        ),
        (["classify", "{bert}", "{rows}", "--lr", "0"], "--learning-rate is 0.0; it must be above"),
        (
            ["classify", "{bert}", "{rows}", "--epochs", "2", "epochs=3"],
            "--epochs is 2; epochs=3 says it, too; leave one of the two out.",
        ),
        (
            ["classify", "{bert}", "{rows}", "--epochs", "2", "--steps", "3"],
            "--steps is 3; --epochs is 2.0, and each decides the other; leave one of them out.",
        ),
        (
            ["classify", "{bert}", "{rows}", "--device", "tpu"],
            "--device is 'tpu'; this machine has ",
        ),
        (
            ["classify", "{bert}", "{rows}", "--budget", "3"],
            "Unknown option: --budget. It is called --batch-tokens now. See: clozeworks finetune "
            "classify --help",
        ),
        (["classify", "{bert}", "{rows}", "--format", "docx"], "--format is 'docx'; known: "),
        (["classify", "{bert}", "{rows}", "--seeds", "0"], "--seeds is 0; it must be at least 1."),
        (["classify", "{bert}", "{rows}", "training.epoch=1"], "Did you mean 'epochs'?"),
        (["tag", "{bert}", "{rows}"], "rows.csv"),
        (["classify", "{bert}", "{rows}", "--columns", "label=lable"], "Did you mean 'label'?"),
        (
            ["answer", "{bert}", "{rows}", "--probe"],
            "--probe is set; it is for classify, compare, tag; leave",
        ),
    ],
)
def test_mistakes_get_a_sentence(command, bert, rows, tmp_path, monkeypatch, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    before = sorted(path.name for path in tmp_path.iterdir())
    outcome = command("finetune", *(word.format(bert=bert, rows=rows) for word in arguments))
    assert outcome.code == 2
    assert sentence in outcome.err
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_short_run_learns_in_every_step_and_says_when_it_was_done_before(
    command, bert, rows, tmp_path
):
    run = tmp_path / "run"
    words = ["finetune", "classify", bert, rows, "training.steps=4", "logging.every_steps=1"]
    first = command(*words, "--out", run)
    assert first.code == 0 and "; the learning rate begins at " in first.err
    lines = (run / "seed-0" / "metrics.jsonl").read_text().splitlines()
    rates = [json.loads(line).get("learning_rate") for line in lines]
    assert all(rate > 0 for rate in rates if rate is not None)
    assert any(rates) and ", dev set: " in first.err
    assert "finished before" not in first.err
    again = command(*words, "--out", run)
    assert (again.code, again.out) == (0, first.out)
    sentence = "This run was finished before, and nothing was trained now; its results:\n"
    assert again.err.endswith(sentence)


def test_stopped_it_says_how_to_go_on_and_does(bert, rows, tmp_path):
    run = tmp_path / "run"
    words = [sys.executable, "-m", "clozeworks", "finetune", "classify", str(bert), str(rows)]
    words += ["--out", str(run), "training.epochs=400", "training.batch_size=8"]
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("step "):
            break
    process.send_signal(signal.SIGTERM)
    rest = process.stderr.read()
    assert process.wait(60) == 75
    assert "nothing is lost. Go on with: clozeworks finetune classify" in rest
    assert list((run / "seed-0" / "snapshots").glob("step-*"))
    begin = time.monotonic()
    again = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment)
    assert again.stderr is not None
    for line in again.stderr:
        if "going on from step" in line:
            break
        assert time.monotonic() - begin < 60
    again.send_signal(signal.SIGINT)
    again.stderr.read()
    assert again.wait(60) == 130


def test_what_becomes_of_a_head_is_said_and_can_be_asked_for(command, bert, rows, tmp_path):
    first, typed = tmp_path / "first", ["training.epochs=1", "--out"]
    assert command("finetune", "classify", bert, rows, *typed, first).code == 0
    model = first / "model"
    again = command("finetune", "classify", model, rows, *typed, tmp_path / "again")
    assert "The checkpoint's head has the same labels (no, yes); it is kept" in again.err
    other = tmp_path / "other.csv"
    other.write_text(rows.read_text().replace(",yes", ",maybe"), encoding="utf-8")
    said = command("finetune", "classify", model, other, *typed, tmp_path / "other")
    assert "The checkpoint's head (no, yes) has other labels, and begins anew." in said.err
    mapped = command("finetune", "classify", model, other, "head=remap", *typed, tmp_path / "map")
    assert "knows 1 of 2 labels" in mapped.err
    refused = command("finetune", "classify", model, other, "head=refuse", *typed, tmp_path / "no")
    assert refused.code == 2
    assert (
        "head is 'refuse'; the labels are maybe, no, and the checkpoint has no, yes" in refused.err
    )
    assert not (tmp_path / "no").exists()


def test_help_says_what_rows_teach(command):
    shown = command("finetune", "embed", "--help").out
    assert "- sentence1, sentence2, score: cosent, or cosine_similarity\n" in shown
