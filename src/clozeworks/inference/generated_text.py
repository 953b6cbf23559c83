"""A text that was written, and what of it is certain so far."""

from collections.abc import Callable
from dataclasses import dataclass, field

from clozeworks.generate.sampling import Ended


@dataclass(frozen=True)
class Token:
    """One token of a text that was written."""

    text: str
    """The vocabulary's entry."""
    log: float
    """The natural logarithm of the share that the model gave it."""
    others: tuple[tuple[str, float], ...] = ()
    """The likeliest entries and theirs, if asked for."""


@dataclass(frozen=True)
class WrittenText:
    """What was written behind a prompt."""

    prompt: str
    text: str
    tokens: tuple[Token, ...] = field(repr=False)
    """Its tokens, one that ends it or belongs to a stop string among them."""
    ended: Ended | None
    """`end`: the model ended it. `stop`: a stop string came. `length`: there was no more room.
    None: it was interrupted."""
    score: float
    """The sum of the logs; in beam search what texts are ranked by."""


@dataclass(frozen=True)
class StreamChunk:
    """What one more token brought, or a search that ended."""

    prompt: int
    """The number of the prompt, from 0."""
    number: int
    """Which of the prompt's texts."""
    text: str
    """What is certain since; empty where a character is not whole, where a stop string may have
    begun, and with a text's end if nothing was held back."""
    so_far: Callable[[], WrittenText] = field(repr=False, compare=False)
    """Gives all that is written of the text when it is called, what is held back with it: who is
    interrupted keeps that."""
    whole: WrittenText | None = None
    """The whole text, if it has ended."""
