"""A family in one file: an encoder with norms before, gated feed-forward and turned positions.

It is what `docs/guides/new-family.md` describes, and the proof that a file in `families/` is all it
takes. Even its position scheme lives here, as the odd part of a single family should.
"""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.attention.attend import Relate
from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.context import ForwardContext
from clozeworks.core.heads.vocabulary import Vocabulary
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import GatedMlp
from clozeworks.core.layers.norm import RmsNorm
from clozeworks.core.layers.sublayer import PreNorm
from clozeworks.core.layers.tower import Tower
from clozeworks.core.layout import Group
from clozeworks.core.positions import PositionModule, PositionSpec
from clozeworks.families.family import Config, Family, Parts, architecture
from clozeworks.families.weights import rules
from clozeworks.spec import spec
from clozeworks.text.tokenizer.styles import WordPieceStyle


@spec
class Turned(PositionSpec):
    """Queries and keys are turned by an angle that grows with their place."""

    paper: ClassVar[str] = "Su et al. 2021"

    base: float = 10_000.0

    def build(self, width: int, heads: int, head_width: int) -> "TurnedModule":
        return TurnedModule(head_width, self.base)


class TurnedModule(PositionModule):
    def __init__(self, head_width: int, base: float) -> None:
        super().__init__()
        self.head_width = head_width
        self.base = base

    def forward(self, attention: nn.Module, flow: ForwardContext) -> Relate:
        def relate(q: Tensor, k: Tensor, group: Group) -> tuple[Tensor, Tensor, None]:
            return (
                self._turn(q, flow.query_positions(group)),
                self._turn(k, group.key_positions()),
                None,
            )

        return relate

    def _turn(self, x: Tensor, positions: Tensor) -> Tensor:
        half = self.head_width // 2
        speeds = self.base ** (-torch.arange(half, device=x.device) / half)
        angles = (positions[..., None] * speeds)[:, None]  # (B or 1, 1, L, D / 2)
        left, right = x[..., :half], x[..., half:]
        return torch.cat(
            [
                left * angles.cos() - right * angles.sin(),
                right * angles.cos() + left * angles.sin(),
            ],
            dim=-1,
        )


def read(config: Config, parts: Parts) -> Blueprint:
    norm = RmsNorm(eps=config.number("norm_eps", 1e-6))
    attention = SelfAttention(
        heads=config.whole("heads", 4), positions=Turned(base=config.number("base", 1e4))
    )
    layer = (
        PreNorm(part=attention, norm=norm),
        PreNorm(part=GatedMlp(inner=config.whole("inner", 64), activation="silu"), norm=norm),
    )
    head = Vocabulary(norm=norm, tied=config.truth("tie_word_embeddings", True))
    return Blueprint(
        width=config.whole("width", 32),
        embeddings=Embeddings(tokens=config.whole("vocab_size", 100)),
        encoder=Tower(layers=(layer,) * config.whole("depth", 2), final_norm=norm),
        heads={"vocabulary": head} if "vocabulary" in parts else {},
    )


def write(blueprint: Blueprint) -> dict[str, Any]:
    attention, feed_forward = blueprint.encoder.layers[0]
    assert isinstance(attention.part, SelfAttention) and isinstance(feed_forward.part, GatedMlp)
    return {
        "width": blueprint.width,
        "depth": len(blueprint.encoder.layers),
        "heads": attention.part.heads,
        "inner": feed_forward.part.inner,
        "base": getattr(attention.part.positions, "base", None),
        "norm_eps": getattr(blueprint.encoder.final_norm, "eps", None),
        "vocab_size": blueprint.embeddings.tokens,
        "tie_word_embeddings": getattr(blueprint.heads.get("vocabulary"), "tied", True),
    }


FAMILY = Family(
    model_type="turned",
    paper="nobody",
    prefix="turned.",
    base="TurnedModel",
    architectures={"TurnedModel": architecture(), "TurnedForMaskedLM": architecture("vocabulary")},
    body=rules(
        ("embeddings.tokens.weight", "tokens.weight"),
        *(
            (
                f"encoder.layers.{{layer}}.attention.part.{name}.{{kind}}",
                f"blocks.{{layer}}.attention.{name}.{{kind}}",
            )
            for name in ("query", "key", "value", "output")
        ),
        ("encoder.layers.{layer}.attention.norm.weight", "blocks.{layer}.attention.norm.weight"),
        *(
            (
                f"encoder.layers.{{layer}}.feed_forward.part.{name}.weight",
                f"blocks.{{layer}}.mlp.{name}.weight",
            )
            for name in ("gate", "up", "down")
        ),
        ("encoder.layers.{layer}.feed_forward.norm.weight", "blocks.{layer}.mlp.norm.weight"),
        ("encoder.norm.weight", "norm.weight"),
    ),
    head=rules(
        ("heads.vocabulary.dense.{kind}", "head.dense.{kind}"),
        ("heads.vocabulary.norm.weight", "head.norm.weight"),
        ("heads.vocabulary.decoder.{kind}", "head.decoder.{kind}"),
    ),
    sizes={"turned-tiny": {"width": 32, "depth": 2}},
    style=WordPieceStyle(),
    read=read,
    write=write,
)
