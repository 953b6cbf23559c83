"""A model's projections, laid out for few tokens at a time.

The idea: with a token or a few at a time a projection takes as long as its weights take to come
from memory. Laid out beforehand in the blocks that the kernel reads, they come at twice the speed
(both cores read; nothing is put in order on the way). The numbers are the same but for rounding.
Where it is used: on a CPU, in float32, for texts that grow token by token. The layout is a second
copy of the weights, made once and kept while the weights stay as they are.

Shapes: N tokens, I width in, O width out.
"""

import copy
from threading import Lock
from typing import TypeGuard
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from clozeworks.core.layers.linear import LinearLayer, onednn_linear
from clozeworks.core.model import Model
from clozeworks.runtime.memory import available

# Tokens at a time that the layout is chosen for; it serves other numbers as well.
_TOKENS = 8
# Smaller weights stay in the cache, and the kernel takes longer to begin than to compute.
_LEAST = 1 << 17
# The fraction of the available memory that a second copy may take.
_SHARE = 0.5
_Stamp = tuple[tuple[int, int], ...]
_making = Lock()
_made: "WeakKeyDictionary[Model, tuple[_Stamp, Model]]" = WeakKeyDictionary()


class PackedLinear(nn.Module):
    """A projection without a gradient, its weight in blocks."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        weight = linear.weight.detach()
        self.out_features = linear.out_features
        self._weight = torch.ops.mkldnn._reorder_linear_weight(weight, _TOKENS)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (N, I) to tokens (N, O)."""
        return onednn_linear(x, self._weight, self._bias)


def packed(model: Model) -> Model:
    """A model that computes the same with packed weights; the model itself where that cannot be.

    All that is not a projection is shared with the model.
    """
    if not _possible(model):
        return model
    stamp = _stamp(model)
    with _making:  # batches that run in parallel share one
        known = _made.get(model)
        if known is None or known[0] != stamp:
            _made.pop(model, None)  # its memory is had back first
            known = _made[model] = (stamp, _packed(model))
    return known[1].train(model.training)


def _packed(model: Model) -> Model:
    shared = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    twin = copy.deepcopy(model, shared)
    for module in list(twin.modules()):
        for name, child in module.named_children():
            if _is_worth_it(child):
                setattr(module, name, PackedLinear(child))
    return twin


def _possible(model: Model) -> bool:
    weights = list(model.parameters())
    if any(weight.device.type != "cpu" or weight.dtype != torch.float32 for weight in weights):
        return False
    # Trap: these operators belong to no public interface; another version may not have them.
    has = ("_reorder_linear_weight", "_linear_pointwise")
    built = torch.backends.mkldnn.is_available()  # type: ignore[no-untyped-call]
    if not built or not all(hasattr(torch.ops.mkldnn, name) for name in has):
        return False
    if model in _made:
        return True
    have = available()
    needed = sum(part.weight.numel() * 4 for part in model.modules() if _is_worth_it(part))
    return have is None or needed <= have * _SHARE


def _is_worth_it(part: nn.Module) -> TypeGuard[nn.Linear]:
    if not isinstance(part, nn.Linear) or type(part) not in (nn.Linear, LinearLayer):
        return False  # another kind of projection computes something else
    return part.weight.numel() >= _LEAST


def _stamp(model: Model) -> _Stamp:
    """What changes when a weight does."""
    return tuple(
        (weight.data_ptr(), 0 if weight.is_inference() else weight._version)
        for weight in model.parameters()
    )
