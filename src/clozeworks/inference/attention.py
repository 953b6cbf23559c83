"""Attention weights: how much every token of a text attends to every other.

Shapes: A attentions in running order, H heads, L tokens of the text.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from clozeworks.arrays import Float32Array
from clozeworks.core.context import Trace
from clozeworks.core.model import Model
from clozeworks.inference.logits import TextOrPair, encode
from clozeworks.inference.loop import BatchOptions, device_of, in_order
from clozeworks.inference.packing import pack
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class AttentionWeights:
    """The attention weights of one text."""

    tokens: list[str]
    """Its tokens, special ones included."""
    weights: Float32Array
    """(A, H, L, L): layer, head, the token that attends, the token that is attended to; the last
    axis adds up to 1."""


def attention(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[TextOrPair],
    *,
    max_length: int | None,
    truncate: bool = False,
    options: BatchOptions | None = None,
) -> list[AttentionWeights]:
    """Computes the attention weights of all layers for texts, or pairs of texts.

    Of an encoder-decoder those of the encoder. The arguments are those of `hidden_states`.
    """
    device = device_of(model)
    encoded = encode(tokenizer, texts, max_length=max_length, truncate=truncate)

    def forward(batch: list[int]) -> list[Float32Array]:
        trace = Trace()
        pack([encoded[number] for number in batch], device).encoded(model, trace)
        assert trace.attention is not None
        layers = [[weights.float().cpu() for weights in layer] for layer in trace.attention]
        return [torch.stack(of_text).numpy() for of_text in zip(*layers, strict=True)]

    weights = in_order(model, [len(text) for text in encoded], forward, options)
    return [
        AttentionWeights([*map(tokenizer.token_of, text.ids)], of_text)
        for text, of_text in zip(encoded, weights, strict=True)
    ]
