"""The pairs are those of the published loop: one sentence and one token at a time."""

import numpy as np
import pytest

from clozeworks.data.examples.outline import Outline
from clozeworks.data.examples.pair_loop import (
    NextSentenceLoop,
    PureSentenceOrderLoop,
    SentenceOrderLoop,
)
from clozeworks.rng import RandomStream

LOOPS = {
    "next": NextSentenceLoop,
    "order": SentenceOrderLoop,
    "pure": PureSentenceOrderLoop,
}


def reference(documents, rule, room, short, seed, copy):
    """The loop as the papers' code walks it, with the random numbers of the toolkit.

    Documents are lists of sentences of tokens. Gives (A, B, label) by token.
    """
    rng = RandomStream(seed, "pairs")
    every = np.arange(sum(map(len, documents)))
    words_of = {
        name: rng.stream(name).words(copy, every, count)
        for name, count in (("chunk", 4), ("document", 9), ("cut first", 16), ("cut second", 16))
    }
    pick = lambda word, limit: int(word) * limit >> 32  # noqa: E731
    found = []
    before = 0  # sentences in the documents before
    for number, document in enumerate(documents):
        words = rng.stream("target").words(copy, number, 2)[0]
        target = room
        if words[0] / 2**32 < short:
            target = 2 + pick(words[1], room - 1)  # randint(2, room)
        chunk, length, i = [], 0, 0
        while i < len(document):
            chunk.append(document[i])
            length += len(document[i])
            if i == len(document) - 1 or length >= target:
                first = before + i - len(chunk) + 1
                split, coin, start, other = words_of["chunk"][first]
                end = 1 + pick(split, len(chunk) - 1) if len(chunk) >= 2 else 1
                a = [token for sentence in chunk[:end] for token in sentence]
                heads = coin / 2**32 < 0.5
                if len(chunk) == 1 or (rule == "next" and heads):
                    elsewhere = pick(other, len(documents))
                    for word in words_of["document"][first]:
                        if elsewhere != number:
                            break
                        elsewhere = pick(word, len(documents))
                    b = []
                    place = pick(start, len(documents[elsewhere]))
                    while place < len(documents[elsewhere]):
                        b += documents[elsewhere][place]
                        place += 1
                        if len(b) >= target - len(a):
                            break
                    label = 1
                    i -= len(chunk) - end  # put back
                else:
                    b = [token for sentence in chunk[end:] for token in sentence]
                    label = 0
                    if rule != "next" and heads:
                        a, b, label = b, a, 1
                if rule != "pure" or len(chunk) > 1:
                    bits = [bits_of(words_of[f"cut {name}"][first]) for name in ("first", "second")]
                    truncate(a, b, room, *bits)
                    found.append((a, b, label))
                chunk, length = [], 0
            i += 1
        before += len(document)
    return found


def bits_of(words):
    """The random bits of words, one at a time."""
    return (int(word) >> place & 1 for word in words for place in range(32))


def truncate(a, b, room, bits_a, bits_b):
    """While too long, drops a token of the longer text, of the second in a tie."""
    while len(a) + len(b) > room:
        longer, bits = (a, bits_a) if len(a) > len(b) else (b, bits_b)
        if next(bits):
            del longer[0]
        else:
            longer.pop()


def made(documents, rule, room, short, seed, copy, group=1 << 18):
    """The same from the arrays."""
    bounds = np.cumsum([0, *(len(sentence) for document in documents for sentence in document)])
    outline = Outline(bounds, np.cumsum([0, *map(len, documents)]))
    arrays = LOOPS[rule](outline, room, short, RandomStream(seed, "pairs"), copy).build(group)
    columns = (arrays[name].tolist() for name in arrays)
    return [
        ([*range(a, a + size_a)], [*range(b, b + size_b)], label)
        for a, size_a, b, size_b, label in zip(*columns, strict=True)
    ]


def documents_of(lengths):
    place = 0
    documents = []
    for document in lengths:
        documents.append([])
        for length in document:
            documents[-1].append([*range(place, place + length)])
            place += length
    return documents


SHAPES = {
    "usual": lambda rng: [rng.integers(1, 30, rng.integers(1, 40)).tolist() for _ in range(40)],
    "long sentences": lambda rng: [
        rng.integers(20, 400, rng.integers(1, 6)).tolist() for _ in range(40)
    ],
    "single words": lambda rng: [[1] * int(rng.integers(1, 60)) for _ in range(30)],
    "single sentences": lambda rng: [[int(rng.integers(1, 80))] for _ in range(60)],
    "one document": lambda rng: [rng.integers(1, 30, 300).tolist()],
    "two documents": lambda rng: [rng.integers(1, 30, 150).tolist() for _ in range(2)],
}


@pytest.mark.parametrize("rule", LOOPS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("room", "short"), [(61, 0.1), (2, 0.0), (17, 1.0)])
def test_every_pair_is_that_of_the_published_loop(rule, shape, room, short):
    for copy in range(2):
        documents = documents_of(SHAPES[shape](np.random.default_rng(copy)))
        expected = reference(documents, rule, room, short, seed=5, copy=copy)
        assert made(documents, rule, room, short, seed=5, copy=copy) == expected


@pytest.mark.parametrize("rule", LOOPS)
@pytest.mark.parametrize("group", [1, 7, 100])
def test_pairs_do_not_depend_on_how_many_are_computed_together(rule, group):
    documents = documents_of(SHAPES["usual"](np.random.default_rng(0)))
    whole = made(documents, rule, 61, 0.1, seed=0, copy=0)
    assert made(documents, rule, 61, 0.1, seed=0, copy=0, group=group) == whole


def test_the_comparison_can_tell():
    documents = documents_of(SHAPES["usual"](np.random.default_rng(0)))
    expected = reference(documents, "next", 61, 0.1, seed=0, copy=0)
    assert made(documents, "next", 61, 0.1, seed=1, copy=0) != expected
    assert made(documents, "next", 61, 0.1, seed=0, copy=1) != expected
    assert made(documents, "next", 60, 0.1, seed=0, copy=0) != expected
    assert made(documents, "order", 61, 0.1, seed=0, copy=0) != expected
