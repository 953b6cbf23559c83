"""Sequences that belong together stand together, each with special tokens of its own."""

from itertools import pairwise

import numpy as np
import pytest

from clozeworks.data.examples.views import Given, Neighbours, Twice
from clozeworks.errors import InputError, SettingError


def sentences_of(lengths, room):
    """Token places by document and sentence, cut at the end; empty ones are left out."""
    place = 0
    documents = []
    for document in lengths:
        documents.append([])
        for length in document:
            if length:
                documents[-1].append([*range(place, place + min(length, room))])
            place += length
    return documents


LENGTHS = [[3, 20, 1], [0], [], [2], [0, 5, 0, 4], [7, 7, 7, 7]]


def test_a_sentence_twice(numbered, bert, everything, texts):
    examples = Twice(length=8).arrange(numbered(LENGTHS), bert, seed=0)
    arranged = everything(examples)
    documents = sentences_of(LENGTHS, 6)
    expected = [[sentence] for document in documents for sentence in document for _ in range(2)]
    assert texts(arranged) == expected
    assert (examples.views, arranged.views, examples.longest) == (2, 2, 8)
    check(arranged, examples)


def test_a_sentence_and_the_next_one(numbered, bert, everything, texts):
    examples = Neighbours(length=8).arrange(numbered(LENGTHS), bert, seed=0)
    arranged = everything(examples)
    expected = []
    for document in sentences_of(LENGTHS, 6):
        for pair in pairwise(document):
            expected += [[sentence] for sentence in pair]
    assert texts(arranged) == expected
    assert examples.size(0) == 2 + 1 + 3
    check(arranged, examples)


@pytest.mark.parametrize("views", [2, 3])
def test_given_groups(views, numbered, bert, everything, texts):
    lengths = [[3, 9, 2][:views], [], [1, 0, 1, 1][: views + 1], [5, 5, 5][:views]]
    examples = Given(length=8).arrange(numbered(lengths), bert, seed=0)
    arranged = everything(examples)
    expected = [[text] for document in sentences_of(lengths, 6) for text in document]
    assert texts(arranged) == expected
    assert (examples.views, arranged.views, examples.size(0)) == (views, views, 3)
    check(arranged, examples)


def check(arranged, examples):
    count = examples.size(0) * examples.views
    assert arranged.indices.tolist() == [*range(count)]
    assert (arranged.special.sum(), len(arranged)) == (2 * count, count)
    assert (arranged.ids[arranged.starts] == 2).all()
    assert np.isclose(examples.mean_length, arranged.lengths.sum() / examples.size(0))
    chosen = examples.take(3, np.array([1, 0]))
    size = examples.views
    assert chosen.indices.tolist() == [*range(size, 2 * size), *range(size)]
    assert (chosen.epochs == 3).all()


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        (
            [[1, 1], [], [1] * 4],
            "document 3 of the train part has 4 sentences; a group is a text and its positive, or "
            "these and a negative; ",
        ),
        (
            [[1, 1], [1]],
            "document 2 of the train part has 1 sentence; a group is a text and its positive, or "
            "these and a negative; ",
        ),
        (
            [[], [1, 1], [1, 1], [1, 1, 1]],
            "document 4 of the train part has 3 sentences; document 2 has 2, and all must have "
            "the same number; ",
        ),
    ],
)
def test_documents_that_are_no_groups(lengths, message, numbered, bert):
    with pytest.raises(InputError) as caught:
        Given(length=8).arrange(numbered(lengths), bert, seed=0)
    assert str(caught.value) == (
        message + "give every document 2 lines or 3 lines, and build the corpus with every line "
        "as a sentence."
    )


def test_what_cannot_be_arranged(numbered, bert):
    with pytest.raises(InputError) as caught:
        Neighbours(length=8).arrange(numbered([[1], [2, 0]]), bert, seed=0)
    assert str(caught.value) == (
        "the train part gives no examples; neighbours are two sentences of one document, and every "
        "document has only one; build the corpus from longer documents, or use each sentence "
        "twice."
    )
    for spec in (Twice, Neighbours, Given):
        with pytest.raises(SettingError) as caught:
            spec(length=2).arrange(numbered([[1, 1]]), bert, seed=0)
        assert str(caught.value) == (
            "length is 2; 2 special tokens and one token of text need 3; raise length."
        )
