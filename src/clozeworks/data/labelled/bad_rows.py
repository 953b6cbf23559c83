"""Rows that cannot be used: collected, then refused together or dropped and counted."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from clozeworks.data.files.lines import FileNotes
from clozeworks.errors import InputError
from clozeworks.wording import shortened

# Reading ends after so many bad rows; what is wrong with all of them is clear by then.
MOST_BAD_ROWS = 20
_SHOWN = 5
_LONGEST = 600


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row that cannot be used as it is."""

    source_location: str
    """The file and the row."""
    what: str
    """What is wrong, and what to do."""

    def __str__(self) -> str:
        return f"{self.source_location}: {self.what}"


class BadRows:
    """The bad rows of one or several files.

    Args:
        skip: Whether they are dropped. If not, `finish` refuses them, or `add` when there are many.

    Attributes:
        rows: Those that cannot be used.
        repaired: Those that could be used after a small repair; `what` says which.
        notes: What there is to say about how the files were read.
    """

    def __init__(self, *, skip: bool = False) -> None:
        self.skip = skip
        self.rows: list[BadRow] = []
        self.repaired: list[BadRow] = []
        self.notes = FileNotes()

    def add(self, source_location: str, what: str) -> None:
        """Notes a bad row; the message says what is wrong and what to do, without a full stop.

        Raises:
            InputError: If they are not to be dropped and there are many by now.
        """
        # A message quotes cells, which may be as long as a book.
        self.rows.append(BadRow(source_location, shortened(what, _LONGEST)))
        if len(self.rows) >= MOST_BAD_ROWS:
            self.finish(complete=False)

    def repair(self, source_location: str, what: str) -> None:
        """Notes a row that was repaired."""
        self.repaired.append(BadRow(source_location, what))

    def finish(self, *, complete: bool = True) -> None:
        """Ends the reading, perhaps before all rows have been looked at.

        Raises:
            InputError: If there are bad rows and they are not to be dropped.
        """
        if self.skip or not self.rows:
            return
        if len(self.rows) == 1:
            raise InputError(f"{self.rows[0]}, or drop the row with --skip-bad-rows.")
        count = f"{len(self.rows):,} rows" if complete else f"{len(self.rows):,} rows or more"
        lines = [f"{count} cannot be used:", *(f"  {row}" for row in self.rows[:_SHOWN])]
        if len(self.rows) > _SHOWN:
            lines.append(f"  and {len(self.rows) - _SHOWN:,} more")
        lines.append("Fix them, or drop them with --skip-bad-rows.")
        raise InputError("\n".join(lines))


class HasKind(Protocol):
    """A row that can teach something."""

    @property
    def kind(self) -> str:
        """What it can teach."""

    @property
    def source_location(self) -> str:
        """Where it stands."""


RowType = TypeVar("RowType", bound=HasKind)


def of_one_kind(
    rows: Sequence[RowType], kinds: Mapping[str, str], bad: BadRows
) -> Sequence[RowType]:
    """The rows of the most frequent kind; each other one is bad.

    Args:
        rows: Rows.
        kinds: What a person calls each kind.
        bad: Told of the others.
    """
    counts = Counter(row.kind for row in rows)
    if len(counts) < 2:
        return rows
    usual = counts.most_common(1)[0][0]
    for row in rows:
        if row.kind != usual:
            bad.add(
                row.source_location,
                f"this row has {kinds[row.kind]}, most have {kinds[usual]}; give it what the "
                "others have",
            )
    return [row for row in rows if row.kind == usual]
