"""The loop that makes pairs of texts: where chunks end, where they are split, what comes second.

Paper: Devlin et al. 2019; Lan et al. 2020; both followed as the official code does it.
The idea: walk through a document, collect sentences up to a target length, split the chunk in two
at random, and let the second half be the rest, or something else.
How it is computed: everything random about the chunk that begins at sentence i is a function of
(seed, copy, i), and the target one of (seed, copy, document). So where the next chunk begins can be
computed for all sentences at once, and the loop is only following a chain. Neither the order of
computing nor the shape of the documents matters: one document of a million sentences costs what a
million short ones cost.

Shapes: n chunks.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass

import numpy as np

from clozeworks.arrays import BoolArray, Int64Array, Uint32Array
from clozeworks.data.examples.cutting import heads, remaining
from clozeworks.data.examples.index import IndexArrays, narrow
from clozeworks.data.examples.outline import GROUP, Outline, chain
from clozeworks.rng import RandomStream, below, uniforms

DRAWS = 10
"""How often another document is looked for before the same one is accepted."""
SHORTEST = 2
_SPLIT, _COIN, _START, _DOCUMENT = range(4)
"""Which of a chunk's random words decides what."""


@dataclass(frozen=True)
class Pairs:
    """Two texts each, before they are cut to fit."""

    chunks: Int64Array
    """The first sentence of the chunk each came from, (n,)."""
    begins: Int64Array
    """The first token of both texts, (n, 2)."""
    ends: Int64Array
    """The end of both, (n, 2)."""
    labels: Int64Array
    """0 for a second text that follows the first, 1 for any other, (n,)."""


class PairLoop(ABC):
    """One copy of the pairs of a split.

    Args:
        outline: Sentences and documents.
        room: The most tokens of both texts together.
        short: The fraction of documents whose chunks have a random shorter target.
        rng: Where random numbers come from.
        copy: Which copy.
    """

    def __init__(
        self, outline: Outline, room: int, short: float, rng: RandomStream, copy: int
    ) -> None:
        self.outline = outline
        self.room = room
        self._rng = rng
        self._copy = copy
        self._chunks = rng.stream("chunk")
        count = len(outline.documents) - 1
        self.targets: Int64Array = np.concatenate(
            [
                self._targets(np.arange(begin, min(begin + GROUP, count)), short)
                for begin in range(0, max(count, 1), GROUP)
            ]
        )

    def _targets(self, documents: Int64Array, short: float) -> Int64Array:
        words = self._rng.stream("target").words(self._copy, documents, 2)
        # Paper: once per document, not once per pair; both ends of the range can be drawn.
        drawn = SHORTEST + below(words[:, 1], self.room - SHORTEST + 1)
        targets: Int64Array = np.where(uniforms(words[:, 0]) < short, drawn, self.room)
        return targets

    @abstractmethod
    def following(self, chunks: Int64Array) -> Int64Array:
        """Where the next chunk begins, for chunks that begin at some sentences."""

    @abstractmethod
    def pairs(self, chunks: Int64Array) -> Pairs:
        """What is made of chunks that begin at some sentences."""

    def build(self, group: int = GROUP) -> IndexArrays:
        """The stretches of tokens of all pairs, and their labels."""
        visited = chain(len(self.outline.sentences) - 1, self.following, group)
        pieces = [
            self._cut(self.pairs(visited[begin : begin + group]))
            for begin in range(0, max(len(visited), 1), group)
        ]
        return {name: narrow(np.concatenate([cut[name] for cut in pieces])) for name in pieces[0]}

    def chunk_ends(self, chunks: Int64Array) -> Int64Array:
        """The sentence after each chunk: the first at which the target is reached."""
        sentences, documents = self.outline.sentences, self.outline.documents
        numbers = self.outline.document_of(chunks)
        reached = np.searchsorted(sentences, sentences[chunks] + self.targets[numbers])
        return np.minimum(reached, documents[numbers + 1])

    def words(self, chunks: Int64Array) -> Uint32Array:
        """Random words of chunks, (n, 4)."""
        return self._chunks.words(self._copy, chunks, 4)

    def split(self, chunks: Int64Array, ends: Int64Array, words: Uint32Array) -> Int64Array:
        """The sentence after the first text: neither text is without a sentence if it can be."""
        counts = ends - chunks
        return chunks + 1 + below(words[:, _SPLIT], np.maximum(counts - 1, 1))

    def coin(self, words: Uint32Array) -> BoolArray:
        """Heads or tails for each chunk."""
        return words[:, _COIN] < np.uint32(1 << 31)

    def texts(
        self, chunks: Int64Array, ends: Int64Array, words: Uint32Array, random: BoolArray
    ) -> tuple[Int64Array, Int64Array]:
        """The first token of both texts and the end of both, (n, 2); some second ones random."""
        splits = self.split(chunks, ends, words)
        begins, stops = splits.copy(), ends.copy()
        chosen = np.flatnonzero(random)
        begins[chosen], stops[chosen] = self.elsewhere(
            chunks[chosen], splits[chosen], words[chosen]
        )
        tokens = self.outline.sentences
        first, second = np.stack([chunks, begins], axis=1), np.stack([splits, stops], axis=1)
        return tokens[first], tokens[second]

    def elsewhere(
        self, chunks: Int64Array, splits: Int64Array, words: Uint32Array
    ) -> tuple[Int64Array, Int64Array]:
        """Sentences from a random position of another document, as long as the chunk wants them.

        Returns:
            The first sentence of each, and the one after it.
        """
        sentences, documents = self.outline.sentences, self.outline.documents
        source = self.outline.document_of(chunks)
        count = len(documents) - 1
        other = below(words[:, _DOCUMENT], count)
        same = np.flatnonzero(other == source)
        if len(same):
            again = self._rng.stream("document").words(self._copy, chunks[same], DRAWS - 1)
            draws = below(again, count)
            # Paper: the last draw counts whatever it is; with one document it is always the same.
            differs = draws != source[same, None]
            index = np.where(differs.any(axis=1), differs.argmax(axis=1), DRAWS - 2)
            other[same] = draws[np.arange(len(same)), index]
        begins = documents[other] + below(words[:, _START], documents[other + 1] - documents[other])
        wanted = self.targets[source] - (sentences[splits] - sentences[chunks])
        reached = np.searchsorted(sentences, sentences[begins] + wanted)
        return begins, np.minimum(np.maximum(reached, begins + 1), documents[other + 1])

    def _cut(self, pairs: Pairs) -> dict[str, Int64Array]:
        sizes = pairs.ends - pairs.begins
        kept = np.stack(remaining(sizes[:, 0], sizes[:, 1], self.room), axis=1)
        begins = pairs.begins.copy()
        for number, name in enumerate(("first", "second")):
            lost = sizes[:, number] - kept[:, number]
            tosses = self._rng.stream(f"cut {name}")
            begins[:, number] += heads(tosses, self._copy, pairs.chunks, lost)
        return {
            "first": begins[:, 0],
            "first_size": kept[:, 0],
            "second": begins[:, 1],
            "second_size": kept[:, 1],
            "label": pairs.labels,
        }


class NextSentenceLoop(PairLoop):
    """The second text follows the first, or comes from another document."""

    def following(self, chunks: Int64Array) -> Int64Array:
        """After the chunk; after its first text if the rest was not used."""
        ends, words = self.chunk_ends(chunks), self.words(chunks)
        # Trap: without putting back what a random second text leaves over, half the text is lost.
        return np.where(self._random(chunks, ends, words), self.split(chunks, ends, words), ends)

    def pairs(self, chunks: Int64Array) -> Pairs:
        """The two halves of a chunk, or its first half and something else."""
        ends, words = self.chunk_ends(chunks), self.words(chunks)
        random = self._random(chunks, ends, words)
        texts = self.texts(chunks, ends, words, random)
        return Pairs(chunks, *texts, random.astype(np.int64))

    def _random(self, chunks: Int64Array, ends: Int64Array, words: Uint32Array) -> BoolArray:
        # A chunk of one sentence has no rest that could follow.
        alone: BoolArray = ends - chunks == 1
        return np.logical_or(alone, self.coin(words))


class SentenceOrderLoop(PairLoop):
    """The second text follows the first, or the two are swapped; one sentence gets a random one."""

    def following(self, chunks: Int64Array) -> Int64Array:
        """After the chunk: nothing is put back."""
        return self.chunk_ends(chunks)

    def pairs(self, chunks: Int64Array) -> Pairs:
        """The two halves of a chunk in order or swapped."""
        ends, words = self.chunk_ends(chunks), self.words(chunks)
        alone = ends - chunks == 1
        texts = self.texts(chunks, ends, words, alone)
        swapped = ~alone & self.coin(words)
        order = np.stack([swapped, ~swapped], axis=1).astype(np.int64)
        # Swapped before cutting: a tie shortens the text that is shown second.
        begins, stops = (np.take_along_axis(bounds, order, axis=1) for bounds in texts)
        return Pairs(chunks, begins, stops, (alone | swapped).astype(np.int64))


class PureSentenceOrderLoop(SentenceOrderLoop):
    """As `SentenceOrderLoop`, without chunks of one sentence."""

    def pairs(self, chunks: Int64Array) -> Pairs:
        """The two halves of those chunks that have two."""
        return super().pairs(chunks[self.chunk_ends(chunks) - chunks > 1])
