"""A split reads as one array, whatever shards it lies in."""

import numpy as np
import pytest

from clozeworks.data.corpus.corpus import Split

DOCUMENTS = [
    [[10, 11, 12], [13]],
    [[14, 15]],
    [],
    [[], [16, 17, 18, 19]],
    [[20]],
]


GROUPS = {
    "one shard": [DOCUMENTS],
    "two": [DOCUMENTS[:1], DOCUMENTS[1:]],
    "each document": [[document] for document in DOCUMENTS],
    "empty ones": [[], DOCUMENTS[:2], [], [], DOCUMENTS[2:], []],
}


@pytest.fixture(params=GROUPS)
def split(request, in_memory):
    """A split with a shard for each group of documents."""
    shards = [
        in_memory(group, 100, np.arange(100) % 3 == 0).shards[0] for group in GROUPS[request.param]
    ]
    return Split("train", shards, 100, "some")


def test_counts_and_offsets(split):
    assert (split.tokens, split.sentences, split.documents) == (11, 6, 5)
    assert split.sentence_offsets.tolist() == [0, 3, 4, 6, 6, 10, 11]
    assert split.document_offsets.tolist() == [0, 2, 3, 3, 5, 6]


def test_every_stretch(split):
    whole = np.arange(10, 21)
    begins_word = whole % 3 == 0
    begins_word[[0, 3, 4, 6, 10]] = True  # a sentence begins a word
    for start in range(12):
        for end in range(start, 12):
            tokens, words = split.read(start, end)
            assert tokens.tolist() == whole[start:end].tolist()
            assert words.tolist() == begins_word[start:end].tolist()
            assert (tokens.dtype, words.dtype) == (np.uint16, np.bool_)


def test_many_stretches_at_once(split):
    begins, ends = np.array([9, 0, 4, 2, 3, 11]), np.array([11, 11, 4, 7, 4, 11])
    tokens, words = split.gather(begins, ends)
    pieces = [split.read(*bounds) for bounds in zip(begins, ends, strict=True)]
    assert tokens.tolist() == np.concatenate([piece for piece, _ in pieces]).tolist()
    assert words.tolist() == np.concatenate([piece for _, piece in pieces]).tolist()
    nothing = np.zeros(0, np.int64)
    tokens, words = split.gather(nothing, nothing)
    assert (len(tokens), len(words), tokens.dtype) == (0, 0, np.uint16)


def test_single_places(split):
    places = np.array([10, 0, 3, 4, 4, 9, 5])
    assert split.at(places).tolist() == (places + 10).tolist()
    assert split.at(np.zeros(0, np.int64)).tolist() == []


def test_a_split_without_shards():
    split = Split("train", [], 100, "none")
    assert (split.tokens, split.sentences, split.documents) == (0, 0, 0)
    assert split.sentence_offsets.tolist() == split.document_offsets.tolist() == [0]
    assert len(split.read(0, 0)[0]) == 0
