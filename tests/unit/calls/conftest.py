"""A tiny model and labelled rows for calls from Python; each test in a folder of its own."""

import pandas
import pytest

import clozeworks as cw
from clozeworks.text.training.train import train_from_iterator

COUNT, THINGS, SAID = 40, ("cat", "dog", "house"), ("bad", "good")
SMALL = {"lr": 0.01, "batch_size": 8, "epochs": 1}


@pytest.fixture(autouse=True)
def undrawn(blank_charts: None) -> None:
    """Reports of runs have no charts here."""


@pytest.fixture(scope="session")
def frame():
    """Texts, and whether they say that something is good."""
    texts = [f"the {THINGS[n % 3]} is {SAID[n % 2]} {n % 7}" for n in range(COUNT)]
    return pandas.DataFrame({"text": texts, "label": [("no", "yes")[n % 2] for n in range(COUNT)]})


@pytest.fixture(scope="session")
def start(frame):
    """A model that has learned nothing yet; no test may change it."""
    tokenizer = train_from_iterator([" ".join(frame.text)] * 3, kind="wordpiece", size=120)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"initializer_range": 0.3, "num_hidden_layers": 1}
    sizes |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return cw.new("bert-tiny", tokenizer, max_position_embeddings=40, **sizes)


@pytest.fixture(scope="session")
def folder(start, tmp_path_factory):
    """Where the same model is saved."""
    return start.save(tmp_path_factory.mktemp("start") / "model")


@pytest.fixture
def tuned(frame):
    """Fine-tunes a model on the rows, or on others."""

    def call(model, data=frame, **settings):
        return cw.finetune(model, data, **{"task": "classify", "quiet": True, **SMALL, **settings})

    return call


@pytest.fixture(autouse=True)
def somewhere(request, tmp_path, monkeypatch):
    """A folder of its own."""
    monkeypatch.chdir(tmp_path)
    if "frame_is" not in request.node.name:  # one page tells enough, and takes time
        monkeypatch.setattr("clozeworks.jobs.finetune.job.write_report", lambda *_, **__: None)
