"""Words that must be written, and words that must not: as tokens, and whether both can be had."""

from collections.abc import Sequence

from clozeworks.errors import SettingError
from clozeworks.generate.settings import Wording
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted


def runs_of(
    tokenizer: Tokenizer, words: Sequence[str], *, both: bool = False
) -> tuple[tuple[int, ...], ...]:
    """The tokens of words as they stand inside a sentence.

    Args:
        tokenizer: The tokenizer.
        words: The words.
        both: Whether also those that a text begins with are given.
    """
    found: dict[tuple[int, ...], None] = {}
    for word in words:
        spellings = [tokenizer.ids_inside(word)]
        if both:
            spellings.append(tokenizer.encode([word], special=False)[0].ids)
        found.update((tuple(spelling), None) for spelling in spellings)
    return tuple(found)


def check_words(tokenizer: Tokenizer, wording: Wording, name: str) -> None:
    """Complains about words that cannot be written, or must come and may not.

    Args:
        tokenizer: The tokenizer.
        wording: What is asked for.
        name: What messages call the model.

    Raises:
        SettingError: The word, and what is in its way.
    """
    for setting in ("bad_words", "required_words"):
        for word in getattr(wording, setting):
            unknown = word != tokenizer.special.unknown
            if unknown and tokenizer.unknown_id in tokenizer.ids_inside(word):
                raise SettingError(
                    f"{word!r} is among {setting}, and the tokenizer of {name} has no tokens for "
                    f"it, so it is never written; leave it out."
                )
    banned, size = runs_of(tokenizer, wording.bad_words, both=True), wording.no_repeat_ngram_size
    for word in runs_of(tokenizer, wording.required_words):
        shown = tokenizer.decode(word).strip()
        for bad in banned:
            if any(word[place : place + len(bad)] == bad for place in range(len(word))):
                raise SettingError(
                    f"{shown!r} is among required_words, and a part of it, "
                    f"{tokenizer.decode(bad).strip()!r}, among bad_words; leave one of them out."
                )
        runs = [word[place : place + (size or 0)] for place in range(len(word))]
        runs = [run for run in runs if size is not None and len(run) == size]
        if len(set(runs)) < len(runs):
            raise SettingError(
                f"{shown!r} is among required_words and repeats {counted(size or 0, 'token')}, "
                f"and no_repeat_ngram_size is {size}; leave one of them out."
            )
