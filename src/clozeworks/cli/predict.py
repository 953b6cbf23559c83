"""Shared by the commands that predict: options, predictions in order, and a closing line."""

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import isclose
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, ClassVar

from cyclopts import Parameter

from clozeworks.cli.inputs import TableOptions, check_minimum, print_notes
from clozeworks.cli.outputs import (
    CHECKED,
    check_resume,
    check_same_model,
    open_output,
    other_input,
    partial_file,
    uninterrupted,
)
from clozeworks.errors import SET, InputError, SettingError
from clozeworks.wording import as_json, counted

if TYPE_CHECKING:
    from clozeworks.checkpoints.tasks import AnyTask
    from clozeworks.cli.items import InputItems
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.items import Item
    from clozeworks.display.progress import ProgressBar
    from clozeworks.language_model.model import LanguageModel
    from clozeworks.serve.client.remote_model import RemoteModel


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReadingOptions(TableOptions):
    """How items are read and predictions written.

    Attributes:
        skip_bad_rows: Drop rows that cannot be used, such as blank texts, and count them.
        json_lines: Print one JSON object per item, or text for people. If not given: text if the
            output is a terminal, JSON otherwise.
        out: Write JSON lines to this file (.jsonl); it appears when it is complete. What is done
            when you stop is kept in NAME.partial.jsonl.
        overwrite: Replace the output file if it exists.
    """

    answers: ClassVar[str] = "answers"  # what is written

    skip_bad_rows: Annotated[bool, Parameter(negative="")] = False
    json_lines: Annotated[bool | None, Parameter(name="--json")] = None
    out: Annotated[Path | None, Parameter(alias="-o")] = None
    overwrite: Annotated[bool, Parameter(negative="")] = False

    def check(self, top: int | None = None) -> None:
        """Finds out, before long work begins, whether its result can be written."""
        from clozeworks.data.files.vectors import check_output

        check_minimum(1, top=top)
        if self.out is None:
            return
        if self.json_lines is False:
            rule = "the file of --out is JSON"
            raise SettingError("--no-json", SET, rule, "leave one of the two out")
        check_output(self.out, overwrite=self.overwrite, suffixes=(".jsonl",), name=self.answers)

    def open(
        self, source: str, item: "type[Item]", chunk: int | None = None
    ) -> "tuple[InputItems, BadRows]":
        """The items, and the collection of bad rows."""
        from clozeworks.cli.items import ItemInput
        from clozeworks.data.labelled.bad_rows import BadRows

        bad = BadRows(skip=self.skip_bad_rows)
        return ItemInput(item, self, bad, chunk).open(source), bad


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options(ReadingOptions):
    """How items are read, put together and answered.

    Attributes:
        batch_tokens: Tokens per batch.
        resume: Go on where you stopped: answers of NAME.partial.jsonl are taken over.
    """

    batch_tokens: int | None = None
    resume: Annotated[bool, Parameter(negative="")] = False

    def check(self, top: int | None = None) -> None:
        """Checks the same, the batch size, and whether there is something to go on with."""
        check_minimum(1, batch_tokens=self.batch_tokens)
        super().check(top)
        if self.resume:
            check_resume(self.out)


def answer_all(
    loaded: "LanguageModel | RemoteModel",
    task: "AnyTask",
    inputs: "InputItems",
    bad: "BadRows",
    options: Options,
    *,
    top: int | None = None,
    change: Callable[[Any], Any] | None = None,
    asked: Mapping[str, Any] | None = None,
) -> None:
    """Predicts items chunk by chunk; each chunk is written before the next is read.

    Whoever stops it keeps the predictions that are written. Each is changed by `change` first; so
    many labels or candidates as `top` says are shown, and a JSON object holds. `asked` are options
    that a server is told.
    """
    from clozeworks.display.highlight import show, terminal
    from clozeworks.display.progress import ProgressBar
    from clozeworks.tasks.results.records import record_of

    print_notes([*filter(None, [inputs.found]), *bad.notes.found])
    readable = options.json_lines is False or (
        options.json_lines is None and options.out is None and sys.stdout.isatty()
    )
    what = task.item_type.asked_unit
    count = long = cut = read = 0
    begin = time.monotonic()

    def answered(items: "Sequence[Item]", progress: Any = None) -> list[Any]:
        how: dict[str, Any] = {"batch_tokens": options.batch_tokens, "progress": progress}
        answers = loaded.predict(items, task, **how, **(asked or {}))
        return answers if change is None else list(map(change, answers))

    def again(items: "Sequence[Item]") -> list[Any]:
        items = list(map(task.from_input, items))
        pairs = zip(items, answered(items), strict=True)
        return [record_of(item, answer, top) for item, answer in pairs]

    earlier = EarlierAnswers(options.out if options.resume else None, again, loaded)

    def done() -> str:
        total = ""
        if earlier.count + count < read or (inputs.fraction_read() or 1) < 1:
            total = estimated_total(read, inputs.fraction_read())
        return pace(count, what, time.monotonic() - begin, total, earlier.count) if count else ""

    with ExitStack() as stack:
        opened = open_output(
            options.out,
            "answers",
            done,
            overwrite=options.overwrite,
            errors=True,
            resumed=options.resume,
        )
        file = stack.enter_context(opened)
        tokens = None
        if not (file is sys.stdout and sys.stdout.isatty()):  # answers would run into a bar
            tokens = TokenProgress(stack.enter_context(ProgressBar("tokens")), inputs.fraction_read)
        console = terminal() if readable else None
        escaped = needs_escapes(file)
        for items in inputs.chunks:
            read += len(items)
            chunk = list(map(task.from_input, earlier.take(items, file)))
            if not chunk:
                continue
            answers = answered(chunk, tokens)
            if tokens is not None:
                tokens.next_chunk()
            for item, answer in zip(chunk, answers, strict=True):
                if console is None:
                    record = as_json(record_of(item, answer, top), ascii_only=escaped)
                with uninterrupted():  # a text that is written is counted
                    if console is not None:
                        show(console, task.shown(item, answer, top or 1))
                    else:
                        file.write(record + "\n")
                    count += 1
                    long += answer.windows > 1
                    cut += getattr(answer, "truncated", False)
            file.flush()
        if not read:
            raise nothing(inputs.origin, bad)
    if inputs.direct and options.out is None and not long and not cut:
        return
    print_notes(bad.notes.about_bytes())
    reading = how_read(task, long, cut)
    if earlier.count:
        reading = [f"{earlier.count:,} were answered before", *reading]
    seconds = time.monotonic() - begin
    print(closing(count, what, seconds, reading, bad, options.out), file=sys.stderr)


def needs_escapes(file: IO[str]) -> bool:
    """Whether JSON must be ASCII: other encodings would write what no JSON reader knows."""
    return (getattr(file, "encoding", None) or "").lower().replace("-", "") != "utf8"


class TokenProgress:
    """Progress in tokens over a source of unknown length: the total is estimated.

    Args:
        progress: Called with the tokens done and the estimated total.
        fraction: The fraction of the source that has been read; None if it is not known.
    """

    def __init__(self, progress: "ProgressBar", fraction: Callable[[], float | None]) -> None:
        self._progress = progress
        self._fraction = fraction
        self._before = self._total = 0

    def __call__(self, done: int, total: int) -> None:
        """Notes tokens of this chunk, and how many it has."""
        self._total = total
        fraction = self._fraction()
        estimate = round((self._before + total) / fraction) if fraction else 0
        self._progress(self._before + done, estimate)

    def next_chunk(self) -> None:
        """Counts the chunk as done."""
        self._before += self._total


class EarlierAnswers:
    """The answers that are there already, of work that was stopped.

    Args:
        out: The file that was to be written; None if nothing was done before.
        again: From items to the records of their answers, as the model gives them now.
        loaded: The model.

    Attributes:
        count: How many were taken over.
    """

    def __init__(
        self,
        out: Path | None,
        again: "Callable[[Sequence[Item]], list[Any]]",
        loaded: "LanguageModel | RemoteModel",
    ) -> None:
        self.count = 0
        self._out = out
        self._again, self._loaded = again, loaded
        self._lines = iter(()) if out is None else _lines_of(partial_file(out))

    def take(self, items: "Sequence[Item]", file: IO[str]) -> "Sequence[Item]":
        """Writes the answers that are there already; returns the items that have none.

        Raises:
            InputError: If an answer is about something else, or the first ones are another model's.
        """
        if self._out is None:
            return items
        lines = list(islice(self._lines, len(items)))
        for number, (line, item) in enumerate(zip(lines, items, strict=False), self.count + 1):
            if source_location_of(line) != item.source_location:
                raise other_input(self._out, number, item.source_location)
        if lines and not self.count:
            first = list(map(json.loads, lines[:CHECKED]))
            close = 1e-4 if is_exact(self._loaded) else 0.02
            found = json.loads(as_json(self._again(items[: len(first)])))
            same = [_alike(old, new, close) for old, new in zip(first, found, strict=True)]
            check_same_model(self._out, same, self._loaded.name)
        file.writelines(lines)
        self.count += len(lines)
        return items[len(lines) :]


def is_exact(loaded: "LanguageModel | RemoteModel") -> bool:
    """Whether a model computes in so many digits that it says the same again; not known afar."""
    dtype = getattr(loaded, "dtype", None)
    return dtype is not None and dtype.itemsize >= 4


def _alike(left: Any, right: Any, close: float) -> bool:
    """Whether two records say the same, apart from rounding."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            _alike(value, right[name], close) for name, value in left.items()
        )
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(partial(_alike, close=close), left, right))
    if isinstance(left, float) and isinstance(right, float):
        return isclose(left, right, rel_tol=close, abs_tol=close)
    return bool(left == right)


def _lines_of(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8") as file:
        yield from file


def source_location_of(line: str) -> str | None:
    """Which item an answer is about."""
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record.get("source_location") if isinstance(record, dict) else None


def estimated_total(read: int, fraction: float | None) -> str:
    """How many items there are, if so many of them are a fraction; empty if it is not known."""
    if not fraction:
        return ""
    return f"{read:,}" if fraction >= 1 else f"about {read / fraction:,.0f}"


def pace(count: int, what: str, seconds: float, total: str = "", before: int = 0) -> str:
    """How many, of how many, how fast; `before` are those that were there already."""
    rate = count / max(seconds, 1e-9)
    shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    amount = f"{before + count:,} of {total} {what}s" if total else counted(before + count, what)
    if before:
        amount += f", {count:,} of them now,"
    return f"{amount} in {seconds:.1f} s, {shown} a second"


def how_read(task: "AnyTask", long: int, cut: int) -> list[str]:
    """How many items were read through several windows or cut to one; nothing if none was."""
    parts = [f"{long:,} needed more than one window"] if long else []
    if cut:
        parts.append(
            f"{cut:,} did not fit into one window, and of each was read "
            f"{task.windows.kept_in_words()}, as the model was trained"
        )
    return parts


def closing(
    count: int,
    what: str,
    seconds: float,
    reading: Sequence[str],
    bad: "BadRows",
    out: Path | None,
) -> str:
    """The last line: how many, how fast, what was special."""
    parts = [pace(count, what, seconds), *reading]
    parts += dropped_rows(bad)
    if out is not None:
        parts.append(f"answers in {out}")
    return "; ".join(parts)


def dropped_rows(bad: "BadRows") -> list[str]:
    """How many bad rows were dropped, in words; nothing if none was."""
    rows = bad.rows
    return [f"{counted(len(rows), 'bad row')} dropped, the first: {rows[0]}"] if rows else []


def nothing(origin: str, bad: "BadRows") -> InputError:
    """The error for a source that has no usable row."""
    if bad.rows:
        were_bad = counted(len(bad.rows), "was bad", "were bad")
        return InputError(f"{origin}: no row is left, {were_bad}; the first: {bad.rows[0]}.")
    return InputError(
        f"{origin} has no rows; there must be at least one; check where it comes from."
    )
