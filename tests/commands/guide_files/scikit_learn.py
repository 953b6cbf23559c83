"""The made-up reviews of the first classifier, and a small model."""

import csv
import importlib.util
from pathlib import Path

import clozeworks as cw
from clozeworks.text.training.train import train_from_iterator

SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
}


def rows(language):
    path = Path(__file__).with_name("first_classifier.py")
    spec = importlib.util.spec_from_file_location("guide_files_reviews", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.rows(language)


def prepare(folder, language):
    known = rows(language)
    tokenizer = train_from_iterator([text for text, _ in known], kind="wordpiece", size=300)
    cw.new("bert-tiny", tokenizer, **SMALL).save(folder / "model")
    with (folder / "reviews.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *known])


def followed(folder, names):
    assert names["classifier"].score(names["test"]["text"], names["test"]["label"]) > 0.9
    assert names["search"].best_params_ == {"epochs": 12}
    assert cw.load(folder / "classifier").task.labels == tuple(names["classifier"].classes_)
