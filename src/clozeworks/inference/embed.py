"""One vector per text, and one per token.

Texts are sorted by length, cut into batches by number of tokens, and batches run side by side, so
the cost is that of the real tokens at the speed of the machine's matrix product.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from clozeworks.core.context import Trace
from clozeworks.core.heads.pooling import check_modes, pool
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.loop import BatchOptions, device_of, in_batches, in_order
from clozeworks.inference.packing import check_finite, pack
from clozeworks.text.tokenizer.tokenizer import Encoded, Tokenizer
from clozeworks.text.valid import check_type, place_of

Vectors = NDArray[np.float32]


def embed(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    modes: Sequence[str],
    normalize: bool,
    max_length: int | None,
    prompt: str = "",
    pool_prompt: bool = True,
    truncate: bool = False,
    places: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> Vectors:
    """One vector per text.

    Args:
        model: The encoder.
        tokenizer: Its tokenizer.
        texts: The texts; none may be empty.
        modes: Poolings, side by side in the vector.
        normalize: Whether vectors are scaled to length 1.
        max_length: The most tokens a text may have, the prompt's among them.
        prompt: What is put before each text.
        pool_prompt: Whether the prompt's tokens count in the vector too.
        truncate: Whether longer texts are cut; otherwise they are an error.
        places: Where each text came from, for messages.
        options: Batch size, progress, cancellation.

    Returns:
        A (texts, width x modes) array in the order of the texts.
    """
    check_modes(modes)
    check_texts(texts, places)
    device = device_of(model)
    width = model.blueprint.width * len(modes)
    vectors = np.empty((len(texts), width), dtype=np.float32)
    if not texts:
        return vectors
    cut = truncate and max_length is not None
    whole = [prompt + text for text in texts] if prompt else texts
    encoded = tokenizer.encode(whole, max_length=max_length, truncate=cut, places=places)
    lengths = [len(text) for text in encoded]
    leave_out = 0 if pool_prompt else _prompt_tokens(tokenizer, prompt)
    for number, length in enumerate(lengths):
        if length <= leave_out:
            raise InputError(
                f"{place_of(number, places)} has {length:,} tokens and the prompt {leave_out:,}, "
                f"which do not count in the vector; shorten the prompt, or raise max_length."
            )

    def forward(batch: list[int]) -> torch.Tensor:
        packed = pack([encoded[text] for text in batch], device)
        pooled = pool(packed.hidden(model), packed.layout, modes, leave_out)
        check_finite(model, pooled, batch, "the vector", places)
        return F.normalize(pooled, dim=1, eps=1e-12) if normalize else pooled

    for batch, result in in_batches(model, lengths, forward, options):
        vectors[batch] = result.cpu().numpy()
    return vectors


@dataclass(frozen=True)
class TokenVectors:
    """The contextual vectors of one text."""

    text: str
    tokens: list[str]
    """The pieces, special ones included."""
    offsets: list[tuple[int, int]]
    """Where each piece stands in the text; (0, 0) for special ones."""
    vectors: Vectors
    """One row per token."""


def hidden(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    layer: int,
    max_length: int | None,
    truncate: bool = False,
    options: BatchOptions | None = None,
) -> list[TokenVectors]:
    """Contextual vectors of every token.

    Args:
        model: The encoder.
        tokenizer: Its tokenizer.
        texts: The texts; none may be empty.
        layer: Which layer's output; 0 is the embeddings, negative numbers count from the last.
        max_length: The most tokens a text may have.
        truncate: Whether longer texts are cut; otherwise they are an error.
        options: Batch size, progress, cancellation.
    """
    check_texts(texts)
    depth = len(model.blueprint.encoder.running_order())
    if not -depth - 1 <= layer <= depth:
        raise SettingError(
            f"layer is {layer}; this model has {depth} layers; give 0 (the embeddings) to {depth}, "
            f"or a negative number that counts from the last."
        )
    device = device_of(model)
    cut = truncate and max_length is not None
    encoded = tokenizer.encode(texts, max_length=max_length, truncate=cut, offsets=True)

    def forward(batch: list[int]) -> list[Vectors]:
        packed = pack([encoded[text] for text in batch], device)
        # Trap: the last kept state is before a final norm; the model's result is after it.
        trace = Trace(attention=None) if layer not in (-1, depth) else None
        result = packed.hidden(model, trace)
        chosen = trace.hidden[layer] if trace else result
        return [piece.float().cpu().numpy() for piece in packed.layout.split(chosen)]

    vectors = in_order(model, [len(text) for text in encoded], forward, options)
    return [
        TokenVectors(text, _pieces(tokenizer, item), list(item.offsets or []), own)
        for text, item, own in zip(texts, encoded, vectors, strict=True)
    ]


def check_texts(texts: Sequence[str], places: Sequence[str] | None = None) -> None:
    """Complains about what is no text, and about texts without content."""
    for number, text in enumerate(texts):
        check_type("text", number + 1, text)
        if not text.strip():
            kind = "only white space" if text else "empty"
            raise InputError(
                f"{place_of(number, places)} is {kind}; a vector needs at least one word; drop it."
            )


def _prompt_tokens(tokenizer: Tokenizer, prompt: str) -> int:
    """How many tokens at the beginning of a text are the prompt's."""
    if not prompt:
        return 0
    # Compat: counted on the prompt alone, although its last token may join with the text's first.
    encoded = tokenizer.encode([prompt])[0]
    return len(encoded) - sum(encoded.special[-1:])


def _pieces(tokenizer: Tokenizer, item: Encoded) -> list[str]:
    return [tokenizer.token_of(token) for token in item.ids]
