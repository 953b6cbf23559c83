"""How similar vectors are: every one of some with every one of others.

The names are those of sentence-transformers, whose folders state the one a model was made for.
Distances are negative, so that more is always more similar.
"""

from typing import Literal, get_args

import numpy as np
import torch

from clozeworks.arrays import Float32Array, Float64Array
from clozeworks.errors import InputError, UnknownName

Similarity = Literal["cosine", "dot", "euclidean", "manhattan"]
SIMILARITIES: tuple[Similarity, ...] = get_args(Similarity)
# Distances by the power that differences are raised to.
_POWERS = {"euclidean": 2.0, "manhattan": 1.0}
_EXACT = "donot_use_mm_for_euclid_dist"  # a matrix product of near vectors is mostly rounding


def similarity(first: Float32Array, second: Float32Array, kind: str = "cosine") -> Float32Array:
    """The similarity of every vector of one array with every vector of another.

    Args:
        first: (n, W).
        second: (m, W).
        kind: cosine, dot, euclidean or manhattan.

    Returns:
        (n, m), in float32.

    Raises:
        InputError: If the vectors are not equally wide.
        UnknownName: If there is no such similarity.
    """
    if kind not in SIMILARITIES:
        raise UnknownName("similarity", kind, SIMILARITIES)
    if first.shape[1] != second.shape[1]:
        raise InputError(
            f"vectors of width {first.shape[1]:,} cannot be compared with vectors of width "
            f"{second.shape[1]:,}; embed both with the same model."
        )
    a, b = first.astype(np.float64), second.astype(np.float64)
    if kind == "cosine":
        a, b = _unit(a), _unit(b)
    if kind in _POWERS:
        pair = torch.from_numpy(a), torch.from_numpy(b)
        similar: Float64Array = -torch.cdist(*pair, _POWERS[kind], _EXACT).numpy()
    else:
        similar = a @ b.T
    return similar.astype(np.float32)


def _unit(vectors: Float64Array) -> Float64Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit: Float64Array = vectors / np.maximum(lengths, 1e-12)
    return unit
