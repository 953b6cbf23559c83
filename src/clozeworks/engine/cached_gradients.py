"""The gradient of a loss over all texts of a step, in the memory of one micro-batch.

Paper: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup"
(GradCache).
The idea: a loss that compares every text of a step with every other needs all vectors, but not all
activations. Micro-batches are embedded without a graph; the loss of all vectors says how each of
them should change; then each micro-batch is embedded again, with the same dropout, and that change
is propagated back. The gradient is that of one big batch. The last micro-batches, one per worker,
keep their graphs, so that a step that fits into memory is computed only once.
Ranks share their vectors, so that two processes make the step that one would make.

Shapes: B texts of a step, W width of a vector.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from clozeworks.core.loss import Loss, LossTerm
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.gradients import (
    Gradients,
    Grads,
    Precision,
    StepLoss,
    StepResult,
    add_gradients,
)
from clozeworks.objectives.batch import Batch, BatchTensors
from clozeworks.runtime.workers import WorkerPool

Targets = Mapping[str, Tensor]


class LossOverVectors(Protocol):
    """A loss that is a function of the vectors of all texts of a step."""

    def outputs(self, model: Any, tensors: BatchTensors) -> Tensor:
        """A vector for each text of a micro-batch, (texts, W)."""

    def known(self, tensors: BatchTensors) -> Targets:
        """What is known of each text of a micro-batch, by name, (texts, …)."""

    def loss_of_vectors(self, model: Any, vectors: Tensor, known: Targets) -> Loss:
        """The loss of all vectors of a step, (B, W)."""


@dataclass(frozen=True)
class _Part:
    """A micro-batch of the step."""

    number: int
    tensors: BatchTensors


class CachedGradients(Gradients):
    """Computes what a step costs and leaves its gradient in `parameter.grad`.

    Args:
        model: What is trained; its parameters that want a gradient get one.
        called: The model as it is called, compiled or not.
        objective: The loss over vectors.
        ranks: The processes that share the run.
        workers: Runs micro-batches in parallel.
        seed: The seed of the run, for what is dropped.
        precision: `bfloat16` computes in half precision where the device gains from it.
    """

    def __init__(
        self,
        model: nn.Module,
        called: Any,
        objective: LossOverVectors,
        ranks: ProcessGroup,
        workers: WorkerPool,
        *,
        seed: int,
        precision: Precision = "float32",
    ) -> None:
        def loss(tensors: BatchTensors) -> Loss:
            # A micro-batch alone has no loss; whoever asks wants to know what computing it takes.
            vectors = objective.outputs(called, tensors)
            return Loss({"vectors": LossTerm(vectors.sum(), len(vectors))})

        super().__init__(model, loss, ranks, workers, seed=seed, precision=precision)
        self._called, self._objective = called, objective

    def take(self, step: int, micro_batches: Sequence[Batch]) -> StepResult:
        """The gradient of the loss of all texts, this rank's and all other ranks'."""
        device, workers = self._ranks.device, self._workers
        parts = [_Part(n, each.tensors(device, step)) for n, each in enumerate(micro_batches)]
        first_kept = len(parts) - workers.count

        def embed(worker: int, part: _Part) -> Tensor:
            with torch.set_grad_enabled(part.number >= first_kept):
                return self._embedded(step, part)

        vectors = workers.run(embed, parts)
        sizes = [len(each) for each in vectors]
        positions = _positions(micro_batches)
        in_order = positions.argsort().to(device)
        own = torch.cat([each.detach() for each in vectors])[in_order]
        several = [self._objective.known(part.tensors) for part in parts]
        known = {name: torch.cat([each[name] for each in several])[in_order] for name in several[0]}
        begin, every = self._ranks.gathered(own)
        with workers.together():
            loss, wanted, of_loss = self._compared(every, known)
        changes = torch.split(wanted[begin : begin + len(own)][positions.to(device)], sizes)
        kept: list[Tensor | None] = [None] * first_kept + list(vectors[max(first_kept, 0) :])
        del vectors
        sums: list[Grads] = [[None] * len(self._parameters) for _ in range(workers.count)]

        def propagate(worker: int, part: _Part) -> None:
            vector, kept[part.number] = kept[part.number], None
            if vector is None:
                vector = self._embedded(step, part)
            change = changes[part.number].to(vector.dtype)
            add_gradients(
                sums[worker],
                torch.autograd.grad(vector, self._parameters, change, allow_unused=True),
            )

        # Those that have a graph first: then there is room for the others.
        workers.run(propagate, parts[first_kept:] + parts[:first_kept] if first_kept > 0 else parts)
        if not self._ranks.leads:  # every rank has compared the same vectors; one tells
            of_loss = [None if grad is None else torch.zeros_like(grad) for grad in of_loss]
        grads, *others = [*sums, of_loss]
        for other in others:
            add_gradients(grads, other)
        self._ranks.add_up([grad for grad in grads if grad is not None])
        for parameter, grad in zip(self._parameters, grads, strict=True):
            parameter.grad = grad
        tokens = self._ranks.summed([float(sum(len(each.ids) for each in micro_batches))])[0]
        return StepResult(_step_losses(loss), int(tokens))

    def _embedded(self, step: int, part: _Part) -> Tensor:
        with self.drawing(step, part.number), self.computing():
            return self._objective.outputs(self._called, part.tensors)

    def _compared(self, every: Tensor, known: Targets) -> tuple[Loss, Tensor, Grads]:
        """The loss of all vectors, and its gradients: of the vectors, and of the parameters."""
        gathered = {name: self._ranks.gathered(own)[1] for name, own in known.items()}
        every = every.requires_grad_()
        loss = self._objective.loss_of_vectors(self._called, every, gathered)
        value = loss.value()
        wanted, *of_loss = torch.autograd.grad(
            value, [every, *self._parameters], allow_unused=True, materialize_grads=False
        )
        return loss, torch.zeros_like(every) if wanted is None else wanted, list(of_loss)


def _positions(micro_batches: Sequence[Batch]) -> Tensor:
    """Where the texts of micro-batches, one after the other, stand in their step, (B,)."""
    stated = [each.positions for each in micro_batches if each.positions is not None]
    if not stated:
        return torch.arange(sum(map(len, micro_batches)))
    return torch.from_numpy(np.concatenate(stated))


def _step_losses(loss: Loss) -> dict[str, StepLoss]:
    return {
        name: StepLoss(
            float(term.total.detach()),
            None if term.correct is None else float(term.correct),
            float(term.count),
            term.weight,
        )
        for name, term in loss.terms.items()
    }
