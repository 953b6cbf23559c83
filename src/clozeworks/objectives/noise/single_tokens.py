"""Tokens one by one.

Paper: Devlin et al. 2019.
The idea: every token of text is as likely to be hidden as any other.
Prefer it for: a baseline, and for speed. The end of a word is often plain from its beginning, so
`WholeWords` asks harder questions.
"""

from typing import ClassVar

from clozeworks.core.spec import spec
from clozeworks.data.arranged import Arranged
from clozeworks.data.shards import Numbers
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.budget import BudgetSpec, Exact
from clozeworks.objectives.noise.draws import Draws


@spec
class SingleTokens(ChoiceSpec):
    """Tokens one by one."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    budget: BudgetSpec = Exact()

    def places(self, clean: Arranged, draws: Draws) -> Numbers:
        """The tokens to hide."""
        return self.budget.tokens(clean, draws)
