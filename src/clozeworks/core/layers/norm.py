"""How a vector is brought to scale.

Paper: Ba, Kiros, Hinton 2016 (layer normalisation); Zhang, Sennrich 2019 (RMS normalisation).
The idea: divide each token's vector by its own spread, so that depth does not let it grow or
vanish. RMS normalisation leaves out the mean and the bias.
Used by: LayerNorm in BERT and its relatives and GPT; RmsNorm in T5 and LLaMA.

Shapes: N tokens, W width.
"""

from typing import ClassVar

from torch import nn

from clozeworks.spec import Slot, spec


class NormSpec(Slot):
    """Slot: how a vector is brought to scale."""

    is_slot: ClassVar[bool] = True

    def build(self, width: int) -> nn.Module:
        """Makes the module: (N, W) to (N, W)."""
        raise NotImplementedError


@spec
class LayerNorm(NormSpec):
    """Subtracts the mean, divides by the standard deviation, scales and shifts."""

    paper: ClassVar[str] = "Ba et al. 2016"

    eps: float = 1e-12
    bias: bool = True

    def build(self, width: int) -> nn.LayerNorm:
        """Makes the module."""
        return nn.LayerNorm(width, eps=self.eps, bias=self.bias)


@spec
class RmsNorm(NormSpec):
    """Divides by the root mean square and scales."""

    paper: ClassVar[str] = "Zhang & Sennrich 2019"

    eps: float = 1e-6

    def build(self, width: int) -> nn.RMSNorm:
        """Makes the module."""
        return nn.RMSNorm(width, eps=self.eps)
