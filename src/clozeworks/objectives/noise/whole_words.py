"""Whole words.

Paper: Devlin et al. 2019 (the repository's whole-word models); Cui et al. 2019 (Chinese words).
The idea: mask all pieces of a word or none, so that no piece gives away the others.
Where paper and code differ: 80/10/10 is drawn for each piece of the word, not once for the word,
unless `show.unit` says "word".
Prefer it over single tokens wherever words have several pieces. For Chinese it needs data whose
words were marked by a segmenter; characters as words give single tokens.
"""

from typing import ClassVar

from clozeworks.arrays import Int64Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.budget import BudgetSpec, Exact
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.words import TextWords
from clozeworks.spec import spec


@spec
class WholeWords(ChoiceSpec):
    """All tokens of a word or none."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    budget: BudgetSpec = Exact()

    def positions(self, clean: ExampleArrays, draws: Draws) -> Int64Array:
        """The tokens to mask."""
        words = TextWords.of(clean)
        return words.positions(self.budget.words(clean, draws, words))
