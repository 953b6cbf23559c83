"""Looks at runs for everybody who watches: one thread, whatever the number of browsers.

It looks at sizes and times of files, and reads what was added. Who watches gets events: how each
run is, what its metrics file gained, which runs appeared and vanished.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Condition, Thread
from typing import Any

from clozeworks.engine.metrics import FILE as METRICS
from clozeworks.serve.work import Overloaded
from clozeworks.serve.workspace.curves import MetricsReader

_SECONDS = 1.0
# A line more than this at a time, and who watches is told to read the file again.
MOST_LINES = 500
_MOST_BYTES = 4 << 20
# Watchers at a time, and events that one may leave unread.
_MOST_WATCHERS, _MOST_UNREAD = 64, 1_000
# Without news for so many seconds something is sent, so that a client that left is noticed.
_QUIET = 10.0

Event = Mapping[str, Any]


class RunWatcher:
    """Watches runs as long as somebody listens.

    Args:
        runs: The runs that there are now, by name, with the files that they measure in.
        record: What there is to say about one.
        seconds: How often is looked.
    """

    def __init__(
        self,
        runs: Callable[[], Mapping[str, Path]],
        record: Callable[[str, Path], Mapping[str, Any]],
        seconds: float = _SECONDS,
    ) -> None:
        self._runs, self._record, self._seconds = runs, record, seconds
        self._listeners: list[Queue[Event]] = []
        self._changed = Condition()
        self._records: dict[str, Mapping[str, Any]] = {}
        self._readers: dict[Path, MetricsReader] = {}
        self._is_closed = False
        self._thread: Thread | None = None
        self.looks = 0
        """How often was looked at everything."""

    def events(self, wanted: Callable[[], bool]) -> Iterator[Event]:
        """What happens, first how all runs are now.

        Args:
            wanted: Whether somebody still listens.

        Raises:
            Overloaded: If too many listen.
        """
        with self._listening() as news:
            yield {"kind": "runs", "runs": self._all_records()}
            spoken = time.monotonic()
            while wanted() and not self._is_closed:
                try:
                    event = news.get(timeout=min(self._seconds, 0.25))
                except Empty:
                    if time.monotonic() - spoken < _QUIET:
                        continue
                    event = {"kind": "still"}
                yield event
                spoken = time.monotonic()
                if event["kind"] == "lost":
                    return

    def close(self) -> None:
        """Ends, and everything that listens."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join(timeout=5)

    @contextmanager
    def _listening(self) -> Iterator[Queue[Event]]:
        news: Queue[Event] = Queue(_MOST_UNREAD)
        with self._changed:
            if len(self._listeners) >= _MOST_WATCHERS:
                raise Overloaded(f"{len(self._listeners)} pages watch the runs; close one of them.")
            self._listeners.append(news)
            if self._thread is None or not self._thread.is_alive():
                self._readers, self._records = {}, {}
                self._look()  # from here on: what was there before is read by whoever wants it
                self._thread = Thread(target=self._watch, name="runs", daemon=True)
                self._thread.start()
        try:
            yield news
        finally:
            with self._changed:
                self._listeners.remove(news)
                self._changed.notify_all()

    def _all_records(self) -> list[Mapping[str, Any]]:
        with self._changed:
            return list(self._records.values())

    def _watch(self) -> None:
        while True:
            with self._changed:
                self._changed.wait(self._seconds)
                if self._is_closed or not self._listeners:
                    self._thread = None
                    return
                self._look()

    def _look(self) -> None:
        self.looks += 1
        runs = self._runs()
        for name in [each for each in self._records if each not in runs]:
            del self._records[name]
            self._tell({"kind": "gone", "run": name})
        for name, folder in runs.items():
            record = self._record(name, folder)
            if record != self._records.get(name):
                self._records[name] = record
                self._tell({"kind": "run", "run": record})
            for part in record["parts"]:
                self._read(name, part, folder / part / METRICS)
        known = {
            folder / part / METRICS
            for name, folder in runs.items()
            for part in self._records[name]["parts"]
        }
        for path in self._readers.keys() - known:
            del self._readers[path]

    def _read(self, name: str, part: str, path: Path) -> None:
        reader = self._readers.get(path)
        with suppress(OSError, ValueError):
            about = path.lstat()
            identity = f"{about.st_dev:x}-{about.st_ino:x}"
            if reader is None:
                reader = self._readers[path] = MetricsReader(path)
                reader.skip(identity, about.st_size)
            if (reader.identity, reader.size) == (identity, about.st_size):
                return
            begin, left_out = reader.offset, reader.left_out
            is_another, lines = reader.read(_MOST_BYTES)
            about_file = {"run": name, "part": part, "identity": reader.identity}
            if is_another or reader.left_out != left_out or len(lines) > MOST_LINES:
                self._tell({"kind": "anew", **about_file})
            elif lines:
                self._tell({
                    "kind": "lines", **about_file, "begin": begin, "end": reader.offset,
                    "lines": [line.to_dict() for line in lines],
                })  # fmt: skip

    def _tell(self, event: Event) -> None:
        for news in self._listeners:
            try:
                news.put_nowait(event)
            except Full:  # it is told to begin anew, once it reads again
                with suppress(Empty):
                    while True:
                        news.get_nowait()
                news.put_nowait({"kind": "lost"})
