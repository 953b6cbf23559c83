"""Names for the arrays that most files hand around, and ranges of positions in them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

BoolArray = NDArray[np.bool_]
Int64Array = NDArray[np.int64]
Uint32Array = NDArray[np.uint32]
Uint64Array = NDArray[np.uint64]
Float32Array = NDArray[np.float32]
Float64Array = NDArray[np.float64]
NamedArrays = Mapping[str, NDArray[Any]]


def ranges(begins: Int64Array | int, sizes: Int64Array) -> Int64Array:
    """The positions of several ranges, one range after the other."""
    shifts = begins - (np.cumsum(sizes) - sizes)
    positions: Int64Array = np.arange(sizes.sum()) + np.repeat(shifts, sizes)
    return positions
