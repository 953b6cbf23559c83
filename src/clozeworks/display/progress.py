"""Shows how far long work is: a bar in a terminal, plain lines elsewhere, on stderr.

In a notebook plain lines are in the output of the cell.
"""

import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

from clozeworks.display.notebook import in_notebook, progress_stream
from clozeworks.runtime.terminal import drawing_output, visible_outputs

if TYPE_CHECKING:
    from rich.progress import Progress as Bar
    from rich.progress import TaskID


class ProgressBar:
    """Reports amounts done with rate and time left; called with (done, total)."""

    def __init__(self, unit: str, stage: str = "", *, every: float = 5.0) -> None:
        self.unit = unit
        self.stage = stage
        self._every = every
        self._begin = self._shown = time.monotonic()
        self._bar: Bar | None = None
        self._task: TaskID | None = None
        self._outputs = ExitStack()

    def __enter__(self) -> "ProgressBar":
        if sys.stderr.isatty() and not in_notebook():
            self._bar = _bar(self.unit)
            self._bar.start()
            # What is printed meanwhile goes through the bar, and must not draw on it.
            self._outputs.enter_context(visible_outputs())
        return self

    def __exit__(self, *error: object) -> None:
        self._outputs.close()
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        """Notes progress; outside a terminal a line is printed every few seconds."""
        if self._bar is not None:
            if self._task is None:
                self._task = self._bar.add_task(self.stage, total=total or None)
            self._bar.update(self._task, completed=done, total=total or None)
            return
        now = time.monotonic()
        if now - self._shown >= self._every:
            self._shown = now
            print(self.line(done, total, now - self._begin), file=progress_stream(), flush=True)

    def staged(self, stage: str, done: int, total: int) -> None:
        """Notes progress of a named stage."""
        if stage != self.stage:
            self.stage = stage
            self._begin = time.monotonic()
            if self._bar is not None:
                self._task = self._bar.add_task(stage, total=total or None)
            else:
                print(f"{stage} …", file=progress_stream(), flush=True)
        self(done, total)

    def line(self, done: int, total: int, seconds: float) -> str:
        """One line: fraction, amount, rate, time left."""
        label = f"{self.stage}: " if self.stage else ""
        if total <= 0 or done <= 0:
            return f"{label}{seconds:.0f} s"
        rate = done / max(seconds, 1e-9)
        return (
            f"{label}{done / total:4.0%}  {done:,} of {total:,} {self.unit}, "
            f"{rate:,.0f} a second, {(total - done) / rate:,.0f} s left"
        )


def _bar(unit: str) -> "Bar":
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        ProgressColumn,
        Task,
        TextColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bar
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.0f} {unit} a second" if task.speed else "")

    return Bar(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        Rate(),
        TimeRemainingColumn(),
        console=Console(file=drawing_output(sys.stderr)),
        transient=True,
    )


def duration(seconds: float) -> str:
    """A length of time in the words of a clock: 45 s, 3 min, 2 h 05 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02} min"
