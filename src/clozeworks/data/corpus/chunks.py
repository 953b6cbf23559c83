"""Some documents as arrays: the work of one step of a corpus build.

What comes out depends on the documents and the settings alone, so chunks can be made anywhere and
in any order and still be joined to the same bytes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from clozeworks.data.corpus.shards import token_dtype
from clozeworks.text.fast.plain import PlainText
from clozeworks.text.sentences import (
    lines_as_sentences,
    split_sentences,
    whole_text,
    wrapped_sentences,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.words import Segmenter, segmented_starts, segmenter, word_starts

# Characters that are given to the tokenizer at a time; its results are much larger than the text.
_AT_A_TIME = 500_000
# Lengths are counted in classes: 0, 1, 2-3, 4-7 and so on.
LENGTH_CLASSES = 34

Sentences = Literal["split", "wrapped", "lines", "whole"]
SENTENCES = {
    "split": split_sentences,
    "wrapped": wrapped_sentences,
    "lines": lines_as_sentences,
    "whole": whole_text,
}
ChunkArrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class ChunkSettings:
    """How documents become tokens."""

    sentences: Sentences = "split"
    """`split` finds sentences in English and Chinese text, and takes a line's end for one;
    `wrapped` does not, for text wrapped at some column; `lines` takes each line as a sentence;
    `whole` takes a document as it is, spaces and ends of lines among it."""
    words: str | None = None
    """The segmenter that says what a word is, such as `jieba`; None for the tokenizer's own rule,
    under which each Chinese character is a word."""


def check_usable(tokenizer: Tokenizer, settings: ChunkSettings) -> None:
    """Checks that chunks can be made, before any is.

    Raises:
        UnknownName: If there is no such segmenter.
        MissingExtra: If its library is not installed.
        UnsupportedError: If the vocabulary does not say where words begin.
    """
    if settings.words:
        segmenter(settings.words)
    word_starts(tokenizer)


@dataclass(frozen=True)
class CorpusChunk:
    """Arrays as in a shard, and what was counted on the way."""

    arrays: ChunkArrays
    counts: dict[str, int]
    sentence_lengths: list[int]
    document_lengths: list[int]


class ChunkMaker:
    """Turns documents into arrays."""

    def __init__(self, tokenizer: Tokenizer, settings: ChunkSettings) -> None:
        self._plain = PlainText(tokenizer)
        self._dtype = token_dtype(tokenizer.size)
        self._unknown = tokenizer.unknown_id
        self._starts = word_starts(tokenizer)
        self._segmenter = segmenter(settings.words) if settings.words else None
        self._sentences = SENTENCES[settings.sentences]

    def make(self, documents: Sequence[str]) -> CorpusChunk:
        """The tokens of documents; sentences and documents without any token are left out."""
        by_document = [self._sentences(text) for text in documents]
        sentences = list(chain.from_iterable(by_document))
        tokens, starts, lengths = self._encode(sentences)
        owner = np.repeat(np.arange(len(documents)), list(map(len, by_document)))
        owner, lengths = owner[lengths > 0], lengths[lengths > 0]
        offsets = np.concatenate([[0], np.cumsum(lengths)])
        starts[offsets[:-1]] = True
        present, counts = np.unique(owner, return_counts=True)
        begins = np.concatenate([[0], np.cumsum(counts)])
        arrays: ChunkArrays = {
            "tokens": tokens,
            "word_starts": starts,
            "sentences": offsets.astype(np.uint32),
            "documents": begins.astype(np.uint32),
        }
        return CorpusChunk(
            arrays,
            {
                "characters": sum(map(len, documents)),
                "words": int(starts.sum()),
                "unknown": int((tokens == self._unknown).sum()) if self._unknown is not None else 0,
                "without_tokens": len(documents) - len(present),
            },
            _classes(lengths),
            _classes(np.diff(offsets[begins])),
        )

    def _encode(
        self, sentences: Sequence[str]
    ) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[np.int64]]:
        tokens: list[NDArray[Any]] = [np.zeros(0, self._dtype)]
        starts: list[NDArray[np.bool_]] = [np.zeros(0, np.bool_)]
        lengths = [np.zeros(0, np.int64)]
        for batch in _batches(sentences):
            if self._segmenter is None:
                ids, sizes = self._plain.encode(batch)
                begins = self._starts[ids]
            else:
                ids, sizes, begins = self._segmented(batch, self._segmenter)
            tokens.append(ids.astype(self._dtype))
            starts.append(begins)
            lengths.append(sizes)
        return np.concatenate(tokens), np.concatenate(starts), np.concatenate(lengths)

    def _segmented(
        self, sentences: Sequence[str], segments: Segmenter
    ) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_]]:
        encoded = self._plain.ids_and_offsets(sentences)
        sizes = np.fromiter((len(ids) for ids, _ in encoded), np.int64, len(encoded))
        flat = np.fromiter(chain.from_iterable(ids for ids, _ in encoded), np.uint32)
        begins = [
            segmented_starts(segments, text, offsets)
            for text, (_, offsets) in zip(sentences, encoded, strict=True)
        ]
        return flat, sizes, np.concatenate(begins)


def join(chunks: Sequence[ChunkArrays]) -> ChunkArrays:
    """Joins several chunks."""
    sentences, documents = [np.zeros(1, np.int64)], [np.zeros(1, np.int64)]
    for chunk in chunks:
        sentences.append(chunk["sentences"][1:] + sentences[-1][-1])
        documents.append(chunk["documents"][1:] + documents[-1][-1])
    return {
        "tokens": np.concatenate([chunk["tokens"] for chunk in chunks]),
        "word_starts": np.concatenate([chunk["word_starts"] for chunk in chunks]),
        "sentences": np.concatenate(sentences).astype(np.uint32),
        "documents": np.concatenate(documents).astype(np.uint32),
    }


def _batches(sentences: Sequence[str]) -> list[Sequence[str]]:
    ends = np.cumsum([len(sentence) for sentence in sentences], dtype=np.int64) // _AT_A_TIME
    cuts = [0, *(np.flatnonzero(np.diff(ends)) + 1).tolist(), len(sentences)]
    return [sentences[a:b] for a, b in pairwise(cuts) if b > a]


def _classes(lengths: NDArray[np.int64]) -> list[int]:
    """How many lengths have 0, 1, 2, ... binary digits."""
    digits = np.frexp(lengths.astype(np.float64))[1]
    counted: list[int] = np.bincount(digits, minlength=LENGTH_CLASSES).tolist()
    return counted
