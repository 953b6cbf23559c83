"""Blocks of whole sentences, against fairseq's rule written out one line at a time."""

from itertools import pairwise

import numpy as np
import pytest

from clozeworks.data.examples.whole_sentences import DocSentences, FullSentences
from clozeworks.errors import SettingError

FIRST = 1000
BOS, EOS = 0, 2
SPECS = [
    kind(length=length, separators=separators)
    for kind in (FullSentences, DocSentences)
    for length in (3, 9, 40)
    for separators in ("sentences", "documents")
]


def lines_of(lengths, separators, room):
    """The stream as lines of ids; sentences beyond the room are cut; None between documents."""
    place = FIRST
    lines = []
    for document in lengths:
        if lines and any(document):
            lines.append(None)
        for length in document:
            tokens = [*range(place, place + length)]
            place += length
            lines += [tokens[i : i + room] for i in range(0, length, room)]
    ending = [EOS] if separators == "sentences" else []
    return [line if line is None else line + ending for line in lines]


def reference(spec, lengths):
    """fairseq's `complete` and `complete_doc`: lines are added while they fit."""
    closing = [] if spec.separators == "sentences" else [EOS]
    room = spec.length - 1 - len(closing)
    sentence_room = room - (spec.separators == "sentences")
    blocks, block = [], []
    for line in lines_of(lengths, spec.separators, sentence_room):
        if line is None and isinstance(spec, DocSentences):
            blocks.append(block)
            block = []
            continue
        line = [EOS] if line is None else line
        if block and len(block) + len(line) > room:
            blocks.append(block)
            block = []
        block = block + line
    blocks.append(block)
    return [[BOS, *block, *closing] for block in blocks if any(token >= FIRST for token in block)]


def blocks_of(arranged):
    edges = [*arranged.starts, len(arranged.ids)]
    return [arranged.ids[a:b].tolist() for a, b in pairwise(edges)]


SHAPES = {
    "usual": lambda rng: [rng.integers(1, 12, rng.integers(1, 9)).tolist() for _ in range(60)],
    "long": lambda rng: [rng.integers(1, 90, rng.integers(1, 5)).tolist() for _ in range(40)],
    "words": lambda rng: [[1] * int(n) for n in rng.integers(1, 4, 80)],
    "room exactly": lambda rng: [[7] * int(n) for n in rng.integers(1, 4, 40)],
    "one more": lambda rng: [[int(n)] for n in rng.integers(6, 10, 60)],
    "empty ones": lambda rng: [rng.integers(0, 3, rng.integers(0, 6)).tolist() for _ in range(80)],
    "one sentence": lambda rng: [[4]],
}


@pytest.mark.parametrize("spec", SPECS, ids=str)
@pytest.mark.parametrize("shape", SHAPES)
def test_blocks_are_those_of_the_rule(spec, shape, numbered, roberta, everything):
    lengths = SHAPES[shape](np.random.default_rng(1))
    examples = spec.arrange(numbered(lengths), roberta, seed=0)
    arranged = everything(examples)
    expected = reference(spec, lengths)
    assert blocks_of(arranged) == expected
    assert arranged.lengths.max() <= spec.length
    assert (arranged.special == (arranged.ids < FIRST)).all()
    assert not arranged.word_starts[arranged.special].any()
    assert arranged.word_starts[~arranged.special].all()
    assert not arranged.types.any()
    assert np.isclose(examples.mean_length, np.mean([len(block) for block in expected]))


@pytest.fixture(scope="module")
def mixed(drawn):
    """Documents of 1 to 60 sentences of 1 to 40 tokens."""
    return drawn(600, (1, 60), (1, 40))


@pytest.mark.parametrize("kind", [FullSentences, DocSentences])
@pytest.mark.parametrize("separators", ["sentences", "documents"])
def test_no_token_is_lost_or_doubled_and_blocks_end_with_sentences(
    kind, separators, drawn, roberta, everything
):
    split = drawn(300, (1, 30), (1, 80))
    arranged = everything(kind(length=64, separators=separators).arrange(split, roberta, seed=0))
    text = arranged.ids[~arranged.special]
    assert (text == np.arange(FIRST, FIRST + split.tokens)).all()
    room = 62
    starts = arranged.starts
    before = np.cumsum(~arranged.special) - ~arranged.special  # tokens of text before each place
    offsets = split.sentence_offsets
    for begin in before[starts]:
        if begin not in offsets:
            sentence = np.searchsorted(offsets, begin, side="right") - 1
            assert offsets[sentence + 1] - offsets[sentence] > room
            assert (begin - offsets[sentence]) % room == 0


def test_documents_share_blocks_only_where_they_may(mixed, roberta, everything):
    bounds = mixed.sentence_offsets[mixed.document_offsets]
    used = {}
    for kind in (FullSentences, DocSentences):
        arranged = everything(kind(length=128).arrange(mixed, roberta, seed=0))
        text = np.add.reduceat((~arranged.special).astype(int), arranged.starts)
        ends = np.cumsum(text)
        first, last = (
            np.searchsorted(bounds, places, side="right") - 1 for places in (ends - text, ends - 1)
        )
        assert (first == last).all() == (kind is DocSentences)
        used[kind] = arranged.lengths.mean() / 128
    assert used[FullSentences] >= used[DocSentences]
    assert used[FullSentences] > 0.8


def test_the_closing_token_is_not_doubled(numbered, bert, everything):
    split = numbered([[2, 2], [1]])
    ids = lambda **settings: blocks_of(  # noqa: E731
        everything(FullSentences(length=20, **settings).arrange(split, bert, seed=0))
    )
    cls, sep = 2, 3
    a, b, c, d, e = range(FIRST, FIRST + 5)
    assert ids() == [[cls, a, b, sep, c, d, sep, sep, e, sep]]
    assert ids(separators="documents") == [[cls, a, b, c, d, sep, e, sep]]


@pytest.mark.parametrize("kind", [FullSentences, DocSentences])
def test_settings_that_cannot_be(kind, numbered, roberta):
    split = numbered([[5, 5]])
    with pytest.raises(SettingError) as caught:
        kind(length=2).arrange(split, roberta, seed=0)
    assert str(caught.value) == (
        "length is 2; 2 special tokens and one token of text need 3; raise length."
    )
    with pytest.raises(SettingError) as caught:
        kind(length=9, separators="words").arrange(split, roberta, seed=0)
    assert str(caught.value) == ("separators is 'words'; it must be 'sentences' or 'documents'.")


def test_a_tokenizer_without_a_separator_is_refused(numbered):
    from tokenizers import Tokenizer as Backend
    from tokenizers.models import WordLevel

    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    plain = Tokenizer(Backend(WordLevel({"a": 0, "b": 1}, unk_token="a")))
    with pytest.raises(SettingError) as caught:
        FullSentences(length=9).arrange(numbered([[5]]), plain, seed=0)
    assert str(caught.value) == (
        "the tokenizer's last token is None; whole sentences are separated by it; use a tokenizer "
        "that has one, such as BERT's or RoBERTa's, or blocks as examples."
    )
