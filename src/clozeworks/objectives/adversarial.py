"""Adversarial training: a small change of the embeddings must not change the predictions.

Paper: He et al. 2021 (SiFT, scale-invariant fine-tuning); Miyato et al. 2019 (virtual adversarial
training, VAT); Jiang et al. 2020 (SMART, the symmetric form).
Data: that of the objective it wraps.
Masks and predicts: what the wrapped objective does; and its predictions must stay the same when the
vectors of the tokens are moved a little, in the direction in which they change most.
Loss: that of the wrapped objective, and `weight` times KL(p, q) + KL(q, p) of the predictions
before and after, summed over its targets. The move begins at random (normal, spread 0.01, cut at
two spreads) and makes one step of at most 0.0001 up the gradient of the KL, token by token.
Relations: two more forward passes and one more backward pass than the wrapped objective alone.
Dropout moves vectors too, but in no direction in particular.
Where paper and code differ: the paper normalises vectors and moves them by a number that then
means the same for all models; the code does so before the norm of the embeddings. Here the move is
multiplied by the spread of the vector instead: that norm makes the two the same, and without a move
the model is the plain one to the last bit. The code adds cross-entropies; less the entropies, which
have no gradient, they are the KLs. The weight of 1 is that of the code's own example; published
scripts are said to use 5 (from memory, not checked).
Example: `Adversarial(objective=NextSentence())`.

Shapes: N tokens, E width of the embeddings, n targets, C classes.
"""

import copy
from typing import ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.layout import Layout
from clozeworks.core.loss import LossTerm, LossTerms
from clozeworks.core.model import Model
from clozeworks.errors import SET, SettingError
from clozeworks.objectives import next_sentence
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.noise.draws import seeds_of
from clozeworks.objectives.objective import Objective, Wrapper
from clozeworks.rng import RandomStream
from clozeworks.spec import PositiveFloat, spec

SEEDS = "seeds"
# Keeps a vector that is constant from being divided by nothing.
_FLAT = 1e-7
# Keeps a gradient that is 0 everywhere from being divided by nothing.
_NOTHING = 1e-6


@runtime_checkable
class ChoiceObjective(Protocol):
    """An objective that predicts classes, whose logits can be compared before and after."""

    @property
    def chooses(self) -> bool:
        """Whether it predicts classes with its present settings."""
        ...

    def choices(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> Tensor:
        """The logits of all targets in order, (n, C)."""
        ...


@spec
class Move:
    """How far vectors are moved, and the weight of the change of the predictions."""

    weight: PositiveFloat = 1.0
    """What the change of the predictions counts beside the wrapped objective."""
    spread: PositiveFloat = 1e-2
    """The spread of the first, random move, as a fraction of the spread of each vector."""
    step: PositiveFloat = 1e-4
    """The step up the gradient, in the same unit."""


@spec
class Adversarial(Wrapper):
    """Predicts what another objective does, and the same when vectors move."""

    paper: ClassVar[str] = "He et al. 2021; Miyato et al. 2019"

    objective: Objective
    """What is predicted: it must choose between classes."""
    move: Move = Move()

    def __post_init__(self) -> None:
        inner = self.objective
        chooses = isinstance(inner, ChoiceObjective) and inner.chooses
        if not chooses and not isinstance(inner, next_sentence.NextSentence):
            raise SettingError(
                "adversarial",
                SET,
                f"the objective is {inner.name!r} as it stands, and must choose one of several "
                "answers: classify or compare with labels, or tag without crf",
                "leave `adversarial` out",
            )

    @property
    def loss_names(self) -> tuple[str, ...]:
        """Those of the wrapped objective, and its own."""
        return (*super().loss_names, self.name)

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Adds to the targets of the wrapped objective a seed for the first move of each example.

        The seed belongs to the example and the epoch, so that micro-batches, threads and ranks
        change nothing.
        """
        super().collate(builder, rng, source)
        answers = builder.targets[self.objective.name][ANSWERS]
        seeds = seeds_of(builder.clean, rng.stream(self.name))
        builder.targets[self.name] = {ANSWERS: answers, SEEDS: seeds}

    def check(self, blueprint: Blueprint) -> None:
        """Checks what the wrapped objective needs, and that embeddings have a norm."""
        super().check(blueprint)
        if blueprint.embeddings.norm is None:
            raise SettingError(
                "adversarial",
                SET,
                "the model's embeddings have no norm after them, so that a move would mean "
                "something else for every vector",
                "leave it out",
            )

    def losses(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> LossTerms:
        """The wrapped objective's terms, and how much its predictions change.

        Where no gradient can be taken, as in an evaluation, nothing is moved.
        """
        terms = self.objective.losses(model, hidden_states, tensors)
        count = len(tensors.targets[self.name][ANSWERS])
        nothing = hidden_states.new_zeros(())
        if not torch.is_grad_enabled():
            return {**terms, self.name: LossTerm(nothing, 0, nothing, self.move.weight)}
        clean = self._logits(model, hidden_states, tensors)
        delta = self.worst_move(model, clean.detach(), tensors)
        moved = self._moved(model, delta, tensors)
        each = symmetric_kl(moved, clean)
        alike = moved.argmax(dim=1) == clean.argmax(dim=1)
        if count:  # a target may be several choices; their mean counts
            each, alike = each.view(count, -1).mean(dim=1), alike.view(count, -1).all(dim=1)
        return {**terms, self.name: LossTerm(each.sum(), count, alike.sum(), self.move.weight)}

    def worst_move(self, model: Model, clean: Tensor, tensors: BatchTensors) -> Tensor:
        """The move of each token's vector, in spreads of that vector, (N, E).

        `clean` are the logits without a move, (n, C). The model's gradients stay as they are.
        """
        seeds, table = tensors.targets[self.name][SEEDS].tolist(), model.embeddings.tokens.weight
        first = first_move(seeds, tensors.layout, table, self.move.spread)
        delta = first.requires_grad_(True)
        change = symmetric_kl(self._moved(model, delta, tensors), clean).sum()
        (grad,) = torch.autograd.grad(change, delta)
        size = grad.abs().amax(dim=-1, keepdim=True)
        step = self.move.step * grad / (_NOTHING + size)
        # Token by token, so that a text does not depend on its neighbours.
        return (first + torch.where(torch.isfinite(size), step, 0.0)).detach()

    def _logits(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> Tensor:
        if isinstance(self.objective, ChoiceObjective):
            logits = self.objective.choices(model, hidden_states, tensors)
        else:
            logits = model.head(next_sentence.HEAD).logits(hidden_states, tensors.layout)
        # Trap: half precision has three digits, and the change is smaller than that.
        return logits.to(torch.promote_types(logits.dtype, torch.float32))

    def _moved(self, model: Model, delta: Tensor, tensors: BatchTensors) -> Tensor:
        other = moved_by(model, delta)
        hidden_states = other(tensors.ids, tensors.layout, tensors.types)
        return self._logits(other, hidden_states, tensors)


class MovedNorm(nn.Module):
    """A norm whose input was moved; nothing is learned about what lies before it."""

    def __init__(self, norm: nn.Module, delta: Tensor) -> None:
        super().__init__()
        self.norm = norm
        self.delta = delta

    def forward(self, x: Tensor) -> Tensor:
        """Vectors to vectors, (N, E)."""
        # Compat: the released code cuts the gradient here too, so the tables learn from the
        # pass without a move alone.
        x = x.detach()
        spread = (x.var(dim=-1, keepdim=True, unbiased=False) + _FLAT).sqrt()
        moved: Tensor = self.norm(x + self.delta * spread)
        return moved


def moved_by(model: Model, delta: Tensor) -> Model:
    """A model with the same weights whose embeddings are moved; the given one stays as it is."""
    # Micro-batches run in threads, so a hook on the shared model would be seen by all.
    embeddings, other = copy.copy(model.embeddings), copy.copy(model)
    norm = model.embeddings.norm
    embeddings._modules = {**embeddings._modules, "norm": MovedNorm(norm, delta)}
    other._modules = {**other._modules, "embeddings": embeddings}
    return other


def first_move(seeds: list[int], layout: Layout, like: Tensor, spread: float) -> Tensor:
    """A random move for every token, a seed for each text, cut at two spreads, (N, E).

    Width, device and type are those of `like`.
    """
    # Drawn on the CPU in float32 whatever the device, so that a seed means the same everywhere.
    drawn = [
        torch.randn(length, like.shape[-1], generator=torch.Generator().manual_seed(seed))
        for seed, length in zip(seeds, layout.lengths, strict=True)
    ]
    return (torch.cat(drawn) * spread).clamp_(-2 * spread, 2 * spread).to(like.device, like.dtype)


def symmetric_kl(logits: Tensor, others: Tensor) -> Tensor:
    """KL(p, q) + KL(q, p) of two sets of logits, row by row, (n,).

    The gradient is that of the two cross-entropies with fixed targets, as published.
    """
    left, right = logits.log_softmax(dim=-1), others.log_softmax(dim=-1)
    return _kl(left.detach(), right) + _kl(right.detach(), left)


def _kl(target: Tensor, log_probabilities: Tensor) -> Tensor:
    return (target.exp() * (target - log_probabilities)).sum(dim=-1)
