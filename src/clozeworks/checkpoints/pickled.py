"""Weights in pickles (`pytorch_model.bin`), converted to safetensors once and never on loading.

A pickle is a program. It is read in a child process by torch's reader that knows tensors and plain
containers only; whatever else the file asks for ends the conversion. The child has limits on
memory, time and the size of what it writes, and a hook that refuses the network, other programs and
every file but its output.
"""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clozeworks.checkpoints.pickle_protocol import with_known_protocol
from clozeworks.checkpoints.whole_folder import check_target, fresh_folder, write_json
from clozeworks.config import read_json
from clozeworks.errors import CheckpointError, ClozeworksError
from clozeworks.storage.checksums import read_notes, write_notes

SINGLE, INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
# What a converted folder does not take along: weights in other formats.
_WEIGHTS = {".bin", ".pt", ".pth", ".ckpt", ".h5", ".msgpack", ".onnx", ".safetensors", ".ot"}
_MOST_SECONDS = 1800.0
# Keys under which training programs keep the weights beside other things.
_WRAPPERS = ("state_dict", "model_state_dict", "model", "module")
_GIGABYTE = 1 << 30
# What the system says when there is no more room, on the disk or for this person.
_FULL = (errno.ENOSPC, errno.EDQUOT)


@dataclass(frozen=True)
class Conversion:
    """What was converted."""

    files: tuple[Path, ...]
    """The pickles that were read."""
    tensors: int
    """How many weights were written."""
    size: int
    """Bytes of the weights."""
    notes: tuple[str, ...]
    """What was left out or changed on the way, in sentences."""


def convert(
    folder: Path, out: Path, *, overwrite: bool = False, max_seconds: float = _MOST_SECONDS
) -> Conversion:
    """Writes a model folder whose weights are pickles as one whose weights are safetensors.

    Args:
        folder: A model folder with `pytorch_model.bin`, or shards of it and their index, or one
            whose parts have such files in folders of their own.
        out: The new folder; everything but the weights is copied to it.
        overwrite: Whether a model folder of that name is replaced.
        max_seconds: How long reading one file may take.

    Raises:
        CheckpointError: If there is nothing to convert, or a file holds more than tensors.
        OutputError: If the folder cannot be written.
    """
    files = _pickles(folder)
    check_target(out, overwrite=overwrite)
    if out.resolve() == folder.resolve():
        raise CheckpointError(f"{out} is the folder that is read; name another one.")
    with fresh_folder(out, overwrite=overwrite) as temporary:
        notes = _copy_others(folder, temporary)
        if not files:  # only parts of it are pickles
            for path in sorted(folder.glob("*.safetensors")):
                shutil.copyfile(path, temporary / path.name)
        reports, parts = [], {}
        for inner in _inner_pickles(folder):  # such as 2_Dense of sentence-transformers
            name = str(inner.with_name("model.safetensors"))
            parts[inner] = _convert_in_child(folder / inner, temporary / name, max_seconds)
            notes.append(f"{inner} was converted, too: {name}.")
        for number, file in enumerate(files, start=1):
            name = "model.safetensors"
            if len(files) > 1:
                name = f"model-{number:05d}-of-{len(files):05d}.safetensors"
            reports.append((name, _convert_in_child(file, temporary / name, max_seconds)))
        if len(files) > 1:
            weight_map = {key: name for name, report in reports for key in report["names"]}
            metadata = {"total_size": sum(report["size"] for _, report in reports)}
            index = {"metadata": metadata, "weight_map": weight_map}
            write_json(temporary / "model.safetensors.index.json", index)
        write_notes(temporary, {"format": 1, **read_notes(folder)})
    done = [*parts.values(), *(report for _, report in reports)]
    return Conversion(
        (*(folder / inner for inner in parts), *files),
        sum(len(report["names"]) for report in done),
        sum(report["size"] for report in done),
        (*notes, *(note for report in done for note in report["notes"])),
    )


def _pickles(folder: Path) -> list[Path]:
    """The files with weights, in order."""
    if not folder.is_dir():
        raise CheckpointError(f"{folder} is not a folder; name the folder that holds {SINGLE}.")
    if (folder / SINGLE).is_file():
        return [folder / SINGLE]
    if (folder / INDEX).is_file():
        weight_map = read_json(folder / INDEX).get("weight_map")
        names = set(weight_map.values()) if isinstance(weight_map, dict) else set()
        if not names or not all(
            isinstance(name, str) and Path(name).name == name and name.endswith(".bin")
            for name in names
        ):
            raise CheckpointError(
                f"{folder / INDEX} has no usable weight_map; it must map each weight to a .bin "
                "file of the same folder; restore the index."
            )
        missing = sorted(name for name in names if not (folder / name).is_file())
        if missing:
            raise CheckpointError(
                f"{folder} lacks {missing[0]}, which its index names; copy or download it."
            )
        return [folder / name for name in sorted(names)]
    others = sorted(path for path in folder.glob("*") if path.suffix in (".bin", ".pt", ".pth"))
    if len(others) == 1 and others[0].is_file():
        return others
    if any(folder.glob("*.safetensors")):
        if _inner_pickles(folder):
            return []
        raise CheckpointError(f"{folder} holds safetensors already; load it as it is.")
    raise CheckpointError(
        f"{folder} has neither {SINGLE} nor {INDEX}; name a folder with weights of PyTorch."
    )


def _inner_pickles(folder: Path) -> list[Path]:
    """Weights of parts that have a folder of their own, relative to the folder of the model."""
    return [path.relative_to(folder) for path in sorted(folder.glob(f"[!.]*/{SINGLE}"))]


def _copy_others(folder: Path, target: Path) -> list[str]:
    """Copies configs, tokenizer files and sub-folders such as `1_Pooling`; no weights.

    Returns:
        What is left out, in sentences.
    """
    left_out = []
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        hidden = any(part.startswith(".") for part in inside.parts)
        if hidden or not path.is_file():
            continue
        if path.suffix in _WEIGHTS or path.name.endswith(".bin.index.json"):
            if len(inside.parts) > 1 and inside not in _inner_pickles(folder):
                left_out.append(str(inside))
            continue
        (target / inside).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target / inside)
    if not left_out:
        return []
    more = f" and {len(left_out) - 3:,} more" if len(left_out) > 3 else ""
    return [f"Weights of sub-folders were left out: {', '.join(left_out[:3])}{more}."]


def _convert_in_child(source: Path, target: Path, max_seconds: float) -> dict[str, Any]:
    """Has a child process convert one file, and reads its report.

    Raises:
        CheckpointError: If it could not; the message says why.
        OSError: If what it read could not be written.
    """
    command = [
        sys.executable,
        "-c",
        "from clozeworks.checkpoints.pickled import child; child()",
        str(source.resolve()),
        str(target),
        str(max_seconds),
    ]
    # The child finds this package where we do, whatever the working directory.
    path = os.pathsep.join(filter(None, sys.path))
    environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=max_seconds,
            env=environment,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise CheckpointError(
            f"{source} was not read within {max_seconds:,.0f} seconds; it may be damaged or "
            "made to do harm; get the model from elsewhere."
        ) from error
    lines = done.stdout.strip().splitlines()
    try:
        report: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    except ValueError:
        report = {}
    if done.returncode == 0 and "names" in report:
        return report
    if "unwritten" in report:  # the folder's fault, not the file's
        raise OSError(report["unwritten"], os.strerror(report["unwritten"]))
    why = report.get("error") or (
        f"the reading process ended with code {done.returncode}, as it does when it needs more "
        "memory than such weights take"
    )
    raise CheckpointError(
        f"{source} cannot be converted: {why}; get the model from a source that offers safetensors."
    )


def child() -> None:
    """Runs in the child process: reads one pickle, writes one safetensors file, reports as JSON."""
    source, target, seconds = Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3])
    import torch  # what needs many files is imported before the limits

    import clozeworks.storage.tensor_file  # noqa: F401

    torch.zeros(1).clone()
    _limit(source.stat().st_size, seconds)
    _lock_down(source, target)
    print(json.dumps(_rewrite(source, target)), flush=True)


def _rewrite(source: Path, target: Path) -> dict[str, Any]:
    """Writes the tensors of a pickle as safetensors; says what they are, or what is wrong."""
    import torch

    from clozeworks.storage.tensor_file import write_tensors

    try:
        known = with_known_protocol(source)
        loaded = torch.load(known, map_location="cpu", weights_only=True)
        weights, notes = _weights_of(loaded, torch.Tensor)
        # A tensor that shares its memory with another is stored once more, as every reader wants.
        tensors = {name: tensor.detach().clone().contiguous() for name, tensor in weights.items()}
        write_tensors(target, tensors, {"format": "pt"})
        return {
            "names": list(tensors),
            "size": sum(each.numel() * each.element_size() for each in tensors.values()),
            "notes": notes,
        }
    except ClozeworksError as error:
        return {"error": str(error)}
    except MemoryError:
        return {"error": "it asks for more memory than such a file can need"}
    except BaseException as error:
        if isinstance(error, OSError) and error.errno in _FULL:
            return {"unwritten": error.errno}
        return {"error": _reason(error)}


def _weights_of(loaded: Any, tensor_type: type) -> tuple[dict[str, Any], list[str]]:
    """The weights by name, and what was done to find them."""
    notes: list[str] = []
    for wrapper in _WRAPPERS:
        if isinstance(loaded, Mapping) and isinstance(loaded.get(wrapper), Mapping):
            loaded = loaded[wrapper]
            notes.append(f"The weights were under the key {wrapper!r}; the rest was left out.")
            break
    if not isinstance(loaded, Mapping):
        raise CheckpointError(f"it holds a {type(loaded).__name__}, not weights by name")
    weights = {str(key): value for key, value in loaded.items() if isinstance(value, tensor_type)}
    if not weights:
        raise CheckpointError("it holds no tensors")
    left_out = len(loaded) - len(weights)
    if left_out:
        notes.append(f"{left_out:,} entries that are not tensors were left out.")
    if all(name.startswith("module.") for name in weights):
        weights = {name.removeprefix("module."): value for name, value in weights.items()}
        notes.append("Every name began with 'module.', as DataParallel writes it; it was removed.")
    return weights, notes


def _reason(error: BaseException) -> str:
    text = " ".join(str(error).split())
    if match := re.search(r"GLOBAL (\S+)|Unsupported class (\S+)", text):
        named = match[1] or match[2]
        return f"it holds more than tensors ({named}), and what it holds could run code"
    if match := re.search(r"Unsupported operand (\d+)", text):
        return f"it uses a part of the pickle format that weights do not need (operand {match[1]})"
    if "can't allocate memory" in text or "not enough memory" in text:
        return "it asks for more memory than such a file can need"
    text = text.rpartition("WeightsUnpickler error: ")[2].partition(". ")[0]
    return f"it is damaged or not written by torch.save ({type(error).__name__}: {text[:200]})"


def _limit(size: int, seconds: float) -> None:
    """Limits what the process may take: memory and output in proportion to the file."""
    try:
        import resource
    except ImportError:  # Windows: the parent's time limit alone
        return
    bounds = {
        resource.RLIMIT_DATA: 2 * _GIGABYTE + 5 * size,
        resource.RLIMIT_FSIZE: 2 * size + (64 << 20),
        resource.RLIMIT_CPU: int(seconds) + 1,
        resource.RLIMIT_CORE: 0,
    }
    for kind, bound in bounds.items():
        hard = resource.getrlimit(kind)[1]
        bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
        resource.setrlimit(kind, (bound, hard))


def _lock_down(source: Path, target: Path) -> None:
    """From now on the process reaches no network, starts no program and writes one file only."""
    refused = ("socket.", "subprocess.", "os.exec", "os.fork", "os.posix_spawn", "os.spawn")
    changing = ("os.remove", "os.rename", "os.rmdir", "os.chmod", "os.chown", "os.link",
                "os.symlink", "os.truncate", "shutil.", "os.system", "ctypes.dlopen")  # fmt: skip

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event.startswith(refused) or event.startswith(changing):
            if event == "os.chmod" and str(arguments[0]) == str(target):
                return
            raise PermissionError(f"{event} is refused while weights are read")
        if event == "open":
            path, mode = str(arguments[0]), str(arguments[1] or "r")
            if set(mode) & set("wax+") and path != str(target):
                raise PermissionError("nothing but the converted weights is written")

    sys.addaudithook(hook)
