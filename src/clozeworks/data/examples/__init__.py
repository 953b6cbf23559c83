"""What stands side by side: examples of a split by number, in any order. One file per idea.

Example i of epoch e is given without looking at those before it. What cannot be computed on the
spot is a few flat arrays, built once per copy and kept in a cache folder.

| the objective wants | examples |
|---|---|
| fixed windows over everything | `Blocks` |
| the same with what comes before each | `RememberedBlocks` |
| pieces of documents, each of one alone | `DocumentPieces` |
| whole sentences, RoBERTa's way | `FullSentences`, `DocSentences` |
| one document's sentences in a row, SpanBERT's way | `SingleSequences` |
| two texts and whether the second follows | `NextSentencePairs` |
| two texts and which comes first | `SentenceOrderPairs` |
| a sentence twice, with its neighbour, with given ones | `Twice`, `Neighbours`, `Given` |
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples.example_arrays import ExampleArrays, assemble
from clozeworks.errors import InputError, SettingError
from clozeworks.rng import RandomStream
from clozeworks.spec import Slot, spec
from clozeworks.text.tokenizer.templates import Template
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

# The first token of each text of some examples and the end of each, (B, T), and the labels, (B,).
TextBounds = tuple[Int64Array, Int64Array, Int64Array | None]


class Examples(ABC):
    """Examples of a split, by number."""

    copies: int = 1
    """How many different epochs there are; epoch e uses copy e % copies."""
    views: int = 1
    """Sequences per example; those of an example are neighbours in a batch."""
    longest: int
    """The most tokens a sequence may have, special tokens among them."""

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

    def order(self, epoch: int, rng: RandomStream) -> Int64Array:
        """The order in which an epoch shows its examples."""
        return rng.permutation(epoch, self.size(epoch)).astype(np.int64, copy=False)

    def documents(self, epoch: int, indices: Int64Array) -> Int64Array | None:
        """The document each text of some examples stands in, (B, T); None if that is unknown."""
        return None

    def _check(self, epoch: int, indices: Int64Array) -> None:
        # Trap: a negative number would quietly count from the end.
        if len(indices) and (indices.min() < 0 or indices.max() >= self.size(epoch)):
            raise IndexError(
                f"an example number is outside 0 to {self.size(epoch) - 1}, the last of epoch "
                f"{epoch}"
            )


class Stretches(Examples):
    """Examples whose texts are stretches of a split, with special tokens around them.

    Raises:
        InputError: If the split has no tokens.
    """

    def __init__(self, split: Split, around: Template, longest: int) -> None:
        check_tokens(split)
        self.longest = longest
        self._split = split
        self._template = around

    @abstractmethod
    def _texts(self, epoch: int, indices: Int64Array) -> TextBounds:
        """Where the texts of examples are, of each view in turn."""

    def take(self, epoch: int, indices: Int64Array) -> ExampleArrays:
        """Some examples of an epoch."""
        self._check(epoch, indices)
        begins, ends, labels = self._texts(epoch, indices)
        return assemble(
            self._split,
            self._template,
            begins,
            ends,
            epochs=np.full(len(begins), epoch, dtype=np.int64),
            indices=(indices[:, None] * self.views + np.arange(self.views)).ravel(),
            labels=labels,
            views=self.views,
        )

    def checked(self, rule: str) -> Self:
        """These examples; makes the index of their first copy.

        Raises:
            InputError: If there are none; `rule` says why, and what to do.
        """
        if self.size(0) == 0:
            raise InputError(f"the {self._split.name} part gives no examples; {rule}")
        return self


@spec
class ExamplesSpec(Slot):
    """Slot: what stands side by side."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.data.examples"

    length: int
    """The most tokens of a sequence, special tokens among them."""

    def arrange(
        self, split: Split, tokenizer: "Tokenizer", seed: int, cache: Path | None = None
    ) -> Examples:
        """Makes examples of the tokens of a split.

        Args:
            split: Where the tokens are.
            tokenizer: The tokenizer that made them; it says which special tokens are added.
            seed: Decides every random choice.
            cache: A folder for index files. One that cannot be written is not an error.

        Raises:
            SettingError: If a setting cannot be used, such as a length without room for a token.
            InputError: If the split gives no examples.
        """
        raise NotImplementedError


def room_within(length: int, added: int, texts: int = 1) -> int:
    """The tokens of text a sequence has room for, beside the special tokens that are added.

    Raises:
        SettingError: If there is no room for one token of each text.
    """
    if length < added + texts:
        each = "one token of text" if texts == 1 else "one token of each text"
        needed = f"{counted(added, 'special token')} and {each} need {added + texts}"
        raise SettingError("length", length, needed, "raise length")
    return length - added


def check_tokens(split: Split) -> None:
    """Insists that a split has tokens.

    Raises:
        InputError: If it has none.
    """
    if split.tokens == 0:
        raise InputError(
            f"the {split.name} part has no tokens; examples need at least one; build the corpus "
            "from texts that are not empty."
        )
