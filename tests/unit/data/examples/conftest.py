"""Splits in which every token says where it stands, and tokenizers for their special tokens."""

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from clozeworks.data.corpus.corpus import Split
from clozeworks.data.corpus.shards import ARRAYS, Shard, ShardEntry
from clozeworks.text.tokenizer.styles import ByteLevelStyle
from clozeworks.text.tokenizer.tokenizer import Tokenizer

FIRST = 1000
"""The id of token 0 of a numbered split; special tokens are below it."""


@pytest.fixture(scope="session")
def bert(tmp_path_factory) -> Tokenizer:
    """[CLS] is 2 and [SEP] is 3."""
    folder = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    (folder / "vocab.txt").write_text("\n".join(words) + "\n", encoding="utf-8")
    return Tokenizer.load(folder)


@pytest.fixture(scope="session")
def roberta() -> Tokenizer:
    """<s> is 0 and </s> is 2."""
    from tokenizers.pre_tokenizers import ByteLevel

    tokens = ["<s>", "<pad>", "</s>", "<unk>", *sorted(ByteLevel.alphabet()), "<mask>"]
    vocabulary = {token: number for number, token in enumerate(tokens)}
    return Tokenizer(ByteLevelStyle().build(vocabulary, []))


@pytest.fixture(scope="session")
def numbered(in_memory):
    """Makes a split of given sentence lengths by document; token i has the id FIRST + i."""

    def make(lengths) -> Split:
        place = FIRST
        documents = []
        for document in lengths:
            sentences = []
            for length in document:
                sentences.append(range(place, place + length))
                place += length
            documents.append(sentences)
        return in_memory(documents, max(place, 70_000))

    return make


@pytest.fixture(scope="session")
def drawn(numbered):
    """Makes a split of random lengths."""

    def make(documents, sentences, tokens, seed=0) -> Split:
        rng = np.random.default_rng(seed)
        counts = rng.integers(sentences[0], sentences[1], documents, endpoint=True)
        return numbered(
            [rng.integers(tokens[0], tokens[1], n, endpoint=True).tolist() for n in counts]
        )

    return make


@pytest.fixture(scope="session")
def cut_into_shards():
    """The same split in several shards of whole documents."""

    def cut_at(split: Split, *documents: int) -> Split:
        arrays = {name: split.shards[0].read(name) for name in ARRAYS}
        shards = []
        edges = [0, *documents, split.documents]
        for begin, end in pairwise(edges):
            places = arrays["documents"][begin : end + 1]
            sentences = arrays["sentences"][places[0] : places[-1] + 1]
            stretch = slice(sentences[0], sentences[-1])
            shard = Shard(
                Path(),
                ShardEntry(
                    "", "", 0, int(sentences[-1] - sentences[0]), len(sentences) - 1, end - begin
                ),
            )
            cut = {
                "tokens": arrays["tokens"][stretch],
                "word_starts": arrays["word_starts"][stretch],
                "sentences": sentences - sentences[0],
                "documents": places - places[0],
            }
            shard.read = lambda name, start=0, stop=None, cut=cut: cut[name][start:stop]
            shards.append(shard)
        return Split(split.name, shards, split.vocabulary, split.identity)

    return cut_at


@pytest.fixture(scope="session")
def everything():
    """All examples of an epoch in one batch."""
    return lambda examples, epoch=0: examples.take(epoch, np.arange(examples.size(epoch)))


@pytest.fixture(scope="session")
def texts():
    """The token places of each example, split at special tokens that are between two texts."""

    def read(arranged) -> list[list[list[int]]]:
        found = []
        for start, length in zip(arranged.starts, arranged.lengths, strict=True):
            example: list[list[int]] = []
            open_ = False
            for place in range(start, start + length):
                if arranged.special[place]:
                    open_ = False
                else:
                    if not open_:
                        example.append([])
                    open_ = True
                    example[-1].append(int(arranged.ids[place]) - FIRST)
            found.append(example)
        return found

    return read
