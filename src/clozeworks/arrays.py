"""Names for the arrays that most files hand around."""

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
