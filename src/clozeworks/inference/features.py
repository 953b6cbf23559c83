"""Vectors of texts or of words from chosen layers of a frozen encoder, and probes on them.

Paper: Devlin et al. 2019, section 5.3 (the last layer, the sum or the concatenation of the last
four, a weighted sum of all); Peters et al. 2018 (a learned mix of layers).
The idea: a linear probe reads what a frozen encoder has learned, if one knows which layer to probe.
All requested views are computed in one pass over the texts.
Where papers and code differ: the mix is taken after pooling, which is the same for first and mean
because both are linear, and wrong for max, which is refused. Each layer is standardised over the
texts before it is mixed; Peters et al. normalise it within each token, or not at all. Their scale
is not learned: the probe on the mix is linear and standardises it, so any scale gives the same
predictions.
Used by: `clozeworks probe`.

Shapes: N tokens, B windows, n texts or words, L layers with the embeddings, W width, C labels.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clozeworks.core.context import Trace
from clozeworks.core.heads.pooling import pool
from clozeworks.core.model import Model
from clozeworks.errors import SettingError, UnknownName
from clozeworks.inference.embed import Vectors, check_layer
from clozeworks.inference.loop import BatchOptions, Computation, compute, device_of
from clozeworks.inference.packing import check_finite, pack
from clozeworks.tasks.classify import Problem
from clozeworks.tasks.spans.windows import TokenWindow, by_item, judged_in

View = Callable[[Sequence[Tensor]], Tensor]
LAST, MIX = "last", "mix"
# From the embeddings and the output of every layer, each (N, W), to the features, (N, F).
VIEWS: dict[str, View] = {
    LAST: lambda states: states[-1],
    "sum_last_four": lambda states: torch.stack(tuple(states[-4:])).sum(dim=0),
    "concatenate_last_four": lambda states: torch.cat(tuple(states[-4:]), dim=1),
    MIX: lambda states: torch.cat(tuple(states), dim=1),
}
LINEAR_POOLINGS = ("first", "mean")
POOLINGS = (*LINEAR_POOLINGS, "max")
_NUMBER = re.compile(r"-?[0-9]+")
_FOUR = 4
# A dimension whose standard deviation is below this fraction of its size is rounding noise.
_NO_SPREAD = 1e-5
_TINY = 1e-30
# L2 regularization of the classifier that learns a mix: 1 / (2 C n) for each squared weight.
_MIX_STRENGTH = 0.01
# Paper: Peters et al. 2018 regularize the weights of layers with 0.001.
_MIX_PRICE = 0.001
_MIX_STEPS = 100
_STEPS = 2_000
# The logit of a label that no row has. The highest logit of the others is never below 0.
_ABSENT = -30.0


def usual_layers(depth: int, pooling: str | None) -> tuple[str, ...]:
    """All named views that a model with `depth` layers has; pooling is None for words."""
    return tuple(
        name
        for name in VIEWS
        if (depth >= _FOUR or "four" not in name) and (name != MIX or _is_linear(pooling))
    )


def check_layers(layers: Sequence[str], depth: int, pooling: str | None) -> None:
    """Checks that a model with `depth` layers has these; the arguments are those of `features`.

    Raises:
        SettingError: If there are none, if one is repeated, or if the model is too shallow.
        UnknownName: If there is no such view or pooling.
    """
    if pooling is not None and pooling not in POOLINGS:
        raise UnknownName("pooling", pooling, POOLINGS)
    if not layers:
        raise SettingError("layers", (), f"name at least one of: {', '.join(VIEWS)}")
    for name in layers:
        if layers.count(name) > 1:
            raise SettingError("layers", tuple(layers), f"it lists {name!r} twice", "remove one")
        if _NUMBER.fullmatch(name):
            check_layer("layers", name, depth)
        elif name not in VIEWS:
            raise UnknownName("layers", name, [*VIEWS, f"a number from 0 to {depth}"])
        elif "four" in name and depth < _FOUR:
            rule = f"it needs four layers, and this model has {depth}"
            raise SettingError("layers", name, rule, "leave it out, or use a deeper model")
        elif name == MIX and not _is_linear(pooling):
            rule = f"layers can be mixed only with linear poolings: {', '.join(LINEAR_POOLINGS)}"
            advice = "choose one of these, or leave out mix"
            raise SettingError("pooling", pooling, rule, advice)


def _is_linear(pooling: str | None) -> bool:
    return pooling is None or pooling in LINEAR_POOLINGS


def features(
    model: Model,
    windows: Sequence[TokenWindow],
    layers: Sequence[str],
    *,
    pooling: str | None,
    source_locations: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> dict[str, Vectors]:
    """Extracts vectors of texts or of words, from several layers in one pass.

    Args:
        model: The encoder. It is not changed.
        windows: The windows of all items, in order, as a task makes them.
        layers: Which layers are read: last, sum_last_four, concatenate_last_four, mix (all layers
            concatenated, for `learned_mix`), or the number of a layer.
        pooling: How the tokens of a text become one vector: first, mean, max. A text of several
            windows has the mean of their vectors, weighted by the tokens each judges. None for the
            vectors of the target tokens, such as the first tokens of words.
        source_locations: Where each item came from, for messages.
        options: Batch size, progress, cancellation.

    Returns:
        An (n, F) array for each of the layers: a row for each text, or for each target token in
        the order of the windows.
    """
    depth = len(model.blueprint.encoder.running_order())
    check_layers(layers, depth, pooling)
    device, width = device_of(model), model.blueprint.width
    sizes = [1 if pooling else len(window.wanted) for window in windows]
    ends = np.cumsum(sizes, dtype=np.int64)
    copies = {"concatenate_last_four": _FOUR, MIX: depth + 1}
    vectors = {
        name: np.empty((sum(sizes), width * copies.get(name, 1)), np.float32) for name in layers
    }

    def forward(several: list[TokenWindow]) -> list[list[Tensor]]:
        packed = pack([window.encoded for window in several], device)
        trace = Trace(attention=None)
        # Trap: the last kept state is before a final norm; the model's result is after it.
        result = packed.encoded(model, trace)
        states = [*trace.hidden_states[:-1], result]
        if pooling is None:
            positions = packed.positions([window.wanted for window in several])
            states = [state[positions] for state in states]
        states = [state.float() for state in states]
        views = [VIEWS[name](states) if name in VIEWS else states[int(name)] for name in layers]
        if pooling is not None:
            views = [pool(view, packed.layout, (pooling,)) for view in views]
        counts = [1 if pooling else len(window.wanted) for window in several]
        owners = [
            window.item for window, count in zip(several, counts, strict=True) for _ in range(count)
        ]
        for view in views:
            check_finite(model, view, owners, "a vector", source_locations)
        split = [torch.split(view.cpu(), counts) for view in views]
        return [list(of_window) for of_window in zip(*split, strict=True)]

    computation = Computation(("features", tuple(layers), pooling), forward)
    costs = [len(window) for window in windows]
    for numbers, several in compute(model, windows, costs, computation, options):
        for number, views in zip(numbers, several, strict=True):
            rows = slice(ends[number] - sizes[number], ends[number])
            for name, view in zip(layers, views, strict=True):
                vectors[name][rows] = view.numpy()
    if pooling is None:
        return vectors
    return {name: _over_windows(rows, windows) for name, rows in vectors.items()}


def _over_windows(vectors: Vectors, windows: Sequence[TokenWindow]) -> Vectors:
    """A row for each window to a row for each item."""
    items = by_item(windows)
    if len(items) == len(windows):
        return vectors
    firsts = np.cumsum([0, *map(len, items)])
    means: Vectors = vectors[firsts[:-1]]
    for number, several in enumerate(items):
        if len(several) > 1:
            counts = np.bincount(judged_in(several), minlength=len(several))
            means[number] = (counts / counts.sum()) @ vectors[firsts[number] : firsts[number + 1]]
    return means


@dataclass(frozen=True)
class Scaling:
    """Standardises vectors."""

    mean: Vectors
    """The mean of each dimension."""
    std: Vectors
    """Its standard deviation; infinite where it does not vary."""

    @classmethod
    def of(cls, vectors: Vectors) -> "Scaling":
        """The scaling after which these vectors, (n, F), have mean 0 and standard deviation 1."""
        mean = vectors.mean(axis=0, dtype=np.float64).astype(np.float32)
        std = np.sqrt(np.square(vectors - mean).mean(axis=0, dtype=np.float64))
        constant = std <= _NO_SPREAD * np.maximum(np.abs(mean), _TINY)
        return cls(mean, np.where(constant, np.inf, std).astype(np.float32))

    def __call__(self, vectors: Vectors) -> Vectors:
        """Vectors, standardised; dimensions that do not vary are 0."""
        scaled = vectors - self.mean
        scaled /= self.std
        return scaled


@dataclass(frozen=True)
class Mix:
    """A weighted sum of layers."""

    weights: tuple[float, ...]
    """How much each layer counts, the embeddings first; they add up to 1."""
    scaling: Scaling
    """Standardises the concatenated layers before they are added."""

    def __call__(self, vectors: Vectors) -> Vectors:
        """All layers concatenated, (n, L * W), to their mix, (n, W)."""
        layers = self.scaling(vectors).reshape(len(vectors), len(self.weights), -1)
        mixed: Vectors = np.tensordot(layers, np.array(self.weights, np.float32), axes=(1, 0))
        return mixed


def learned_mix(
    vectors: Vectors, targets: NDArray[Any], problem: Problem, labels: int, layers: int
) -> Mix:
    """Learns how much each layer counts, together with a linear probe on the mix.

    Both are found by L-BFGS on all rows at once, from equal weights and a probe of zeros, so
    nothing is random. The probe reads the standardised mix, as in `fitted`.

    Args:
        vectors: All layers concatenated, (n, L * W).
        targets: The index of each row's label, (n,); whether each label holds, (n, C); or a
            number, (n,).
        problem: Which of these it is.
        labels: How many labels there are.
        layers: How many layers are concatenated.
    """
    scaling = Scaling.of(vectors)
    scaled = torch.from_numpy(scaling(vectors))  # (n, L * W)
    wanted = torch.from_numpy(targets) if problem == "one" else torch.from_numpy(targets).float()
    if problem == "number":
        wanted = (wanted - wanted.mean()) / wanted.std(correction=0).clamp(min=_TINY)
    weights = torch.zeros(layers, requires_grad=True)
    matrix = torch.zeros(scaled.shape[1] // layers, labels, requires_grad=True)
    bias = torch.zeros(labels, requires_grad=True)
    # The covariance of two layers in each dimension; it says how much a mix of them varies.
    each = scaled.view(len(vectors), layers, -1)
    covariance = torch.einsum("nlw,nmw->wlm", each, each) / len(vectors)  # (W, L, L)
    penalty = 1 / (2 * _MIX_STRENGTH * len(vectors))
    optimizer = torch.optim.LBFGS(
        [weights, matrix, bias], max_iter=_MIX_STEPS, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimizer.zero_grad()
        mix = weights.softmax(dim=0)
        # Trap: layers that differ add up to less than one alone. Without this, regularization
        # would always drive the mix to a single layer.
        std = torch.einsum("l,wlm,m->w", mix, covariance, mix).clamp(min=_NO_SPREAD).sqrt()
        probe = mix[:, None, None] * (matrix / std[:, None])  # (L, W, C)
        logits = scaled @ probe.flatten(0, 1) + bias
        regularization = penalty * matrix.square().sum() + _MIX_PRICE * weights.square().sum()
        total = _loss(logits, wanted, problem) + regularization
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    return Mix(tuple(weights.detach().softmax(dim=0).tolist()), scaling)


def _loss(logits: Tensor, targets: Tensor, problem: Problem) -> Tensor:
    if problem == "one":
        return F.cross_entropy(logits, targets)
    if problem == "several":
        return F.binary_cross_entropy_with_logits(logits, targets)
    return F.mse_loss(logits[:, 0], targets)


@dataclass(frozen=True)
class LinearModel:
    """A linear probe on vectors as they come from the encoder: standardisation is folded in."""

    weight: Vectors
    """A row for each label, (C, F)."""
    bias: Vectors
    """A number for each label, (C,)."""
    converged: bool = True
    """Whether the fit converged."""

    def logits(self, vectors: Vectors) -> Vectors:
        """Vectors (n, F) to logits (n, C)."""
        exact = vectors.astype(np.float64) @ self.weight.T + self.bias
        return np.asarray(exact, np.float32)


def fitted(
    vectors: Vectors,
    targets: NDArray[Any],
    problem: Problem,
    labels: int,
    strengths: Iterable[float],
) -> Iterator[LinearModel]:
    """Fits linear probes on standardised vectors: logistic, one per label, or ridge regression.

    Args:
        vectors: The features, (n, F).
        targets: As for `learned_mix`.
        problem: What kind of targets they are.
        labels: How many labels there are.
        strengths: Inverse regularization strengths (scikit-learn's C); one probe is fitted for
            each, when the iterator reaches it.
    """
    scaling = Scaling.of(vectors)
    scaled = scaling(vectors)
    for strength in strengths:
        if problem == "several":
            each = [_logistic(scaled, column > 0, 2, strength) for column in targets.T]
            weight = np.stack([weight[1] - weight[0] for weight, _, _ in each])
            bias = np.array([bias[1] - bias[0] for _, bias, _ in each])
            converged = all(converged for _, _, converged in each)
        elif problem == "one":
            weight, bias, converged = _logistic(scaled, targets, labels, strength)
        else:
            weight, bias, converged = _ridge(scaled, targets, strength)
        folded = (weight / scaling.std).astype(np.float32)
        bias = bias - folded.astype(np.float64) @ scaling.mean
        yield LinearModel(folded, bias.astype(np.float32), converged)


def _logistic(
    scaled: Vectors, targets: NDArray[Any], labels: int, strength: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    from sklearn.exceptions import ConvergenceWarning  # type: ignore[import-untyped]
    from sklearn.linear_model import LogisticRegression  # type: ignore[import-untyped]

    present = np.unique(targets).astype(np.int64)
    weight = np.zeros((labels, scaled.shape[1]))
    bias = np.full(labels, _ABSENT)
    if len(present) == 1:
        bias[present] = 0
        return weight, bias, True
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ConvergenceWarning)
        model = LogisticRegression(C=strength, max_iter=_STEPS).fit(scaled, targets)
    rows, numbers = model.coef_, model.intercept_
    if len(present) == 2:  # scikit-learn has one row for two labels: what the second is ahead
        rows, numbers = np.concatenate([-rows, rows]) / 2, np.concatenate([-numbers, numbers]) / 2
    weight[present], bias[present] = rows, numbers
    return weight, bias, not any(issubclass(each.category, ConvergenceWarning) for each in caught)


def _ridge(
    scaled: Vectors, targets: NDArray[Any], strength: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], bool]:
    from sklearn.linear_model import Ridge

    model = Ridge(alpha=1 / strength).fit(scaled.astype(np.float64), targets.astype(np.float64))
    return model.coef_[None], np.array([model.intercept_]), True
