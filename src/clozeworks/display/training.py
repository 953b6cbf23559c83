"""Shows how far a training run is: a live line in a terminal, plain lines elsewhere, on stderr.

In a notebook the live line is in the output of the cell.
"""

import time
from collections.abc import Mapping
from contextlib import suppress
from shutil import get_terminal_size
from typing import Any, Self, TextIO

from clozeworks.display.notebook import in_notebook, progress_stream
from clozeworks.display.progress import duration
from clozeworks.engine.callbacks import Callback
from clozeworks.runtime.terminal import drawing_output

# Seconds between two plain lines.
EVERY = 10.0


class TrainingProgress(Callback):
    """Prints the progress of a run.

    Args:
        every: Seconds between two plain lines.
    """

    def __init__(self, *, every: float = EVERY) -> None:
        self.steps = 0
        self._every = every
        self._shown = 0.0
        self._stream = progress_stream()
        self._notebook = in_notebook()
        self._live = self._notebook or self._stream.isatty()
        self._length = 0  # of the live line
        self._began: tuple[int, float] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._clear()

    def on_message(self, message: str) -> None:
        """Prints a sentence."""
        self._clear()
        self._print(message + "\n")

    def on_train_begin(self, steps: int) -> None:
        """Notes how many steps there are."""
        self.steps, self._began, self._shown = steps, None, 0.0

    def on_log(self, step: int, record: Mapping[str, Any]) -> None:
        """Shows the newest numbers."""
        now = time.monotonic()
        self._began = self._began or (step, now)
        if self._live:
            self._clear()
            line = self._line(step, record, now)[: get_terminal_size().columns - 1]
            self._print(line)
            self._length = len(line)
        elif now - self._shown >= self._every or step == self.steps:
            self._shown = now
            self._print(self._line(step, record, now) + "\n")

    def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
        """Prints what was measured on the validation split, or on the dev set of a task."""
        what, more = "validation", ""
        if judged := record.get("judged"):
            what = "dev set"
            name, best = judged["primary"], ", the best so far" if judged["best"] else ""
            more = f"{name} {judged['values'][name]:.4f}{best}"
        values = "; ".join(filter(None, (parts_of(record["evaluation"]), more)))
        self.on_message(f"step {step:,}, {what}: {values}")

    def _line(self, step: int, record: Mapping[str, Any], now: float) -> str:
        assert self._began is not None
        first, then = self._began
        each = (now - then) / (step - first) if step > first else 0.0
        left = (
            f", {duration((self.steps - step) * each)} left" if each and step < self.steps else ""
        )
        # What a narrow terminal cuts off comes last.
        return (
            f"step {step:,} of {self.steps:,} ({step / self.steps:.0%}{left}): {parts_of(record)}, "
            f"{record['tokens_per_second']:,.0f} tokens/s, rate "
            f"{record['learning_rate']:.2e}"
        )

    def _clear(self) -> None:
        if self._notebook:  # which knows no codes of terminals
            self._print(f"\r{' ' * self._length}\r" if self._length else "")
        elif self._live:
            self._print("\r\x1b[K", drawing_output(self._stream))
        self._length = 0

    def _print(self, text: str, file: TextIO | None = None) -> None:
        # Whoever reads this may have left; a run must not end for it.
        with suppress(OSError, ValueError):
            print(text, end="", file=file or self._stream, flush=True)


def parts_of(record: Mapping[str, Any]) -> str:
    """Loss and accuracy of each part, in a few words."""

    def right(part: Mapping[str, Any]) -> str:
        return f" ({part['accuracy']:.1%} right)" if "accuracy" in part else ""

    return ", ".join(
        f"{name} {part['loss']:.3f}{right(part)}"
        for name, part in record.items()
        if isinstance(part, Mapping) and "loss" in part
    )
