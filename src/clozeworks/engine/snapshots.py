"""Snapshots: what a run needs to go on, written whole or not at all, checked before it is used.

A snapshot is a folder of safetensors and JSON. It is filled under a temporary name, every file is
synced, a manifest with sizes and sha256 is written last, and one rename makes it count; then
`latest` names it, and the oldest ones go. All this happens beside the training: tensors are written
as they stand while the gradient of the next step is taken, and only the update after it has to
wait. No second copy of them is made.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from clozeworks.errors import ClozeworksError, OutputError
from clozeworks.runtime.waiting import outlast
from clozeworks.storage.atomic import atomic_file, sync
from clozeworks.storage.checksums import entry_of
from clozeworks.storage.tensor_file import write_tensors

MANIFEST = "manifest.json"
STATE = "state.json"
LATEST = "latest"
_NAME = re.compile(r"step-(\d{9,})")
_SUFFIX = ".safetensors"

TensorGroups = Mapping[str, Mapping[str, Tensor]]


@dataclass(frozen=True)
class Snapshot:
    """A snapshot as it was read."""

    step: int
    """How many steps were done."""
    tensors: dict[str, dict[str, Tensor]]
    """By file, by name."""
    state: dict[str, Any]
    """The rest."""


class DamagedSnapshot(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """A snapshot that is not what its manifest says."""


class Snapshots:
    """The snapshots of a run.

    Args:
        folder: Where they are; nobody else writes there.
        keep: How many are kept.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        self.folder = folder
        self.keep = keep
        self.newest = -1
        """The step of the snapshot that was begun last, by this object."""
        self._free = Event()
        self._free.set()
        self._task: Future[None] | None = None
        self._failed: OutputError | None = None

    def steps(self) -> list[int]:
        """The steps of which there is a snapshot, in order."""
        names = self.folder.iterdir() if self.folder.is_dir() else ()
        matches = [_NAME.fullmatch(path.name) for path in names]
        return sorted(int(match[1]) for match in matches if match)

    def begin(
        self, step: int, tensors: TensorGroups, state: Mapping[str, Any], *, prune: bool = True
    ) -> None:
        """Begins to write everything, beside the training.

        Tensors must not change before `wait_for_tensors` returns. Between two updates they do not,
        so that the gradient of the next step can be taken meanwhile.

        Args:
            step: How many steps were done.
            tensors: By file, by name.
            state: The rest, as plain data.
            prune: Whether the oldest snapshots go afterwards.

        Raises:
            OutputError: If the one before could not be written; this one is not begun.
        """
        self.wait()
        self.newest = step
        self._free.clear()
        # Trap: the state's lists may change at once; as text they do not.
        text = json.dumps(state, indent=1) + "\n"
        writer = ThreadPoolExecutor(1, "snapshot")
        self._task = writer.submit(self._write, step, tensors, text, prune)
        writer.shutdown(wait=False)  # the thread ends behind it, and Python's end waits for both

    def wait_for_tensors(self) -> None:
        """Waits until the tensors of the last snapshot may change."""
        self._free.wait()

    def wait(self) -> None:
        """Waits until the last snapshot stands.

        Raises:
            OutputError: If it could not be written; the ones before it are as they were.
        """
        if self._task is not None:
            outlast([self._task])
            self._task = None
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raises once that a snapshot could not be written; does not wait for one.

        Raises:
            OutputError: If it could not be written; the ones before it are as they were.
        """
        failed, self._failed = self._failed, None
        if failed is not None:
            self.newest = -1
            raise failed

    def read_latest(self) -> tuple[Snapshot | None, list[str]]:
        """The newest snapshot that is whole, and a sentence about each newer one that is not.

        Raises:
            DamagedSnapshot: If there are some, but none is whole.
        """
        damaged: list[str] = []
        for step in reversed(self.steps()):
            try:
                return self.read(step), damaged
            except DamagedSnapshot as error:
                damaged.append(str(error))
        if damaged:
            raise DamagedSnapshot(
                f"{' '.join(damaged)} No snapshot in {self.folder} is whole, so the run cannot go "
                "on; restore one, or remove that folder to begin again at the first step."
            )
        return None, damaged

    def read(self, step: int) -> Snapshot:
        """A snapshot, every byte of it checked.

        Raises:
            DamagedSnapshot: If it is not what its manifest says.
        """
        folder = self._folder(step)
        manifest = _json(folder / MANIFEST)
        files = manifest.get("files")
        if manifest.get("step") != step or not isinstance(files, dict) or STATE not in files:
            raise DamagedSnapshot(f"{folder / MANIFEST} is damaged.")
        tensors = {}
        for name, entry in files.items():
            _check(folder, name, entry)
            if name.endswith(_SUFFIX):
                try:
                    tensors[name.removesuffix(_SUFFIX)] = load_file(folder / name)
                except (SafetensorError, OSError) as error:
                    raise DamagedSnapshot(f"{folder / name} cannot be read ({error}).") from error
        return Snapshot(step, tensors, _json(folder / STATE))

    def remove_leftovers(self) -> None:
        """Removes what runs that were killed while writing have left."""
        for path in self.folder.glob(".step-*.tmp"):
            shutil.rmtree(path, ignore_errors=True)
        for path in self.folder.glob(f".{LATEST}.*.temporary"):
            path.unlink(missing_ok=True)

    def remove_after(self, step: int) -> None:
        """Removes damaged snapshots after the one a run goes on from."""
        for later in self.steps():
            if later > step:
                shutil.rmtree(self._folder(later), ignore_errors=True)

    def _folder(self, step: int) -> Path:
        return self.folder / f"step-{step:09}"

    def _write(self, step: int, tensors: TensorGroups, state: str, prune: bool) -> None:
        target = self._folder(step)
        file_path = self.folder / f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp"
        try:
            file_path.mkdir(parents=True)
            for stem, group in tensors.items():
                detached = {name: tensor.detach() for name, tensor in group.items()}
                write_tensors(file_path / (stem + _SUFFIX), detached)
            self._free.set()
            (file_path / STATE).write_text(state, encoding="utf-8")
            files = {path.name: entry_of(path) for path in sorted(file_path.iterdir())}
            manifest = json.dumps({"step": step, "files": files}, indent=1)
            (file_path / MANIFEST).write_text(manifest + "\n", encoding="utf-8")
            for path in (*file_path.iterdir(), file_path):
                sync(path)
            if target.exists():  # the same step of an earlier session
                target.rename(file_path.with_suffix(".old.tmp"))
            file_path.rename(target)
            sync(self.folder)
            with atomic_file(self.folder / LATEST, "w") as file:
                file.write(target.name + "\n")
            for old in self.steps()[: -self.keep] if prune else ():
                shutil.rmtree(self._folder(old), ignore_errors=True)
        except OSError as error:
            self._failed = OutputError(f"{target} could not be written ({error.strerror or error})")
        except BaseException as error:
            self._failed = OutputError(f"{target} could not be written ({error})")
        finally:
            self._free.set()
            for path in (file_path, file_path.with_suffix(".old.tmp")):
                shutil.rmtree(path, ignore_errors=True)


def optimizer_tensors(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str]
) -> dict[str, Tensor]:
    """The state of an optimiser by the names of its parameters."""
    return {
        f"{names[id(parameter)]}/{key}": value
        for parameter, values in optimizer.state.items()
        for key, value in values.items()
    }


def fill_optimizer(
    optimizer: torch.optim.Optimizer, names: Mapping[int, str], tensors: Mapping[str, Tensor]
) -> None:
    """Puts a saved state into a fresh optimiser."""
    by_name: dict[str, dict[str, Tensor]] = {}
    for index, tensor in tensors.items():
        name, _, key = index.rpartition("/")
        by_name.setdefault(name, {})[key] = tensor
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            for key, tensor in by_name.get(names[id(parameter)], {}).items():
                device = parameter.device if tensor.shape == parameter.shape else tensor.device
                # A copy: else the file stays mapped, and takes room on the disk when it is gone.
                optimizer.state[parameter][key] = tensor.to(device, copy=True)


def _check(folder: Path, name: str, entry: Any) -> None:
    path = folder / name
    if path.parent != folder or not name.isprintable() or not isinstance(entry, dict):
        raise DamagedSnapshot(f"{folder / MANIFEST} is damaged.")
    try:
        entry_now = entry_of(path)
    except OSError as error:
        raise _unreadable(path, error) from error
    if entry_now != entry:
        what = "size" if entry_now["bytes"] != entry.get("bytes") else "content"
        raise DamagedSnapshot(f"{path} is damaged: its {what} is not what its manifest says.")


def _unreadable(path: Path, error: OSError) -> ClozeworksError:
    """A file that is gone means damage; one that cannot be read now may be whole all the same."""
    if isinstance(error, FileNotFoundError):
        return DamagedSnapshot(f"{path} cannot be read ({error.strerror}).")
    return OutputError(
        f"{path} cannot be read ({error.strerror}); fix the disk or its permissions, then run the "
        "same again."
    )


def _json(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise _unreadable(path, error) from error
    except ValueError as error:
        raise DamagedSnapshot(f"{path} cannot be read ({error}).") from error
    if not isinstance(data, dict):
        raise DamagedSnapshot(f"{path} is damaged.")
    return data
