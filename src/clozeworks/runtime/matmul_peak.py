"""How much of what a machine can do a run makes of it.

The operations of one piece are counted while it is computed once; the machine's best is the speed
of a large matrix product, measured once a session.
"""

import time
from collections.abc import Callable

import torch
from torch.utils.flop_counter import FlopCounterMode

# Width of the product that is timed, and how often.
_SIZE, _TIMES = 1024, 6


def operations(compute: Callable[[], object]) -> float:
    """Floating-point operations of matrix products and attention within a call."""
    with FlopCounterMode(display=False) as counted:
        compute()
    return float(counted.get_total_flops())


def matmul_peak(device: torch.device) -> float:
    """Operations a second of a large matrix product on all cores, the best of some."""
    factor = torch.ones(_SIZE, _SIZE, device=device)
    product = torch.empty_like(factor)
    best = 0.0
    for _ in range(_TIMES):
        begin = time.perf_counter()
        torch.mm(factor, factor, out=product)
        float(product[0, 0])  # waits for an accelerator
        best = max(best, 2 * _SIZE**3 / (time.perf_counter() - begin))
    return best
