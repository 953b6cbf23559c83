"""One of several ways, another for each item.

Paper: Wei & Zou 2019 (EDA: one of synonym replacement, random insertion, random swap and random
deletion, each changing the same fraction alpha of the words).
The idea: ways that harm different things can be mixed, each in a small dose.
Where we differ: EDA makes some copies of every text once and keeps the texts themselves; here each
epoch draws anew, and `probability` says how often the text itself is left. With n copies that is
n / (n + 1).
Example: `Several.eda(file="near.tsv", fraction=0.1, copies=4)`, or in a recipe
`{kind = "several", parts = [{kind = "delete"}, {kind = "swap"}]}`.
"""

from typing import Annotated, ClassVar

from clozeworks.data.augment import Augment, AugmentSpec, Guesser
from clozeworks.data.augment.delete import Delete
from clozeworks.data.augment.insert import Insert
from clozeworks.data.augment.replace import Replace
from clozeworks.data.augment.swap import Swap
from clozeworks.data.labelled.items import Item
from clozeworks.rng import RandomStream, below
from clozeworks.spec import NOT_EMPTY, Advice, PositiveInt, check, spec


@spec
class Several(AugmentSpec):
    """Changes each item in one of several ways, all equally likely."""

    paper: ClassVar[str] = "Wei & Zou 2019"

    parts: Annotated[
        tuple[AugmentSpec, ...], NOT_EMPTY, Advice("add for example {kind = 'delete'}")
    ]
    """The ways. A probability below 1 in one of them makes that one rarer."""

    @classmethod
    def eda(cls, file: str, fraction: float = 0.1, copies: int = 4) -> "Several":
        """The four ways of EDA.

        Args:
            file: A .tsv or .json file with synonyms.
            fraction: The fraction of words that is changed, alpha in the paper.
            copies: How many changed texts there are for each that is left as it is.

        Raises:
            SettingError: If a number is out of its range.
        """
        check("copies", copies, PositiveInt)
        parts = (
            Replace(file=file, fraction=fraction),
            Insert(file=file, fraction=fraction),
            Swap(fraction=fraction),
            Delete(fraction=fraction),
        )
        return cls(parts=parts, probability=copies / (copies + 1))

    def build(self, guess: Guesser | None = None) -> Augment:
        """Makes what chooses a way for each item."""
        parts = [part.build(guess) for part in self.parts]

        def change(item: Item, rng: RandomStream, epoch: int, index: int) -> Item:
            drawn = rng.stream("several").words(epoch, index, 1)
            chosen = int(below(drawn, len(parts))[0, 0])
            return parts[chosen](item, rng.stream(str(chosen)), epoch, index)

        return Augment(self.probability, change)
