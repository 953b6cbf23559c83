"""Rotary positions: queries and keys are turned by an angle that grows with their position.

Paper: Su et al. 2021 (RoFormer); for texts longer than those of training Chen et al. 2023, Peng et
al. 2023 (YaRN, and theta that grows), Ding et al. 2024 (LongRoPE).
The idea: numbers i and i + D/2 of a head are a point in a plane, turned by an angle of
position * theta^(-2i/D). The product of a turned query and a turned key depends on how far apart
they stand and on nothing else, so no text is too long for a table. A larger theta turns more slowly
and tells positions apart over longer distances.
Where paper and code differ: the paper pairs neighbours, 2i and 2i + 1; checkpoints in the Hugging
Face layout pair the two halves of a head.
Used by: ModernBERT, LLaMA and its relatives.

Shapes: N queries or keys, H heads, D head width.
"""

import math
from typing import ClassVar

import torch
from torch import Tensor

from clozeworks.core.context import ForwardContext
from clozeworks.core.layout import Layout
from clozeworks.core.positions import PositionModule, PositionSpec
from clozeworks.errors import SettingError
from clozeworks.spec import NonNegativeFloat, PositiveFloat, PositiveInt, Slot, spec

# The cosine of every angle, and its sine with the sign that the turn needs, (N, 1, D) each.
Angles = tuple[Tensor, Tensor]


def plain_speeds(theta: float | Tensor, head_width: int, device: torch.device) -> Tensor:
    """How far each pair turns from one position to the next, (D / 2,), or of each theta (N, 1)."""
    # Compat: float32 from the first to the last step, as published models were trained.
    steps = torch.arange(0, head_width, 2, device=device).float()
    return 1.0 / theta ** (steps / head_width)


class RotaryScaling(Slot):
    """Slot: how a model that learned on short texts turns on longer ones."""

    is_slot: ClassVar[bool] = True
    attention_factor: float = 1.0
    """What turned queries and keys are multiplied by."""

    def speeds(self, theta: float, head_width: int, lengths: Tensor) -> Tensor:
        """How far each pair turns from one position to the next.

        Args:
            theta: How slowly the last pair turns without scaling.
            head_width: How wide a head is.
            lengths: How many tokens the text of each token has so far, (N,).

        Returns:
            Speeds (D / 2,), or those of each token, (N, D / 2).
        """
        raise NotImplementedError

    def check_width(self, head_width: int) -> None:
        """Complains about heads that it cannot turn."""


@spec
class Slower(RotaryScaling):
    """Every pair turns `factor` times as slowly: positions are squeezed together."""

    paper: ClassVar[str] = "Chen et al. 2023"

    factor: PositiveFloat

    def speeds(self, theta: float, head_width: int, lengths: Tensor) -> Tensor:
        """Speeds divided by the factor."""
        return plain_speeds(theta, head_width, lengths.device) / self.factor


@spec
class SlowerWhereSlow(RotaryScaling):
    """Only pairs that turn slowly are slowed down; fast ones, which tell neighbours apart, are not.

    A pair that turns more than `high` times within `length` positions is left alone, one that turns
    fewer than `low` times is slowed by the factor, and between the two it is mixed.
    """

    paper: ClassVar[str] = "Llama team 2024"

    factor: PositiveFloat
    low: float
    high: float
    length: int
    """How long texts were in training."""

    def speeds(self, theta: float, head_width: int, lengths: Tensor) -> Tensor:
        """Speeds, some divided by the factor."""
        speeds = plain_speeds(theta, head_width, lengths.device)
        turns = self.length * speeds / (2 * torch.pi)
        kept = ((turns - self.low) / (self.high - self.low)).clamp(0, 1)
        return kept * speeds + (1 - kept) * speeds / self.factor


@spec
class Yarn(RotaryScaling):
    """Slow pairs are slowed down, fast ones are not; between them, by number rather than by speed.

    A pair that turns more than `fast` times within `length` positions is left alone, one that turns
    fewer than `slow` times is slowed by the factor. Longer texts flatten attention, so its scores
    are made larger, by the square of `attention_factor`.
    """

    paper: ClassVar[str] = "Peng et al. 2023"

    factor: PositiveFloat
    length: PositiveInt
    """How long texts were in training."""
    attention_factor: NonNegativeFloat
    fast: PositiveFloat = 32.0
    slow: PositiveFloat = 1.0
    whole: bool = True
    """Whether the mixing begins and ends with whole pairs."""

    def speeds(self, theta: float, head_width: int, lengths: Tensor) -> Tensor:
        """Speeds, some divided by the factor."""
        speeds = plain_speeds(theta, head_width, lengths.device)
        first, last = (self._pair(turns, theta, head_width) for turns in (self.fast, self.slow))
        if self.whole:
            first, last = math.floor(first), math.ceil(last)
        # Compat: the last pair is sought among all numbers of a head, not among its pairs.
        first, last = max(first, 0), min(last, head_width - 1)
        last = last + 0.001 if first == last else last
        pairs = torch.arange(head_width // 2, device=lengths.device).float()
        slowed = ((pairs - first) / (last - first)).clamp(0, 1)
        return speeds / self.factor * slowed + speeds * (1 - slowed)

    def _pair(self, turns: float, theta: float, head_width: int) -> float:
        """The number of the pair that turns so often within the length, as a fraction."""
        return head_width * math.log(self.length / (turns * 2 * math.pi)) / (2 * math.log(theta))


@spec
class DynamicNtk(RotaryScaling):
    """The longer the text, the larger theta; texts as long as those of training turn as they did.

    Compat: the longest text of a batch decides for all of them in transformers, which also goes on
    with what a longer text of an earlier batch needed. Here each text decides for itself. A text
    that grows in a cache turns new tokens by its length of that moment and leaves earlier keys as
    they were turned, there and here.
    """

    paper: ClassVar[str] = "Peng et al. 2023"

    factor: PositiveFloat
    length: PositiveInt
    """How long texts were in training."""

    def speeds(self, theta: float, head_width: int, lengths: Tensor) -> Tensor:
        """The speeds of a larger theta for each token, (N, D / 2)."""
        longer = lengths.clamp(min=self.length).float() / self.length
        growth = (self.factor * longer - (self.factor - 1)) ** (head_width / (head_width - 2))
        return plain_speeds(theta * growth[:, None], head_width, lengths.device)

    def check_width(self, head_width: int) -> None:
        """Complains about a single pair, whose speed no theta changes."""
        if head_width < 4:
            rule = "a larger theta needs heads of at least 4"
            raise SettingError("head_width", head_width, rule, "change the width or the heads")


@spec
class LongRope(RotaryScaling):
    """Each pair has a factor of its own; texts longer than those of training have other ones.

    Compat: as in `DynamicNtk`, each text decides for itself here, and the longest of its batch for
    all of them in transformers.
    """

    paper: ClassVar[str] = "Ding et al. 2024"

    short: tuple[PositiveFloat, ...]
    long: tuple[PositiveFloat, ...]
    length: PositiveInt
    """How long texts were in training."""
    attention_factor: NonNegativeFloat

    def speeds(self, theta: float, head_width: int, lengths: Tensor) -> Tensor:
        """The speeds of each token, (N, D / 2)."""
        short, long = (torch.tensor(x, device=lengths.device) for x in (self.short, self.long))
        factors = torch.where((lengths > self.length)[:, None], long, short)
        return plain_speeds(theta, head_width, lengths.device) / factors

    def check_width(self, head_width: int) -> None:
        """Complains unless there is a factor for each pair."""
        for name, factors in (("short", self.short), ("long", self.long)):
            if len(factors) != head_width // 2:
                rule = f"a head of {head_width} has {head_width // 2} pairs, with a factor each"
                raise SettingError(f"{name} factors", len(factors), rule, "give as many")


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
        if self.scaling is not None:
            self.scaling.check_width(head_width)
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
        keys = context.seen_layout
        return (
            self._turned(q, context.layout, context.query_at(q.device), keys),
            self._turned(k, keys, keys.positions(k.device), keys),
        )

    def _turned(self, x: Tensor, layout: Layout, positions: Tensor, texts: Layout) -> Tensor:
        """Packed heads (N, H, D), each turned by the angles of its position in its text."""
        of_texts = None if self.scaling is None else texts
        key = ("angles", positions, of_texts, self.theta, self.scaling, self.head_width, x.dtype)
        cosine, sine = layout.once(key, lambda: self._angles(positions, layout, texts, x.dtype))
        half = x.shape[-1] // 2
        return torch.addcmul(x * cosine, x.roll(half, dims=-1), sine).to(x.dtype)

    def _angles(
        self, positions: Tensor, layout: Layout, texts: Layout, dtype: torch.dtype
    ) -> Angles:
        """The angles of positions (N,)."""
        factor = 1.0
        if self.scaling is None:
            speeds = plain_speeds(self.theta, self.head_width, positions.device)
        else:
            ends = torch.tensor(texts.ends, dtype=torch.long, device=positions.device)
            lengths = ends[layout.rows(positions.device)]  # (N,)
            speeds = self.scaling.speeds(self.theta, self.head_width, lengths)
            factor = self.scaling.attention_factor
        angles = positions[:, None].float() * speeds
        cosine, sine = angles.cos() * factor, angles.sin() * factor
        wide = torch.promote_types(dtype, torch.float32)
        return (
            torch.cat([cosine, cosine], dim=-1)[:, None].to(wide),
            torch.cat([-sine, sine], dim=-1)[:, None].to(wide),
        )
