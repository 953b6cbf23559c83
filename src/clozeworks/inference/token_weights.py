"""How much each token counts: more, the fewer texts it stands in."""

from collections.abc import Iterable, Sequence

import numpy as np

from clozeworks.arrays import Float64Array


def inverse_document_frequencies(texts: Iterable[Sequence[int]], entries: int) -> Float64Array:
    """ln((1 + n) / (1 + d)) + 1 of every entry of a vocabulary that stands in d of n texts.

    An entry that stands in every text has the weight 1, one that stands in none the highest.

    Args:
        texts: The token ids of each text.
        entries: How many entries there are.
    """
    documents, count = np.zeros(entries, dtype=np.int64), 0
    for ids in texts:
        documents[np.unique(np.asarray(ids, dtype=np.int64))] += 1
        count += 1
    return np.log((1 + count) / (1 + documents)) + 1
