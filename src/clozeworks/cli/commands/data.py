"""`clozeworks data`: a look at labelled data before training on it, and parts to train on."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from clozeworks.cli.commands.data_split import split
from clozeworks.cli.display.data_page import page
from clozeworks.cli.items import item_type
from clozeworks.errors import InputError

if TYPE_CHECKING:
    from clozeworks.data.labelled.items import Item

app = App(
    name="clozeworks data",
    help="Look at labelled data before training on it, or split it.",
    help_format="plaintext",
    version_flags=[],
)


@app.command
def check(
    *files: Path,
    task: str,
    dev: Annotated[list[Path] | None, Parameter(negative="")] = None,
    columns: str | None = None,
    header: bool | None = None,
    labels: Literal["one", "several", "numbers"] | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    tokenizer: str | None = None,
    window: int | None = None,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Print what labelled files hold: labels, lengths, bad rows, and what looks odd.

    Args:
        files: Files to train on: .csv, .tsv, .jsonl, .json, .parquet, CoNLL columns, compressed or
            not.
        task: What they are for.
        dev: Files to evaluate on.
        columns: The columns by role, by name or number: text=review,label=5. Detected if not given.
            Roles: text, label; first, second; words, tags; question, context, answers; source,
            target, input, prefix, task, messages.
        header: Whether the first row of .csv and .tsv is a header; detected if not given.
        labels: One label per row, several, or numbers; detected if not given.
        separator: The separator between several labels in one cell, such as |.
        encoding: The encoding of text files.
        tokenizer: A tokenizer or model folder; counts tokens.
        window: The most tokens the model takes; as the tokenizer says if not given.
        json_text: Print the report as JSON.
    """
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.columns import parse_columns
    from clozeworks.data.labelled.reading import Reading, read_items
    from clozeworks.data.labelled.report import report_on
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    if not files:
        raise InputError("no file was named; give at least one.")
    item = item_type(task)
    reading = Reading(
        {} if columns is None else parse_columns(columns, item), header, labels, separator, encoding
    )
    counter = None if tokenizer is None else Tokenizer.load(tokenizer)
    train = read_items(files, item, reading, bad=BadRows(skip=True))
    judged = None
    if dev:
        judged = read_items(dev, item, train.reading, bad=BadRows(skip=True))
    report = report_on(train, judged, tokenizer=counter, window=window)
    if json_text:
        print(json.dumps(asdict(report), ensure_ascii=False, indent=1))
    else:
        print(page(report))
    if report.obstacle:
        raise InputError(report.obstacle)
    if not json_text:
        given = {
            "encoding": None if encoding == "utf-8" else encoding,
            "header": None if header is None else str(header).lower(),
            "labels": labels,
            "separator": separator,
        }
        print(f"\n{_next(item, files, dev or (), columns, given)}")


def _next(
    item: "type[Item]",
    files: Sequence[Path],
    dev: Sequence[Path],
    columns: str | None,
    given: dict[str, str | None],
) -> str:
    """What to type next, with what was said here about the files."""
    named = ["--columns", columns] if columns else []
    said = {name: value for name, value in given.items() if value is not None}
    if not item.labels_needed:  # gaps are scored, nothing is trained on them
        words = ["MODEL", str(files[0]), "--task", item.command, *named]
        header = said.pop("header", None)
        words += [part for name, value in said.items() for part in (f"--{name}", value)]
        words += {"true": ["--header"], "false": ["--no-header"], None: []}[header]
        return f"Measure a model on it: clozeworks evaluate {shlex.join(words)}"
    words = [item.command, "MODEL", *map(str, files)]
    words += [part for file in dev for part in ("--dev", str(file))]
    words += [*named, *(f"data.{name}={value}" for name, value in said.items())]
    return f"Train on it: clozeworks finetune {shlex.join(words)}"


app.command(split)
