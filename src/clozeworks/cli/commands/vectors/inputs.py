"""What both commands read and write: pairs of texts, and a page."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from clozeworks.errors import InputError

if TYPE_CHECKING:
    from clozeworks.inference.space.report import SpaceReport
    from clozeworks.jobs.space import ScoredPair


def read_pairs(path: Path | None) -> "Sequence[ScoredPair]":
    """Pairs of texts, with scores if the file has a column of numbers.

    Raises:
        InputError: If it has labels that are not numbers.
    """
    if path is None:
        return ()
    from clozeworks.data.labelled.reading import read_items
    from clozeworks.jobs.space import ScoredPair
    from clozeworks.tasks.compare import PairItem

    known = read_items(path, PairItem)
    if known.kind == "none":
        return [
            ScoredPair(item.first, item.second, source_location=item.source_location)
            for item in known.items
        ]
    pairs = []
    for item in known.items:
        try:
            score = float(item.label)
        except (TypeError, ValueError):
            raise InputError(
                f"{item.source_location}: the label is {item.label!r}; pairs need numbers that say "
                "how similar their texts are, or no labels if all mean the same; correct the file."
            ) from None
        pairs.append(ScoredPair(item.first, item.second, score, item.source_location))
    return pairs


def check_page(path: Path | None, *, overwrite: bool) -> None:
    """Checks early that a page can be written.

    Raises:
        OutputError: If it exists, cannot be written, or has another ending than .html.
    """
    if path is None:
        return
    from clozeworks.data.files.vectors import check_output

    check_output(path, overwrite=overwrite, suffixes=(".html",), name="space")


def write_page(report: "SpaceReport", path: Path | None, *, overwrite: bool) -> None:
    """Writes the page with pictures, if one was asked for."""
    if path is None:
        return
    from clozeworks.reports.space_page import space_page
    from clozeworks.storage.atomic import atomic_file

    with atomic_file(path, "w", overwrite=overwrite) as file:
        file.write(space_page(report))
