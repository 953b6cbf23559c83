"""What a run measured, as curves: the metrics file is read once, and then only what was added.

A run may have any number of lines; a chart has a thousand columns. Of each column the first, the
lowest, the highest and the last value stay, so that a spike of one step is seen at any scale.
"""

import json
import math
import os
from array import array
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, BinaryIO

import numpy as np
import orjson

from clozeworks.arrays import Float64Array, Int64Array
from clozeworks.storage.regular_files import open_regular

# Of a larger file the end is read; longer lines are nobody's metrics.
MOST_BYTES = 256 << 20
_LONGEST_LINE = 1 << 20
_BLOCK = 1 << 20
_MOST_SERIES, _LONGEST_NAME, _DEEPEST = 100, 80, 3
_MARKS = {"spikes": "spike", "skipped": "skipped"}
# Values that all curves together may hold in memory.
_MOST_VALUES = 20_000_000


@dataclass(frozen=True)
class MetricLine:
    """A line of a metrics file."""

    step: int
    values: Mapping[str, float]
    """Numbers by their dotted names, such as `evaluation.masked_lm.loss`."""
    marks: Mapping[str, int]
    """How many spikes and skipped steps it tells of."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {"step": self.step, "values": dict(self.values), "marks": dict(self.marks)}


@dataclass
class Series:
    """One number over the steps."""

    steps: "array[int]" = field(default_factory=lambda: array("q"))
    values: "array[float]" = field(default_factory=lambda: array("d"))


class MetricsReader:
    """Reads a metrics file that grows, each line once.

    Args:
        path: The file.

    Attributes:
        identity: Which file it was; another one has another identity, even if it has its name.
        offset: Up to where it was read: the end of a line.
        size: How many bytes it had then.
        read_bytes: How many bytes were read in all.
        damaged: How many lines hold nothing that can be used.
        left_out: How many bytes at the beginning were not read, as the file is too large.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.read_bytes = 0
        self.identity = ""
        self._begin_anew()

    def skip(self, identity: str, size: int) -> None:
        """Leaves out what a file holds now; a line that is being written is left out, too."""
        self.identity = identity
        self.offset = self.size = size

    def _begin_anew(self) -> None:
        self.offset = self.size = self.damaged = self.left_out = 0
        self._is_inside = False  # of a line that is too long, or whose beginning was left out

    def read(self, most: int = MOST_BYTES) -> tuple[bool, list[MetricLine]]:
        """Reads what was added since the last time.

        Returns:
            Whether the file was replaced, so that what was read before is of no use; and the lines.

        Raises:
            OSError: If it cannot be read.
            ValueError: If it is not a file.
        """
        with open_regular(self._path, follow=False) as file:
            about = os.fstat(file.fileno())
            identity = f"{about.st_dev:x}-{about.st_ino:x}"
            is_another = identity != self.identity or about.st_size < self.offset
            if is_another:
                self.identity = identity
                self._begin_anew()
            if about.st_size - self.offset > most:
                self.left_out += about.st_size - most - self.offset
                self.offset, self._is_inside = about.st_size - most, True
            self.size = about.st_size
            lines = []
            for raw in self._lines(file, about.st_size):
                line = parsed_line(raw)
                if line is not None:
                    lines.append(line)
                elif raw.strip():
                    self.damaged += 1
        return is_another, lines

    def _lines(self, file: BinaryIO, end: int) -> Iterator[bytes]:
        """The lines that are complete; what follows the last of them is left for the next time."""
        file.seek(self.offset)
        rest = b""
        while (begin := self.offset + len(rest)) < end:
            block = file.read(min(_BLOCK, end - begin))
            if not block:
                return
            self.read_bytes += len(block)
            *whole, last = (rest + block).split(b"\n")
            self.offset += len(rest) + len(block) - len(last)
            for line in whole:
                if self._is_inside:
                    self._is_inside = False
                else:
                    yield line
            rest = last
            if len(rest) > _LONGEST_LINE:
                self.damaged += not self._is_inside
                self.offset, self._is_inside, rest = self.offset + len(rest), True, b""


class Curve:
    """What the metrics file of a run says, read so far.

    Args:
        path: The file.

    Attributes:
        reader: Reads it.
        lock: Held by whoever uses the curve.
        lines: How many lines hold something.
        series: The numbers by name.
        marks: Step, kind and count of spikes and skipped steps, and the loss beside them.
    """

    def __init__(self, path: Path) -> None:
        self.reader = MetricsReader(path)
        self.lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self.lines = 0
        self.series: dict[str, Series] = {}
        self.marks: list[tuple[int, str, int, float | None]] = []

    @property
    def size(self) -> int:
        """How many values it holds."""
        return sum(len(each.values) for each in list(self.series.values()))

    def update(self) -> None:
        """Takes in what was added since the last time.

        Raises:
            OSError: If the file cannot be read.
            ValueError: If it is not a file.
        """
        is_another, lines = self.reader.read()
        if is_another:
            self._forget()
        for line in lines:
            self._add(line)

    def _add(self, line: MetricLine) -> None:
        self.lines += 1
        for name, value in line.values.items():
            one = self.series.get(name)
            if one is None:
                if len(self.series) >= _MOST_SERIES:
                    continue
                one = self.series[name] = Series()
            one.steps.append(line.step)
            one.values.append(value)
        for kind, count in line.marks.items():
            self.marks.append((line.step, kind, count, line.values.get("loss")))

    def thinned(
        self, name: str, columns: int, begin: int, end: int
    ) -> tuple[list[int], list[float]]:
        """The steps and values of a series between two steps, as many as a chart can show."""
        one = self.series.get(name)
        if one is None:
            return [], []
        steps: Int64Array = np.array(one.steps, dtype=np.int64)
        values: Float64Array = np.array(one.values, dtype=np.float64)
        inside = (steps >= begin) & (steps <= end)
        steps, values = steps[inside], values[inside]
        chosen = _telling(steps, values, columns, begin, end)
        return steps[chosen].tolist(), values[chosen].tolist()

    def thinned_marks(self, columns: int, begin: int, end: int) -> list[dict[str, Any]]:
        """Spikes and skipped steps between two steps; those of one column are counted together."""
        found: dict[tuple[int, str], dict[str, Any]] = {}
        width = max(end - begin, 1) / columns
        for step, kind, count, loss in self.marks:
            if begin <= step <= end:
                key = (int((step - begin) / width), kind)
                mark = found.setdefault(key, {"step": step, "kind": kind, "count": 0, "loss": loss})
                mark["count"] += count
        return list(found.values())

    def span(self) -> tuple[int, int]:
        """The first and the last step of which there is something."""
        ends = [(min(each.steps), max(each.steps)) for each in self.series.values()]
        return (min(low for low, _ in ends), max(high for _, high in ends)) if ends else (0, 0)


def _telling(
    steps: Int64Array, values: Float64Array, columns: int, begin: int, end: int
) -> Int64Array:
    """Of each column the positions of the first, lowest, highest and last value, in order."""
    if len(steps) <= 4 * columns:
        return np.arange(len(steps))
    column = ((steps - begin) * columns // max(end - begin + 1, 1)).astype(np.int64)
    by_column = np.argsort(column, kind="stable")
    by_value = np.lexsort((values, column))
    firsts = np.flatnonzero(np.diff(column[by_column], prepend=-1))
    lasts = np.append(firsts[1:], len(steps)) - 1
    chosen = (by_column[firsts], by_value[firsts], by_value[lasts], by_column[lasts])
    return np.unique(np.concatenate(chosen))


def parsed_line(raw: bytes) -> MetricLine | None:
    """What a line says; None if it is damaged."""
    if not raw.strip():
        return None
    try:
        record = orjson.loads(raw)
    except ValueError:
        try:
            record = json.loads(raw)  # which takes NaN, too
        except (ValueError, RecursionError):
            return None
    if not isinstance(record, dict) or type(record.get("step")) is not int:
        return None
    step = record["step"]
    if not 0 <= step < 1 << 53:
        return None
    marks = {kind: record[name] for name, kind in _MARKS.items() if type(record.get(name)) is int}
    values = dict(_numbers(record, "", _DEEPEST))
    return MetricLine(
        step, values, {kind: count for kind, count in marks.items() if 0 < count < 1 << 40}
    )


def _numbers(record: Mapping[str, Any], prefix: str, depth: int) -> Iterator[tuple[str, float]]:
    for name, value in record.items():
        path = f"{prefix}{name}"
        if path == "step" or len(path) > _LONGEST_NAME or not path.isprintable():
            continue
        if type(value) in (int, float):
            if abs(value) < 1e308 and math.isfinite(value):
                yield path, float(value)
        elif isinstance(value, dict) and depth > 1:
            yield from _numbers(value, f"{path}.", depth - 1)


class Curves:
    """The curves of all runs; those that were asked for longest ago are forgotten first."""

    def __init__(self, most: int = _MOST_VALUES) -> None:
        self._most = most
        self._held: dict[Path, Curve] = {}
        self._lock = Lock()

    def of(self, path: Path) -> Curve:
        """The curve of a metrics file."""
        with self._lock:
            curve = self._held.pop(path, None) or Curve(path)
            self._held[path] = curve
            while (
                len(self._held) > 1 and sum(each.size for each in self._held.values()) > self._most
            ):
                del self._held[next(iter(self._held))]
            return curve
