"""Attributions: what each word of a text does to a label, an answer, a written word.

Paper: Sundararajan et al. 2017 (integrated gradients); Simonyan et al. 2014, Shrikumar et al. 2017
(gradient x input); Li et al. 2016 (leave one out); Adebayo et al. 2018 (random weights as control).
The idea: a_i = (x_i - x'_i) · ∫ ∂F(x' + t (x - x')) / ∂x_i dt, summed over the width, along the
straight way from a baseline without the words to the text. Only token vectors move; positions and
types stay. The sum over all tokens is F(x) - F(x'): what is missing from it is printed.
Where papers and code differ: the integral is taken with Gauss-Legendre nodes. captum's
`riemann_trapezoid` has weights that sum to (n - 1) / n, so all it finds is too small.
Trap: the model's modules are shared with other threads. Vectors enter through a copy of the model
that shares all weights and looks ids beyond the vocabulary up among the vectors.

Shapes: B points on the way, n tokens, E width of the token table.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn

from clozeworks.arrays import Float64Array
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.loop import BatchOptions, Computation, compute_in_order, device_of
from clozeworks.look.pieces import ShownPiece, WordPieces, rounded, words_in
from clozeworks.look.targets import AttributionTarget
from clozeworks.spec import PositiveInt, check
from clozeworks.text.tokenizer.tokenizer import Tokenizer

PathBaseline = Literal["mask", "pad", "zero", "mean"]
BASELINES: tuple[PathBaseline, ...] = get_args(PathBaseline)
STEPS, MOST_STEPS = 50, 400
# The fraction of F(x) - F(x') that may be missing before more points are taken.
_TOLERANCE = 0.05
# What a token costs whose gradient is computed too, beside one that is only read.
_GRADIENT_COST = 3
# Points that are handed over at once, so that other work comes in between.
_AT_ONCE = 25
CAUTION = (
    "Attributions are of one number and against one baseline: another baseline gives other values, "
    "and they do not say which words act together."
)


@dataclass(frozen=True, slots=True)
class AttributedWord:
    """What a word does to the target."""

    text: str
    begin: int
    end: int
    part: int
    special: bool
    integrated: float
    """Its integrated gradients: its share of F(x) - F(x')."""
    gradient_input: float
    """Gradient times token vector, which is not a share of anything."""
    gradient_norm: float
    """The length of the gradient."""
    left_out: float | None
    """By how much the target falls without the word; None if it was not tried."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        names = AttributedWord.__dataclass_fields__
        return {name: rounded(getattr(self, name)) for name in names}


@dataclass(frozen=True)
class AttributionView:
    """What each word of a text does to a number that the model computes of it."""

    target: str
    """What the number is, in words."""
    about: tuple[str, str, str]
    """The same as plain data: its kind, such as label, gap or cosine, what it is about, and where.
    """
    value: float
    """F(x), of the text."""
    baseline: str
    """What stands in place of the words: mask, pad, zero, mean."""
    baseline_value: float
    """F(x'), of the baseline."""
    texts: tuple[str, ...]
    words: tuple[AttributedWord, ...]
    pieces: tuple[ShownPiece, ...]
    piece_values: tuple[float, ...]
    """The integrated gradients of each token."""
    steps: int
    """How many points the integral was computed from."""
    rest: float
    """F(x) - F(x') minus the sum of all integrated gradients."""

    @property
    def difference(self) -> float:
        """F(x) - F(x')."""
        return self.value - self.baseline_value

    @property
    def rest_fraction(self) -> float:
        """The rest as a fraction of the difference."""
        return abs(self.rest) / max(abs(self.difference), 1e-12)

    @property
    def rank_correlation(self) -> float | None:
        """Spearman's of integrated gradients and leave-one-out; None with fewer than 3 words."""
        own = [each for each in self.words if each.left_out is not None]
        left_out = [each.left_out for each in own]
        values = [each.integrated for each in own]
        if len(own) < 3 or np.ptp(values) == 0 or np.ptp(np.array(left_out, float)) == 0:
            return None
        return rank_correlation(values, [float(each or 0) for each in left_out])

    def notes(self) -> list[str]:
        """What this view does not show, and how exact it is, in sentences."""
        found = [
            CAUTION,
            f"Shares sum to {self.difference - self.rest:.3g} of {self.difference:.3g}: "
            f"{self.rest_fraction:.1%} is missing after {self.steps} points.",
        ]
        if self.rest_fraction > _TOLERANCE:
            found.append("That is too much: do not rely on the shares; rely on leave-one-out.")
        correlation = self.rank_correlation
        if correlation is not None:
            found.append(
                f"Their order agrees with leave-one-out by {correlation:.2f} (Spearman; 1 is the "
                "same order)."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "view": "attributions",
            "target": self.target,
            "about": dict(zip(("kind", "what", "where"), self.about, strict=True)),
            "value": rounded(self.value),
            "baseline": self.baseline,
            "baseline_value": rounded(self.baseline_value),
            "texts": list(self.texts),
            "words": [each.to_dict() for each in self.words],
            "pieces": [each.to_dict() for each in self.pieces],
            "piece_values": rounded(self.piece_values),
            "steps": self.steps,
            "rest": rounded(self.rest),
            "rest_fraction": rounded(self.rest_fraction),
            "rank_correlation": rounded(self.rank_correlation),
            "notes": self.notes(),
        }


def rank_correlation(one: Sequence[float], other: Sequence[float]) -> float:
    """Spearman's rank correlation."""
    from scipy.stats import spearmanr  # type: ignore[import-untyped]

    return float(spearmanr(one, other).statistic)


def attribute(
    model: Model,
    tokenizer: Tokenizer,
    target: AttributionTarget,
    *,
    baseline: str | None = None,
    steps: int = STEPS,
    leave_out: bool = True,
    options: BatchOptions | None = None,
) -> AttributionView:
    """Attributes a target to the words of its text.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        target: What is attributed.
        baseline: What stands in place of the words: mask, pad, zero, or mean (of all token
            vectors); the first of mask, pad and mean that the tokenizer has if not given.
        steps: Points of the integral; doubled up to 400 while more than 5 % is missing.
        leave_out: Whether each word is left out in turn, too: a pass for each.
        options: Progress and cancellation.

    Raises:
        SettingError: If there is no such baseline.
        InputError: If there is no word to attribute to.
    """
    check("steps", steps, PositiveInt)
    name = _named_baseline(tokenizer, baseline)
    vector = baseline_vector(model, tokenizer, name)
    if not any(target.moves):
        raise InputError("the text has no word that could be attributed to; give one with words.")
    path = TokenPath(model, target, vector)
    words = words_in(target.pieces, target.texts)
    moved = [word for word in words if any(target.moves[each] for each in word.pieces)]
    whole, nothing = path.without([[], [n for n, m in enumerate(target.moves) if m]], options)
    shares, used = _integrated(path, whole - nothing, steps, options)
    at_text = path.gradients([1.0], options)[0]
    left_out: dict[WordPieces, float] = {}
    if leave_out:
        falls = path.without([word.pieces for word in moved], options)
        left_out = {word: whole - fall for word, fall in zip(moved, falls, strict=True)}

    def attributed(word: WordPieces) -> AttributedWord:
        own = list(word.pieces)
        return AttributedWord(
            word.text, word.begin, word.end, word.part, word.special,
            float(shares[own].sum()),
            float(at_text.times_input[own].sum()),
            float(np.sqrt((at_text.norms[own] ** 2).sum())),
            left_out.get(word),
        )  # fmt: skip

    return AttributionView(
        target=target.name,
        about=(target.kind, target.about, target.where),
        value=whole,
        baseline=name,
        baseline_value=nothing,
        texts=target.texts,
        words=tuple(attributed(word) for word in words),
        pieces=target.pieces,
        piece_values=tuple(map(float, shares)),
        steps=used,
        rest=float(whole - nothing - shares.sum()),
    )


def _integrated(
    path: "TokenPath", difference: float, steps: int, options: BatchOptions | None
) -> tuple[Float64Array, int]:
    """Integrated gradients of each token, and the points they took."""
    while True:
        shares = integrated_gradients(path, steps, options)
        rest = abs(difference - shares.sum())
        if rest <= _TOLERANCE * abs(difference) or steps * 2 > MOST_STEPS:
            return shares, steps
        steps *= 2


def integrated_gradients(
    path: "TokenPath", steps: int, options: BatchOptions | None = None
) -> Float64Array:
    """The integral of the gradients along the way from the baseline, times the way, (n,)."""
    nodes, weights = gauss_legendre(steps)
    along = path.gradients(nodes.tolist(), options)
    return np.asarray(
        sum(weight * each.times_way for weight, each in zip(weights, along, strict=True))
    )


def gauss_legendre(steps: int) -> tuple[Float64Array, Float64Array]:
    """Points between 0 and 1 and their weights, which sum to 1: exact up to degree 2 n - 1."""
    nodes, weights = np.polynomial.legendre.leggauss(steps)
    return (nodes + 1) / 2, weights / 2


def _named_baseline(tokenizer: Tokenizer, name: str | None) -> str:
    ids = {"mask": tokenizer.mask_id, "pad": tokenizer.pad_id}
    if name is None:
        return next((each for each, token in ids.items() if token is not None), "mean")
    if name not in BASELINES:
        raise SettingError("baseline", name, f"it must be one of: {', '.join(BASELINES)}")
    if name in ids and ids[name] is None:
        raise SettingError(
            "baseline", name, f"the tokenizer has no {name} token", "use zero or mean"
        )
    return name


def baseline_vector(model: Model, tokenizer: Tokenizer, name: str) -> Tensor:
    """The vector that stands in place of each word, (E,)."""
    table: Tensor = model.embeddings.tokens.weight.detach()
    if name == "mean":
        return table.mean(dim=0)
    if name == "zero":
        return torch.zeros_like(table[0])
    return table[tokenizer.mask_id if name == "mask" else tokenizer.pad_id]


@dataclass(frozen=True)
class PointGradients:
    """The gradients of a target at a point of the way."""

    value: float
    times_way: Float64Array
    """Gradient times (x - x'), of each token, (n,)."""
    times_input: Float64Array
    """Gradient times x."""
    norms: Float64Array


class TokenPath:
    """The straight way from token vectors without words to those of a text.

    Args:
        model: The model.
        target: What is computed along the way.
        baseline: The vector in place of each word, (E,).
    """

    def __init__(self, model: Model, target: AttributionTarget, baseline: Tensor) -> None:
        self._model, self._target, self._baseline = model, target, baseline
        self._device = device_of(model)

    def _ends(self) -> tuple[Tensor, Tensor]:
        """The vectors of the text and of the baseline, (n, E) each."""
        ids = torch.tensor(self._target.ids, device=self._device)
        own = self._model.embeddings.tokens(ids).detach()
        moves = torch.tensor(self._target.moves, device=self._device)[:, None]
        return own, torch.where(moves, self._baseline.to(own), own)

    def _score(self, vectors: Tensor) -> Tensor:
        """The target at token vectors (B, n, E), (B,)."""
        count, length, _ = vectors.shape
        model, first = with_vectors(self._model, vectors.flatten(0, 1))
        ids = first + torch.arange(count * length, device=self._device).view(count, length)
        return self._target.score(model, ids)

    def gradients(
        self, points: Sequence[float], options: BatchOptions | None = None
    ) -> list[PointGradients]:
        """The gradients at points of the way: 0 is the baseline, 1 the text."""

        def forward(batch: list[float]) -> list[PointGradients]:
            # Trap: inference runs without gradients, in every thread.
            with torch.inference_mode(False), torch.enable_grad():
                own, base = self._ends()
                at = torch.tensor(batch, dtype=own.dtype, device=self._device)[:, None, None]
                vectors = (base + at * (own - base)).requires_grad_()
                values = self._score(vectors)
                (gradients,) = torch.autograd.grad(values.sum(), vectors)
                exact = gradients.double()
                way = (exact * (own - base)).sum(dim=-1)
                inputs = (exact * own).sum(dim=-1)
                several = zip(values.tolist(), way, inputs, exact.norm(dim=-1), strict=True)
                return [
                    PointGradients(value, *(each.cpu().numpy() for each in arrays))
                    for value, *arrays in several
                ]

        return self._computed("gradients", points, forward, _GRADIENT_COST, options)

    def without(
        self, several: Sequence[Sequence[int]], options: BatchOptions | None = None
    ) -> list[float]:
        """The target where the baseline stands in place of some tokens, for each list of them."""

        def forward(batch: list[Sequence[int]]) -> list[float]:
            own, base = self._ends()
            vectors = own.repeat(len(batch), 1, 1)
            for copy_number, tokens in enumerate(batch):
                vectors[copy_number, list(tokens)] = base[list(tokens)]
            values: list[float] = self._score(vectors).double().tolist()
            return values

        return self._computed("left out", several, forward, 1, options)

    def _computed(
        self, what: str, inputs: Sequence[Any], forward: Any, cost: int,
        options: BatchOptions | None,
    ) -> list[Any]:  # fmt: skip
        computation = Computation((what, object()), forward)
        length = cost * len(self._target.pieces)
        found: list[Any] = []
        for begin in range(0, len(inputs), _AT_ONCE):
            some = inputs[begin : begin + _AT_ONCE]
            costs = [length] * len(some)
            found += compute_in_order(self._model, some, costs, computation, options)
        return found


def with_vectors(model: Model, vectors: Tensor) -> tuple[Model, int]:
    """The same model, in which further ids stand for vectors (m, E), and the first of these ids.

    It shares all weights with the model, which stays as it is.
    """
    changed, embeddings = copy(model), copy(model.embeddings)
    embeddings._modules = {**embeddings._modules, "tokens": _Tokens(embeddings.tokens, vectors)}
    changed._modules = {**changed._modules, "embeddings": embeddings}
    return changed, model.embeddings.tokens.num_embeddings


class _Tokens(nn.Module):
    """A table of token vectors, and further vectors behind it."""

    def __init__(self, table: nn.Embedding, vectors: Tensor) -> None:
        super().__init__()
        self.table, self.vectors = table, vectors

    def forward(self, ids: Tensor) -> Tensor:
        """Ids to vectors, (…, E)."""
        count = self.table.num_embeddings
        known = self.table(ids.clamp(max=count - 1))
        further = self.vectors[(ids - count).clamp(min=0)]
        return torch.where((ids < count)[..., None], known, further)
