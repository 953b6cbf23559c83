"""BM25: which documents have the rare words of a query, and have them often for their length.

Paper: Robertson and Zaragoza 2009. With N documents, df of them with a term, tf times in one of
length dl, avgdl on average:

    score = sum over terms of the query of  idf * tf / (tf + k1 * (1 - b + b * dl / avgdl))
    idf = ln(1 + (N - df + 0.5) / (df + 0.5))

Where code differs: this is Lucene's form, never negative, and without the factor k1 + 1, which
changes no order. k1 = 0.9 and b = 0.4 are Anserini's, as in published baselines.

Each shard of an index has its own postings: which of its documents have a term, and how often. What
spans documents (N, df, avgdl) is added up when a query comes, so documents can be added and removed
and nothing is counted anew.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import BoolArray, Float64Array, Int64Array, Uint32Array, Uint64Array
from clozeworks.search.terms import term_hash, terms_of

K1, B = 0.9, 0.4


@dataclass(frozen=True)
class Postings:
    """Which documents of a shard have which terms.

    Attributes:
        terms: The hashes of the terms, in ascending order.
        offsets: Where the postings of each term begin, and the end.
        documents: The documents with a term, one term after the other.
        counts: How often each has it.
        lengths: How many terms each document has.
    """

    terms: Uint64Array
    offsets: Uint64Array
    documents: Uint32Array
    counts: Uint32Array
    lengths: Uint32Array

    @classmethod
    def of(cls, texts: Sequence[str]) -> "Postings":
        """Counts the terms of texts."""
        hashes = [np.array([*map(term_hash, terms_of(text))], np.uint64) for text in texts]
        lengths = np.array([*map(len, hashes)], np.uint32)
        flat = np.concatenate(hashes) if hashes else np.zeros(0, np.uint64)
        owners = np.repeat(np.arange(len(texts), dtype=np.uint32), lengths)
        order = np.lexsort((owners, flat))
        flat, owners = flat[order], owners[order]
        firsts = np.flatnonzero(
            np.r_[True, (np.diff(flat) != 0) | (np.diff(owners.astype(np.int64)) != 0)]
            if len(flat)
            else np.zeros(0, np.bool_)
        )
        counts = np.diff(np.r_[firsts, len(flat)]).astype(np.uint32)
        terms, begins = np.unique(flat[firsts], return_index=True)
        offsets = np.r_[begins, len(firsts)].astype(np.uint64)
        return cls(terms, offsets, owners[firsts], counts, lengths)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The same by name, as a file holds it."""
        return {
            "terms": self.terms,
            "term_offsets": self.offsets,
            "posting_documents": self.documents,
            "posting_counts": self.counts,
            "lengths": self.lengths,
        }

    def fault(self) -> str | None:
        """What is wrong with postings that were read from a file; None if nothing is."""
        offsets = self.offsets.astype(np.int64)
        if len(offsets) != len(self.terms) + 1 or len(self.counts) != len(self.documents):
            return "its postings do not belong together"
        if offsets[0] != 0 or offsets[-1] != len(self.documents) or (np.diff(offsets) < 1).any():
            return "its postings are out of order"
        if len(self.documents) and int(self.documents.max()) >= len(self.lengths):
            return "a posting is of no document"
        return None

    def of_term(self, term: int) -> tuple[Uint32Array, Uint32Array]:
        """The documents with a term, and how often each has it."""
        position = int(np.searchsorted(self.terms, np.uint64(term)))
        if position == len(self.terms) or int(self.terms[position]) != term:
            return self.documents[:0], self.counts[:0]
        begin, end = int(self.offsets[position]), int(self.offsets[position + 1])
        return self.documents[begin:end], self.counts[begin:end]


def bm25(
    query: str, shards: Sequence[Postings], alive: Sequence[BoolArray]
) -> tuple[Int64Array, Float64Array]:
    """The documents that have a term of the query, and their scores.

    Args:
        query: Any text; terms that it has several times count several times.
        shards: The postings of each shard.
        alive: Which documents of each shard count.

    Returns:
        Positions, counted through all shards, in ascending order, and a score above 0 for each.
    """
    sizes = np.array([len(each) for each in alive], np.int64)
    first = np.cumsum(sizes) - sizes
    count = sum(int(each.sum()) for each in alive)
    total = sum(
        int(shard.lengths[each].sum(dtype=np.int64))
        for shard, each in zip(shards, alive, strict=True)
    )
    scores = np.zeros(int(sizes.sum()), np.float64)
    mean = total / count if total else 1.0
    for term, times in Counter(map(term_hash, terms_of(query))).items():
        found = []
        for number, (shard, each) in enumerate(zip(shards, alive, strict=True)):
            documents, tf = shard.of_term(term)
            kept = each[documents]
            found.append((number, documents[kept], tf[kept].astype(np.float64)))
        df = sum(len(documents) for _, documents, _ in found)
        idf = np.log1p((count - df + 0.5) / (df + 0.5))
        for number, documents, counts in found:
            norm = K1 * (1 - B + B * shards[number].lengths[documents] / mean)
            scores[first[number] + documents] += times * idf * counts / (counts + norm)
    positions = np.flatnonzero(scores > 0)
    return positions, scores[positions]
