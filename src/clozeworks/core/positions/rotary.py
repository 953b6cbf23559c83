"""Rotary positions: queries and keys are turned by an angle that grows with their position.

Paper: Su et al. 2021 (RoFormer).
The idea: numbers i and i + D/2 of a head are a point in a plane, turned by an angle of
position * theta^(-2i/D). The product of a turned query and a turned key depends on how far apart
they stand and on nothing else, so no text is too long for a table. A larger theta turns more slowly
and tells positions apart over longer distances.
Where paper and code differ: the paper pairs neighbours, 2i and 2i + 1; checkpoints in the Hugging
Face layout pair the two halves of a head.
Used by: ModernBERT, LLaMA.

Shapes: N queries or keys, H heads, D head width.
"""

from typing import ClassVar

import torch
from torch import Tensor

from clozeworks.core.context import ForwardContext
from clozeworks.core.layout import Layout
from clozeworks.core.positions import PositionModule, PositionSpec
from clozeworks.errors import SettingError
from clozeworks.spec import PositiveFloat, Slot, spec

# The cosine of every angle, and its sine with the sign that the turn needs, (N, 1, D) each.
Angles = tuple[Tensor, Tensor]


class RotaryScaling(Slot):
    """Slot: how a model that learned on short texts turns on longer ones."""

    is_slot: ClassVar[bool] = True

    def scaled(self, speeds: Tensor) -> Tensor:
        """Other speeds in place of these, (D / 2,)."""
        raise NotImplementedError


@spec
class Slower(RotaryScaling):
    """Every pair turns `factor` times as slowly: positions are squeezed together."""

    paper: ClassVar[str] = "Chen et al. 2023"

    factor: float

    def scaled(self, speeds: Tensor) -> Tensor:
        """Speeds divided by the factor."""
        return speeds / self.factor


@spec
class SlowerWhereSlow(RotaryScaling):
    """Only pairs that turn slowly are slowed down; fast ones, which tell neighbours apart, are not.

    A pair that turns more than `high` times within `length` positions is left alone, one that turns
    fewer than `low` times is slowed by the factor, and between the two it is mixed.
    """

    paper: ClassVar[str] = "Llama team 2024"

    factor: float
    low: float
    high: float
    length: int
    """How long texts were in training."""

    def scaled(self, speeds: Tensor) -> Tensor:
        """Speeds, some divided by the factor."""
        turns = self.length * speeds / (2 * torch.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return kept * speeds + (1 - kept) * speeds / self.factor


@spec
class Rotary(PositionSpec):
    """Turns queries and keys."""

    paper: ClassVar[str] = "Su et al. 2021"

    theta: PositiveFloat
    """How slowly the last pair turns."""
    scaling: RotaryScaling | None = None

    def build(self, width: int, heads: int, head_width: int) -> "RotaryModule":
        """Makes the module."""
        if head_width % 2:
            rule = "rotary positions turn pairs of numbers, so it must be even"
            raise SettingError("head_width", head_width, rule, "change the width or the heads")
        return RotaryModule(head_width, self.theta, self.scaling)


class RotaryModule(PositionModule):
    """Turns queries and keys; it has no weights."""

    def __init__(self, head_width: int, theta: float, scaling: RotaryScaling | None) -> None:
        super().__init__()
        self.head_width = head_width
        self.theta = theta
        self.scaling = scaling

    def extra_repr(self) -> str:
        """What decides the angles."""
        return f"{self.head_width}, theta={self.theta}"

    def turned(self, q: Tensor, k: Tensor, context: ForwardContext) -> tuple[Tensor, Tensor]:
        """Each query and each key turned by the angles of its position."""
        return (
            self._turned(q, context.layout, context.query_at(q.device)),
            self._turned(k, context.seen_layout, context.seen_layout.positions(k.device)),
        )

    def _turned(self, x: Tensor, layout: Layout, positions: Tensor) -> Tensor:
        """Packed heads (N, H, D), each turned by the angles of its position."""
        key = ("angles", positions, self.theta, self.scaling, self.head_width, x.dtype)
        cosine, sine = layout.once(key, lambda: self._angles(positions, x.dtype))
        half = x.shape[-1] // 2
        return torch.addcmul(x * cosine, x.roll(half, dims=-1), sine).to(x.dtype)

    def _angles(self, positions: Tensor, dtype: torch.dtype) -> Angles:
        """The angles of positions (N,)."""
        # Compat: float32 from the first to the last step, as published models were trained.
        steps = torch.arange(0, self.head_width, 2, device=positions.device).float()
        speeds = 1.0 / self.theta ** (steps / self.head_width)  # (D / 2,)
        if self.scaling is not None:
            speeds = self.scaling.scaled(speeds)
        angles = positions[:, None].float() * speeds
        cosine, sine = angles.cos(), angles.sin()
        wide = torch.promote_types(dtype, torch.float32)
        return (
            torch.cat([cosine, cosine], dim=-1)[:, None].to(wide),
            torch.cat([-sine, sine], dim=-1)[:, None].to(wide),
        )
