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
from clozeworks.core.model import Model
from clozeworks.data.files.tables import TABLE_SUFFIXES
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import TEXT_COLUMNS
from clozeworks.data.labelled.items import ItemLocations, Role
from clozeworks.data.labelled.reading import FileItems, Reading
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.fill import FillCandidate, Filled, fill
from clozeworks.tasks.classify import TextItem, text_lines
from clozeworks.tasks.metrics.bootstrap import Values, check_lengths, intervals_from_sums, ratio
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
        """Each line of a text file as a text."""
        return text_lines(cls, path, reading) if suffix == ".txt" else None


def cloze(
    model: Model,
    tokenizer: Tokenizer,
    items: Sequence[TextItem],
    *,
    top: int = TOP,
    intervals: bool = False,
    max_length: int | None = None,
    seed: int = 0,
) -> Measured:
    """Fills the gaps of texts and measures how often that is right.

    Args:
        model: A model with a vocabulary head.
        tokenizer: Its tokenizer.
        items: Texts with `[MASK]`; the label of each names the words, with spaces between them or
            as a tuple.
        top: How many guesses for a gap count as its best.
        intervals: Whether to say how sure the values are.
        max_length: The most tokens the model takes.
        seed: Decides the draws for intervals.

    Raises:
        InputError: A text has no gap, or not as many words as gaps.
    """
    right_words(tokenizer, items)
    texts = [item.text for item in items]
    filled = fill(model, tokenizer, texts, top=top, max_length=max_length) if texts else []
    return measure_gaps(tokenizer, items, filled, top=top, intervals=intervals, seed=seed)


def right_words(tokenizer: Tokenizer, items: Sequence[TextItem]) -> list[tuple[str, ...]]:
    """The word for each gap of each text.

    Args:
        tokenizer: It knows what a gap is.
        items: Texts with gaps and labels.

    Raises:
        InputError: A text has no gap, no label, or not as many words as gaps.
    """
    source_locations, found = ItemLocations(items, "text"), []
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
        given = item.label if isinstance(item.label, tuple) else tuple(str(item.label).split())
        if len(given) != gaps:
            raise InputError(
                f"{source_locations[number]}: the text has {counted(gaps, 'gap')} and the label "
                f"{counted(len(given), 'word')}; each gap has one; write as many, with spaces "
                "between them."
            )
        found.append(given)
    return found


def measure_gaps(
    tokenizer: Tokenizer,
    items: Sequence[TextItem],
    filled: Sequence[Filled],
    *,
    top: int = TOP,
    intervals: bool = False,
    seed: int = 0,
) -> Measured:
    """How often the guesses for gaps are right.

    A word counts as guessed with or without the space that some tokenizers count to it.

    Args:
        tokenizer: The model's.
        items: Texts with gaps and labels.
        filled: The guesses for each text, at least as many as count.
        top: How many guesses for a gap count as its best.
        intervals: Whether to say how sure the values are.
        seed: Decides the draws for intervals.

    Raises:
        InputError: There is nothing to measure, or not one guess for each item.
        SettingError: `top` is below 1.
    """
    if top < 1:
        raise SettingError(f"top is {top}; it must be at least 1.")
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
    statistics = np.array(rows, dtype=np.float64)

    def values(sums: Float64Array) -> Values:
        best, within, reciprocal, count = sums.T
        return {
            "accuracy": ratio(best, count),
            f"accuracy_top_{top}": ratio(within, count),
            "mean_reciprocal_rank": ratio(reciprocal, count),
        }

    total = values(statistics.sum(axis=0)[None])
    notes = []
    if outside:
        missing = f"{outside:,} of {counted(gaps, 'word')}"
        notes.append(
            f"{missing} is not one token of this model, so no gap can hold it; it counts as wrong."
            if outside == 1
            else f"{missing} are not one token of this model, so no gap can hold them; they count "
            "as wrong."
        )
    if gaps > len(items):
        notes.append(f"there are {gaps:,} gaps in {counted(len(items), 'text')}; each gap counts.")
    notes.append(f"the reciprocal rank of a word that is not among the best {top} is 0.")
    return Measured(
        values={name: float(value[0]) for name, value in total.items()},
        primary="accuracy",
        higher_is_better=True,
        count=len(items),
        intervals=intervals_from_sums(statistics, values, seed=seed) if intervals else {},
        notes=tuple(notes),
    )


def _tokens(tokenizer: Tokenizer, word: str) -> set[str]:
    """The vocabulary's entries for a word; none if it is not one token."""
    ids = {tokenizer.single_id(word), tokenizer.id_of(word)} - {None}
    return {tokenizer.token_of(each) for each in ids if each is not None}


def _rank(tokens: set[str], guesses: Sequence[FillCandidate]) -> int:
    """The place of the first right guess from 1; 0 if there is none."""
    right = (number for number, guess in enumerate(guesses, start=1) if guess.token in tokens)
    return next(right, 0)
