"""Prompts as tokens, with what may be written after each of them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from clozeworks.generate.beams import Beams
from clozeworks.generate.logits_processors import LogitsProcessorSpec
from clozeworks.generate.sampling import Written


@dataclass(frozen=True)
class EncodedPrompt:
    """What a model reads before it writes.

    Attributes:
        ids: Its tokens.
        max_new_tokens: How many tokens may be written after it.
        ends: The tokens that end what is written.
        rules: What changes logits before a token is chosen.
        source_location: Where it came from, for messages.
    """

    ids: list[int]
    max_new_tokens: int
    ends: tuple[int, ...]
    rules: tuple[LogitsProcessorSpec, ...] = ()
    source_location: str = ""


@dataclass(frozen=True)
class GenerationRequest:
    """Prompts to be answered, and how.

    Attributes:
        prompts: What the model reads.
        start: What the answers of an encoder-decoder begin with; None for a decoder.
        tokens: Entries of the vocabulary; the model may have rows for more, and never writes those.
        beams: The beam search; None takes the likeliest token each time.
        read: From the number of a prompt and the texts written for it, the best first, to its
            answer.
    """

    prompts: list[EncodedPrompt]
    start: int | None
    tokens: int
    beams: Beams | None
    read: Callable[[int, list[Written]], Any]
