"""Rows that vectors contradict, kind by kind, found by hand."""

import numpy as np
import pytest

from clozeworks.errors import InputError
from clozeworks.tasks.embed.items import EmbedItem
from clozeworks.tasks.embed.mistakes import mistakes_about
from clozeworks.tasks.embed.task import measurable

X, Y = [1.0, 0.0], [0.0, 1.0]
NEAR_X = [0.9, 0.1]


def found(rows):
    items = [EmbedItem(texts[0], tuple(texts[1:]), label) for texts, label, _ in rows]
    vectors = [np.array(each, np.float32) for _, _, each in rows]
    mistakes = mistakes_about(items, vectors)
    return None if mistakes is None else [(each.kind, each.texts[0].text) for each in mistakes]


@pytest.mark.parametrize(
    ("rows", "wrong"),
    [
        (
            [(("a", "b"), 0.0, [X, X]), (("c", "d"), 5.0, [X, Y]), (("e", "f"), 2.0, [X, NEAR_X])],
            [("too similar", "a"), ("too different", "c")],
        ),
        (
            [(("a", "b"), True, [X, X]), (("c", "d"), False, [X, NEAR_X]),
             (("e", "f"), True, [X, NEAR_X]), (("g", "h"), False, [X, Y])],
            [("should be similar", "e")],
        ),
        (
            [(("a", "p", "n"), None, [X, NEAR_X, Y]), (("b", "p", "m"), None, [X, Y, NEAR_X]),
             (("c", "p", "o"), None, [X, Y, Y])],
            [("negative is nearer", "b"), ("negative is nearer", "c")],
        ),
        (
            [(("a", "p"), None, [X, X]), (("b", "q"), None, [NEAR_X, Y])],
            [("another is nearer", "b")],
        ),
        (
            [(("a",), "x", [X]), (("b",), "x", [NEAR_X]), (("c",), "y", [Y])],
            [("y is near x", "c")],
        ),
        ([(("a",), None, [X]), (("b",), None, [Y])], None),
    ],
    ids=["scores", "judged", "tuples", "pairs", "groups", "texts"],
)  # fmt: skip
def test_what_vectors_contradict(rows, wrong):
    assert found(rows) == wrong


def test_what_nobody_can_measure_is_refused():
    short = [EmbedItem(text, source_location=f"row {n}") for n, text in enumerate("abc", start=1)]
    with pytest.raises(InputError, match=r"row 1: .*too short to be halved; name a dev file"):
        measurable(short)
    mixed = [EmbedItem("a", ("b",), 1.0), EmbedItem("c")]
    assert measurable(mixed) == (mixed, ())
