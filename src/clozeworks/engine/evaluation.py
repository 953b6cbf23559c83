"""What a model costs on held-out text: the same text, hidden alike, every time."""

from collections.abc import Sequence

import torch

from clozeworks.core.loss import Loss
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.gradients import LossFunction, StepResult, measured
from clozeworks.engine.micro_batches import MicroBatchThreads
from clozeworks.objectives.batch import Batch


def evaluate(
    model: torch.nn.Module,
    cost: LossFunction,
    names: Sequence[str],
    micro_batches: Sequence[Batch],
    ranks: ProcessGroup,
    workers: MicroBatchThreads,
) -> StepResult:
    """The costs of some batches, over all ranks, without dropout.

    Args:
        model: The model; its mode comes back afterwards.
        cost: What a batch on the device costs.
        names: The parts of the objective.
        micro_batches: This rank's share of the text, possibly none.
        ranks: The processes that share the run.
        workers: Pieces side by side.
    """

    def work(worker: int, micro_batch: Batch) -> Loss:
        with torch.inference_mode():
            return cost(micro_batch.tensors(ranks.device))

    was = model.training
    model.eval()
    try:
        losses = workers.run(work, micro_batches)
    finally:
        model.train(was)
    return measured(
        names, losses, sum(len(micro_batch.ids) for micro_batch in micro_batches), ranks
    )
