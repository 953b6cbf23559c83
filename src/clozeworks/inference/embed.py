"""Embeddings: one vector per text, and the hidden states of every token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from clozeworks.core.context import Trace
from clozeworks.core.heads.sentence_vectors import SentenceVectorsModule
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.loop import (
    BatchOptions,
    Computation,
    compute,
    compute_in_order,
    device_of,
)
from clozeworks.inference.packing import check_finite, pack
from clozeworks.text.tokenizer.encoding import Encoded
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.valid import check_type, location_of

Vectors = NDArray[np.float32]


def embed(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    chain: SentenceVectorsModule,
    max_length: int | None,
    prompt: str = "",
    pool_prompt: bool = True,
    truncate: bool = False,
    source_locations: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> Vectors:
    """Computes one vector per text.

    Args:
        model: The encoder.
        tokenizer: Its tokenizer.
        texts: The texts; none may be empty.
        chain: How hidden states become vectors: pooling, and what follows it.
        max_length: The maximum number of tokens of a text, the prompt's included.
        prompt: Text put before each text.
        pool_prompt: Whether the prompt's tokens are pooled, too.
        truncate: Whether longer texts are truncated; otherwise they are an error.
        source_locations: Where each text came from, for messages.
        options: Batch size, progress, cancellation.

    Returns:
        A (texts, width) array in the order of the texts.

    Raises:
        InputError: If a text is empty or too long, or if nothing but the prompt fits.
        CheckpointError: If a vector is not finite.
    """
    check_texts(texts, source_locations)
    device = device_of(model)
    vectors = np.empty((len(texts), chain.width), dtype=np.float32)
    if not texts:
        return vectors
    truncate = truncate and max_length is not None
    whole = [prompt + text for text in texts] if prompt else texts
    encoded = tokenizer.encode(
        whole, max_length=max_length, truncate=truncate, source_locations=source_locations
    )
    lengths = [len(text) for text in encoded]
    skipped = 0
    if prompt and not pool_prompt:
        # Compat: counted on the prompt alone, although its last token may join with the text's.
        alone = tokenizer.encode([prompt])[0]
        skipped = len(alone) - sum(alone.special[-1:])
    for number, length in enumerate(lengths):
        if length <= skipped:
            raise InputError(
                f"{location_of(number, source_locations)} has {length:,} tokens and the prompt "
                f"{skipped:,}, which are not pooled; shorten the prompt, or raise max_length."
            )

    def forward(batch: list[tuple[int, Encoded]]) -> list[Vectors]:
        packed = pack([text for _, text in batch], device)
        only_first = chain.reads_first and not skipped
        hidden_states, layout = packed.to_pool(model, only_first=only_first)
        computed: torch.Tensor = chain(hidden_states, layout, skipped, packed.ids)
        check_finite(model, computed, [n for n, _ in batch], "the vector", source_locations)
        return list(computed.cpu().numpy())

    computation = Computation(("vectors", chain.key, skipped), forward)
    for numbers, rows in compute(model, [*enumerate(encoded)], lengths, computation, options):
        vectors[numbers] = rows
    return vectors


@dataclass(frozen=True)
class TokenVectors:
    """The hidden states of one text."""

    text: str
    tokens: list[str]
    """Its tokens, special ones included."""
    offsets: list[tuple[int, int]]
    """Where each token begins and ends in the text; (0, 0) for special ones."""
    vectors: Vectors
    """One row per token."""


def hidden_states(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    layer: int,
    max_length: int | None,
    truncate: bool = False,
    options: BatchOptions | None = None,
) -> list[TokenVectors]:
    """Computes the hidden states of every token; the arguments are those of `embed`.

    `layer` says which layer's output: 0 is the embeddings, negative numbers count from the last.

    Raises:
        InputError: If a text is empty or too long.
        SettingError: If the model has no such layer.
    """
    check_texts(texts)
    depth = len(model.blueprint.encoder.running_order())
    check_layer("layer", layer, depth)
    device = device_of(model)
    truncate = truncate and max_length is not None
    encoded = tokenizer.encode(texts, max_length=max_length, truncate=truncate, offsets=True)

    def forward(batch: list[Encoded]) -> list[Vectors]:
        packed = pack(batch, device)
        # Trap: the last kept state is before a final norm; the model's result is after it.
        trace = Trace(attention=None) if layer not in (-1, depth) else None
        output = packed.encoded(model, trace)
        chosen = trace.hidden_states[layer] if trace else output
        return [states.float().cpu().numpy() for states in packed.layout.split(chosen)]

    computation = Computation(("hidden states", layer), forward)
    costs = [len(text) for text in encoded]
    vectors = compute_in_order(model, encoded, costs, computation, options)
    return [
        TokenVectors(text, [*map(tokenizer.token_of, item.ids)], list(item.offsets or []), states)
        for text, item, states in zip(texts, encoded, vectors, strict=True)
    ]


def check_layer(setting: str, layer: int | str, depth: int) -> None:
    """Checks that a model with `depth` layers has a layer; 0 is the embeddings.

    Raises:
        SettingError: If it does not.
    """
    if not -depth - 1 <= int(layer) <= depth:
        advice = (
            f"use 0 (the embeddings) to {depth}, or a negative number that counts from the last"
        )
        raise SettingError(setting, layer, f"this model has {depth} layers", advice)


def check_texts(texts: Sequence[str], source_locations: Sequence[str] | None = None) -> None:
    """Checks that every text is a str with more than white space.

    Raises:
        InputError: If one is not.
    """
    for number, text in enumerate(texts):
        check_type("text", number + 1, text)
        if not text.strip():
            what = "only white space" if text else "empty"
            raise InputError(
                f"{location_of(number, source_locations)} is {what}; a vector needs at least one "
                f"word; drop it."
            )
