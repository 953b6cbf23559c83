"""The logits of a head, as it makes them: before any softmax, threshold or decoding.

Shapes: n tokens or texts, C outputs of the head (classes, or entries of the vocabulary).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from clozeworks.arrays import Float32Array
from clozeworks.core.context import AttentionSource
from clozeworks.core.heads import Head
from clozeworks.core.heads.vocabulary import NAME as VOCABULARY
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.errors import MISSING, InputError, SettingError, UnknownName, UnsupportedError
from clozeworks.inference.loop import BatchOptions, Computation, compute_in_order, device_of
from clozeworks.inference.packing import pack
from clozeworks.text.tokenizer.encoding import Encoded
from clozeworks.text.tokenizer.tokenizer import Tokenizer

# One text, or a pair of texts that the model reads together.
TextOrPair = str | tuple[str, str]


@dataclass(frozen=True)
class TextLogits:
    """What a head says about one text."""

    head: str
    """The name of the head."""
    tokens: list[str]
    """The tokens that the head read, special ones included; of an encoder-decoder's vocabulary
    head the tokens of the target, each of which its row predicts."""
    logits: Float32Array
    """A row for each token, (n, C), or one for the whole text, (C,)."""


def head_of(model: Model, name: str | None) -> str:
    """The head that is meant: the one of this name, or the only one.

    Raises:
        SettingError: If there are several and none is named.
        UnknownName: If there is no head of this name.
        UnsupportedError: If there is none that needs hidden states alone.
    """
    known = [head for head, module in model.heads.items() if isinstance(module, Head)]
    if not known:
        raise UnsupportedError("the model has no head that makes logits; give it one by for_task.")
    if name is None:
        if len(known) > 1:
            rule = f"the model has {', '.join(known)}"
            raise SettingError("head", MISSING, rule, "name one of them")
        return known[0]
    if name not in known:
        raise UnknownName("head", name, known)
    return name


def logits(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[TextOrPair],
    *,
    head: str | None = None,
    targets: Sequence[str] | None = None,
    start: int | None = None,
    max_length: int | None = None,
    truncate: bool = False,
    options: BatchOptions | None = None,
) -> list[TextLogits]:
    """Computes the logits of a head for every text.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        texts: Texts, or pairs of texts.
        head: The head's name; the only one if not given.
        targets: What a decoder is to write for each text, for an encoder-decoder's vocabulary head.
        start: The decoder start token.
        max_length: The maximum number of tokens of a text; None without a limit.
        truncate: Whether longer texts are truncated; otherwise they are an error.
        options: Batch size, progress, cancellation.

    Raises:
        InputError: If a text is too long, or targets are missing or superfluous.
    """
    name = head_of(model, head)
    decoded = name == VOCABULARY and model.decoder is not None
    if decoded != (targets is not None) or (targets is not None and len(targets) != len(texts)):
        what = "needs a target for each text" if decoded else "reads the texts alone"
        raise InputError(
            f"the {name} head {what}; {'give' if decoded else 'leave out'} targets, one text each."
        )
    device = device_of(model)
    encoded = encode(tokenizer, texts, max_length=max_length, truncate=truncate)
    answers = [] if targets is None else [each.ids for each in tokenizer.encode(targets)]
    module = model.head(name)
    # Two tokens of one text are read as two vectors, or as one for the whole text.
    probe = torch.zeros(
        2, model.blueprint.width, device=device, dtype=next(model.parameters()).dtype
    )
    per_text = len(module.read(probe, Layout([2]))) == 1

    def forward(batch: list[tuple[int, Encoded]]) -> list[Float32Array]:
        packed = pack([text for _, text in batch], device)
        states, layout = packed.hidden_states(model), packed.layout
        if decoded:
            written = [[start, *answers[number][:-1]] for number, _ in batch]
            source = AttentionSource(states, layout)
            layout = Layout([len(ids) for ids in written])
            ids = torch.tensor([token for text in written for token in text], device=device)
            states = model.decode(ids, layout, source)
        rows = module.logits(states, layout).float().cpu().numpy()
        return list(rows) if per_text else np.split(rows, layout.starts[1:])

    # What a decoder is to write belongs to this call.
    computation = Computation(("head", name, per_text, object() if decoded else None), forward)
    costs = [len(text) for text in encoded]
    results = compute_in_order(model, [*enumerate(encoded)], costs, computation, options)
    tokens = answers or [text.ids for text in encoded]
    return [
        TextLogits(name, [*map(tokenizer.token_of, ids)], rows)
        for ids, rows in zip(tokens, results, strict=True)
    ]


def encode(
    tokenizer: Tokenizer, texts: Sequence[TextOrPair], *, max_length: int | None, truncate: bool
) -> list[Encoded]:
    """Encodes texts, or pairs of texts; all must be of one kind."""
    pairs = [text for text in texts if not isinstance(text, str)]
    if pairs and len(pairs) != len(texts):
        raise InputError("some texts are pairs and some are not; give texts, or pairs of texts.")
    firsts = [text if isinstance(text, str) else text[0] for text in texts]
    seconds = [text[1] for text in pairs] if pairs else None
    truncate = truncate and max_length is not None
    return tokenizer.encode(firsts, seconds, max_length=max_length, truncate=truncate)
