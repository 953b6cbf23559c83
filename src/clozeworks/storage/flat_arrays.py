"""Flat arrays in safetensors files: where each is in its file, and reading them.

The headers of damaged files say anything; here they are believed only where the file has the bytes.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from clozeworks.storage.regular_files import open_regular

LARGEST_HEADER = 1_000_000
DTYPES = {
    "U8": np.uint8,
    "BOOL": np.bool_,
    "U16": np.uint16,
    "U32": np.uint32,
    "U64": np.uint64,
    "F32": np.float32,
}


@dataclass(frozen=True)
class StoredArray:
    """Where a flat array stands in its file."""

    dtype: np.dtype[Any]
    begin: int
    count: int


def read_arrays(path: Path) -> dict[str, NDArray[Any]]:
    """All flat arrays of a safetensors file.

    Raises:
        ValueError: If the file is not what its header says.
    """
    with open_regular(path) as file:
        stored = stored_in(file)
        file.seek(0)
        data = file.read()
    return {
        name: np.frombuffer(data, array.dtype, array.count, array.begin)
        for name, array in stored.items()
    }


def stored_arrays(path: Path) -> dict[str, StoredArray]:
    """Where the flat arrays of a safetensors file are.

    Raises:
        ValueError: If the file is not what its header says.
    """
    with open_regular(path) as file:
        return stored_in(file)


def stored_in(file: BinaryIO) -> dict[str, StoredArray]:
    """Where the flat arrays are in a safetensors file that is open at its beginning.

    Raises:
        ValueError: If the file is not what its header says.
    """
    size = os.fstat(file.fileno()).st_size
    length = int.from_bytes(file.read(8), "little")
    if not 2 <= length <= min(LARGEST_HEADER, size - 8):
        raise ValueError("its header is damaged")
    header = file.read(length)
    try:
        return _stored_arrays(json.loads(header), 8 + length, size)
    except (LookupError, TypeError, AttributeError, RecursionError, json.JSONDecodeError) as error:
        # Whatever a damaged header can look like.
        raise ValueError("its header is damaged") from error


def _stored_arrays(header: Any, begins: int, size: int) -> dict[str, StoredArray]:
    arrays: dict[str, StoredArray] = {}
    for name, item in header.items():
        if name == "__metadata__":
            continue
        dtype = np.dtype(DTYPES[item["dtype"]])
        (begin, end), (count,) = item["data_offsets"], item["shape"]
        if any(type(number) is not int for number in (begin, end, count)):
            raise ValueError("its header is damaged")
        begin, end = begins + begin, begins + end
        if not begins <= begin <= end or end - begin != count * dtype.itemsize:
            raise ValueError("its header is damaged")
        if end > size:
            raise ValueError("it is shorter than its header says")
        arrays[name] = StoredArray(dtype, begin, count)
    return arrays
