"""The random numbers of a batch, drawn at once.

What numpy costs for a batch is the number of calls, so every example gets its draws in one go: one
of its own, and two for each of its tokens: one decides whether it is hidden, one what is shown. A
rule that needs more asks for a stream of its own.

Shapes: B examples, L the longest example, n draws.
"""

from dataclasses import dataclass

from clozeworks.core.chance import Chance, Words
from clozeworks.data.arranged import Arranged
from clozeworks.data.shards import Numbers


@dataclass(frozen=True)
class Draws:
    """32 random bits for every decision; each a function of the example's epoch and index.

    Attributes:
        own: One for each example, (B,).
        hide: One for each place in an example, to choose by, (B, L).
        show: One for each place, to decide what is shown there, (B, L).
        chance: Where they come from.
        epochs: The epoch of each example, (B,).
        indices: Its number, (B,).
    """

    own: Words
    hide: Words
    show: Words
    chance: Chance
    epochs: Numbers
    indices: Numbers

    @classmethod
    def of(cls, clean: Arranged, chance: Chance, epochs: Numbers | None = None) -> "Draws":
        """Draws for the examples of a batch.

        Args:
            clean: The batch.
            chance: The stream.
            epochs: Other epochs than the examples' own, (B,).
        """
        epochs = clean.epochs if epochs is None else epochs
        longest = int(clean.lengths.max(initial=0))
        words = chance.words(epochs, clean.indices, 2 + 2 * longest)
        pairs = words.reshape(len(clean), 1 + longest, 2)
        return cls(pairs[:, 0, 0], pairs[:, 1:, 0], pairs[:, 1:, 1], chance, epochs, clean.indices)

    def more(self, name: str, count: int, example: int | None = None) -> Words:
        """Further draws, (B, n); or those of one example, (1, n).

        Args:
            name: What they are for.
            count: How many for each example; asking for more does not change the first ones.
            example: The one example they are for.
        """
        chosen = slice(None) if example is None else slice(example, example + 1)
        return self.chance.stream(name).words(self.epochs[chosen], self.indices[chosen], count)

    def four(self, name: str, rows: Numbers, within: Numbers) -> Words:
        """Four further draws for each of some tokens, (n, 4).

        Args:
            name: What they are for.
            rows: The tokens' examples, (n,).
            within: Their places there, (n,).
        """
        return self.chance.stream(name).four(self.epochs[rows], self.indices[rows], within)
