"""`metrics.jsonl`: what a run measured, one JSON object per line.

A line is about the steps since the line before it, or about an evaluation. It says what the steps
cost, how fast they were, and, once a run has lasted a minute, what share of the machine's
matrix-product peak that is. A run that goes on from a snapshot drops the lines after it, and
whatever a crash left of a last line, so that the file reads as if the run had never been stopped.
"""

import json
import math
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from clozeworks.engine.callbacks import TrainerCallback, Update
from clozeworks.engine.gradients import StepLoss
from clozeworks.engine.settings import Logging, WhenUnwritable
from clozeworks.engine.snapshots import Snapshot
from clozeworks.engine.stages import MicroBatches
from clozeworks.engine.trainer import Trainer
from clozeworks.errors import OutputError
from clozeworks.runtime.matmul_peak import matmul_peak, operations
from clozeworks.storage.atomic import atomic_file
from clozeworks.wording import as_json

FILE = "metrics.jsonl"
# A speed below this fraction of the usual one is worth a message.
_SLOW = 0.5
# Seconds for which the message is not repeated.
_SILENT = 600
# Seconds of a run before its machine is measured, which takes one.
_WORTH_MEASURING = 60


class Metrics:
    """The metrics file of a run, open for more.

    Args:
        path: The file.
        step: The step the run goes on from; lines after it are dropped.

    Attributes:
        records: What its lines say.
        damaged: The numbers of lines that could not be read and are gone.
    """

    def __init__(self, path: Path, step: int = 0) -> None:
        self.damaged: list[int] = []
        records = [record for record in read(path, self.damaged) if record["step"] <= step]
        with atomic_file(path, "w") as file:
            file.writelines(map(_line, records))
        self.records = records
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._unwritten = b""

    def add(self, record: dict[str, Any]) -> None:
        """Adds a line.

        Raises:
            OutputError: If it cannot be written now; the next one will bring it along.
        """
        self.records.append(record)
        self._unwritten += _line(record).encode()
        self._write()

    def close(self) -> None:
        """Closes the file.

        Raises:
            OutputError: If some lines cannot be written.
        """
        with self._file:
            self._write()

    def _write(self) -> None:
        try:
            while self._unwritten:
                self._unwritten = self._unwritten[self._file.write(self._unwritten) :]
        except OSError as error:
            raise OutputError(
                f"{self._path} could not be written ({error.strerror or error})"
            ) from error


class StepWindow:
    """Sums over some steps; part of a snapshot, so that lines come out the same after a stop."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sums = {name: StepLoss(0.0, 0.0, 0.0, 1.0) for name in names}
        self._largest = 0.0
        self._learning_rate = 0.0
        self._skipped = self._spikes = 0
        self._tokens = 0
        self._began = time.monotonic()

    def restart_clock(self) -> None:
        """Starts the clock; tokens before this do not count for the speed."""
        self._tokens = 0
        self._began = time.monotonic()

    def add(self, update: Update) -> None:
        """Adds a step."""
        self._tokens += update.result.tokens
        self._learning_rate = update.learning_rate
        self._spikes += update.spike
        if update.skipped:
            self._skipped += 1
            return
        self._largest = max(self._largest, update.norm)
        for name, part in update.result.parts.items():
            self._sums[name] += part

    def record(self, step: int, tokens: int, seconds: float) -> dict[str, Any]:
        """The line of the metrics file."""
        parts = {name: part for name, part in self._sums.items() if part.count}
        record: dict[str, Any] = {
            "step": step,
            "loss": sum(part.weight * part.loss for part in parts.values()) if parts else None,
            **{name: part.record() for name, part in parts.items()},
            "learning_rate": self._learning_rate,
            "gradient": self._largest,
            "tokens": tokens,
            "seconds": round(seconds, 3),
            "tokens_per_second": self._tokens / max(time.monotonic() - self._began, 1e-9),
        }
        if self._skipped:
            record["skipped"] = self._skipped
        if self._spikes:
            record["spikes"] = self._spikes
        return record

    def state(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        return {
            "sums": {n: (part.total, part.correct, part.count) for n, part in self._sums.items()},
            "weights": {name: part.weight for name, part in self._sums.items()},
            "largest": self._largest,
            "skipped": self._skipped,
            "spikes": self._spikes,
        }

    @classmethod
    def from_state(cls, names: Sequence[str], state: Mapping[str, Any]) -> "StepWindow":
        """What a snapshot kept."""
        window = cls(names)
        for name in names:
            total, correct, count = state["sums"][name]
            window._sums[name] = StepLoss(total, correct, count, state["weights"][name])
        window._largest = state["largest"]
        window._skipped, window._spikes = state["skipped"], state["spikes"]
        return window


class MetricsLogger(TrainerCallback):
    """Writes a line of metrics every few steps, and one for each evaluation.

    Args:
        names: The parts of the objective.
        logging: When a line is written; settled.
        metrics: The metrics file; None on ranks that do not write.
        when_unwritable: What to do when a line cannot be written.
    """

    def __init__(
        self,
        names: Sequence[str],
        logging: Logging,
        metrics: Metrics | None,
        when_unwritable: WhenUnwritable,
    ) -> None:
        self.metrics = metrics
        self._names = names
        self._every_steps = logging.every_steps or 1
        self._when_unwritable = when_unwritable
        self._window = StepWindow(names)
        self._speeds: list[float] = []
        self._slow_since = -math.inf  # when the last message about slowness came
        self._peak_tokens = 0.0  # tokens a second at that speed; 0 while it is not known

    def resume(self, snapshot: Snapshot) -> None:
        """Goes on with the sums of the line that was begun."""
        self._window = StepWindow.from_state(self._names, snapshot.state["window"])

    def state(self) -> dict[str, Any]:
        """The sums of the line that was begun."""
        return {"window": self._window.state()}

    def on_train_begin(self, trainer: Trainer) -> None:
        """Starts the clock."""
        self._window.restart_clock()

    def on_step_begin(self, trainer: Trainer, micro_batches: MicroBatches) -> None:
        """Measures the machine, and what a token needs of it: once a session of a longer run."""
        if self._peak_tokens or trainer.seconds < _WORTH_MEASURING:
            return
        if not trainer.ranks.leads or trainer.training.compile:
            return
        gradients, micro_batch = trainer.gradients, micro_batches[0]
        (needed,) = trainer.workers.run(
            lambda worker, micro_batch: operations(
                lambda: gradients.of_micro_batch(0, 0, micro_batch)
            ),
            [micro_batch],
        )
        speed = trainer.ranks.count * matmul_peak(trainer.ranks.device)
        self._peak_tokens = speed * len(micro_batch.ids) / max(needed, 1.0)
        self._window.restart_clock()

    def on_update(self, trainer: Trainer, update: Update) -> None:
        """Adds the step to the line."""
        self._window.add(update)

    def on_step(self, trainer: Trainer) -> None:
        """Writes a line when it is time."""
        step = trainer.step
        if step % self._every_steps and step != trainer.stages.steps:
            return
        record = self._window.record(step, trainer.tokens, trainer.seconds)
        record["epoch"] = round(trainer.stages.epoch_of(step), 4)
        if self._peak_tokens:
            record["share_of_peak"] = round(record["tokens_per_second"] / self._peak_tokens, 4)
        self._note_slowness(trainer, record["tokens_per_second"])
        self._write(trainer, record)
        trainer.callback.on_log(step, record)
        self._window = StepWindow(self._names)

    def on_evaluate(self, trainer: Trainer, record: dict[str, Any]) -> None:
        """Writes a line; the time of an evaluation does not count for the speed."""
        self._write(trainer, record)
        self._window.restart_clock()

    def _write(self, trainer: Trainer, record: dict[str, Any]) -> None:
        try:
            if self.metrics is not None:
                self.metrics.add(record)
        except OutputError as error:
            if self._when_unwritable == "stop":
                raise OutputError(f"{error}; make room, then run the same again.") from error
            trainer.callback.on_message(
                f"{error}; the lines are kept for later, and the run goes on."
            )

    def _note_slowness(self, trainer: Trainer, speed: float) -> None:
        usual = sorted(self._speeds)[len(self._speeds) // 2] if len(self._speeds) >= 5 else 0.0
        now = time.monotonic()
        if speed < _SLOW * usual and now - self._slow_since >= _SILENT:
            self._slow_since = now
            trainer.callback.on_message(
                f"Step {trainer.step:,}: {speed:,.0f} tokens a second, usually {usual:,.0f}: "
                "something else may be using this machine."
            )
        self._speeds = [*self._speeds[-19:], speed]


def read(path: Path, damaged: list[int] | None = None) -> Iterator[dict[str, Any]]:
    """The lines of a metrics file; those that are damaged are left out.

    Args:
        path: The file.
        damaged: Is filled with the numbers of damaged lines.
    """
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                record = None
            if _is_record(record):
                yield record
            elif damaged is not None:
                damaged.append(number)


def _is_record(value: Any) -> bool:
    """Whether a value has a step, and losses where whoever draws curves expects them."""
    if not isinstance(value, dict) or type(value.get("step")) is not int:
        return False
    measured = value.get("evaluation", {})
    if not isinstance(measured, dict):
        return False
    tables = value, measured
    parts = [part for table in tables for part in table.values() if isinstance(part, dict)]
    names = ("loss", "accuracy", "perplexity", "seconds", "tokens_per_second")
    numbers = [part[name] for part in (*tables, *parts) for name in names if name in part]
    return all(number is None or type(number) in (int, float) for number in numbers)


def _line(record: dict[str, Any]) -> str:
    return as_json(record) + "\n"
