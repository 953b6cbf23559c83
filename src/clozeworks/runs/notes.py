"""`notes.jsonl`: every sentence a run said to a person, kept for its report.

Nothing is written before the folder is a run: one that is refused stays empty.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clozeworks.engine.callbacks import Callback
from clozeworks.runs.folder import NOTES, RECIPE


class Notes(Callback):
    """Writes down what a run says.

    Args:
        folder: The run.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._step = 0
        self._waiting: list[str] = []

    def on_message(self, message: str) -> None:
        """Writes it down, with the step of the last numbers."""
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = json.dumps({"at": at, "step": self._step, "note": message}, ensure_ascii=False)
        self._waiting.append(line + "\n")
        self._write()

    def on_log(self, step: int, record: Mapping[str, Any]) -> None:
        """Takes note of the step."""
        self._step = step
        self._write()

    def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
        """Takes note of the step."""
        self._step = step
        self._write()

    def _write(self) -> None:
        # A full disk is complained about where it matters.
        with suppress(OSError):
            if self._waiting and (self._folder / RECIPE).exists():
                with (self._folder / NOTES).open("a", encoding="utf-8") as file:
                    file.writelines(self._waiting)
                self._waiting.clear()
