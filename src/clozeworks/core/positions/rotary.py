"""Rotary positions: queries and keys are turned by an angle that grows with their place.

Paper: Su et al. 2021 (RoFormer).
The idea: numbers i and i + D/2 of a head are a point in a plane, turned by place * theta^(-2i/D).
The product of a turned query and a turned key depends on how far apart they stand and on nothing
else, so no text is too long for a table. A larger theta turns more slowly and tells places apart
over longer distances.
Where paper and code differ: the paper pairs neighbours, 2i and 2i + 1; checkpoints in the Hugging
Face layout pair the two halves of a head.
Used by: ModernBERT.

Shapes: B texts of a group, H heads, L queries or keys, D head width.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.attend import Relate
from clozeworks.core.flow import Flow
from clozeworks.core.layout import Group
from clozeworks.core.positions import PositionSpec
from clozeworks.core.spec import spec
from clozeworks.errors import SettingError

# The cosine of every angle, and its sine with the sign that the turn needs, (B or 1, 1, L, D) each.
Angles = tuple[Tensor, Tensor]


@spec
class Rotary(PositionSpec):
    """Turns queries and keys."""

    paper: ClassVar[str] = "Su et al. 2021"

    theta: float
    """How slowly the last pair turns."""

    def build(self, width: int, heads: int, head_width: int) -> "RotaryModule":
        """Makes the module."""
        if head_width % 2:
            raise SettingError(
                f"a head is {head_width} wide; rotary positions turn pairs of numbers, so it must "
                f"be even; change the width or the heads."
            )
        if not self.theta > 0:
            raise SettingError(f"positions.theta is {self.theta}; it must be above 0.")
        return RotaryModule(head_width, self.theta)


class RotaryModule(nn.Module):
    """Turns queries and keys; it has no weights."""

    def __init__(self, head_width: int, theta: float) -> None:
        super().__init__()
        self.head_width = head_width
        self.theta = theta

    def extra_repr(self) -> str:
        """What decides the angles."""
        return f"{self.head_width}, theta={self.theta}"

    def forward(self, attention: nn.Module, flow: Flow) -> Relate:
        """What `attend` asks of each group."""

        def relate(q: Tensor, k: Tensor, group: Group) -> tuple[Tensor, Tensor, None]:
            wide = torch.promote_types(q.dtype, torch.float32)
            of_queries, of_keys = self._of_queries(flow, group, wide), self._of_keys(group, wide)
            return _turned(q, of_queries), _turned(k, of_keys), None

        return relate

    def _of_queries(self, flow: Flow, group: Group, dtype: torch.dtype) -> Angles:
        if flow.source is not None and flow.source.places is not None:
            return self._angles(flow.query_places(group), dtype)  # the pass has its own places
        angles: Angles = group.once(
            ("rotary queries", self.theta, self.head_width, dtype),
            lambda: self._angles(group.query_positions(), dtype),
        )
        return angles

    def _of_keys(self, group: Group, dtype: torch.dtype) -> Angles:
        angles: Angles = group.once(
            ("rotary keys", self.theta, self.head_width, dtype),
            lambda: self._angles(group.key_positions(), dtype),
        )
        return angles

    def _angles(self, places: Tensor, dtype: torch.dtype) -> Angles:
        """The angles of places (B or 1, L)."""
        # Compat: float32 from the first to the last step, as published models were trained.
        steps = torch.arange(0, self.head_width, 2, device=places.device).float()
        speeds = 1.0 / self.theta ** (steps / self.head_width)  # (D / 2,)
        angles = places[..., None].float() * speeds
        cosine, sine = angles.cos(), angles.sin()
        return (
            torch.cat([cosine, cosine], dim=-1)[:, None].to(dtype),
            torch.cat([-sine, sine], dim=-1)[:, None].to(dtype),
        )


def _turned(x: Tensor, angles: Angles) -> Tensor:
    """Rows (B, H, L, D), each turned by the angles of its place."""
    cosine, sine = angles
    half = x.shape[-1] // 2
    return torch.addcmul(x * cosine, x.roll(half, dims=-1), sine).to(x.dtype)
