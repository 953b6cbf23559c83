"""A projection, computed by the faster of two kernels.

The idea: torch multiplies float32 with MKL, which leaves half of the registers of an AMD processor
with AVX-512 unused. oneDNN, which torch brings too, uses them. Both compute in float32; results
differ by rounding. Which is taken is a property of the processor, not of a measurement, so that a
machine gives the same bits every time.
Where it is used: in inference alone. Training is to give the same weights on every processor.

Shapes: N tokens, I width in, O width out.
"""

from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

# With fewer multiplications than this the kernel takes longer to begin than it saves.
_LEAST_PRODUCTS = 1 << 20
# Numbers of tokens above this are rounded up to a multiple of it.
_BLOCK = 16


class LinearLayer(nn.Linear):
    """x @ weight.T + bias."""

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (N, I) to tokens (N, O)."""
        is_worth_it = len(x) * self.weight.numel() >= _LEAST_PRODUCTS
        if is_worth_it and _is_plain(x, self.weight) and _onednn_is_faster():
            return onednn_linear(x, self.weight, self.bias)
        return super().forward(x)


def onednn_linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """X @ weight.T + bias by oneDNN's kernel; the weight may be one that it has reordered."""
    tokens = len(x)
    # Trap: oneDNN keeps half a megabyte for each number of tokens it ever saw, in every thread.
    if tokens > _BLOCK and tokens % _BLOCK:
        x = F.pad(x, (0, 0, 0, -tokens % _BLOCK))
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x, weight, bias, "none", [], "")
    return out[:tokens]


def _is_plain(x: Tensor, weight: Tensor) -> bool:
    """Whether this is inference in float32 on a CPU, with nothing recorded or converted."""
    return (
        torch.is_inference_mode_enabled()
        and x.dim() == 2
        and x.dtype == weight.dtype == torch.float32
        and x.device.type == weight.device.type == "cpu"
        and not torch.is_autocast_enabled("cpu")
    )


@cache
def _onednn_is_faster() -> bool:
    """Whether this is an AMD processor with AVX-512 (Zen 4 and later)."""
    # Trap: these are no public interfaces; another version of torch may not have them.
    if not hasattr(torch.ops.mkldnn, "_linear_pointwise"):
        return False
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    capabilities: dict[str, object] = getattr(torch.cpu, "get_capabilities", dict)()
    # Only AMD's processors ever had the instructions of SSE4a.
    return bool(capabilities.get("avx512_f") and capabilities.get("sse4a"))
