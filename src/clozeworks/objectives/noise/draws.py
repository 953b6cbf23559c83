"""The random numbers of a batch, drawn at once.

What numpy costs for a batch is the number of calls, so every example gets its draws in one go: one
of its own, and two for each of its tokens: one decides whether it is masked, one what is shown. A
rule that needs more takes a stream of its own.

Shapes: B examples, L the longest example, n draws.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Int64Array, Uint32Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.rng import RandomStream, uniforms


@dataclass(frozen=True)
class Draws:
    """32 random bits for every decision; each a function of the example's epoch and index."""

    examples: Uint32Array
    """One for each example, (B,)."""
    hide: Uint32Array
    """One for each position in an example, to choose by, (B, L)."""
    show: Uint32Array
    """One for each position, to decide what is shown there, (B, L)."""
    rng: RandomStream
    """Where they come from."""
    epochs: Int64Array
    """The epoch of each example, (B,)."""
    indices: Int64Array
    """Its number, (B,)."""

    @classmethod
    def of(
        cls, clean: ExampleArrays, rng: RandomStream, epochs: Int64Array | None = None
    ) -> "Draws":
        """Draws for the examples of a batch, at other epochs than their own if given, (B,)."""
        epochs = clean.epochs if epochs is None else epochs
        longest = int(clean.lengths.max(initial=0))
        words = rng.words(epochs, clean.indices, 2 + 2 * longest)
        pairs = words.reshape(len(clean), 1 + longest, 2)
        return cls(pairs[:, 0, 0], pairs[:, 1:, 0], pairs[:, 1:, 1], rng, epochs, clean.indices)

    def more(self, name: str, count: int, example: int | None = None) -> Uint32Array:
        """Further draws from the stream `name`, (B, n); or those of one example, (1, n).

        A larger count does not change the first ones.
        """
        chosen = slice(None) if example is None else slice(example, example + 1)
        return self.rng.stream(name).words(self.epochs[chosen], self.indices[chosen], count)

    def four(self, name: str, rows: Int64Array, within: Int64Array) -> Uint32Array:
        """Four further draws for each of some tokens, by example and position in it, (n, 4)."""
        return self.rng.stream(name).four(self.epochs[rows], self.indices[rows], within)


def drawn_lengths(weights: NDArray[np.floating[Any]], draws: Uint32Array) -> Int64Array:
    """A length from 1 for each draw, in proportion to the weights."""
    limits = np.cumsum(weights[:-1] / weights.sum())
    return 1 + np.searchsorted(limits, uniforms(draws), side="right")


def seeds_of(clean: ExampleArrays, rng: RandomStream) -> Int64Array:
    """A seed of 62 bits for a generator of each example, (B,)."""
    words = rng.words(clean.epochs, clean.indices, 2)
    seeds: Int64Array = (words[:, 0].astype(np.int64) << 31) | (words[:, 1] >> np.uint32(1))
    return seeds
