"""`metrics.jsonl`: what a run measured, one JSON object per line.

A line has the step it belongs to. A run that goes on from a snapshot drops the lines behind it, and
whatever a crash left of a last line, so that the file reads as if the run had never been stopped.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from clozeworks.data.atomic import atomic_file

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
        self._file: IO[str] = path.open("a", encoding="utf-8")

    def add(self, record: dict[str, Any]) -> None:
        """Adds a line."""
        self.records.append(record)
        self._file.write(_line(record))
        self._file.flush()

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


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
