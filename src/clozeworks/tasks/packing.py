"""From texts to what a model takes: tokens, then packed numbers and their layout."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from clozeworks.core.flow import Trace
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.errors import InputError
from clozeworks.text.tokenizer import Encoded, Tokenizer


@dataclass(frozen=True)
class Packed:
    """Texts one after the other."""

    ids: Tensor
    types: Tensor
    layout: Layout

    def hidden(self, model: Model, trace: Trace | None = None) -> Tensor:
        """The model's vectors of all tokens, (N, W)."""
        vectors: Tensor = model(self.ids, self.layout, self.types, trace)
        return vectors


def encode(
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    max_length: int | None,
    truncate: bool = False,
    offsets: bool = False,
    places: Sequence[str] | None = None,
    advice: str = "shorten it",
) -> list[Encoded]:
    """Tokens of every text; a text that is too long is named by its place.

    Args:
        tokenizer: The model's tokenizer.
        texts: The texts.
        max_length: The most tokens a text may have.
        truncate: Whether longer texts are cut; otherwise they are an error.
        offsets: Whether offsets are given too.
        places: Where each text came from; its number if not given.
        advice: What to do about a text that is too long.
    """
    if truncate and max_length is not None:
        return tokenizer.encode(texts, max_length=max_length, truncate=True, offsets=offsets)
    encoded = tokenizer.encode(texts, offsets=offsets)
    if max_length is None:
        return encoded
    long = [number for number, text in enumerate(encoded) if len(text) > max_length]
    if long:
        worst = max(long, key=lambda number: len(encoded[number]))
        others = f" ({len(long):,} of {len(texts):,} texts are too long)" if len(long) > 1 else ""
        raise InputError(
            f"{place_of(worst, places)} has {len(encoded[worst]):,} tokens; at most "
            f"{max_length:,} are allowed{others}; {advice}."
        )
    return encoded


def place_of(number: int, places: Sequence[str] | None) -> str:
    """What a message calls the text with this number."""
    return f"text {number + 1:,}" if places is None else places[number]


def pack(encoded: Sequence[Encoded], device: torch.device) -> Packed:
    """Puts texts one after the other in the order given."""
    layout = Layout([len(text) for text in encoded])
    ids = torch.tensor(list(chain.from_iterable(text.ids for text in encoded)), dtype=torch.long)
    types = torch.tensor(
        list(chain.from_iterable(text.types for text in encoded)), dtype=torch.long
    )
    return Packed(ids.to(device), types.to(device), layout)


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Without dropout, whatever mode the model is in; the mode comes back afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def device_of(model: Model) -> torch.device:
    """Where the model's weights are."""
    return next(model.parameters()).device
