"""Weights in safetensors files: one file, or shards with an index. Nothing else is ever opened."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from clozeworks.errors import CheckpointError

SINGLE = "model.safetensors"
INDEX = "model.safetensors.index.json"
_PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "model.pt", "tf_model.h5")


class WeightFiles:
    """The weights of a folder by name; a tensor is mapped into memory when it is asked for."""

    def __init__(self, folder: Path) -> None:
        self.files = _files(folder)
        self._open: dict[str, Any] = {}
        for path in self.files:
            handle = _opened(path)
            for name in handle.keys():  # noqa: SIM118 (the handle is no mapping)
                self._open[name] = handle

    def __iter__(self) -> Iterator[str]:
        return iter(self._open)

    def __contains__(self, name: str) -> bool:
        return name in self._open

    def shape(self, name: str) -> tuple[int, ...]:
        """The shape, from the header alone."""
        return tuple(self._open[name].get_slice(name).get_shape())

    def tensor(self, name: str) -> Tensor:
        """The tensor, backed by the file until it is written to."""
        tensor: Tensor = self._open[name].get_tensor(name)
        return tensor


def write_weights(folder: Path, weights: Mapping[str, Tensor], shard_bytes: int) -> None:
    """Writes one file, or shards of at most `shard_bytes` (or one tensor) with an index."""
    shards: list[dict[str, Tensor]] = [{}]
    filled = 0
    for name, tensor in weights.items():
        size = tensor.numel() * tensor.element_size()
        if shards[-1] and filled + size > shard_bytes:
            shards.append({})
            filled = 0
        shards[-1][name] = tensor.detach().cpu().contiguous()
        filled += size
    if len(shards) == 1:
        save_file(shards[0], folder / SINGLE, metadata={"format": "pt"})
        return
    places: dict[str, str] = {}
    total = 0
    for number, shard in enumerate(shards, start=1):
        file = f"model-{number:05d}-of-{len(shards):05d}.safetensors"
        save_file(shard, folder / file, metadata={"format": "pt"})
        places.update(dict.fromkeys(shard, file))
        total += sum(tensor.numel() * tensor.element_size() for tensor in shard.values())
    index = {"metadata": {"total_size": total}, "weight_map": places}
    (folder / INDEX).write_text(json.dumps(index, indent=2) + "\n", encoding="utf-8")


def read_json(path: Path) -> dict[str, Any]:
    """A JSON object from a file, or a sentence about what is wrong with it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise CheckpointError(f"{path} is not UTF-8 text ({error.reason}); restore it.") from error
    except json.JSONDecodeError as error:
        raise CheckpointError(
            f"{path}, line {error.lineno}: {error.msg}; it must be JSON; restore the file."
        ) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error.strerror}).") from error
    if not isinstance(data, dict):
        raise CheckpointError(f"{path} holds a {type(data).__name__}; it must be a JSON object.")
    return data


def _files(folder: Path) -> list[Path]:
    if (folder / SINGLE).exists():
        return [folder / SINGLE]
    if (folder / INDEX).exists():
        return _shards(folder)
    pickles = [name for name in _PICKLES if (folder / name).exists()]
    if pickles:
        raise CheckpointError(
            f"{folder} holds its weights as {pickles[0]}, a format that can run code when it is "
            f"opened; Clozeworks reads only safetensors. Convert it once, where you trust it: "
            f'python -c "from transformers import AutoModelForPreTraining as A; '
            f'A.from_pretrained({str(folder)!r}).save_pretrained({str(folder) + "-safe"!r})"; '
            f"then copy the tokenizer files over."
        )
    raise CheckpointError(
        f"{folder} has no weights; it must hold {SINGLE}, or shards with {INDEX}; "
        f"copy or download them."
    )


def _shards(folder: Path) -> list[Path]:
    places = read_json(folder / INDEX).get("weight_map")
    if not isinstance(places, dict) or not all(isinstance(v, str) for v in places.values()):
        raise CheckpointError(
            f"{folder / INDEX} has no usable weight_map; it must map each weight to a file name."
        )
    files = sorted(set(places.values()))
    for name in files:
        if Path(name).name != name:
            raise CheckpointError(
                f"{folder / INDEX} names the file {name!r}; shards must lie in the same folder."
            )
        if not (folder / name).exists():
            raise CheckpointError(
                f"{folder} lacks {name}, one of the {len(files)} files its index names; "
                f"copy or download it."
            )
    return [folder / name for name in files]


def _opened(path: Path) -> Any:
    # The library checks the header against the file's size before any memory is taken.
    try:
        return safe_open(path, framework="pt")
    except SafetensorError as error:
        size = path.stat().st_size
        raise CheckpointError(
            f"{path} ({size:,} bytes) is damaged or was cut short ({error}); "
            f"copy or download it again."
        ) from error
    except OSError as error:
        raise CheckpointError(f"{path} cannot be read ({error}).") from error
