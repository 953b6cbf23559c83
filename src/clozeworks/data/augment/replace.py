"""Puts synonyms in the place of words.

Paper: Wei & Zou 2019 (EDA: synonym replacement).
The idea: a text with other words for the same things has the same label.
Where we differ: EDA takes synonyms from WordNet and leaves stop words alone; here the synonyms are
given, and a word without any stays. Capital letters stay as they were.
Example: `Replace(synonyms={"big": ("large", "huge")})`, or in a recipe
`{kind = "replace", file = "near.tsv"}`.
"""

from dataclasses import field
from functools import partial
from typing import ClassVar

from clozeworks.data.augment import AugmentSpec, Fraction, Guesser
from clozeworks.data.augment.changing import Draw, TextChange, amount
from clozeworks.data.augment.passage import Changes, Passage
from clozeworks.data.augment.synonyms import Synonyms, check_one_source, like
from clozeworks.rng import below, order
from clozeworks.spec import spec


@spec
class Replace(AugmentSpec):
    """Replaces a fraction of the words, as far as they have synonyms."""

    paper: ClassVar[str] = "Wei & Zou 2019"

    fraction: Fraction = 0.1
    """Replacements for each word of the text; there is at least one."""
    synonyms: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Words, and what may stand for each."""
    file: str | None = None
    """A .tsv or .json file with synonyms."""
    inside_entities: bool = False
    """Whether tagged words are replaced, too; each by one other."""

    def __post_init__(self) -> None:
        check_one_source(synonyms=self.synonyms, file=self.file)

    def way(self, guess: Guesser | None) -> TextChange:
        """What replaces words; reads the file."""
        return partial(self._changes, Synonyms.of(self.synonyms, self.file))

    def _changes(self, table: Synonyms, passage: Passage, draw: Draw) -> Changes:
        matches = table.matches(passage, self.inside_entities)
        if not matches:
            return {}
        words = len(passage.free) + len(passage.entities) * self.inside_entities
        drawn = draw.words("replace", 2 * len(matches)).reshape(2, -1)
        put: dict[int, tuple[str, ...]] = {}
        for position in order(drawn[0])[: amount(self.fraction, words)]:
            first, last, others = matches[position]
            old = passage.text[passage.spans[first][0] : passage.spans[last][1]]
            put |= dict.fromkeys(range(first, last + 1), ())
            put[first] = (like(old, others[int(below(drawn[1, position], len(others)))]),)
        return put
