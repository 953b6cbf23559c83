"""The best documents of a stream for some queries: vectors come block by block and are not kept."""

from collections.abc import Sequence

import numpy as np

from clozeworks.arrays import Float32Array, Int64Array
from clozeworks.search.top_k import VectorBlock, longest, top_k


class DocumentRanking:
    """Ranks documents for queries as trec_eval does: by score, then by falling id.

    Args:
        queries: The vectors of the queries, (Q, W).
        ids: The ids of all documents that will come, in their order.
        depth: How many are kept for each query.
    """

    def __init__(self, queries: Float32Array, ids: Sequence[str], depth: int) -> None:
        self._queries = queries
        self._ids = ids
        self._depth = depth
        self._come = 0
        falling = sorted(range(len(ids)), key=ids.__getitem__, reverse=True)
        self._keys: Int64Array = np.empty(len(ids), np.int64)
        self._keys[falling] = np.arange(len(ids))
        none = np.zeros(0, np.int64), np.zeros(0, np.float32)
        self._best: list[tuple[Int64Array, Float32Array]] = [none] * len(queries)

    def add(self, vectors: Float32Array) -> None:
        """Takes the vectors of the next documents, (B, W)."""
        block = VectorBlock(self._come, vectors, longest(vectors))
        found = top_k(self._queries, [block], self._depth, self._keys.__getitem__)
        self._come += len(vectors)
        self._best = [
            self._merged(before, now) for before, now in zip(self._best, found, strict=True)
        ]

    def _merged(
        self, before: tuple[Int64Array, Float32Array], now: tuple[Int64Array, Float32Array]
    ) -> tuple[Int64Array, Float32Array]:
        positions = np.concatenate([before[0], now[0]])
        scores = np.concatenate([before[1], now[1]])
        order = np.lexsort((self._keys[positions], -scores))[: self._depth]
        return positions[order], scores[order]

    def results(self) -> list[list[tuple[str, float]]]:
        """The ids and scores of the best documents of each query, the best first."""
        return [
            [(self._ids[place], score) for place, score in zip(*each, strict=True)]
            for each in ((places.tolist(), scores.tolist()) for places, scores in self._best)
        ]
