"""Stops the process of a run, and starts one that goes on with it.

The folder of a run may come from anybody. So a process is only told to end if it really is this
run, and what is started is a command of this program whose words were looked at one by one; no
shell reads them.
"""

import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import IO

from clozeworks.errors import ClozeworksError
from clozeworks.jobs.pretrain.recipe import changed
from clozeworks.runs.state import RunState
from clozeworks.serve.replies import RefusedRequest
from clozeworks.storage.locks import FILE as LOCK
from clozeworks.storage.locks import held
from clozeworks.wording import shortened

_TRAINING = ("pretrain", "finetune")
_PROGRAMS = ("clozeworks", "__main__.py")
# What a word of a command may be made of, as far as paths go: the parts between these.
_BETWEEN = re.compile(r"[\s\[\]{}()\"',=:;|]+")
_MOST_WORDS, _LONGEST_WORD, _LARGEST_RECIPE = 500, 10_000, 1 << 20
_LONGEST_COMPLAINT = 2_000


class RefusedControl(RefusedRequest):
    """A run that is not stopped or continued from here; the sentence says what to do instead."""

    def __init__(self, sentence: str) -> None:
        super().__init__(409, sentence)


def stop_run(folder: Path, state: RunState) -> None:
    """Asks the process of a run to end: it writes a snapshot first.

    Raises:
        RefusedControl: If it does not run, or its process cannot be told from another one.
    """
    if state.status != "running" or not held(folder):
        raise RefusedControl("the run does not train now, so there is nothing to stop.")
    if state.host not in (None, platform.node()):
        raise RefusedControl(f"the run trains on {state.host!r}; stop it there.")
    pid = state.pid
    if pid is None or pid <= 1 or pid == os.getpid():
        raise RefusedControl("the run does not say which process it is; stop it where it started.")
    refused = RefusedControl(
        f"process {pid} is not the command that trains this run; stop it where it was started "
        "(Ctrl-C, or the interrupt of the notebook)."
    )
    if not hasattr(os, "pidfd_open") or not Path("/proc/self/fd").is_dir():
        if not _is_training_by_ps(pid, folder):
            raise refused
        os.kill(pid, signal.SIGTERM)
        return
    try:
        handle = os.pidfd_open(pid)  # from here on the number cannot become another process
    except OSError as error:
        raise refused from error
    try:
        if not (_holds_lock(pid, folder) and _is_training(_command_of(pid))):
            raise refused
        signal.pidfd_send_signal(handle, signal.SIGTERM)
    except ProcessLookupError:
        pass  # it has ended by itself
    finally:
        os.close(handle)


def _holds_lock(pid: int, folder: Path) -> bool:
    """Whether a process has the lock of a run open, which nobody but the run has for long."""
    try:
        own = os.lstat(folder / LOCK)
        for entry in os.scandir(f"/proc/{pid}/fd"):
            try:
                other = entry.stat()
            except OSError:
                continue
            if (own.st_dev, own.st_ino) == (other.st_dev, other.st_ino):
                return True
    except OSError:
        return False
    return False


def _command_of(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
    return [os.fsdecode(word) for word in words if word]


def _is_training_by_ps(pid: int, folder: Path) -> bool:
    """The same where a system has no /proc: by its command, and by what its lock file says."""
    asked = subprocess.run(
        ["/bin/ps", "-ww", "-o", "command=", "-p", str(pid)],
        capture_output=True, text=True, check=False, timeout=10,
    )  # fmt: skip
    holders = subprocess.run(
        ["/usr/sbin/lsof", "-t", "--", str(folder.resolve() / LOCK)],
        capture_output=True, text=True, check=False, timeout=10,
    )  # fmt: skip
    return _is_training(asked.stdout.split()) and str(pid) in holders.stdout.split()


def _is_training(words: Sequence[str]) -> bool:
    """Whether a command is one that trains: `clozeworks pretrain …`, `python -m clozeworks …`."""
    for number, word in enumerate(words[:-1]):
        is_program = Path(word).name in _PROGRAMS
        is_module = word == "clozeworks" and number > 0 and words[number - 1] == "-m"
        if (is_program or is_module) and words[number + 1] in (*_TRAINING, "quickstart"):
            return True
    return False


def continuing_words(folder: Path, state: RunState, roots: Sequence[Path]) -> list[str]:
    """The words of the command that goes on with a run, after `clozeworks`.

    Args:
        folder: The run.
        state: What it says of itself; not believed.
        roots: The folders that were opened: nothing outside of them is touched.

    Raises:
        RefusedControl: If it is not a training command, or names something outside.
    """
    if state.status not in ("stopped", "failed"):
        raise RefusedControl("there is nothing to go on with: the run trains, or has finished.")
    by_hand = f"; type it yourself: {state.continue_command}" if state.continue_command else ""
    words = [*state.command[1:]]
    if len(state.command) < 3 or Path(state.command[0]).name not in _PROGRAMS:
        raise RefusedControl("no command started this run; go on with it where it was started.")
    if words[0] not in _TRAINING:
        raise RefusedControl(f"only `clozeworks pretrain` and `finetune` go on from here{by_hand}")
    if state.ranks != 1:
        raise RefusedControl(f"the run is shared by {state.ranks} processes{by_hand}")
    if len(words) > _MOST_WORDS or any(len(word) > _LONGEST_WORD for word in words):
        raise RefusedControl("the command of this run is too long to be looked at.")
    if state.where is None:
        raise RefusedControl(f"the run does not say in which folder it was started{by_hand}")
    where = Path(state.where)
    inside = [root.resolve() for root in roots]
    try:
        if not where.is_absolute() or not _lies_in(where, inside):
            raise _Outside(str(where))
        for word in words[1:]:
            _check_word(word, where, inside)
        _check_recipe(folder, words, where, inside)
    except _Outside as error:
        raise RefusedControl(
            f"its command names {shortened(str(error))!r}, which is not in what was opened{by_hand}"
        ) from error
    return words


class _Outside(Exception):  # noqa: N818
    """Something that lies outside of the folders that were opened."""


def _check_word(text: str, where: Path, inside: Sequence[Path]) -> None:
    """Checks every part of a word that could be a path."""
    if "\0" in text:
        raise _Outside(text)
    for part in [text, *_BETWEEN.split(text)]:
        if part.startswith("~") or "://" in part or not _lies_in(where / part, inside):
            raise _Outside(part)


def _lies_in(path: Path, inside: Sequence[Path]) -> bool:
    try:
        real = Path(os.path.realpath(path))
    except (OSError, ValueError):
        return False
    return any(real == root or root in real.parents for root in inside)


def _check_recipe(folder: Path, words: Sequence[str], where: Path, inside: Sequence[Path]) -> None:
    """Checks what the recipe names that a command reads, if it reads one."""
    file = where / words[1]
    if words[0] == "pretrain" or file.suffix == ".toml":
        if not file.is_file():
            if words[0] == "pretrain" and not file.suffix and words[1] == Path(words[1]).name:
                return  # one that comes with the package
            raise RefusedControl(f"the recipe {shortened(str(file))} is not there any more.")
        if file.stat().st_size > _LARGEST_RECIPE:
            raise RefusedControl(f"the recipe {shortened(str(file))} is too large.")
        changes = [word for word in words[2:] if "=" in word and not word.startswith("-")]
        try:
            recipe = changed(file, changes)
        except ClozeworksError as error:
            raise RefusedControl(str(error)) from error
        for text in _texts_in(recipe):
            _check_word(text, where, inside)


def _texts_in(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for each in (*value.keys(), *value.values()) for text in _texts_in(each)]
    if isinstance(value, list):
        return [text for each in value for text in _texts_in(each)]
    return []


class StartedRuns:
    """The processes that were started here to go on with runs; they outlive the server."""

    def __init__(self) -> None:
        self._started: dict[Path, tuple[subprocess.Popen[bytes], IO[bytes]]] = {}
        self._lock = Lock()

    def start(self, folder: Path, state: RunState, roots: Sequence[Path]) -> None:
        """Goes on with a run, in a process of its own.

        Raises:
            RefusedControl: If it must not be started from here, or is started already.
        """
        words = continuing_words(folder, state, roots)
        with self._lock:
            known = self._started.get(folder)
            if known is not None and known[0].poll() is None:
                raise RefusedControl("it was told to go on already; it takes a moment to begin.")
            said = tempfile.TemporaryFile()  # noqa: SIM115 (it is the process's as well)
            # Trap: `-m` takes modules from the folder where it is started, unless -P says not to.
            process = subprocess.Popen(
                [sys.executable, "-P", "-m", "clozeworks", *words],
                cwd=state.where, env=_environment(), stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL, stderr=said, start_new_session=True, close_fds=True,
            )  # fmt: skip
            self._started[folder] = (process, said)

    def complaint(self, folder: Path) -> str | None:
        """Why a process that was started here ended at once; None if it did not."""
        with self._lock:
            known = self._started.get(folder)
            if known is None or known[0].poll() in (None, 0, 75, 130):
                return None
            process, said = known
            said.seek(max(os.fstat(said.fileno()).st_size - _LONGEST_COMPLAINT, 0))
            lines = said.read(_LONGEST_COMPLAINT).decode("utf-8", "replace").strip().splitlines()
        last = lines[-1] if lines else f"it ended with code {process.returncode}"
        return last.removeprefix("clozeworks: ")


def _environment() -> dict[str, str]:
    """The environment of this process, with a path for modules that means the same elsewhere."""
    environment = {**os.environ}
    if paths := environment.get("PYTHONPATH"):
        whole = [str(Path(each).absolute()) for each in paths.split(os.pathsep) if each]
        environment["PYTHONPATH"] = os.pathsep.join(whole)
    return environment
