"""One vector per text as sentence models make it: a pooling, then steps such as a dense layer.

A pooling is one of those without weights, or a mean weighted by a table or by a learned query.

Paper: Reimers & Gurevych 2019 (pooling); Feng et al. 2022 (a dense layer after it); Su et al. 2021
(whitening, which is a dense layer, too); Kusupati et al. 2022 (the first dimensions alone); Arora
et al. 2017 (rare words count more); Lin et al. 2017 (a learned query weighs the tokens).
The idea: a sentence model is a chain of small parts in an order of its own. Inference and training
run the same chain, and gradients flow through all of it.
Compat: parameters are called as in sentence-transformers, whose modules these are. Its WordWeights
before a mean are `tf_idf_mean`; it has nothing like `attention_mean`.
Used by: `embed`, and tasks that train vectors, of every family.

Shapes: N tokens, B texts, W width, D width of a vector, V entries of the vocabulary.
"""

from collections.abc import Hashable, Sequence
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooling import check_modes, pool, without_first
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.core.ops.segments import text_softmax, text_sums
from clozeworks.errors import SettingError, UnsupportedError
from clozeworks.spec import DropoutRate, PositiveInt, Slot, spec

NAME = "sentence"


class VectorStepModule(nn.Module):
    """A step: vectors (B, D) to vectors (B, width)."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width


class VectorStep(Slot):
    """Slot: what happens to the vector of a text after pooling."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.core.heads"

    def output(self, width: int) -> int:
        """How many dimensions the result has for vectors of a width."""
        return width

    def build(self, width: int) -> VectorStepModule:
        """Makes the module for vectors of a width."""
        raise NotImplementedError


@spec
class Dense(VectorStep):
    """activation(linear(vector)), and the vector itself added to it if asked."""

    paper: ClassVar[str] = "Feng et al. 2022; Su et al. 2021"

    width: PositiveInt
    """How many dimensions the result has."""
    bias: bool = True
    activation: str = "linear"
    residual: bool = False
    """Whether the vector is added to the result, projected where the widths differ."""

    def output(self, width: int) -> int:
        """The width of the layer."""
        return self.width

    def build(self, width: int) -> "DenseModule":
        """Makes the module."""
        return DenseModule(width, self.width, self.bias, self.activation, self.residual)

    def __str__(self) -> str:
        activation = "" if self.activation == "linear" else f" and {self.activation}"
        residual = ", added to the vector" if self.residual else ""
        return f"dense to {self.width:,}{activation}{residual}"


class DenseModule(VectorStepModule):
    """One projection and an activation, in the precision of the vectors."""

    def __init__(
        self, inputs: int, width: int, bias: bool, activation: str, residual: bool
    ) -> None:
        super().__init__(width)
        self.linear = nn.Linear(inputs, width, bias=bias)
        self.activation = activation_named(activation)
        self.skip = residual
        self.residual = nn.Linear(inputs, width, bias=False) if residual else None
        if inputs == width:
            self.residual = None

    def forward(self, x: Tensor) -> Tensor:
        """Vectors (B, D) to vectors (B, width)."""
        bent = self.activation(_projected(self.linear, x))
        if not self.skip:
            return bent
        return bent + (x if self.residual is None else _projected(self.residual, x))


def _projected(linear: nn.Linear, x: Tensor) -> Tensor:
    # Pooling sums in full precision; weights in half precision are raised to it.
    bias = None if linear.bias is None else linear.bias.to(x.dtype)
    return F.linear(x, linear.weight.to(x.dtype), bias)


@spec
class UnitLength(VectorStep):
    """Scales vectors to length 1."""

    def build(self, width: int) -> "UnitLengthModule":
        """Makes the module."""
        return UnitLengthModule(width)

    def __str__(self) -> str:
        return "scaled to length 1"


class UnitLengthModule(VectorStepModule):
    """vector / max(|vector|, 1e-12)."""

    def forward(self, x: Tensor) -> Tensor:
        """Vectors (B, D) to vectors of length 1, (B, D)."""
        return F.normalize(x, dim=1, eps=1e-12)


@spec
class TruncateDim(VectorStep):
    """Keeps the first dimensions; of vectors trained for it, a smaller vector of the same kind."""

    paper: ClassVar[str] = "Kusupati et al. 2022"

    width: PositiveInt

    def output(self, width: int) -> int:
        """So many, or as many as there are."""
        return min(width, self.width)

    def build(self, width: int) -> "TruncateDimModule":
        """Makes the module; vectors that are no wider stay as they are."""
        return TruncateDimModule(self.output(width))

    def __str__(self) -> str:
        return f"the first {self.width:,} dimensions"


class TruncateDimModule(VectorStepModule):
    """The first dimensions."""

    def forward(self, x: Tensor) -> Tensor:
        """Vectors (B, D) to vectors (B, width)."""
        return x[:, : self.width]


@spec
class VectorLayerNorm(VectorStep):
    """Layer normalisation of the vector of a text."""

    paper: ClassVar[str] = "Ba et al. 2016"

    def build(self, width: int) -> "VectorLayerNormModule":
        """Makes the module."""
        return VectorLayerNormModule(width)

    def __str__(self) -> str:
        return "layer norm"


class VectorLayerNormModule(VectorStepModule):
    """A layer norm in the precision of the vectors."""

    def __init__(self, width: int) -> None:
        super().__init__(width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """Vectors (B, D) to vectors (B, D)."""
        scale, shift = self.norm.weight.to(x.dtype), self.norm.bias.to(x.dtype)
        return F.layer_norm(x, (self.width,), scale, shift, self.norm.eps)


@spec
class VectorDropout(VectorStep):
    """Dropout of the vector of a text, in training only."""

    dropout: DropoutRate = 0.2

    def build(self, width: int) -> "VectorDropoutModule":
        """Makes the module."""
        return VectorDropoutModule(width, self.dropout)

    def __str__(self) -> str:
        return f"dropout {self.dropout:g} in training"


class VectorDropoutModule(VectorStepModule):
    """Dropout."""

    def __init__(self, width: int, dropout: float) -> None:
        super().__init__(width)
        self.dropout = Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        """Vectors (B, D) to vectors (B, D)."""
        dropped: Tensor = self.dropout(x)
        return dropped


class PlainModes(nn.Module):
    """Poolings without weights, side by side."""

    def __init__(self, modes: Sequence[str]) -> None:
        super().__init__()
        self.modes = tuple(modes)

    def forward(self, x: Tensor, layout: Layout, leave_out: int, ids: Tensor | None) -> Tensor:
        """Tokens (N, W) to vectors (B, M * W)."""
        return pool(x, layout, self.modes, leave_out)


class TfIdfMean(nn.Module):
    """A mean that weighs each token by a number of its entry in the vocabulary."""

    def __init__(self, entries: int) -> None:
        super().__init__()
        self.weights: Tensor
        self.register_buffer("weights", torch.ones(entries))

    def forward(self, x: Tensor, layout: Layout, leave_out: int, ids: Tensor | None) -> Tensor:
        """Tokens (N, W) to vectors (B, W).

        Raises:
            UnsupportedError: If the ids of the tokens are not given.
        """
        if ids is None:
            raise UnsupportedError(
                "the pooling is tf_idf_mean; it weighs tokens by their ids, which a task does not "
                "know; compute vectors with embed."
            )
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        weights = self.weights.to(x.dtype)[ids, None]  # (N, 1)
        # Compat: a prompt that is left out still counts in the sum of the weights.
        total = text_sums(weights, layout).clamp(min=1e-9)
        counted = layout.positions(x.device)[:, None] >= leave_out
        return text_sums(x * weights * counted, layout) / total


class AttentionMean(nn.Module):
    """A mean that weighs each token by softmax(token · query / sqrt(W)); a plain mean at first."""

    begins_at_zero = True

    def __init__(self, width: int) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.zeros(width))

    def forward(self, x: Tensor, layout: Layout, leave_out: int, ids: Tensor | None) -> Tensor:
        """Tokens (N, W) to vectors (B, W)."""
        x, layout = without_first(x, layout, leave_out)
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        scores = (x @ self.query.to(x.dtype) / len(self.query) ** 0.5)[:, None]  # (N, 1)
        return text_sums(text_softmax(scores, layout) * x, layout)


TF_IDF, ATTENTION_MEAN = "tf_idf_mean", "attention_mean"
WEIGHTED = (TF_IDF, ATTENTION_MEAN)


def check_poolings(modes: Sequence[str]) -> None:
    """Complains about a pooling that does not exist, or cannot stand beside others."""
    if len(modes) != 1 or modes[0] not in WEIGHTED:
        for mode in modes:
            if mode in WEIGHTED:
                raise SettingError("pooling", tuple(modes), f"{mode} stands alone", "name one")
        check_modes(modes, also=WEIGHTED)


@spec
class SentenceVectors(HeadSpec):
    """A pooling of the hidden states, and the steps that follow, in their order."""

    paper: ClassVar[str] = "Reimers & Gurevych 2019"

    modes: tuple[str, ...] = ("mean",)
    """Poolings whose results stand side by side; or tf_idf_mean or attention_mean alone."""
    steps: tuple[VectorStep, ...] = ()

    def __post_init__(self) -> None:
        check_poolings(self.modes)

    @property
    def has_weights(self) -> bool:
        """Whether its pooling has weights of its own."""
        return self.modes[0] in WEIGHTED

    def build(self, width: int, embeddings: Embeddings) -> "SentenceVectorsModule":
        """Makes the module: hidden states (N, W) and their layout to vectors (B, D)."""
        pooled = width * len(self.modes)
        pooling: nn.Module = PlainModes(self.modes)
        if self.modes == (TF_IDF,):
            pooling = TfIdfMean(embeddings.tokens)
        elif self.modes == (ATTENTION_MEAN,):
            pooling = AttentionMean(width)
        steps: list[VectorStepModule] = []
        for step in self.steps:
            steps.append(step.build(steps[-1].width if steps else pooled))
        return SentenceVectorsModule(pooling, pooled, steps)


class SentenceVectorsModule(nn.Module):
    """A chain: pooling, then steps."""

    def __init__(self, pooling: nn.Module, pooled: int, steps: Sequence[VectorStepModule]) -> None:
        super().__init__()
        self.pooling = pooling
        self.pooled = pooled
        self.steps = nn.ModuleList(steps)

    @property
    def reads_first(self) -> bool:
        """Whether the first token of each text is all it reads."""
        return isinstance(self.pooling, PlainModes) and {*self.pooling.modes} == {"first"}

    @property
    def key(self) -> Hashable:
        """Chains with equal keys compute the same: equal steps on the very same weights."""
        return tuple(
            (
                type(part),
                getattr(part, "modes", None),
                getattr(part, "width", None),
                *map(id, (*part.parameters(), *part.buffers())),
            )
            for part in (self.pooling, *self.steps)
        )

    @property
    def width(self) -> int:
        """How many dimensions a vector has."""
        return self._steps()[-1].width if len(self.steps) else self.pooled

    def forward(
        self,
        hidden_states: Tensor,
        layout: Layout,
        leave_out: int = 0,
        ids: Tensor | None = None,
    ) -> Tensor:
        """Hidden states (N, W) to vectors (B, D), in float32 or wider.

        Args:
            hidden_states: Those of all tokens.
            layout: Where texts begin and end.
            leave_out: How many tokens at the beginning of every text, those of a prompt, are left
                out.
            ids: The token ids, (N,), which `tf_idf_mean` needs.
        """
        x: Tensor = self.pooling(hidden_states, layout, leave_out, ids)
        for step in self.steps:
            x = step(x)
        return x

    def changed(
        self, *, normalize: bool, truncate_dim: int | None = None
    ) -> "SentenceVectorsModule":
        """The same chain with other last steps: first truncated if asked, then normalised or not.

        Weights are shared. What is normalised before the last step stays so.
        """
        steps = self._steps()
        if steps and isinstance(steps[-1], UnitLengthModule):
            del steps[-1]
        last: list[VectorStep] = []
        if truncate_dim is not None:
            last.append(TruncateDim(width=truncate_dim))
        if normalize:
            last.append(UnitLength())
        for step in last:
            steps.append(step.build(steps[-1].width if steps else self.pooled))
        return SentenceVectorsModule(self.pooling, self.pooled, steps).train(self.training)

    def pooling_alone(self) -> "SentenceVectorsModule":
        """The same chain without its steps."""
        return SentenceVectorsModule(self.pooling, self.pooled, []).train(self.training)

    def _steps(self) -> list[VectorStepModule]:
        return [step for step in self.steps if isinstance(step, VectorStepModule)]
