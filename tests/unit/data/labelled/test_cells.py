"""Cells that hold one value or a list."""

import math

import pytest

from clozeworks.data.labelled.cells import numbers_of, texts_of


@pytest.mark.parametrize(
    ("cell", "texts"), [(None, ()), ([], ()), ("", ()), ("a", ("a",)), (["a", "b"], ("a", "b"))]
)
def test_texts(cell, texts):
    assert texts_of(cell, "negative") == texts


@pytest.mark.parametrize(
    ("cell", "required", "message"),
    [
        ("", True, "the document is empty; give it one"),
        ("  ", False, "the document is empty; give it one"),
        (["a", ""], False, "the document is empty; give it one"),
        (["a", 3], False, "the document is a number; it must be a string; correct it"),
    ],
)
def test_what_is_not_a_text(cell, required, message):
    with pytest.raises(ValueError) as caught:
        texts_of(cell, "document", required=required)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("cell", "numbers"),
    [(None, ()), ("", ()), ([], ()), (2, (2.0,)), ("0.5", (0.5,)), ([1, "2"], (1.0, 2.0))],
)
def test_numbers(cell, numbers):
    assert numbers_of(cell, "score") == numbers


@pytest.mark.parametrize(
    ("cell", "message"),
    [
        ("x", "the score is 'x'; it must be a finite number; correct it"),
        ([1, math.inf], "the score is a number; it must be a finite number; correct it"),
        ([1, [2]], "the score is a list; it must be a finite number; correct it"),
    ],
)
def test_what_is_not_a_number(cell, message):
    with pytest.raises(ValueError) as caught:
        numbers_of(cell, "score")
    assert str(caught.value) == message
