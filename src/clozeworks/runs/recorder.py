"""What a run writes down while it runs: `notes.jsonl` and `state.json`.

Nothing is written before the folder is a run: one that is refused stays as it was.
"""

import math
import os
import platform
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clozeworks.engine.callbacks import Callback, CallbackList
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.settings import Logging
from clozeworks.errors import OutputError
from clozeworks.runs.folder import NOTES, RECIPE, STATE, records
from clozeworks.runs.session import held
from clozeworks.runs.state import RunState, read_state
from clozeworks.runs.trackers import trackers_of
from clozeworks.storage.atomic import append_lines
from clozeworks.storage.checksums import NOTES as CHECKSUMS
from clozeworks.storage.checksums import write_notes
from clozeworks.wording import as_json

# Seconds between two states that only differ in their step.
_SECONDS = 2.0


class RunRecorder(CallbackList):
    """Tells callbacks what happens in a run, and writes it down.

    Args:
        kind: The kind of run: pretrain, finetune or search.
        callback: Who shows the run; nobody if None.
        folder: The run; None on processes that write nothing.
        users: Callbacks of the user.
    """

    def __init__(
        self,
        kind: str,
        callback: Callback | None,
        folder: Path | None,
        users: Iterable[Callback] = (),
    ) -> None:
        super().__init__([] if callback is None else [callback], users)
        self._folder = folder
        self._state = RunState(kind, "running")
        self._started = False
        self._written = -math.inf
        self._step = 0
        self._waiting: list[str] = []

    def on_message(self, message: str) -> None:
        """Writes a sentence down, with the step of the last numbers, and passes it on."""
        super().on_message(message)
        line = {"at": _now(), "step": self._step, "note": message}
        self._waiting.append(as_json(line) + "\n")
        self._write_notes()

    def on_train_begin(self, steps: int) -> None:
        """Training begins, or continues: it has so many steps in all."""
        self._change(steps=steps)
        super().on_train_begin(steps)

    def on_log(self, step: int, record: Mapping[str, Any]) -> None:
        """Some steps are done."""
        self._step = step
        self._write_notes()
        speed = _number(record.get("tokens_per_second"))
        self._change(
            step=step, tokens_per_second=speed or self._state.tokens_per_second, at_once=False
        )
        super().on_log(step, record)

    def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
        """The model was measured on held-out text."""
        self._step = step
        self._write_notes()
        self._change(step=step, loss=_number(record["evaluation"].get("loss")))
        super().on_evaluate(step, record)

    def start(self, ranks: int, step: int = 0) -> None:
        """A session starts: from here on the folder is a run."""
        before = RunState("", "unknown")
        if self._folder is not None and (self._folder / STATE).exists():
            before = read_state(self._folder)
        self._started = True
        if self._folder is not None:
            (self._folder / CHECKSUMS).unlink(missing_ok=True)  # files change from here on
        self._change(
            started=before.started or _now(),
            step=step,
            loss=before.loss,
            metric=before.metric,
            value=before.value,
            command=tuple(sys.argv),
            where=str(Path.cwd()),
            ranks=ranks,
            pid=os.getpid(),
            host=platform.node(),
        )

    def enter(self, part: str, folder: Path) -> None:
        """A part of the run, such as `seed 2 of 3`, begins or continues in its folder."""
        self._change(part=part, folder=folder.name, step=0, steps=None, loss=None)

    def score(self, metric: str, value: float) -> None:
        """The best value so far."""
        self._change(metric=metric, value=_number(value))

    def end(self, *, finished: bool, step: int | None = None) -> None:
        """The session ends."""
        if step is not None:
            self._change(step=step, at_once=False)
        self._change(status="finished" if finished else "stopped", pid=None, host=None)
        if finished and self._folder is not None:
            with suppress(OSError, OutputError):
                write_notes(self._folder, {"format": 1}, records(self._folder))

    def fail(self, error: BaseException) -> None:
        """The session ends with an error, or is interrupted."""
        failed = isinstance(error, Exception)
        self._change(
            status="failed" if failed else "stopped",
            problem=(str(error) or type(error).__name__) if failed else None,
            pid=None,
            host=None,
        )

    def _change(self, *, at_once: bool = True, **changes: Any) -> None:
        self._state = replace(self._state, **changes)
        if self._folder is None or not self._started:
            return
        now = time.monotonic()
        if not at_once and now - self._written < _SECONDS:
            return
        self._written = now
        # A full disk is complained about where it matters.
        with suppress(OSError, OutputError):
            replace(self._state, updated=_now()).write(self._folder)

    def _write_notes(self) -> None:
        if self._folder is None:
            return
        with suppress(OSError, OutputError):
            if self._waiting and (self._folder / RECIPE).exists():
                append_lines(self._folder / NOTES, "".join(self._waiting))
                self._waiting.clear()


@contextmanager
def open_run(
    kind: str,
    folder: Path,
    logging: Logging,
    callback: Callback | None,
    callbacks: Iterable[Callback],
    device: str | None,
) -> Iterator[tuple[ProcessGroup, RunRecorder]]:
    """Locks the folder of a run, joins the processes that share it, and records what happens.

    Args:
        kind: The kind of run: pretrain, finetune or search.
        folder: The run.
        logging: What is logged.
        callback: The display; None if there is none.
        callbacks: Callbacks of the user.
        device: Where to compute; the best there is if None.

    Raises:
        OutputError: If the folder holds something else, or another program uses it.
        MissingExtra: If a library for the logs is not installed.
    """
    trackers = trackers_of(logging)
    with ProcessGroup(device) as ranks:
        if not ranks.leads:
            yield ranks, RunRecorder(kind, None, None)
            return
        with held(folder):
            recorder = RunRecorder(kind, callback, folder, [*trackers, *callbacks])
            try:
                yield ranks, recorder
            except BaseException as error:
                recorder.fail(error)
                raise


@contextmanager
def noted(what: str, callback: Callback) -> Iterator[None]:
    """Turns any error into a message: a report that fails is no reason to lose a run."""
    try:
        yield
    except Exception as error:
        callback.on_message(f"{what} ({error}); the run itself is not affected.")


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _number(value: Any) -> float | None:
    """A number that JSON can hold."""
    return float(value) if type(value) in (int, float) and math.isfinite(value) else None
