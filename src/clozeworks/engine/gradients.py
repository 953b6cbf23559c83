"""The gradient of one step: its micro-batches in parallel, its ranks together.

The loss of a micro-batch is divided by the number of targets of the whole step, over all
micro-batches and ranks, so that gradients simply add up: how a step is cut changes nothing but
rounding.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from typing import Literal

import torch
from torch import Tensor, nn

from clozeworks.core.layers.dropout import drawing_from
from clozeworks.core.loss import Loss
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.objectives.batch import Batch, BatchTensors
from clozeworks.runtime.workers import WorkerPool

Precision = Literal["float32", "bfloat16"]
LossFunction = Callable[[BatchTensors], Loss]
Grads = list[Tensor | None]


@dataclass(frozen=True)
class StepLoss:
    """What one part of an objective cost in a step: sums over all its targets."""

    total: float
    correct: float | None
    """None if no target can be predicted right or wrong."""
    count: float
    weight: float

    @property
    def loss(self) -> float:
        """The mean loss of a target."""
        return self.total / self.count if self.count else 0.0

    @property
    def accuracy(self) -> float | None:
        """The fraction of targets predicted right; None if none can be."""
        if self.correct is None:
            return None
        return self.correct / self.count if self.count else 0.0

    def __add__(self, other: "StepLoss") -> "StepLoss":
        """The sums of two steps, with the weight of the later one."""
        correct = None
        if self.correct is not None and other.correct is not None:
            correct = self.correct + other.correct
        count = self.count + other.count
        return StepLoss(self.total + other.total, correct, count, other.weight)

    def record(self) -> dict[str, float]:
        """The means, as a line of metrics has them: no accuracy where nothing can be right."""
        accuracy = self.accuracy
        return {"loss": self.loss} | ({} if accuracy is None else {"accuracy": accuracy})


@dataclass(frozen=True)
class StepResult:
    """What a step cost."""

    parts: Mapping[str, StepLoss]
    """By the name of the loss."""
    tokens: int
    """Tokens of the step, over all ranks."""

    @property
    def loss(self) -> float:
        """The weighted sum of the parts' means."""
        return sum(part.weight * part.loss for part in self.parts.values())


class Gradients:
    """Computes what a step costs and leaves its gradient in `parameter.grad`.

    Args:
        model: The model; its parameters that want a gradient get one.
        loss: The loss of a batch on the device.
        ranks: The processes that share the run.
        workers: Runs micro-batches in parallel.
        seed: The seed of the run, for what is dropped.
        precision: `bfloat16` computes in half precision where the device gains from it.
    """

    def __init__(
        self,
        model: nn.Module,
        loss: LossFunction,
        ranks: ProcessGroup,
        workers: WorkerPool,
        *,
        seed: int,
        precision: Precision = "float32",
    ) -> None:
        self._parameters = [p for p in model.parameters() if p.requires_grad]
        self._loss = loss
        self._ranks = ranks
        self._workers = workers
        self._seed = seed
        self._precision = precision

    def take(self, step: int, micro_batches: Sequence[Batch]) -> StepResult:
        """The gradient of this rank's micro-batches and of all other ranks'."""
        names = list(micro_batches[0].targets)
        target_counts = [
            float(sum(micro_batch.counts()[name] for micro_batch in micro_batches))
            for name in names
        ]
        tokens = sum(len(micro_batch.ids) for micro_batch in micro_batches)
        counts = dict(zip(names, self._ranks.summed(target_counts), strict=True))
        sums: list[Grads] = [[None] * len(self._parameters) for _ in range(self._workers.count)]

        def work(worker: int, numbered: tuple[int, Batch]) -> Loss:
            loss, grads = self.of_micro_batch(step, *numbered, counts)
            add_gradients(sums[worker], grads)
            return loss

        losses = self._workers.run(work, list(enumerate(micro_batches)))
        grads, *others = sums
        for other in others:
            add_gradients(grads, other)
        self._ranks.add_up([grad for grad in grads if grad is not None])
        for parameter, grad in zip(self._parameters, grads, strict=True):
            parameter.grad = grad  # None for a part that nobody asks: nothing updates it
        return measured(names, losses, tokens, self._ranks)

    def of_micro_batch(
        self, step: int, number: int, micro_batch: Batch, counts: Mapping[str, float] | None = None
    ) -> tuple[Loss, Sequence[Tensor | None]]:
        """What one micro-batch costs, and its gradient.

        Without `counts`, the targets of the whole step, those of the micro-batch count.
        """
        with self.drawing(step, number), self.computing():
            loss = self._loss(micro_batch.tensors(self._ranks.device, step))
            value = loss.value(counts)
        return loss, torch.autograd.grad(value, self._parameters, allow_unused=True)

    def drawing(self, step: int, micro_batch: int) -> AbstractContextManager[None]:
        """What a micro-batch drops is a function of the seed, the step, the rank and its number."""
        index = f"{self._seed}/dropout/{step}/{self._ranks.rank}/{micro_batch}"
        digest = blake2b(index.encode(), digest_size=8).digest()
        seed = int.from_bytes(digest, "little") >> 1
        if self._ranks.device.type == "cpu":
            return drawing_from(torch.Generator().manual_seed(seed))
        torch.manual_seed(seed)  # an accelerator's kernels draw from its own generator
        return nullcontext()

    def computing(self) -> AbstractContextManager[object]:
        """Half precision, if it was asked for."""
        if self._precision == "float32":
            return nullcontext()
        return torch.autocast(self._ranks.device.type, dtype=torch.bfloat16)


def measured(
    names: Sequence[str], losses: Sequence[Loss], tokens: int, ranks: ProcessGroup
) -> StepResult:
    """Adds up what micro-batches cost, over all ranks; waits for the device."""
    sums: list[float] = []
    for name in names:
        costs = [loss.terms[name] for loss in losses]
        sums.append(float(sum(cost.total.detach().double() for cost in costs)))
        # Where nothing can be right this is NaN, and so is the sum over ranks, though some may have
        # no loss to say so.
        sums.append(
            float(sum(math.nan if c.correct is None else c.correct.double() for c in costs))
        )
        sums.append(float(sum(cost.count for cost in costs)))
    *sums, all_tokens = ranks.summed([*sums, float(tokens)])
    weights = {name: losses[0].terms[name].weight if losses else 1.0 for name in names}
    parts = {
        name: StepLoss(total, None if math.isnan(correct) else correct, count, weights[name])
        for name, total, correct, count in zip(
            names, sums[0::3], sums[1::3], sums[2::3], strict=True
        )
    }
    return StepResult(parts, int(all_tokens))


def add_gradients(sums: Grads, grads: Sequence[Tensor | None]) -> None:
    """Adds gradients to sums, in place; None is a parameter that was not used."""
    both = [(a, b) for a, b in zip(sums, grads, strict=True) if a is not None and b is not None]
    if both:
        torch._foreach_add_(*map(list, zip(*both, strict=True)))
    for index, grad in enumerate(grads):
        if sums[index] is None:
            sums[index] = grad


def norm_of(grads: Sequence[Tensor]) -> float:
    """The length of a gradient, all its parts together."""
    # Trap: the norm of a large tensor adds up squares in float32, and of eight million it is wrong
    # in the fourth digit on a CPU; the norm of the norms of rows is not.
    rows = [torch.linalg.vector_norm(grad, dim=-1).reshape(-1) for grad in grads]
    return float(torch.linalg.vector_norm(torch.cat(rows)))
