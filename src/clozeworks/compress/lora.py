"""Low-rank adaptation: a projection learns a small difference and stays as it was.

Paper: Hu et al. 2022.
The idea: what fine-tuning adds to a matrix has a low rank, so a product of two thin matrices can
hold it: y = W x + b + (alpha / rank) B A dropout(x). Only A and B change. B begins as zero, so the
first output is that of the model as it was; at the end the product is added to W and nothing is
left of it but a plain model.
Where paper and code differ: the paper draws A from a normal distribution; the released code draws
it evenly from +-1 / sqrt(inputs), as torch does for every projection, and so do others and we.
Used by: fine-tuning with `lora`.

Shapes: N tokens, I inputs, O outputs, R rank.
"""

import math
from typing import Annotated, ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clozeworks.core.initialize import Undrawn
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.linear import LinearLayer
from clozeworks.core.model import Model
from clozeworks.errors import SET, SettingError, UnknownName
from clozeworks.rng import RandomStream
from clozeworks.spec import NOT_EMPTY, Advice, DropoutRate, PositiveFloat, PositiveInt, spec

# Where projections may be adapted; heads and the pooler are trained whole.
_TOWER = "encoder."


@spec
class Lora:
    """Which projections are adapted, and by how much."""

    paper: ClassVar[str] = "Hu et al. 2022"

    rank: PositiveInt = 8
    """The width between the two thin matrices."""
    alpha: PositiveFloat = 16.0
    """The product counts alpha / rank."""
    targets: Annotated[tuple[str, ...], NOT_EMPTY, Advice("name at least one, such as query")] = (
        "query",
        "value",
    )
    """The projections: query, key, value, output, and of feed-forward parts up, down, gate."""
    dropout: DropoutRate = 0.0
    """The dropout of the inputs of A."""

    @property
    def scale(self) -> float:
        """What the product is multiplied by."""
        return self.alpha / self.rank


class AdaptedLinear(LinearLayer):
    """A projection and the difference it learns.

    It holds the very weight and bias of the projection it replaces, under the same names.
    """

    def __init__(self, plain: nn.Linear, lora: Lora) -> None:
        nn.Module.__init__(self)  # LinearLayer would make a weight that nobody needs
        self.in_features, self.out_features = plain.in_features, plain.out_features
        self.weight, self.bias = plain.weight, plain.bias
        self.lora_a = nn.Parameter(plain.weight.new_zeros(lora.rank, plain.in_features))  # (R, I)
        self.lora_b = nn.Parameter(plain.weight.new_zeros(plain.out_features, lora.rank))  # (O, R)
        self.dropout = Dropout(lora.dropout)
        self.scale = lora.scale
        self.train(plain.training)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens to tokens, (N, I) to (N, O)."""
        learned = F.linear(F.linear(self.dropout(x), self.lora_a), self.lora_b)
        return super().forward(x) + self.scale * learned

    def merged(self) -> LinearLayer:
        """The plain projection that computes the same."""
        with Undrawn():
            plain = LinearLayer(self.in_features, self.out_features, device="meta")
        stored = self.weight.dtype
        # Trap: in half precision the sum would lose most of what was learned before it is stored.
        wide = torch.promote_types(stored, torch.float32)
        with torch.no_grad():
            learned = self.scale * (self.lora_b.to(wide) @ self.lora_a.to(wide))
            weight = (self.weight.to(wide) + learned).to(stored)
        plain.weight, plain.bias = nn.Parameter(weight), self.bias
        return plain.train(self.training)


def add_lora(model: Model, lora: Lora, *, seed: int = 0) -> None:
    """Adapts projections in place and freezes everything else but heads and the pooler.

    Args:
        model: A built model with its weights.
        lora: Which projections, and how.
        seed: With the name of a parameter it decides the first values.

    Raises:
        UnknownName: If the model has no projection of that name.
        SettingError: If the rank is too high, or the model is adapted already.
    """
    if adapted(model):
        rule = "the model has low-rank differences already, and can have one set"
        raise SettingError("lora", SET, rule, "merge them first with merge_lora")
    modules = {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, nn.Linear) and name.startswith(_TOWER)
    }
    known = {_last(name) for name in modules}
    for target in lora.targets:
        if target not in known:
            raise UnknownName("A target of lora.targets", target, known)
    chosen = {name: module for name, module in modules.items() if _last(name) in lora.targets}
    for name, module in chosen.items():
        thinnest = min(module.in_features, module.out_features)
        if lora.rank >= thinnest:
            rule = f"{name} is {thinnest} wide, and the rank must be below that"
            raise SettingError("lora.rank", lora.rank, rule, "lower it")
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(name.startswith(("heads.", "pooler.")))
    for name, module in chosen.items():
        projection = AdaptedLinear(module, lora)
        bound = 1 / math.sqrt(module.in_features)
        stream = RandomStream(seed, f"lora/{name}.lora_a")
        drawn = stream.uniform(0, 0, projection.lora_a.numel())[0]
        with torch.no_grad():
            values = torch.from_numpy((2 * drawn - 1) * bound)
            projection.lora_a.copy_(values.view(projection.lora_a.shape))
        _put(model, name, projection)


def adapted(model: nn.Module) -> dict[str, AdaptedLinear]:
    """The adapted projections of a model, by name."""
    return {
        name: module for name, module in model.named_modules() if isinstance(module, AdaptedLinear)
    }


def merge_lora(model: Model) -> None:
    """Adds what was learned to the projections, in place: a plain model, all of it trainable.

    Merging twice is merging once.
    """
    for name, module in adapted(model).items():
        _put(model, name, module.merged())
    model.requires_grad_(True)


def _last(name: str) -> str:
    return name.rpartition(".")[2]


def _put(model: nn.Module, name: str, module: nn.Module) -> None:
    owner, _, last = name.rpartition(".")
    setattr(model.get_submodule(owner), last, module)
