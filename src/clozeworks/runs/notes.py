"""`notes.jsonl`: every sentence a run said to a person, kept for its report.

Nothing is written before the folder is a run: one that is refused stays empty.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from clozeworks.engine.trainer import Callback
from clozeworks.runs.folder import NOTES, RECIPE


class Notes:
    """Passes on what a run says, and writes it down.

    Args:
        callback: Who is told.
        folder: The run.
    """

    def __init__(self, callback: Callback, folder: Path) -> None:
        self._watcher = callback
        self._folder = folder
        self._step = 0
        self._waiting: list[str] = []

    def note(self, sentence: str) -> None:
        """Writes it down, with the step of the last numbers, and passes it on."""
        self._watcher.note(sentence)
        at = datetime.now(UTC).isoformat(timespec="seconds")
        line = json.dumps({"at": at, "step": self._step, "note": sentence}, ensure_ascii=False)
        self._waiting.append(line + "\n")
        self._write()

    def began(self, steps: int) -> None:
        """Passes it on."""
        self._watcher.began(steps)

    def stepped(self, step: int, record: Mapping[str, Any]) -> None:
        """Passes it on."""
        self._step = step
        self._write()
        self._watcher.stepped(step, record)

    def evaluated(self, step: int, record: Mapping[str, Any]) -> None:
        """Passes it on."""
        self._step = step
        self._write()
        self._watcher.evaluated(step, record)

    def _write(self) -> None:
        # A full disk is complained about where it matters.
        with suppress(OSError):
            if self._waiting and (self._folder / RECIPE).exists():
                with (self._folder / NOTES).open("a", encoding="utf-8") as file:
                    file.writelines(self._waiting)
                self._waiting.clear()
