"""Puts the guesses of a masked language model in the place of words.

Paper: Kobayashi 2018 (contextual augmentation: words a language model predicts in the context), Wu
et al. 2019 (conditional BERT: the model that predicts is BERT).
The idea: what fits a gap fits the text, whether or not it is a synonym.
Where we differ: both papers show the label to the model, so that a guess does not change it; a
plain masked language model does not know it, so `top_k` keeps to its best guesses.
Example: `ReplaceByModel(fraction=0.1)`, or in a recipe `{kind = "replace_by_model"}`;
the job hands in the model.
"""

from functools import partial
from typing import ClassVar

from clozeworks.data.augment import MASK, AugmentSpec, Fraction, Guesser
from clozeworks.data.augment.changing import Draw, TextChange, amount
from clozeworks.data.augment.passage import Changes, Passage, is_word
from clozeworks.data.augment.synonyms import like
from clozeworks.errors import InputError, SettingError
from clozeworks.rng import below, order
from clozeworks.spec import PositiveInt, spec
from clozeworks.text.characters import words_of


@spec
class ReplaceByModel(AugmentSpec):
    """Replaces a fraction of the words by what a model predicts."""

    paper: ClassVar[str] = "Kobayashi 2018; Wu et al. 2019"

    fraction: Fraction = 0.1
    """Replacements for each word of the text; there is at least one."""
    top_k: PositiveInt = 5
    """How many of the best guesses are drawn from, the word itself not among them."""
    inside_entities: bool = False
    """Whether tagged words are replaced, too; each by one other."""

    def way(self, guess: Guesser | None) -> TextChange:
        """What replaces words by guesses."""
        if guess is None:
            raise SettingError(
                "augment.kind",
                "replace_by_model",
                "it needs a masked language model, and there is none",
                "hand one in with build(guess=...), or choose another kind",
            )
        return partial(self._changes, guess)

    def _changes(self, guess: Guesser, passage: Passage, draw: Draw) -> Changes:
        words = passage.free + passage.entities * self.inside_entities
        if not words or MASK in passage.text:  # a gap of its own would be guessed instead
            return {}
        drawn = draw.words("guess", 2 * len(words)).reshape(2, -1)
        chosen = order(drawn[0])[: amount(self.fraction, len(words))]
        texts = [_with_gap(passage, words[position]) for position in chosen]
        guesses = guess(texts)
        if len(guesses) != len(texts):
            raise InputError(
                f"guess gave words for {len(guesses):,} of {len(texts):,} texts; it must give a "
                "list of words for each; correct the function."
            )
        put: dict[int, tuple[str, ...]] = {}
        for position, offered in zip(chosen, guesses, strict=True):
            old = passage.word(words[position])
            others = [word for word in offered if _is_another(old, word)][: self.top_k]
            if others:
                put[words[position]] = (
                    like(old, others[int(below(drawn[1, position], len(others)))]),
                )
        return put


def _with_gap(passage: Passage, number: int) -> str:
    begin, end = passage.spans[number]
    return f"{passage.text[:begin]}{MASK}{passage.text[end:]}"


def _is_another(old: str, word: str) -> bool:
    """Whether a guess is one whole word, and not the old one; a piece such as `##s` is none."""
    return (
        word.casefold() != old.casefold() and is_word(word) and words_of(word) == [(0, len(word))]
    )
