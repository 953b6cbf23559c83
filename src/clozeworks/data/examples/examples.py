"""What examples are: texts of a split by number, however they were arranged."""

from abc import ABC, abstractmethod

from clozeworks.arrays import Int64Array
from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import InputError, SettingError
from clozeworks.wording import counted


class Examples(ABC):
    """Examples of a split, by number.

    Attributes:
        copies: How many different epochs there are; epoch e uses copy e % copies.
        views: Sequences per example; those of an example are neighbours in a batch.
        longest: The most tokens a sequence may have, special tokens among them.
    """

    copies: int = 1
    views: int = 1
    longest: int

    @property
    @abstractmethod
    def mean_length(self) -> float:
        """Tokens of an example with special tokens, all its views together, on average."""

    @abstractmethod
    def size(self, epoch: int) -> int:
        """How many examples an epoch has."""

    @abstractmethod
    def take(self, epoch: int, indices: Int64Array) -> ExampleArrays:
        """Some examples of an epoch.

        Args:
            epoch: The epoch.
            indices: Any of 0 to size(epoch) - 1, in any order, (B,).

        Raises:
            IndexError: If an index is outside the epoch.
        """

    def documents(self, epoch: int, indices: Int64Array) -> Int64Array | None:
        """The document each text of some examples stands in, (B, T); None if nobody keeps that."""
        return None

    def _check(self, epoch: int, indices: Int64Array) -> None:
        # Trap: a negative number would quietly count from the end.
        if len(indices) and (indices.min() < 0 or indices.max() >= self.size(epoch)):
            raise IndexError(
                f"an example number is outside 0 to {self.size(epoch) - 1}, the last of epoch "
                f"{epoch}"
            )


def room_within(length: int, added: int, texts: int = 1) -> int:
    """The tokens of text a sequence has room for.

    Args:
        length: The most tokens of a sequence, special tokens among them.
        added: How many special tokens there are.
        texts: How many texts share the room; each needs a token.

    Raises:
        SettingError: If there is no room.
    """
    if length < added + texts:
        tokens = counted(added, "special token")
        each = "one token of text" if texts == 1 else "one token of each text"
        raise SettingError(
            f"length is {length}; {tokens} and {each} need {added + texts}; raise length."
        )
    return length - added


def check_tokens(split: Split) -> None:
    """Complains about a split without tokens.

    Raises:
        InputError: If it has none.
    """
    if split.tokens == 0:
        raise InputError(
            f"the {split.name} part has no tokens; an arrangement needs at least one; build the "
            "corpus from texts that are not empty."
        )


def check_filled(arrangement: Examples, split: Split, rule: str) -> None:
    """Complains about an arrangement without examples; makes the index of its first copy.

    Args:
        arrangement: The arrangement.
        split: What it arranges.
        rule: Why nothing fits, and what to do.

    Raises:
        InputError: If it has no examples.
    """
    check_tokens(split)
    if arrangement.size(0) == 0:
        raise InputError(f"the {split.name} part gives no examples; {rule}")
