"""Learns the pieces of a Unigram model, the same to the last bit in every process.

Paper: Kudo (2018), *Subword Regularization*. Begin with many frequent substrings, fit their
probabilities by expectation maximisation, drop those whose loss hurts least, repeat.

Where this differs from SentencePiece: the seeds are found by growing frequent substrings one
character at a time, and a piece's loss is its expected count times what its best replacement costs.
The library's own trainer adds floats in the order of a hash table, so that no two runs agree; here
every sum has a fixed order.

Used by: `train(kind="unigram")`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from clozeworks.arrays import Float64Array, Int64Array

LONGEST_PIECE = 16
SEEDS_PER_ENTRY = 10
KEPT_PER_ROUND = 0.6
PASSES = 2


@dataclass(frozen=True)
class Seeds:
    """Candidate pieces and all their occurrences."""

    texts: list[str]
    """The pieces; the alphabet comes first."""
    begin: Int64Array
    """Node where each occurrence begins."""
    end: Int64Array
    """Node where it ends."""
    piece: Int64Array
    """Which piece it is."""
    inner: dict[tuple[int, int], Int64Array]
    """For each end and length within a piece, the piece that stands there, or -1; rows are the
    pieces in the order of `by_length`."""
    by_length: Int64Array
    """Pieces, the longest first."""


def find_seeds(
    words: Sequence[str],
    counts: Int64Array,
    alphabet: Sequence[str],
    limit: int,
    min_frequency: int,
) -> Seeds:
    """Finds frequent substrings by growing them one character at a time.

    Args:
        words: Words made of the alphabet's characters only.
        counts: How often each occurs.
        alphabet: Sorted characters, all of them pieces.
        limit: The most pieces besides the alphabet.
        min_frequency: How often a substring must occur.
    """
    sizes = np.array([len(word) for word in words], dtype=np.int64)
    raw = np.frombuffer("".join(words).encode("utf-32-le"), dtype=np.uint32)
    letters = np.frombuffer("".join(alphabet).encode("utf-32-le"), dtype=np.uint32)
    characters = np.searchsorted(letters, raw).astype(np.int64)
    stop = np.repeat(np.cumsum(sizes), sizes)
    # A word of n characters has n + 1 nodes, so its nodes are shifted by the words before it.
    shift = np.repeat(np.arange(len(sizes)), sizes)
    weights = np.repeat(counts, sizes).astype(np.float64)

    positions = np.arange(len(raw))
    names = characters
    levels: list[tuple[Int64Array, Int64Array, Int64Array, Float64Array]] = []
    for length in range(2, LONGEST_PIECE + 1):
        dense = np.full(len(raw) + 1, -1, dtype=np.int64)
        dense[positions] = names
        keep = (positions + length <= stop[positions]) & (dense[positions + 1] >= 0)
        positions, names = positions[keep], names[keep]
        if not len(positions):
            break
        keys = names * len(letters) + characters[positions + length - 1]
        _, example, names = np.unique(keys, return_index=True, return_inverse=True)
        total = np.bincount(names, weights=weights[positions]).astype(np.float64)
        frequent = total >= min_frequency
        renamed = np.where(frequent, np.cumsum(frequent) - 1, -1)[names]
        example, total = positions[example[frequent]], total[frequent]
        positions, names = positions[renamed >= 0], renamed[renamed >= 0]
        levels.append((positions, names, example, total))

    joined = "".join(words)
    # The piece that covers most characters first.
    candidates = sorted(
        (-float(count) * size, joined[position : position + size], size - 2, index, int(position))
        for size, (_, _, example, total) in enumerate(levels, 2)
        for index, (position, count) in enumerate(zip(example, total, strict=True))
    )[:limit]
    texts = [*alphabet, *(text for _, text, _, _, _ in candidates)]
    numbers = [np.full(len(total), -1, dtype=np.int64) for _, _, _, total in levels]
    origin = np.zeros(len(texts), dtype=np.int64)
    for number, (_, _, level, index, position) in enumerate(candidates, len(alphabet)):
        numbers[level][index] = number
        origin[number] = position

    occurrences = [(np.arange(len(raw)), characters, 1)]
    for level, (positions, names, _, _) in enumerate(levels):
        pieces = numbers[level][names]
        occurrences.append((positions[pieces >= 0], pieces[pieces >= 0], level + 2))
    lengths = np.array([len(text) for text in texts])
    by_length = np.lexsort((np.arange(len(texts)), -lengths))
    by_length = by_length[lengths[by_length] > 1]
    inner: dict[tuple[int, int], Int64Array] = {}
    for positions, pieces, length in occurrences:
        dense = np.full(len(raw) + 1, -1, dtype=np.int64)
        dense[positions] = pieces
        for end in range(length, LONGEST_PIECE + 1):
            rows = by_length[: int((lengths[by_length] >= end).sum())]
            inside = dense[origin[rows] + end - length]
            # A piece may not replace itself.
            inner[end, length] = np.where(inside == rows, -1, inside)
    return Seeds(
        texts,
        np.concatenate([positions + shift[positions] for positions, _, _ in occurrences]),
        np.concatenate(
            [positions + shift[positions] + length for positions, _, length in occurrences]
        ),
        np.concatenate([pieces for _, pieces, _ in occurrences]),
        inner,
        by_length,
    )


class Lattice:
    """Every way to cut every word into the pieces that are left."""

    def __init__(self, seeds: Seeds, sizes: Int64Array, counts: Int64Array) -> None:
        self.counts = counts.astype(np.float64)
        self.first = np.concatenate([[0], np.cumsum(sizes + 1)[:-1]])
        self.last = self.first + sizes
        offset = np.arange(int(self.last[-1]) + 1) - np.repeat(self.first, sizes + 1)
        word = np.repeat(np.arange(len(sizes)), sizes + 1)
        order = np.lexsort((seeds.begin, seeds.end, offset[seeds.end]))
        self.begin, self.end, self.piece = (
            values[order] for values in (seeds.begin, seeds.end, seeds.piece)
        )
        self.offset, self.word = offset, word
        self._turn()

    def keep(self, alive: npt.NDArray[np.bool_]) -> None:
        """Forgets the pieces that are gone."""
        stay = alive[self.piece]
        self.begin, self.end, self.piece = self.begin[stay], self.end[stay], self.piece[stay]
        self._turn()

    def _turn(self) -> None:
        """Orders the occurrences for the way back."""
        self.back = np.lexsort((self.end, self.begin, -self.offset[self.begin]))

    def totals(self, weights: Float64Array, pieces: int) -> Float64Array:
        """Adds up a weight of every occurrence by piece."""
        return np.bincount(self.piece, weights=weights, minlength=pieces).astype(np.float64)

    def expected(self, scores: Float64Array) -> Float64Array:
        """Counts how often each piece is expected to be used, from their log probabilities."""
        arcs = scores[self.piece]
        forward = _sums(self.begin, self.end, arcs, self.offset, self.first, len(self.offset))
        back = self.back
        backward = _sums(
            self.end[back], self.begin[back], arcs[back], -self.offset, self.last, len(self.offset)
        )
        whole = forward[self.last]
        used = np.exp(
            forward[self.begin] + arcs + backward[self.end] - whole[self.word[self.begin]]
        )
        return self.totals(used * self.counts[self.word[self.begin]], len(scores))


def _sums(
    source: Int64Array,
    target: Int64Array,
    arcs: Float64Array,
    order: Int64Array,
    start: Int64Array,
    nodes: int,
) -> Float64Array:
    """Adds up, in logarithms, all ways from the start to each node; arcs come in `order`."""
    total = np.full(nodes, -np.inf)
    total[start] = 0.0
    group = np.flatnonzero(np.concatenate([[True], target[1:] != target[:-1]]))
    step = np.flatnonzero(np.diff(order[target[group]], prepend=order[target[group[0]]] - 1))
    group_end = np.append(group, len(target))
    for index, low in enumerate(step):
        high = step[index + 1] if index + 1 < len(step) else len(group)
        begin, end = group_end[low], group_end[high]
        cuts = group[low:high] - begin
        values = total[source[begin:end]] + arcs[begin:end]
        top = np.maximum.reduceat(values, cuts)
        spread = np.repeat(top, np.diff(np.append(cuts, end - begin)))
        total[target[group[low:high]]] = top + np.log(
            np.add.reduceat(np.exp(values - spread), cuts)
        )
    return total


def replacement(seeds: Seeds, scores: Float64Array) -> Float64Array:
    """Gives the best log probability of each piece written with other pieces.

    `scores` are the log probabilities of all, -inf for those that are gone.
    """
    # Index -1 reads the last entry: a piece that is not there.
    known = np.append(scores, -np.inf)
    best = np.full((len(seeds.by_length), LONGEST_PIECE + 1), -np.inf)
    best[:, 0] = 0.0
    lengths = np.array([len(seeds.texts[piece]) for piece in seeds.by_length], dtype=np.int64)
    for end in range(1, LONGEST_PIECE + 1):
        for length in range(1, end + 1):
            inside = seeds.inner.get((end, length))
            if inside is not None and len(inside):
                ways = best[: len(inside), end - length] + known[inside]
                best[: len(inside), end] = np.maximum(best[: len(inside), end], ways)
    result = np.zeros(len(scores))
    result[seeds.by_length] = best[np.arange(len(lengths)), lengths]
    return result


def learn_pieces(
    words: Mapping[str, int],
    alphabet: Sequence[str],
    size: int,
    min_frequency: int,
    avoid: frozenset[str],
) -> list[tuple[str, float]]:
    """Learns pieces and their log probabilities, the likeliest first.

    Args:
        words: How often each word occurs, sorted; they have the alphabet's characters only.
        alphabet: Sorted characters; all are kept.
        size: How many pieces are wanted, the alphabet among them.
        min_frequency: How often a longer piece must occur.
        avoid: Texts that must not become pieces.
    """
    weights = np.array(list(words.values()), dtype=np.int64)
    sizes = np.array([len(word) for word in words], dtype=np.int64)
    seeds = find_seeds(list(words), weights, alphabet, size * SEEDS_PER_ENTRY, min_frequency)
    lattice = Lattice(seeds, sizes, weights)
    fixed = len(alphabet)
    alive = np.array([text not in avoid or i < fixed for i, text in enumerate(seeds.texts)])
    lattice.keep(alive)
    # Before any pass, a piece is as likely as the characters it covers.
    covered = lattice.totals(lattice.counts[lattice.word[lattice.begin]], len(seeds.texts))
    covered *= np.array([len(text) for text in seeds.texts])
    scores = _logarithms(covered, alive)
    while True:
        for _ in range(PASSES):
            used = lattice.expected(scores)
            scores = _logarithms(used, alive)
        wanted = max(size, int(alive.sum() * KEPT_PER_ROUND))
        if alive.sum() <= size:
            break
        loss = np.full(len(scores), -np.inf)
        loss[alive] = used[alive] * (scores[alive] - replacement(seeds, scores)[alive])
        loss[:fixed] = np.inf
        # Trap: equal losses are ordered by the piece's number, which is fixed.
        alive[np.lexsort((np.arange(len(loss)), -loss))[wanted:]] = False
        alive[:fixed] = True
        lattice.keep(alive)
        scores = np.where(alive, scores, -np.inf)
    result = [(seeds.texts[i], round(float(scores[i]), 6)) for i in np.flatnonzero(alive)]
    return sorted(result, key=lambda item: (-item[1], item[0]))


def _logarithms(used: Float64Array, alive: npt.NDArray[np.bool_]) -> Float64Array:
    # A character that no word needs alone keeps a small chance, so that it can be written.
    kept = np.where(alive, np.maximum(used, 0.1), 0.0)
    with np.errstate(divide="ignore"):
        scores: Float64Array = np.log(kept) - np.log(kept.sum())
    return scores
