"""Attention: where every head looks, what it really adds, and what that comes to over layers.

Paper: Kobayashi et al. 2020 (the length of what is added); Abnar & Zuidema 2020 (rollout); Clark
et al. 2019 (what heads look at); Jain & Wallace 2019 (attention is not explanation).
The idea: a weight says how much a head mixes in of a token, not how long the vector is that it
mixes in: heads that look at [SEP] mostly add nothing. So beside the weight α stands |α W_O V|.
Rollout multiplies the layers, half of each the residual stream: A' = (mean over heads + I) / 2,
R_l = A'_l R_(l-1), R_0 = I. Of a decoder the state is a mixture of its own tokens and of those the
encoder read; both parts together sum to 1 in every row. A query stream (XLNet) begins with
nothing but itself.
Trap: L · H · n² numbers are 38 million for 512 tokens. Layers are made one after the other, and
only those that are asked for are kept.

Shapes: L layers, H heads, Q queries, K keys, D head width, W width.
"""

from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from clozeworks.arrays import Float32Array
from clozeworks.core.attention.attend import shared_heads
from clozeworks.core.attention.attention import AttentionModule, CrossAttentionModule
from clozeworks.core.context import AttentionSource, Trace
from clozeworks.core.heads.query_start import NAME as START
from clozeworks.core.layers.two_stream import unseen
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.logits import TextOrPair
from clozeworks.inference.loop import BatchOptions, Computation, compute_in_order, device_of
from clozeworks.inference.packing import pack
from clozeworks.look.pieces import ShownPiece, encode_pieces, rounded, written_pieces
from clozeworks.runtime.memory import available
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted, size_in_words

ENCODER, DECODER, CROSS, QUERIES = "encoder", "decoder", "cross", "queries"
CAUTION = (
    "Weights say where a head looks, not what an answer is due to: other weights can give the same "
    "answer. For causes see attributions."
)
_FRACTION = 0.5


@dataclass(frozen=True, slots=True)
class HeadSummary:
    """What a head looks at, as means over the tokens that look."""

    layer: int
    head: int
    entropy: float
    """Of its weights, in bits; 0 if it looks at one token alone."""
    first: float
    """How much of its weight goes to the first token,"""
    separator: float
    """to the other special tokens, such as [SEP],"""
    distance: float | None = None
    """how far it looks, in tokens; None between two texts;"""
    previous: float | None = None
    """and how much of its weight goes to the token before,"""
    next: float | None = None
    """the one after,"""
    same: float | None = None
    """and the token itself."""


@dataclass(frozen=True)
class AttentionLayer:
    """One layer of an attention."""

    layer: int
    """Its number, from 1 in running order."""
    weights: Float32Array
    """α, (H, Q, K): rows sum to 1 over the keys that may be seen, 0 elsewhere."""
    added: Float32Array
    """|α W_O V|: the length of what each head adds, (H, Q, K)."""
    added_together: Float32Array
    """|Σ α W_O V| over heads, (Q, K)."""
    rollout: Float32Array
    """How much of each key has come into each query up to here, (Q, K)."""


@dataclass(frozen=True)
class AttentionStream:
    """The attention of one kind, of all layers or of some."""

    kind: str
    """encoder, decoder (to what it wrote), cross (to what was read), queries (XLNet's)."""
    queries: tuple[ShownPiece, ...]
    keys: tuple[ShownPiece, ...]
    depth: int
    """How many layers it has."""
    heads: int
    summaries: tuple[HeadSummary, ...]
    """Of every head of every layer."""
    layers: tuple[AttentionLayer, ...]
    """Those that were asked for."""

    def layer(self, number: int) -> AttentionLayer:
        """The layer with a number, from 1.

        Raises:
            SettingError: If it was not asked for.
        """
        for each in self.layers:
            if each.layer == number:
                return each
        listed = ", ".join(str(each.layer) for each in self.layers)
        raise SettingError("layer", number, f"there are only: {listed}", "ask for it")

    def to_dict(
        self, top: int | None = None, *, head: int | None = None, packed: bool = False
    ) -> dict[str, Any]:
        """As JSON can hold it.

        Args:
            top: Only so many keys of each query, as [key, value].
            head: Only this head of each layer, from 1.
            packed: Matrices as 16-bit numbers in base64, with their shape and scale.
        """
        heads = slice(None) if head is None else slice(head - 1, head)

        def matrix(values: Float32Array) -> Any:
            return _packed(values) if packed else _matrix(values, top)

        return {
            "kind": self.kind,
            "queries": [each.to_dict() for each in self.queries],
            "keys": [each.to_dict() for each in self.keys],
            "depth": self.depth,
            "heads": self.heads,
            "summaries": [rounded(_fields(each)) for each in self.summaries],
            "head": head,
            "layers": [
                {
                    "layer": each.layer,
                    "weights": matrix(each.weights[heads]),
                    "added": matrix(each.added[heads]),
                    "added_together": matrix(each.added_together),
                    "rollout": matrix(each.rollout),
                }
                for each in self.layers
            ],
        }


@dataclass(frozen=True)
class AttentionView:
    """What a model attends to while it reads a text."""

    streams: tuple[AttentionStream, ...]

    def stream(self, kind: str | None = None) -> AttentionStream:
        """The attention of a kind; the first if not given.

        Raises:
            SettingError: If the model has none of this kind here.
        """
        kinds = [each.kind for each in self.streams]
        if kind is None:
            return self.streams[0]
        if kind not in kinds:
            rule = f"there is only: {', '.join(kinds)}"
            raise SettingError("kind", kind, rule, "name one of these")
        return self.streams[kinds.index(kind)]

    def notes(self, top: int | None = None) -> list[str]:
        """What this view does not show, and what was left out, in sentences."""
        found = [CAUTION]
        for stream in self.streams:
            if len(stream.layers) < stream.depth:
                shown = ", ".join(str(each.layer) for each in stream.layers) or "none"
                left = f"Of {counted(stream.depth, 'layer')} ({stream.kind}) shown in full: {shown}"
                found.append(f"{left}; heads are summed up for all.")
        if top is not None:
            found.append(f"Of each query only the {counted(top, 'key')} with most weight.")
        return found

    def to_dict(
        self, top: int | None = None, *, head: int | None = None, packed: bool = False
    ) -> dict[str, Any]:
        """As JSON can hold it; the arguments are those of a stream."""
        return {
            "view": "attention",
            "streams": [each.to_dict(top, head=head, packed=packed) for each in self.streams],
            "notes": self.notes(top),
        }


def _fields(summary: HeadSummary) -> dict[str, Any]:
    return {name: getattr(summary, name) for name in HeadSummary.__dataclass_fields__}


def _packed(values: Float32Array) -> dict[str, Any]:
    """Values from 0 up as 16-bit numbers, little-endian, in base64: value = number * scale."""
    most = float(values.max(initial=0.0))
    scale = most / 65_535 if most > 0 else 1.0
    numbers = np.round(values / scale).astype("<u2")
    text = b64encode(numbers.tobytes()).decode("ascii")
    return {"shape": list(values.shape), "scale": scale, "base64": text}


def _matrix(values: Float32Array, top: int | None) -> Any:
    """Three digits of every value, or the highest of each row as [key, value]."""
    exact = np.round(values.astype(np.float64), 3)
    if top is None:
        return exact.tolist()
    order = np.argsort(-exact, axis=-1, kind="stable")[..., :top]
    best = np.take_along_axis(exact, order, axis=-1)
    return np.stack([order, best], axis=-1).tolist()


def look_at_attention(
    model: Model,
    tokenizer: Tokenizer,
    text: TextOrPair,
    *,
    target: str | None = None,
    start: int | None = None,
    layers: Sequence[int] | None = None,
    max_length: int | None = None,
    options: BatchOptions | None = None,
) -> AttentionView:
    """Computes what a model attends to while it reads a text, and what that adds.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        text: A text or a pair. With gaps, a model with a query stream shows that, too.
        target: What an encoder-decoder writes for it; without it only the encoder is shown.
        start: The decoder start token.
        layers: The layers that are wanted in full, from 1; negative numbers count from the last.
            All if not given.
        max_length: The most tokens of a text.
        options: Progress and cancellation.

    Raises:
        InputError: If the text is too long for the model or for the memory.
        SettingError: If there is no such layer.
    """
    encoded, pieces = encode_pieces(tokenizer, text, max_length=max_length)
    written: list[int] = []
    answer: tuple[ShownPiece, ...] = ()
    if target is not None:
        if model.decoder is None:
            rule = "the model has no decoder that writes for a text"
            raise SettingError("target", target, rule, "leave it out")
        assert start is not None, "a decoder has a token it starts from"
        written = [start, *tokenizer.encode([target], max_length=max_length)[0].ids[:-1]]
        answer = written_pieces(tokenizer, written, target)
    towers = [model.encoder, *([model.decoder] if written and model.decoder else [])]
    deepest = max(len(tower.order) for tower in towers)
    wanted = None if layers is None else {_layer(each, deepest) for each in layers}
    longest = max(len(pieces), len(answer))
    _check_memory(model, longest, deepest if wanted is None else len(wanted))
    gaps = [n for n, each in enumerate(encoded.ids) if each == tokenizer.mask_id]
    device = device_of(model)

    def forward(batch: list[int]) -> list[tuple[AttentionStream, ...]]:
        packed = pack([encoded], device)
        reading = _Reading(pieces, wanted)
        states = packed.encoded(model, reading)
        streams = [reading.stream(ENCODER, pieces)]
        if gaps and START in model.heads:
            # Nobody sees what is asked about, so the content stream is another one, too.
            content = _Reading(pieces, set())
            asking = _Reading(pieces, wanted, queries=gaps, content=content.rollouts)
            positions = torch.tensor(gaps, device=device)
            unseen(model, packed.ids, packed.layout, packed.types, positions, asking, content)
            streams.append(asking.stream(QUERIES, tuple(pieces[each] for each in gaps)))
        if written:
            writing = _Reading(answer, wanted, read=pieces, content=reading.rollouts)
            ids = torch.tensor(written, device=device)
            source = AttentionSource(states, packed.layout)
            model.decode(ids, Layout([len(written)]), source, writing)
            streams += [writing.stream(DECODER, answer), writing.stream(CROSS, answer)]
        return [tuple(streams)]

    computation = Computation(("attention", object()), forward)
    cost = len(pieces) + len(answer)
    return AttentionView(compute_in_order(model, [0], [cost], computation, options)[0])


def _layer(number: int, depth: int) -> int:
    if not 1 <= (number + depth + 1 if number < 0 else number) <= depth:
        rule = f"this model has {counted(depth, 'layer')}"
        raise SettingError("layer", number, rule, f"use 1 to {depth}, or -1 for the last")
    return number + depth + 1 if number < 0 else number


def _check_memory(model: Model, tokens: int, layers: int) -> None:
    heads = max(
        (each.heads for each in model.modules() if isinstance(each, AttentionModule)), default=1
    )
    size = 4 * tokens * tokens * heads * (2 * layers + 4)
    have = available(torch.device("cpu"))
    if have is not None and size > have * _FRACTION:
        raise InputError(
            f"the text has {tokens:,} tokens; the attention of {counted(layers, 'layer')} takes "
            f"{size_in_words(size)}, and {size_in_words(have)} are available; shorten it, or ask "
            "for one layer."
        )


class _Reading(Trace):
    """Takes each attention of a text as it comes, and keeps what was asked for.

    Args:
        pieces: The tokens that go through the layers; keys of a self-attention.
        wanted: The layers that are kept in full; all if None.
        queries: The tokens that ask, if not all do.
        read: What an encoder read, for a decoder.
        content: The encoder's rollout after each layer; that of the content stream for queries.
    """

    def __init__(
        self,
        pieces: tuple[ShownPiece, ...],
        wanted: set[int] | None,
        *,
        queries: Sequence[int] | None = None,
        read: tuple[ShownPiece, ...] = (),
        content: Sequence[Tensor] = (),
    ) -> None:
        super().__init__()
        self._pieces, self._read, self._wanted = pieces, read, wanted
        self._queries, self._content = queries, content
        self._kept: dict[str, list[AttentionLayer]] = {}
        self._summaries: dict[str, list[HeadSummary]] = {}
        self._count: dict[str, int] = {}
        self._heads: dict[str, int] = {}
        own = len(pieces) if queries is None else len(queries)
        # How much of each token is in each: of those that ask, and of those that were read.
        self._own = torch.eye(own, dtype=torch.float64)
        self._other = torch.zeros(own, len(read) or len(pieces), dtype=torch.float64)
        self.rollouts: list[Tensor] = [self._own]

    def attended(self, attention: nn.Module, values: Tensor) -> None:
        """Reduces the weights of an attention that has just run."""
        assert isinstance(attention, AttentionModule)
        assert self.attention is not None
        weights = self.attention[-1][0].float().cpu()  # (H, Q, K)
        self.attention.clear()
        is_cross = isinstance(attention, CrossAttentionModule)
        kind = CROSS if is_cross else QUERIES if self._queries is not None else DECODER
        number = self._count[kind] = self._count.get(kind, 0) + 1
        self._heads[kind] = len(weights)
        rollout = self._rolled(weights.double().mean(dim=0), kind, number)
        if is_cross and (before := self._kept.get(DECODER)) and before[-1].layer == number:
            before[-1] = replace(before[-1], rollout=self._own.float().numpy())
        self._summaries.setdefault(kind, []).extend(self._summed_up(weights, kind, number))
        if self._wanted is None or number in self._wanted:
            added, together = lengths_added(attention, weights, values)
            kept = AttentionLayer(
                number, weights.numpy(), added.numpy(), together.numpy(), rollout.float().numpy()
            )
            self._kept.setdefault(kind, []).append(kept)

    def _rolled(self, mean: Tensor, kind: str, number: int) -> Tensor:
        if kind == DECODER:  # to its own tokens
            mixing = rollout_step(mean)
            self._own, self._other = mixing @ self._own, mixing @ self._other
            self.rollouts.append(self._own)
            return self._own
        source = self._content[-1] if kind == CROSS else self._content[number - 1]
        seen = mean.sum(dim=1, keepdim=True)  # 0 for a token that may attend to nothing
        self._own = self._own / (1 + seen)
        self._other = (self._other + mean @ source) / (1 + seen)
        return self._other

    def _summed_up(self, weights: Tensor, kind: str, layer: int) -> list[HeadSummary]:
        keys = self._read if kind == CROSS else self._pieces
        special = torch.tensor([each.special for each in keys])
        special[0] = False
        asked = None
        if kind != CROSS:
            asked = (
                torch.arange(len(keys)) if self._queries is None else torch.tensor(self._queries)
            )
        return [
            _summary(each, layer, number, special, asked)
            for number, each in enumerate(weights, start=1)
        ]

    def stream(self, kind: str, queries: tuple[ShownPiece, ...]) -> AttentionStream:
        """What was kept of a kind."""
        own = DECODER if kind == ENCODER else kind
        return AttentionStream(
            kind=kind,
            queries=queries,
            keys=self._read if kind == CROSS else self._pieces,
            depth=self._count.get(own, 0),
            heads=self._heads.get(own, 0),
            summaries=tuple(self._summaries.get(own, ())),
            layers=tuple(self._kept.get(own, ())),
        )


def rollout_step(mean: Tensor) -> Tensor:
    """(A + I) with its rows normalised, from the mean over heads, (Q, Q)."""
    mixing = mean + torch.eye(len(mean), dtype=mean.dtype)
    return mixing / mixing.sum(dim=1, keepdim=True)


def lengths_added(
    attention: AttentionModule, weights: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """How long the vectors are that heads add, (H, Q, K), and those of all heads together, (Q, K).

    Args:
        attention: The module, whose output projection is W_O.
        weights: α, (H, Q, K).
        values: V, (K, H or fewer, D).
    """
    by_head = added_vectors(attention, values)  # (K, H, W)
    lengths = by_head.norm(dim=2)  # (K, H)
    # |Σ_h α_h f_h|² = Σ_hg α_h α_g f_h · f_g, so that no vector is made for each pair of tokens.
    products = by_head @ by_head.transpose(1, 2)  # (K, H, H)
    squares = torch.einsum("hqk,khg,gqk->qk", weights, products, weights)
    return weights * lengths.T[:, None], squares.clamp(min=0).sqrt()


def added_vectors(attention: AttentionModule, values: Tensor) -> Tensor:
    """W_O V of each key and head, (K, H, W); the output's bias belongs to none."""
    own = shared_heads(values, attention.heads).float().cpu()  # (K, H, D)
    output = attention.output.weight.float().cpu()  # (W, H * D)
    by_head = output.view(len(output), attention.heads, -1)
    return torch.einsum("khd,whd->khw", own, by_head)


def _summary(
    weights: Tensor, layer: int, head: int, special: Tensor, asked: Tensor | None
) -> HeadSummary:
    """What a head (Q, K) looks at; `asked` are the positions of the queries among the keys."""
    rows = weights.double()
    looking = rows.sum(dim=1) > 0
    rows = rows[looking]
    if not len(rows):
        return HeadSummary(layer, head, 0.0, 0.0, 0.0)
    entropy = -torch.special.xlogy(rows, rows).sum(dim=1).mean() / np.log(2)
    plain = HeadSummary(
        layer,
        head,
        entropy=abs(float(entropy)),
        first=float(rows[:, 0].mean()),
        separator=float(rows[:, special].sum(dim=1).mean()),
    )
    if asked is None:
        return plain
    away = torch.arange(rows.shape[1])[None] - asked[looking][:, None]

    def share(distance: int) -> float:
        return float((rows * (away == distance)).sum(dim=1).mean())

    return HeadSummary(
        layer,
        head,
        plain.entropy,
        plain.first,
        plain.separator,
        distance=float((rows * away.abs()).sum(dim=1).mean()),
        previous=share(-1),
        next=share(1),
        same=share(0),
    )
