"""`clozeworks duplicates`: find texts that say the same."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.documents import IndexedOptions, opened
from clozeworks.errors import SET, SettingError
from clozeworks.wording import as_json, counted, shortened, visible

if TYPE_CHECKING:
    from clozeworks.search.documents import IndexedDocument
    from clozeworks.search.duplicates import DuplicateText

app = App(name="clozeworks duplicates", help_format="plaintext", version_flags=[])
SUFFIXES = (".jsonl", ".csv", ".txt")


@app.default
def duplicates(
    *inputs: Annotated[str, Parameter(required=True)],
    model: Annotated[str | None, Parameter(alias="-m")] = None,
    threshold: float = 0.9,
    index: Path | None = None,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
    reading: IndexedOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Find texts that are the same, nearly the same, or say the same in other words.

    Groups are printed with the similarity (cosine) of each text to the first; = marks the same
    text. Every text is compared with every other, which takes minutes from 100,000 texts on.

    Args:
        inputs: Files, folders or globs, as for `clozeworks index`; or the folder of an index.
        model: A sentence model: a folder or hub name. Needed for files.
        threshold: The least similarity, from -1 to 1. Nearly equal texts have 0.95 or more,
            paraphrases often 0.8; it depends on the model.
        index: A folder in which the index of the files is kept, for the next time.
        out: A file (.jsonl, .csv, .txt) for the texts without duplicates: of each group the first.
        overwrite: Replace the output file if it exists.
        json: Print an object per group, as JSON lines.
        reading: How documents are read.
        computing: Where the model computes.
    """
    from clozeworks.data.files.vectors import check_output
    from clozeworks.display.progress import ProgressBar
    from clozeworks.search.duplicates import duplicate_groups

    if not -1 <= threshold <= 1:
        raise SettingError("threshold", threshold, "it must be from -1 to 1")
    if out is not None:
        check_output(out, overwrite=overwrite, suffixes=SUFFIXES, name="unique")
    elif overwrite:
        raise SettingError("--overwrite", SET, "there is no output file", "name it with --out")
    reading, computing = reading or IndexedOptions(), computing or ComputingOptions()
    with opened(inputs, model, index, reading, computing) as (found, source):
        with ProgressBar("texts", "comparing") as progress:
            groups = duplicate_groups(found.store, threshold, progress)
        for group in groups:
            if json:
                print(as_json({"texts": [each.to_dict() for each in group]}))
            else:
                _show(group)
        left_out = {each.id for group in groups for each in group[1:]}
        exact = sum(each.exact for group in groups for each in group[1:])
        total = len(found)
        if out is not None:
            documents = found.documents() if source is None else source
            _write(out, [each for each in documents if each.id not in left_out], overwrite)
    more = f"; the other {total - len(left_out):,} are in {out}" if out else ""
    print(
        f"{counted(len(groups), 'group')} with {counted(len(left_out), 'duplicate')} among "
        f"{counted(total, 'text')}, {exact:,} with the same text{more}.",
        file=sys.stderr,
    )


def _show(group: "list[DuplicateText]") -> None:
    for number, each in enumerate(group):
        sign = "=" if each.exact and number else " "
        text = visible(shortened(" ".join(each.text.split()), 100))
        print(f"{each.similarity:6.3f}{sign} {visible(each.id)}  {text}")
    print()


def _write(out: Path, documents: "list[IndexedDocument]", overwrite: bool) -> None:
    """Writes documents as the suffix says."""
    import csv
    from json import dumps

    from clozeworks.storage.atomic import atomic_file

    rows = [{"id": each.id, "text": each.text, **each.columns} for each in documents]
    with atomic_file(out, "w", overwrite=overwrite) as file:
        if out.suffix.lower() == ".jsonl":
            file.writelines(dumps(row, ensure_ascii=False) + "\n" for row in rows)
        elif out.suffix.lower() == ".txt":
            file.writelines(" ".join(each.text.splitlines()) + "\n" for each in documents)
        else:
            names = dict.fromkeys(name for row in rows for name in row)
            writer = csv.DictWriter(file, list(names), restval="", lineterminator="\n")
            writer.writeheader()
            writer.writerows(rows)
