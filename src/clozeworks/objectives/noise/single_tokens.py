"""Tokens one by one.

Paper: Devlin et al. 2019.
The idea: every token of text is as likely to be masked as any other.
Prefer it for: a baseline, and for speed. The end of a word is often plain from its beginning, so
`WholeWords` makes harder targets.
"""

from typing import ClassVar

from clozeworks.arrays import Int64Array
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.budget import BudgetSpec, Exact
from clozeworks.objectives.noise.draws import Draws
from clozeworks.spec import spec


@spec
class SingleTokens(ChoiceSpec):
    """Tokens one by one."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    budget: BudgetSpec = Exact()

    def positions(self, clean: ExampleArrays, draws: Draws) -> Int64Array:
        """The tokens to mask."""
        return self.budget.tokens(clean, draws)
