"""`clozeworks data`: a look at labelled data before training on it, and parts to train on."""

import os
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.inputs import LabelledOptions, check_minimum, option_name, task_parameter
from clozeworks.cli.items import item_type
from clozeworks.display.data_page import MOST_LABELS, finding_lines, page
from clozeworks.display.table import aligned
from clozeworks.errors import InputError, OutputError
from clozeworks.tasks.task import command_name, task_classes
from clozeworks.wording import as_json, counted

if TYPE_CHECKING:
    from clozeworks.data.labelled.columns import Column
    from clozeworks.data.labelled.items import Item
    from clozeworks.data.labelled.reading import Labelled

PARTS = ("train", "dev", "test")
app = App(
    name="clozeworks data",
    help="Look at labelled data before training on it, or split it.",
    help_format="plaintext",
    version_flags=[],
)


@app.command
def check(
    *files: Annotated[Path, Parameter(required=True)],
    task: Annotated[str, task_parameter("What the labels are for", "fill")],
    dev: Annotated[list[Path] | None, Parameter(negative="")] = None,
    tokenizer: str | None = None,
    window: int | None = None,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
    options: LabelledOptions | None = None,
) -> None:
    """Print what labelled files hold: labels, lengths, bad rows, and what looks odd.

    Args:
        files: Files to train on: .csv, .tsv, .jsonl, .json, .parquet, CoNLL columns, compressed or
            not.
        task: What the labels are for.
        dev: Files to evaluate on.
        tokenizer: A tokenizer or model folder; counts tokens.
        window: The most tokens the model takes; as the tokenizer says if not given.
        json_text: Print the report as JSON.
        options: How labelled files are read.
    """
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.reading import read_items
    from clozeworks.data.labelled.report import report_on
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    item = item_type(task)
    options = options or LabelledOptions()
    reading = options.reading(item)
    counter = None if tokenizer is None else Tokenizer.load(tokenizer)
    train = read_items(files, item, reading, bad=BadRows(skip=True))
    judged = None
    if dev:
        judged = read_items(dev, item, train.reading, bad=BadRows(skip=True))
    report = report_on(train, judged, tokenizer=counter, window=window)
    if json_text:
        print(as_json(asdict(report), indent=1))
    else:
        print(page(report))
    if report.obstacle:
        raise InputError(report.obstacle)
    if not json_text:
        print(f"\n{_next(item, files, dev or (), options)}")


def _next(
    item: "type[Item]", files: Sequence[Path], dev: Sequence[Path], options: LabelledOptions
) -> str:
    """What to type next, with the options that were used here."""
    values = {
        **options.given(),
        "header": None if options.header is None else str(options.header).lower(),
        "labels": options.labels,
        "label_separator": options.label_separator,
    }
    settings = {name: str(value) for name, value in values.items() if value is not None}
    if item.command in map(command_name, task_classes()):
        return _training(item.command, files, dev, options.columns, settings)
    # Gaps are scored, nothing is trained on them.
    words = ["MODEL", str(files[0]), "--task", item.command]
    words += ["--columns", options.columns] if options.columns else []
    header = settings.pop("header", None)
    words += [part for name, value in settings.items() for part in (option_name(name), value)]
    words += {"true": ["--header"], "false": ["--no-header"], None: []}[header]
    return f"Measure a model on it: clozeworks evaluate {shlex.join(words)}"


def _training(
    task: str,
    files: Sequence[Path],
    dev: Sequence[Path],
    columns: str | None,
    settings: Mapping[str, str],
) -> str:
    """How to train on files that are read in this way."""
    words = [task, "MODEL", *map(str, files)]
    words += [part for file in dev for part in ("--dev", str(file))]
    words += ["--columns", columns] if columns else []
    words += [f"data.{name}={value}" for name, value in settings.items()]
    return f"Train on it: clozeworks finetune {shlex.join(words)}"


@app.command
def split(
    *files: Annotated[Path, Parameter(required=True)],
    task: Annotated[str, task_parameter("What the labels are for")],
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
        task: What the labels are for.
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
        print(f"The {item.unit}s about one {division.together} are in one part.")
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
    dev_files = [targets["dev"]] if "dev" in division.parts else []
    columns = None if rows.header else _stated_columns(data)
    # The parts are written in UTF-8 and named for their format; cells are as they were.
    kept = ("separator", "quoting", "max_row_length")
    settings = {name: str(value) for name, value in options.given().items() if name in kept}
    if data.kind in ("several", "numbers") or (options.labels is not None and data.kind == "one"):
        settings["labels"] = data.kind
    if data.reading.label_separator is not None:
        settings["label_separator"] = data.reading.label_separator
    print(_training(data.task, [targets["train"]], dev_files, columns, settings))


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
    from clozeworks.data.labelled.labels import ordered
    from clozeworks.data.labelled.splitting import counts_of
    from clozeworks.wording import visible

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


def _stated_columns(data: "Labelled") -> str | None:
    """The columns for `--columns`, where in a part it may not be seen what a column holds."""
    if all(column.how not in ("named", "content") for column in data.columns):
        return None
    names = {column.role: _column_name(column) for column in data.columns}
    columns = names | dict(data.reading.columns)
    return ",".join(f"{role}={column}" for role, column in columns.items())


def _column_name(column: "Column") -> str:
    """A column for `--columns`: its name, or its number where the name could not be read there."""
    name = column.name
    plain = name and name == name.strip() and not name.isdecimal() and not {",", "="} & {*name}
    return name if plain else str(column.number)
