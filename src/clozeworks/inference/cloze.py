"""How often a model fills gaps with the right word.

The idea: each gap of a text is a question, and the label names its word. Texts are what is
resampled for intervals: the gaps of one text are not independent of each other.
Where a word becomes several tokens a gap cannot hold it; it counts as wrong, and a note says so.

Shapes: n texts, D draws.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from clozeworks.arrays import Float64Array
from clozeworks.data.files.tables import TABLE_SUFFIXES
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import TEXT_COLUMNS
from clozeworks.data.labelled.items import ItemLocations, Role
from clozeworks.data.labelled.reading import FileItems, Reading
from clozeworks.data.labelled.text_lines import items_of_lines
from clozeworks.errors import InputError
from clozeworks.inference.fill import FillCandidate, Filled
from clozeworks.spec import PositiveInt, check
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.metrics.bootstrap import Values, check_lengths, measured_from_sums, ratio
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

TOP = 5


@dataclass(frozen=True, slots=True)
class GapItem(TextItem):
    """A text with gaps, and the words that belong in them if they are known."""

    command: ClassVar[str] = "fill"
    roles: ClassVar[tuple[Role, ...]] = (Role("text", TEXT_COLUMNS, holds="text"),)
    suffixes: ClassVar[tuple[str, ...]] = (*TABLE_SUFFIXES, ".txt")
    labels_needed: ClassVar[bool] = False

    @classmethod
    def read_file(cls, path: Path, suffix: str, reading: Reading, bad: BadRows) -> FileItems | None:
        """Each line of a text file as a text without a label."""
        if suffix != ".txt":
            return None
        return items_of_lines(path, reading, bad, lambda text, where: cls(text, None, where))


def right_words(tokenizer: Tokenizer, items: Sequence[TextItem]) -> list[tuple[str, ...]]:
    """The word for each gap of each text; a label is a tuple, or has spaces between the words.

    Raises:
        InputError: If a text has no gap, no label, or not as many words as gaps.
    """
    source_locations, labels = ItemLocations(items, "text"), []
    for number, item in enumerate(items):
        gaps = tokenizer.mark_gaps(item.text).count(tokenizer.special.mask or "[MASK]")
        if not gaps:
            raise InputError(
                f"{source_locations[number]}: the text has no gap; write [MASK] where a word is "
                "missing."
            )
        if item.label is None:
            raise InputError(
                f"{source_locations[number]} has no label; it must name the right word."
            )
        words = item.label if isinstance(item.label, tuple) else tuple(str(item.label).split())
        if len(words) != gaps:
            raise InputError(
                f"{source_locations[number]}: the text has {counted(gaps, 'gap')} and the label "
                f"{counted(len(words), 'word')}; each gap has one; write as many, with spaces "
                "between them."
            )
        labels.append(words)
    return labels


def measure_gaps(
    tokenizer: Tokenizer,
    items: Sequence[TextItem],
    filled: Sequence[Filled],
    *,
    top: int = TOP,
    intervals: bool = False,
) -> Measured:
    """How often the candidates for gaps are right.

    A word matches with or without the space that some tokenizers make part of it.

    Args:
        tokenizer: The model's tokenizer.
        items: Texts with gaps and labels.
        filled: The candidates for each text, at least as many as count.
        top: How many candidates for a gap count as its best.
        intervals: Whether confidence intervals are computed.

    Raises:
        InputError: If there is nothing to measure, or not one result for each item.
        SettingError: If `top` is below 1.
    """
    check("top", top, PositiveInt)
    check_lengths(len(items), len(filled))
    rows, outside, gaps = [], 0, 0
    for words, answer in zip(right_words(tokenizer, items), filled, strict=True):
        ranks = []
        for word, guesses in zip(words, answer.gaps, strict=True):
            tokens = _tokens(tokenizer, word)
            outside += not tokens
            ranks.append(_rank(tokens, guesses[:top]))
        gaps += len(words)
        best = sum(rank == 1 for rank in ranks)
        within = sum(rank > 0 for rank in ranks)
        rows.append((best, within, sum(1 / rank for rank in ranks if rank), len(words)))

    def values(sums: Float64Array) -> Values:
        best, within, reciprocal, count = sums.T
        return {
            "accuracy": ratio(best, count),
            f"accuracy_top_{top}": ratio(within, count),
            "mean_reciprocal_rank": ratio(reciprocal, count),
        }

    notes = []
    if outside:
        one = outside == 1
        notes.append(
            f"{outside:,} of {counted(gaps, 'word')} {'is' if one else 'are'} not one token of "
            f"this model, so no gap can hold {'it; it counts' if one else 'them; they count'} as "
            "wrong."
        )
    if gaps > len(items):
        notes.append(f"there are {gaps:,} gaps in {counted(len(items), 'text')}; each gap counts.")
    notes.append(f"the reciprocal rank of a word that is not among the best {top} is 0.")
    statistics = np.array(rows, dtype=np.float64)
    return measured_from_sums(statistics, values, "accuracy", intervals=intervals, notes=notes)


def _tokens(tokenizer: Tokenizer, word: str) -> set[str]:
    """The vocabulary's entries for a word; none if it is not one token."""
    ids = {tokenizer.single_id(word), tokenizer.id_of(word)} - {None}
    return {tokenizer.token_of(each) for each in ids if each is not None}


def _rank(tokens: set[str], guesses: Sequence[FillCandidate]) -> int:
    """The rank of the first right candidate, from 1; 0 if there is none."""
    right = (number for number, guess in enumerate(guesses, start=1) if guess.token in tokens)
    return next(right, 0)
