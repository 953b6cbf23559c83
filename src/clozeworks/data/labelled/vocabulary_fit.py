"""Whether a vocabulary fits labelled texts: how many of their tokens it does not know.

A model learns nothing from an unknown token, whatever stands there. One in a hundred is felt; where
it is one in ten, the vocabulary is that of another language.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from clozeworks.data.labelled.items import Item
from clozeworks.text.tokenizer.encoding import Encoded
from clozeworks.text.tokenizer.tokenizer import Tokenizer

_AT_A_TIME = 1_000
# Above such fractions of unknown tokens a person is warned.
_SOME, _MANY = 0.01, 0.1


@dataclass(frozen=True, slots=True)
class VocabularyFit:
    """How many tokens of some texts a vocabulary knows."""

    tokens: int
    """How many tokens the texts have, special ones not counted."""
    unknown: int
    """How many of them are unknown."""

    @property
    def fraction(self) -> float:
        """The fraction of tokens that are unknown."""
        return self.unknown / max(1, self.tokens)

    @property
    def is_bad(self) -> bool:
        """Whether so many are unknown that a person is warned."""
        return self.fraction >= _SOME

    def sentence(self) -> str:
        """What there is to say about it; empty if all tokens are known."""
        if not self.unknown:
            return ""
        share = f"{self.fraction:.1%}" if self.fraction >= 0.001 else "Less than 0.1%"
        amount = f"{share} of the tokens of these texts are unknown ({self.unknown:,})"
        advice = "or extend its vocabulary with clozeworks tokenizer extend"
        if self.fraction >= _MANY:
            return (
                f"{amount}: the vocabulary does not fit them, and a model learns nothing from what "
                f"it does not know; choose a model for their language, {advice}."
            )
        if self.is_bad:
            return f"{amount}: the vocabulary fits them badly; choose another model, {advice}."
        return f"{amount}."


def token_counts(
    items: Sequence[Item], tokenizer: Tokenizer
) -> tuple[list[int], VocabularyFit | None]:
    """How many tokens each item has, special ones among them, and how well the vocabulary fits.

    Of items that are read in several sequences it is how many each of these has.

    The fit is None for a tokenizer that knows everything, such as one of bytes.
    """
    lengths: list[int] = []
    tokens = unknown = 0
    for encoded in _encoded(items, tokenizer):
        lengths.append(len(encoded.ids))
        tokens += len(encoded.ids) - sum(encoded.special)
        pairs = zip(encoded.ids, encoded.special, strict=True)
        unknown += sum(token == tokenizer.unknown_id and not special for token, special in pairs)
    return lengths, None if tokenizer.unknown_id is None else VocabularyFit(tokens, unknown)


def vocabulary_fit(items: Sequence[Item], tokenizer: Tokenizer) -> VocabularyFit | None:
    """How well a vocabulary fits items; None for a tokenizer that knows everything."""
    return token_counts(items, tokenizer)[1]


def _encoded(items: Sequence[Item], tokenizer: Tokenizer) -> Iterator[Encoded]:
    for begin in range(0, len(items), _AT_A_TIME):
        some = items[begin : begin + _AT_A_TIME]
        sequences = (sequence for item in some for sequence in item.sequences)
        columns = list(zip(*sequences, strict=True))
        yield from tokenizer.encode(columns[0], columns[1] if len(columns) > 1 else None)
