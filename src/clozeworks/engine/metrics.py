"""`metrics.jsonl`: what a run measured, one JSON object per line.

A line has the step it belongs to. A run that goes on from a snapshot drops the lines behind it, and
whatever a crash left of a last line, so that the file reads as if the run had never been stopped.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from clozeworks.errors import OutputError
from clozeworks.storage.atomic import atomic_file

FILE = "metrics.jsonl"


class Metrics:
    """The metrics file of a run, open for more.

    Args:
        path: The file.
        step: The step the run goes on from; lines behind it are dropped.
    """

    def __init__(self, path: Path, step: int = 0) -> None:
        kept = [record for record in read(path) if record["step"] <= step]
        with atomic_file(path, "w") as file:
            file.writelines(map(_line, kept))
        self.records = kept
        self._path = path
        self._file = path.open("ab", buffering=0)
        self._unwritten = b""

    def add(self, record: dict[str, Any]) -> None:
        """Adds a line.

        Raises:
            OutputError: It cannot be written now; the next one will bring it along.
        """
        self.records.append(record)
        self._unwritten += _line(record).encode()
        self._write()

    def close(self) -> None:
        """Closes the file.

        Raises:
            OutputError: Some lines cannot be written.
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


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a metrics file; those that are damaged are left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                yield record


def _line(record: dict[str, Any]) -> str:
    return json.dumps(record, ensure_ascii=False) + "\n"
