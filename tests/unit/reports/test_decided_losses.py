"""The card names what the rows decided, since no setting of the recipe does."""

from itertools import pairwise

import pytest

import clozeworks as cw
from clozeworks.text.training.train import train_from_iterator

TEXTS = [f"the {thing} is here {n}" for n, thing in enumerate(["cat", "dog", "house"] * 4)]
PAIRS = [{"query": text, "document": f"look at {text}"} for text in TEXTS]
SCORES = [
    {"sentence1": a, "sentence2": b, "score": n % 4} for n, (a, b) in enumerate(pairwise(TEXTS))
]
JUDGED = [{**pair, "label": n % 2} for n, pair in enumerate(PAIRS)]


@pytest.mark.parametrize(
    ("task", "rows", "loss"),
    [
        ("embed", PAIRS, "multiple_negatives_ranking"),
        ("embed", SCORES, "cosent"),
        ("rerank", JUDGED, "binary_cross_entropy"),
    ],
)
def test_the_loss_of_the_rows_is_on_the_card(tmp_path, task, rows, loss):
    tokenizer = train_from_iterator(TEXTS, kind="wordpiece", size=150)
    model = cw.new(
        "bert-tiny", tokenizer, hidden_size=32, num_attention_heads=2, intermediate_size=64
    )
    result = cw.finetune(
        model, rows, dev=rows, task=task, out=tmp_path / "run", steps=1, batch_size=4, quiet=True
    )
    card = (result.model / "README.md").read_text().replace("\\_", "_")
    assert f"The loss was {loss}." in card
