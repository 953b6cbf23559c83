"""Rows of csv and tsv, one after the other, whatever the size of the file."""

import csv
from collections.abc import Iterator

from clozeworks.data.files.fields import LARGEST_FIELD, unmatched_quotes
from clozeworks.data.files.streaming import LONGEST_LINE
from clozeworks.errors import InputError

# A row's number as a spreadsheet shows it, and its cells.
TableLine = tuple[int, list[str]]


def separated_rows(lines: Iterator[str], origin: str, suffix: str) -> Iterator[TableLine]:
    """The rows of a table; a line without any cell counts but is not a row.

    Args:
        lines: The lines of the file.
        origin: How messages name it.
        suffix: `.csv`, where cells may be quoted, or `.tsv`, where they are not.

    Raises:
        InputError: Quotation marks do not match, or a row does not fit in memory.
    """
    return _csv_rows(lines, origin) if suffix == ".csv" else _tsv_rows(lines)


def _tsv_rows(lines: Iterator[str]) -> Iterator[TableLine]:
    for number, line in enumerate(lines, start=1):
        if line:
            yield number, line.split("\t")


def _csv_rows(lines: Iterator[str], origin: str) -> Iterator[TableLine]:
    number = length = 0

    def fed() -> Iterator[str]:
        nonlocal length
        for line in lines:
            length += len(line) + 1
            if length > LONGEST_LINE:
                raise InputError(
                    f"{origin}, row {number + 1:,} has more than {LONGEST_LINE:,} characters; "
                    "a row must fit in memory; check that each quotation mark is closed."
                )
            yield line + "\n"

    # Without strict, a quotation mark that is never closed swallows the rest of the file.
    reader = csv.reader(fed(), strict=True)
    while True:
        # Trap: the limit is one per process, so it is lifted no longer than a row takes.
        before = csv.field_size_limit(LARGEST_FIELD)
        try:
            row = next(reader, None)
        except csv.Error as error:
            raise unmatched_quotes(f"{origin}, row {number + 1:,}", error) from error
        finally:
            csv.field_size_limit(before)
        if row is None:
            return
        number, length = number + 1, 0
        if row:
            yield number, row
