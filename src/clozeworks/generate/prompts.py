"""Prompts as tokens, with the limits of what is generated for each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clozeworks.generate.beams import Beams
from clozeworks.generate.logits_processors import LogitsProcessorSpec
from clozeworks.generate.sampling import Written


@dataclass(frozen=True)
class EncodedPrompt:
    """What a model reads before it generates."""

    ids: list[int]
    max_new_tokens: int
    ends: tuple[int, ...]
    """The tokens that end a text."""
    rules: tuple[LogitsProcessorSpec, ...] = ()
    source_location: str = ""
    """Where it came from, for messages."""


@dataclass(frozen=True)
class GenerationRequest:
    """Prompts to be answered, and how."""

    prompts: list[EncodedPrompt]
    start: int | None
    """The decoder start token of an encoder-decoder; None for a decoder."""
    tokens: int
    """Entries of the vocabulary; the model may have rows for more, which are never generated."""
    beams: Beams | None
    """The beam search; None takes the likeliest token each time."""
    read: Callable[[int, list[Written]], Any]
    """From the index of a prompt and its texts, the best first, to its answer."""
