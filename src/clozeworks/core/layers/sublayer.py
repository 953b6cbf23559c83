"""How a part joins the residual stream.

Paper: He et al. 2016 (residual), Vaswani et al. 2017 (norm after), Radford et al. 2019 and Xiong et
al. 2020 (norm before).
The idea: a sub-layer adds to what is there. Normalising after the sum (BERT, GPT-1) keeps the scale
fixed and wants warm-up; normalising before the part (GPT-2, T5, LLaMA) keeps a clean path from
bottom to top.

Shapes: N tokens, W width.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.context import ForwardContext
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.norm import NormSpec
from clozeworks.spec import Slot, spec


class PartSpec(Slot):
    """Slot: what a sub-layer computes. `role` names its weights within the layer."""

    is_slot: ClassVar[bool] = True
    role: ClassVar[str]

    @property
    def computes_some(self) -> bool:
        """Whether some tokens can be computed, given all of them as `ForwardContext.source`."""
        return False

    def build(self, width: int) -> nn.Module:
        """Makes the module: tokens (N, W) and the context of the pass to tokens (N, W)."""
        raise NotImplementedError


class SublayerSpec(Slot):
    """Slot: a part and the way it joins the residual stream."""

    is_slot: ClassVar[bool] = True

    part: PartSpec

    @property
    def computes_some(self) -> bool:
        """Whether some tokens can be computed, given all of them as `ForwardContext.source`."""
        return False

    def build(self, width: int) -> nn.Module:
        """Makes the module: tokens (N, W) and the context of the pass to tokens (N, W)."""
        raise NotImplementedError


class NormedModule(nn.Module):
    """A part and a norm, wherever it stands."""

    def __init__(self, part: nn.Module, norm: nn.Module, dropout: float) -> None:
        super().__init__()
        self.part = part
        self.norm = norm
        self.dropout = Dropout(dropout)


@spec
class PostNorm(SublayerSpec):
    """norm(x + part(x))."""

    paper: ClassVar[str] = "Vaswani et al. 2017"

    part: PartSpec
    norm: NormSpec
    dropout: float = 0.0

    @property
    def computes_some(self) -> bool:
        """If its part does: all tokens are handed to it as they are."""
        return self.part.computes_some

    def build(self, width: int) -> "PostNormModule":
        """Makes the module."""
        return PostNormModule(self.part.build(width), self.norm.build(width), self.dropout)


class PostNormModule(NormedModule):
    """Adds, then normalises."""

    def forward(self, x: Tensor, context: ForwardContext) -> Tensor:
        """Tokens to tokens, (N, W)."""
        out: Tensor = self.norm(x + self.dropout(self.part(x, context)))
        return out


@spec
class PreNorm(SublayerSpec):
    """x + part(norm(x))."""

    paper: ClassVar[str] = "Xiong et al. 2020"

    part: PartSpec
    norm: NormSpec
    dropout: float = 0.0

    def build(self, width: int) -> "PreNormModule":
        """Makes the module."""
        return PreNormModule(self.part.build(width), self.norm.build(width), self.dropout)


class PreNormModule(NormedModule):
    """Normalises what the part sees; the stream itself stays as it is."""

    def forward(self, x: Tensor, context: ForwardContext) -> Tensor:
        """Tokens to tokens, (N, W)."""
        out: Tensor = x + self.dropout(self.part(self.norm(x), context))
        return out


@spec
class Residual(SublayerSpec):
    """x + part(x)."""

    paper: ClassVar[str] = "He et al. 2016"

    part: PartSpec
    dropout: float = 0.0

    def build(self, width: int) -> "ResidualModule":
        """Makes the module."""
        return ResidualModule(self.part.build(width), self.dropout)


class ResidualModule(nn.Module):
    """Adds, without a norm."""

    def __init__(self, part: nn.Module, dropout: float) -> None:
        super().__init__()
        self.part = part
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor, context: ForwardContext) -> Tensor:
        """Tokens to tokens, (N, W)."""
        out: Tensor = x + self.dropout(self.part(x, context))
        return out
