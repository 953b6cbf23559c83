"""`clozeworks data split`: labelled files split into train, dev and test."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

from cyclopts import Parameter

from clozeworks.cli.display.data_page import MOST_LABELS, finding_lines
from clozeworks.cli.display.table import aligned
from clozeworks.cli.inputs import LabelledOptions, check_minimum
from clozeworks.errors import InputError, OutputError
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.data.labelled.columns import Column
    from clozeworks.data.labelled.items import Item
    from clozeworks.data.labelled.reading import Labelled

PARTS = ("train", "dev", "test")


def split(
    *files: Path,
    task: str,
    out: Annotated[Path, Parameter(alias="-o")],
    dev: float = 0.1,
    test: float = 0.1,
    seed: int = 0,
    skip_bad_rows: Annotated[bool, Parameter(negative="")] = False,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    options: LabelledOptions | None = None,
) -> None:
    """Split labelled files: a part to learn from, one to choose by, one to measure on once.

    Each label keeps its proportion. A text that occurs several times is in one part only, and so
    are the questions about one article, or about one context where articles are few or not named.
    Rows are written unchanged, in UTF-8 and uncompressed; the same files and seed give the same
    parts.

    Args:
        files: Files to split: .csv, .tsv, .jsonl, .json, .parquet, CoNLL columns, compressed or
            not.
        task: What they are for.
        out: The folder for train, dev and test; created if it does not exist.
        dev: The fraction for choosing settings; 0 for none.
        test: The fraction for the final measurement; 0 for none.
        seed: Another seed gives other parts.
        skip_bad_rows: Leave out and count rows that cannot be used.
        overwrite: Replace parts that exist in the folder.
        options: How labelled files are read.
    """
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.labels import check_labels
    from clozeworks.data.labelled.oddities import repeated
    from clozeworks.data.labelled.reading import read_items
    from clozeworks.data.labelled.splitting import SplitFractions, parted
    from clozeworks.data.labelled.written_rows import written_rows
    from clozeworks.tasks.task import task_class

    if not files:
        raise InputError("no file was named; give at least one.")
    check_minimum(0, seed=seed)
    item = task_class(task).item_type
    fractions = SplitFractions(dev, test)
    options = options or LabelledOptions()
    reading = options.reading(item)
    data = read_items(files, item, reading, bad=BadRows(skip=skip_bad_rows))
    warnings = check_labels(data).warnings
    rows = written_rows(data, files)
    targets = {name: out / f"{name}{rows.suffix}" for name in PARTS}
    _check(out, targets, files, overwrite)
    division = parted(data.items, fractions, seed, rows.titles)
    contents = {
        targets[name]: rows.some({item.source_location for item in items})
        for name, items in division.parts.items()
    }
    _write(out, contents, overwrite)
    for name in PARTS:
        if (
            name not in division.parts
        ):  # else what was there before would be taken for a part of this
            targets[name].unlink(missing_ok=True)

    print(data.description)
    print("\n".join(["", *_table(division.parts, item.unit), ""]))
    if division.together != "text":
        print(f"The questions about one {division.together} are in one part.")
    findings = [finding for finding in repeated(data.items) if finding.count]
    for finding in findings if division.together == "text" else ():
        print("\n".join(finding_lines(finding)))
    if findings and division.together == "text":
        print("Equal texts are in one part.")
    if data.bad.rows:
        print(f"Left out: {counted(len(data.bad.rows), 'bad row')}, the first: {data.bad.rows[0]}.")
    if rows.header:
        print(f"There was no header; the parts have one: {', '.join(rows.header)}.")
    for warning in warnings:
        print(warning)
    print(f"Train on it: {_next(data, targets, division.parts, bool(rows.header), options.labels)}")


def _check(out: Path, targets: Mapping[str, Path], files: Sequence[Path], overwrite: bool) -> None:
    """Complains about what cannot or should not be written."""
    for path in targets.values():
        if path.is_dir():
            raise OutputError(f"{path} is a folder; choose another one with --out.")
        same = next((file for file in files if path.exists() and path.samefile(file)), None)
        if same is not None:
            raise OutputError(
                f"{same} would be replaced by a part of itself; choose another folder with --out."
            )
        if path.exists() and not overwrite:
            raise OutputError(
                f"{path} exists; choose another folder, or replace the parts with --overwrite."
            )
    blocking = next((index for index in (out, *out.parents) if index.exists()), out)
    if blocking.exists() and not blocking.is_dir():
        raise OutputError(f"{out} cannot be created: {blocking} is a file; choose another folder.")


def _write(out: Path, contents: Mapping[Path, bytes], overwrite: bool) -> None:
    """Writes all parts; they are put in place once every one is complete.

    Raises:
        OutputError: If a part could not be put in place, while the others are; or if one could
            not be written, and none is there.
    """
    created = not out.exists()
    refused: list[str] = []
    try:
        out.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            for path, content in contents.items():
                file = stack.enter_context(_part(path, overwrite, refused))
                file.write(content)
                file.flush()
                os.fsync(file.fileno())  # a full disk is noticed before the first takes its place
        if refused:
            raise OutputError(" ".join(sorted(refused)))
    except BaseException as error:
        if created:
            with suppress(OSError):
                out.rmdir()
        if isinstance(error, OSError) and not isinstance(error, OutputError):
            raise OutputError(
                f"{out} cannot be created: {error.strerror or error}; choose another folder."
            ) from error
        raise


@contextmanager
def _part(path: Path, overwrite: bool, refused: list[str]) -> Iterator[IO[bytes]]:
    """Opens a part; a failure to put it in place is noted, so that the others are put there."""
    from clozeworks.storage.atomic import atomic_file

    complete = False
    try:
        with atomic_file(path, overwrite=overwrite) as file:
            yield file
            complete = True
    except OutputError as error:
        if not complete:
            raise
        refused.append(str(error))


def _table(parts: "Mapping[str, Sequence[Item]]", unit: str) -> list[str]:
    """How many rows of each part have each label."""
    from clozeworks.cli.display.corpus_page import visible
    from clozeworks.data.labelled.labels import ordered
    from clozeworks.data.labelled.splitting import counts_of

    counts = [counts_of(items) for items in parts.values()]
    labels = ordered(label for each in counts for label in each)
    lines = [["", *parts]]
    lines += [
        [visible(label), *(f"{each[label]:,}" for each in counts)] for label in labels[:MOST_LABELS]
    ]
    lines.append([f"all {unit}s", *(f"{len(items):,}" for items in parts.values())])
    table = aligned(lines)
    rest = len(labels) - MOST_LABELS
    return [*table[:-1], *([f"and {rest:,} more"] if rest > 0 else []), table[-1]]


def _next(
    data: "Labelled",
    targets: Mapping[str, Path],
    parts: "Mapping[str, Sequence[Item]]",
    with_new_header: bool,
    labels: str | None,
) -> str:
    """What to type next, with the columns and labels of these files."""
    words = [data.task, "MODEL", str(targets["train"])]
    words += ["--dev", str(targets["dev"])] if "dev" in parts else []
    if not with_new_header and any(column.how in ("named", "content") for column in data.columns):
        # In a part it may not be seen what a column holds.
        columns = {column.role: _column_name(column) for column in data.columns} | dict(
            data.reading.columns
        )
        words += ["--columns", ",".join(f"{role}={column}" for role, column in columns.items())]
    if data.kind in ("several", "numbers") or (labels is not None and data.kind == "one"):
        words.append(f"data.labels={data.kind}")
    if data.reading.separator is not None:
        words.append(f"data.separator={data.reading.separator}")
    return f"clozeworks finetune {shlex.join(words)}"


def _column_name(column: "Column") -> str:
    """A column for `--columns`: its name, or its number where the name could not be read there."""
    name = column.name
    plain = name and name == name.strip() and not name.isdecimal() and not {",", "="} & {*name}
    return name if plain else str(column.number)
