"""What the commands that ask a model share: options, answers in order, and a closing line."""

import json
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from cyclopts import Parameter

from clozeworks.cli.outputs import open_output
from clozeworks.errors import InputError, SettingError
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.checkpoints.tasks import AnyTask
    from clozeworks.cli.display.progress import ProgressBar
    from clozeworks.cli.items import InputItems
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.items import Item
    from clozeworks.language_model.model import LanguageModel


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class ReadingOptions:
    """How items are read and answers written.

    Attributes:
        columns: Which columns of a file are what, by name or number: text=review. Found if not
            given. Roles: text; first, second; words; question, context.
        header: Whether the first row of .csv and .tsv is a header; detected if not given.
        encoding: The encoding of files and standard input.
        skip_bad_rows: Drop rows that cannot be used, such as blank texts, and count them.
        json_lines: Print one JSON object per item, or text for people. If not given: text if the
            output is a terminal, JSON otherwise.
        out: Write JSON lines to this file (.jsonl); it appears when it is complete, or when you
            stop the work, with what is done.
        overwrite: Replace the output file if it exists.
    """

    answers: ClassVar[str] = "answers"  # what is written

    columns: str | None = None
    header: bool | None = None
    encoding: str = "utf-8"
    skip_bad_rows: Annotated[bool, Parameter(negative="")] = False
    json_lines: Annotated[bool | None, Parameter(name="--json")] = None
    out: Annotated[Path | None, Parameter(alias="-o")] = None
    overwrite: Annotated[bool, Parameter(negative="")] = False

    def check(self, top: int | None = None) -> None:
        """Finds out, before long work begins, whether its result can be written.

        Args:
            top: How many labels or candidates are shown.

        Raises:
            SettingError: An option has a value it may not have.
            OutputError: The output file cannot be written.
        """
        from clozeworks.data.files.vectors import check_output

        if top is not None and top < 1:
            raise SettingError(f"--top is {top}; it must be at least 1.")
        if self.out is None:
            return
        if self.json_lines is False:
            raise SettingError("--no-json has no effect on --out, which is JSON; leave one out.")
        check_output(self.out, overwrite=self.overwrite, suffixes=(".jsonl",), name=self.answers)

    def open(
        self, source: str, item: "type[Item]", chunk: int | None = None
    ) -> "tuple[InputItems, BadRows]":
        """What is asked about, and where its bad rows are noted."""
        from clozeworks.cli.items import CHUNK_ITEMS, ItemInput
        from clozeworks.data.labelled.bad_rows import BadRows

        bad = BadRows(skip=self.skip_bad_rows)
        reader = ItemInput(
            item, self.columns, self.header, self.encoding, bad, chunk or CHUNK_ITEMS
        )
        return reader.open(source), bad

    def check_two_texts(self) -> None:
        """Insists that no option speaks of a file where there is none.

        Raises:
            SettingError: One does.
        """
        for name, value in (("--columns", self.columns), ("--header", self.header)):
            if value is not None:
                raise SettingError(f"{name} is given, but no table is; leave {name} out.")
        if self.skip_bad_rows:
            raise SettingError("--skip-bad-rows is given, but no file is; leave it out.")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class Options(ReadingOptions):
    """How items are read, put together and answered.

    Attributes:
        batch_tokens: Tokens per batch.
    """

    batch_tokens: int | None = None

    def check(self, top: int | None = None) -> None:
        """Finds out the same, and whether batches can be made."""
        if self.batch_tokens is not None and self.batch_tokens < 1:
            raise SettingError(f"--batch-tokens is {self.batch_tokens}; it must be at least 1.")
        super().check(top)


def answer_all(
    loaded: "LanguageModel",
    task: "AnyTask",
    asked: "InputItems",
    bad: "BadRows",
    options: Options,
    *,
    top: int | None = None,
    change: Callable[[Any], Any] | None = None,
) -> None:
    """Asks a model about items chunk by chunk; each is written before the next is read.

    Who stops it keeps the answers that are written.

    Args:
        loaded: The model.
        task: What is asked.
        asked: What about.
        bad: Rows that could not be used.
        options: Where answers go.
        top: How many labels or candidates are shown, and a JSON object holds.
        change: Changes an answer before it is shown or written.
    """
    from clozeworks.cli.display.highlight import show, terminal
    from clozeworks.cli.display.progress import ProgressBar
    from clozeworks.tasks.results.records import record_of

    if asked.found:
        print(asked.found, file=sys.stderr)
    readable = options.json_lines is False or (
        options.json_lines is None and options.out is None and sys.stdout.isatty()
    )
    what = task.item_type.asked_unit
    count = long = 0
    begin = time.monotonic()

    def done() -> str:
        return pace(count, what, time.monotonic() - begin) if count else ""

    with ExitStack() as stack:
        opened = open_output(options.out, "answers", done, overwrite=options.overwrite)
        file = stack.enter_context(opened)
        tokens = None
        if not (file is sys.stdout and sys.stdout.isatty()):  # answers would run into a bar
            tokens = TokenProgress(stack.enter_context(ProgressBar("tokens")), asked.fraction_read)
        console = terminal() if readable else None
        # What an output cannot show would be written as no JSON reader knows it.
        escaped = (getattr(file, "encoding", None) or "").lower().replace("-", "") != "utf8"
        for items in asked.chunks:
            chunk = list(map(task.from_input, items))
            answers = loaded.predict(
                chunk, task, batch_tokens=options.batch_tokens, progress=tokens
            )
            if tokens is not None:
                tokens.next_chunk()
            if change is not None:
                answers = list(map(change, answers))
            for item, answer in zip(chunk, answers, strict=True):
                if console is not None:
                    show(console, task.shown(item, answer, top or 1))
                else:
                    record = record_of(item, answer, top)
                    file.write(json.dumps(record, ensure_ascii=escaped) + "\n")
                count += 1
                long += answer.windows > 1
            file.flush()
        if not count:
            raise nothing(asked.origin, bad)
    if asked.direct and options.out is None and not long:
        return
    print(closing(count, what, time.monotonic() - begin, long, bad, options.out), file=sys.stderr)


class TokenProgress:
    """Progress in tokens over a source whose end is not known: it is reckoned from its share.

    Args:
        progress: What is told.
        fraction: Which fraction of the source has been read; None if nobody knows.
    """

    def __init__(self, progress: "ProgressBar", fraction: Callable[[], float | None]) -> None:
        self._progress = progress
        self._fraction = fraction
        self._before = self._total = 0

    def __call__(self, done: int, total: int) -> None:
        """Notes tokens of this chunk, and how many it has."""
        self._total = total
        fraction = self._fraction()
        reckoned = round((self._before + total) / fraction) if fraction else 0
        self._progress(self._before + done, reckoned)

    def next_chunk(self) -> None:
        """Counts the chunk as done."""
        self._before += self._total


def pace(count: int, what: str, seconds: float) -> str:
    """How many, how fast."""
    rate = count / max(seconds, 1e-9)
    shown = f"{rate:,.0f}" if rate >= 10 else f"{rate:.2g}"
    return f"{counted(count, what)} in {seconds:.1f} s, {shown} a second"


def closing(
    count: int, what: str, seconds: float, long: int, bad: "BadRows", out: Path | None
) -> str:
    """The last line: how many, how fast, what was special."""
    parts = [pace(count, what, seconds)]
    if long:
        parts.append(f"{long:,} needed more than one window")
    if bad.rows:
        parts.append(f"{counted(len(bad.rows), 'bad row')} dropped, the first: {bad.rows[0]}")
    if out is not None:
        parts.append(f"answers in {out}")
    return "; ".join(parts)


def nothing(origin: str, bad: "BadRows") -> InputError:
    """That a source holds nothing to ask about, and why."""
    if bad.rows:
        were_bad = counted(len(bad.rows), "was bad", "were bad")
        return InputError(f"{origin}: no row is left, {were_bad}; the first: {bad.rows[0]}.")
    return InputError(
        f"{origin} holds nothing to ask about; there must be at least one row; check where it "
        "comes from."
    )
