"""Weights in safetensors files: one file, or shards with an index. Nothing else is ever opened."""

import json
import shlex
import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from io import FileIO
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from clozeworks.checkpoints.whole_folder import write_json
from clozeworks.config import read_json
from clozeworks.errors import CheckpointError
from clozeworks.families.weights import Form
from clozeworks.storage.atomic import check_name
from clozeworks.storage.tensor_file import write_tensors

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
SUFFIX = ".safetensors"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "tf_model.h5")
# What a weight may be stored as: the file's word for it, and ours.
DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16
}  # fmt: skip
# What stands beside weights in some files, such as positions, and is compared but not used.
_OTHER_DTYPES = {
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool,
}  # fmt: skip


@dataclass(frozen=True)
class _Stored:
    """Where a weight stands in its file."""

    path: Path
    file: FileIO
    dtype: str
    shape: tuple[int, ...]
    begin: int
    size: int


class WeightFiles:
    """The weights of a folder by name; a tensor is read when it is asked for.

    Nothing stays mapped: a file that is overwritten or cut while a model is in use would change its
    answers, or end the process without a word.
    """

    def __init__(self, folder: Path, model: Path | None = None) -> None:
        """Opens the files of a folder, which is part of that of a `model` if one is given."""
        self.folder = folder
        self._stored: dict[str, _Stored] = {}
        for path in _files(folder, model or folder):
            with _reading(path):
                file = path.open("rb", buffering=0)
            weakref.finalize(self, file.close)
            self._stored |= _header(path, file)

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape, from the header alone."""
        return self._stored[name].shape

    def dtype(self, name: str) -> torch.dtype:
        """What the weight is stored as, from the header alone."""
        stored = self._stored[name].dtype
        if stored not in DTYPES:
            raise CheckpointError(
                f"{self.folder}: {name} is stored as {stored}; weights must be one of "
                f"{', '.join(DTYPES)}; use the checkpoint it was made from."
            )
        return DTYPES[stored]

    def equal(self, name: str, other: str) -> bool:
        """Whether two weights hold the same numbers."""
        return self.shape(name) == self.shape(other) and torch.equal(
            self.tensor(name), self.tensor(other)
        )

    def tensor(self, name: str) -> Tensor:
        """The tensor, read from the file."""
        stored = self._stored[name]
        dtype = _OTHER_DTYPES.get(stored.dtype) or self.dtype(name)
        data = torch.empty(stored.size, dtype=torch.uint8)
        filled, view = 0, memoryview(data.numpy().data)
        with _reading(stored.path):
            stored.file.seek(stored.begin)
            while filled < stored.size:
                count = stored.file.readinto(view[filled:])
                if not count:
                    raise OSError(f"it ends before {name}")
                filled += count
        return data.view(dtype).reshape(stored.shape)


class TakenApart(WeightFiles):
    """The weights of a folder, those of a form taken apart into its pieces."""

    def __init__(self, folder: Path, forms: Sequence[Form]) -> None:
        super().__init__(folder)
        self._pieces: dict[str, tuple[str, Form, int]] = {}
        for form in forms:
            for name in [name for name in self._stored if name.endswith(form.ending)]:
                for number, piece in enumerate(form.pieces):
                    self._pieces[f"{name}:{piece}"] = (name, form, number)

    def __iter__(self) -> Iterator[str]:
        whole = {name for name, _, _ in self._pieces.values()}
        yield from (name for name in self._stored if name not in whole)
        yield from self._pieces

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape, from the header alone; that of the whole if it cannot be taken apart."""
        if name not in self._pieces:
            return super().shape(name)
        whole, form, number = self._pieces[name]
        shape = super().shape(whole)
        try:
            return tuple(form.apart(torch.empty(shape, device="meta"))[number].shape)
        except (RuntimeError, ValueError, IndexError):
            return shape

    def dtype(self, name: str) -> torch.dtype:
        """What the weight is stored as, from the header alone."""
        return super().dtype(self._pieces[name][0] if name in self._pieces else name)

    def tensor(self, name: str) -> Tensor:
        """The tensor, or the piece of one."""
        if name not in self._pieces:
            return super().tensor(name)
        whole, form, number = self._pieces[name]
        return form.apart(super().tensor(whole))[number].contiguous()


def put_together(weights: Mapping[str, Tensor], forms: Sequence[Form]) -> dict[str, Tensor]:
    """Published weights with the pieces of each form put together."""
    gathered: dict[str, dict[str, Tensor]] = {}
    joined: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        whole, _, piece = name.partition(":")
        if piece:
            gathered.setdefault(whole, {})[piece] = tensor
        joined[whole] = tensor  # of a piece: keeps its position among the others
    for whole, pieces in gathered.items():
        form = next(form for form in forms if whole.endswith(form.ending))
        joined[whole] = form.together([pieces[piece] for piece in form.pieces])
    return joined


def write_weights(folder: Path, weights: Mapping[str, Tensor], shard_bytes: int) -> None:
    """Writes one file, or shards of at most `shard_bytes` (or one tensor) with an index."""
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in weights.items():
        if shards[-1] and filled + tensor.nbytes > shard_bytes:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor
        filled += tensor.nbytes
    if len(shards) == 1:
        write_file(folder / SINGLE, shards[0])
        return
    file_of: dict[str, str] = {}
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        write_file(folder / file, shard)
        file_of.update(dict.fromkeys(shard, file))
    total = sum(tensor.nbytes for tensor in weights.values())
    write_json(folder / INDEX, {"metadata": {"total_size": total}, "weight_map": file_of})


def write_file(path: Path, weights: Mapping[str, Tensor]) -> None:
    """Writes one file as published folders have them."""
    stored = {name: tensor.detach().cpu().contiguous() for name, tensor in weights.items()}
    write_tensors(path, stored, metadata={"format": "pt"})


def _files(folder: Path, model: Path) -> list[Path]:
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if (folder / INDEX).is_file():
        return _shards(folder)
    pickles = [name for name in _PICKLES if (folder / name).exists()]
    if pickles:
        raise CheckpointError(
            f"{folder} holds its weights as {pickles[0]}, a format that can run code when it is "
            f"opened; Clozeworks reads only safetensors. {_conversion(model / pickles[0])}"
        )
    raise CheckpointError(
        f"{folder} has no weights; it must hold {SINGLE}, or shards with {INDEX}; "
        f"copy or download them."
    )


def _conversion(path: Path) -> str:
    """How to convert weights to safetensors."""
    if path.suffix == ".h5":
        return "Save the model as safetensors with the library that wrote it."
    folder = shlex.quote(str(path.parent))
    return f"Convert it once: clozeworks convert {folder} --out {folder}-safetensors"


def _shards(folder: Path) -> list[Path]:
    shard_of = read_json(folder / INDEX).get("weight_map")
    if not isinstance(shard_of, dict) or not all(isinstance(v, str) for v in shard_of.values()):
        raise CheckpointError(
            f"{folder / INDEX} has no usable weight_map; it must map each weight to a file name; "
            f"restore the index."
        )
    files = sorted(set(shard_of.values()))
    for name in files:
        if Path(name).name != name or not name.endswith(SUFFIX):
            raise CheckpointError(
                f"{folder / INDEX} names the file {name!r}; it must be a {SUFFIX} file in the same "
                f"folder; restore the index."
            )
        if not (folder / name).is_file():
            raise CheckpointError(
                f"{folder} lacks {name}, which its index names; copy or download it."
            )
    return [folder / name for name in files]


def _header(path: Path, file: FileIO) -> dict[str, _Stored]:
    """Where each weight of a file stands."""
    check_name(path, "rename it", CheckpointError)
    with _reading(path):
        # The library checks the header against the file's size before any memory is taken.
        with safe_open(path, framework="pt"):
            pass
        length = int.from_bytes(file.read(8), "little")
        header = json.loads(file.read(length))
    return {
        name: _Stored(
            path,
            file,
            entry["dtype"],
            tuple(entry["shape"]),
            8 + length + entry["data_offsets"][0],
            entry["data_offsets"][1] - entry["data_offsets"][0],
        )
        for name, entry in header.items()
        if name != "__metadata__"
    }


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Says what is wrong with a file of weights that cannot be read."""
    try:
        yield
    except SafetensorError as error:
        size = path.stat().st_size
        raise CheckpointError(
            f"{path} ({size:,} bytes) is damaged or was cut short ({error}); "
            f"copy or download it again."
        ) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error}); copy it again.") from error
