"""A model that fills gaps and two classifiers in a folder, as the guide to the page has them."""

import clozeworks as cw
from clozeworks.tasks.classify import Classify
from clozeworks.text.training.train import train_from_iterator

SIZES = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
SIZES |= {"intermediate_size": 64}
# Both go on until somebody stops them; the browser tests do what the guide says of the page.
SHORT = {"serve": ("--dry-run",), "open": ("--help",)}


def prepare(folder, language):
    words = train_from_iterator(["Win a free prize now."] * 3, kind="wordpiece", size=60)
    model = cw.new("bert-tiny", words, **SIZES)
    model.save(folder / "work" / "model")
    for name in ("spam", "smaller"):
        model.for_task(Classify(labels=("ham", "spam"))).save(folder / "work" / name)
