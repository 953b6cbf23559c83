"""How much each token counts in a weighted mean: more, the fewer texts it stands in."""

from collections.abc import Iterable, Sequence

import numpy as np
import torch
from torch import Tensor


def inverse_document_frequencies(texts: Iterable[Sequence[int]], entries: int) -> Tensor:
    """ln((1 + n) / (1 + d)) + 1 of every entry of a vocabulary that stands in d of n texts, (V,).

    An entry that stands in every text has the weight 1, one that stands in none the highest.

    Args:
        texts: The token ids of each text.
        entries: How many entries there are.
    """
    documents, count = np.zeros(entries, dtype=np.int64), 0
    for ids in texts:
        documents[np.unique(np.asarray(ids, dtype=np.int64))] += 1
        count += 1
    return torch.from_numpy(np.log((1 + count) / (1 + documents)) + 1).float()
