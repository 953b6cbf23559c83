"""`clozeworks data`: a look at labelled data before training on it, and parts to train on."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.commands.data_split import split
from clozeworks.cli.display.data_page import page
from clozeworks.cli.inputs import LabelledOptions
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
    tokenizer: str | None = None,
    window: int | None = None,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
    options: LabelledOptions | None = None,
) -> None:
    """Print what labelled files hold: labels, lengths, bad rows, and what looks odd.

    Args:
        files: Files to train on: .csv, .tsv, .jsonl, .json, .parquet, CoNLL columns, compressed or
            not.
        task: What they are for.
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

    if not files:
        raise InputError("no file was named; give at least one.")
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
        print(json.dumps(asdict(report), ensure_ascii=False, indent=1))
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
    named = ["--columns", options.columns] if options.columns else []
    values = {
        "encoding": None if options.encoding == "utf-8" else options.encoding,
        "header": None if options.header is None else str(options.header).lower(),
        "labels": options.labels,
        "separator": options.separator,
    }
    settings = {name: value for name, value in values.items() if value is not None}
    if not item.labels_needed:  # gaps are scored, nothing is trained on them
        words = ["MODEL", str(files[0]), "--task", item.command, *named]
        header = settings.pop("header", None)
        words += [part for name, value in settings.items() for part in (f"--{name}", value)]
        words += {"true": ["--header"], "false": ["--no-header"], None: []}[header]
        return f"Measure a model on it: clozeworks evaluate {shlex.join(words)}"
    words = [item.command, "MODEL", *map(str, files)]
    words += [part for file in dev for part in ("--dev", str(file))]
    words += [*named, *(f"data.{name}={value}" for name, value in settings.items())]
    return f"Train on it: clozeworks finetune {shlex.join(words)}"


app.command(split)
