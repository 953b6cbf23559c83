"""Fine-tuning with several processes: the model that one process would make."""

import json
import signal
import time

import pytest
from safetensors.torch import load_file

import clozeworks as cw
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.distributed
SMALL = {
    "hidden_size": 16,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.2,
}


@pytest.fixture
def place(tmp_path):
    rows = [f"the {('cat', 'dog')[n % 2]} is {('bad', 'good')[n % 3 == 0]} {n}" for n in range(48)]
    tokenizer = train_from_iterator(rows, kind="wordpiece", size=150)
    cw.new("bert-tiny", tokenizer, **SMALL).save(tmp_path / "model")
    labels = [("no", "yes")["good" in row] for row in rows]
    texts = ["text,label", *(f"{row},{label}" for row, label in zip(rows, labels, strict=True))]
    (tmp_path / "rows.csv").write_text("\n".join(texts) + "\n")
    numbers = ["text,stars", *(f"{row},{200 + n % 7}.5" for n, row in enumerate(rows))]
    (tmp_path / "numbers.csv").write_text("\n".join(numbers) + "\n")
    pairs = ["query,document", *(f"{row},so {row[4:]}" for row in rows)]
    (tmp_path / "pairs.csv").write_text("\n".join(pairs) + "\n")
    documents = [
        {"query": row, "documents": [row[4:], "the bird", row[:7]], "labels": [n % 2, 0, 1]}
        for n, row in enumerate(rows)
    ]
    (tmp_path / "lists.jsonl").write_text("".join(json.dumps(each) + "\n" for each in documents))
    sentences = [
        "\n".join(f"{word} {'B-JOY' if word == 'good' else 'O'}" for word in row.split())
        for row in rows
    ]
    (tmp_path / "words.bio").write_text("\n\n".join(sentences) + "\n")
    return tmp_path


def same(one, other, tolerance=2e-5, but=()):
    first, second = (load_file(run / "model" / "model.safetensors") for run in (one, other))
    assert first.keys() == second.keys()
    # A key's bias moves all scores of a query alike: its gradient is nothing but rounding, which
    # Adam makes as large as any other.
    names = [name for name in first if not name.endswith("key.bias") and name not in but]
    assert max(float((first[name] - second[name]).abs().max()) for name in names) <= tolerance


@pytest.mark.parametrize(
    ("task", "file"),
    [
        ("classify", "rows.csv"),
        ("classify", "numbers.csv"),
        ("tag", "words.bio"),
        ("embed", "pairs.csv"),
        ("rerank", "lists.jsonl"),
    ],
)
def test_two_processes_make_the_model_of_one(place, finish, task, file):
    typed = ["finetune", task, place / "model", place / file, "--seeds", 2]
    typed += [
        "training.epochs=2",
        "training.batch_size=8",
        "evaluation.every_steps=4",
        "data.dev_fraction=0.25",
    ]
    finish(*typed, "--out", place / "one")
    out, _ = finish(*typed, "--out", place / "two", ranks=2)
    assert out.count("The model is in") == 1  # one of them speaks
    # The same holds for a bias of all logits, which changes no order.
    same(place / "one", place / "two", but=("classifier.bias",) if task == "rerank" else ())
    one, two = (json.loads((place / run / "metrics.json").read_text()) for run in ("one", "two"))
    assert one["best_seed"] == two["best_seed"]
    assert one["seeds"]["0"]["step"] == two["seeds"]["0"]["step"]
    assert one["mean"] == pytest.approx(two["mean"], abs=1e-6)
    assert (place / "two" / "report.html").exists()


def test_a_signal_stops_both_and_they_go_on_to_the_same_bytes(place, start, finish):
    typed = ["finetune", "classify", place / "model", place / "rows.csv", "training.epochs=60"]
    typed += ["training.batch_size=4", "checkpointing.every_steps=5", "data.dev_fraction=0.25"]
    finish(*typed, "--out", place / "whole", ranks=2)
    process = start(*typed, "--out", place / "run", ranks=2)
    end = time.monotonic() + 120
    while not list((place / "run").glob("seed-0/snapshots/step-*")):
        assert time.monotonic() < end
        assert process.poll() is None, process.communicate()
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode != 0
    finish(*typed, "--out", place / "run", ranks=2)
    whole, run = ((place / name / "model" / "model.safetensors") for name in ("whole", "run"))
    assert whole.read_bytes() == run.read_bytes()


def test_a_search_is_shared_too(place, finish):
    typed = ["finetune", "classify", place / "model", place / "rows.csv", "training.epochs=1"]
    typed += ["search.learning_rates=[1e-9,0.01]", "data.dev_fraction=0.5", "training.batch_size=8"]
    finish(*typed, "--out", place / "one")
    finish(*typed, "--out", place / "two", ranks=2)
    # Adam makes steps of 0.01 even of gradients that are nearly nothing, and of their rounding.
    same(place / "one", place / "two", tolerance=5e-4)
    one, two = (json.loads((place / run / "search.json").read_text()) for run in ("one", "two"))
    assert one["best_trial"] == two["best_trial"] == 1


def test_a_mistake_gets_one_sentence_and_ends_both(place, start):
    process = start(
        "finetune", "tag", place / "model", place / "rows.csv", "--out", place / "run", ranks=2
    )
    _, err = process.communicate(timeout=120)
    assert process.returncode != 0
    assert "clozeworks: " in err
    assert not (place / "run").exists()
