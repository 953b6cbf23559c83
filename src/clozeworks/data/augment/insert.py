"""Puts words in.

Paper: Wei & Zou 2019 (EDA: random insertion of a synonym of a word of the text).
The idea: a synonym somewhere else adds noise that fits the topic; words from a list add noise of
any other kind.
Where we differ: EDA counts on a dictionary of English; here the synonyms are given.
Example: `Insert(words=("very", "quite"))`, or in a recipe `{kind = "insert", file = "near.tsv"}`.
"""

from collections.abc import Sequence
from dataclasses import field
from typing import ClassVar

from clozeworks.data.augment import AugmentSpec, Fraction, Guesser
from clozeworks.data.augment.changing import Draw, TextChange, amount
from clozeworks.data.augment.passage import Changes, Passage
from clozeworks.data.augment.synonyms import Synonyms, check_one_source, checked_word
from clozeworks.rng import below
from clozeworks.spec import spec

_HALF = 2**31


@spec
class Insert(AugmentSpec):
    """Puts in a fraction of words: from a list, or synonyms of words of the text."""

    paper: ClassVar[str] = "Wei & Zou 2019"

    fraction: Fraction = 0.1
    """New words for each word of the text; there is at least one."""
    words: tuple[str, ...] = ()
    """Words to choose from."""
    synonyms: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Words, and what stands for each; a synonym of a word of the text is put in."""
    file: str | None = None
    """A .tsv or .json file with synonyms."""

    def __post_init__(self) -> None:
        check_one_source(words=self.words, synonyms=self.synonyms, file=self.file)

    def way(self, guess: Guesser | None) -> TextChange:
        """What puts words in; reads the file."""
        if self.words:
            words = tuple(checked_word(word, "augment.words") for word in self.words)
            return lambda passage, draw: self._changes(passage, draw, [words])
        table = Synonyms.of(self.synonyms, self.file)
        return lambda passage, draw: self._changes(
            passage, draw, [match.others for match in table.matches(passage)]
        )

    def _changes(self, passage: Passage, draw: Draw, offered: Sequence[tuple[str, ...]]) -> Changes:
        free = passage.free
        if not free or not offered:
            return {}
        put: dict[int, tuple[str, ...]] = {}
        drawn = draw.words("insert", 4 * amount(self.fraction, len(free))).reshape(-1, 4)
        positions, groups = below(drawn[:, 0], len(free)), below(drawn[:, 1], len(offered))
        for position, group, choice, side in zip(
            positions, groups, drawn[:, 2], drawn[:, 3], strict=True
        ):
            number = free[position]
            new = offered[group][int(below(choice, len(offered[group])))]
            beside = put.get(number, (passage.word(number),))
            put[number] = (new, *beside) if side < _HALF else (*beside, new)
        return put
