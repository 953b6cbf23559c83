"""The loss of a model on held-out text: the same text, masked alike, every time."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from clozeworks.core.loss import Loss
from clozeworks.engine.callbacks import TrainerCallback
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.early_stopping import EarlyStopping, Evaluator
from clozeworks.engine.gradients import LossFunction, StepResult, measured
from clozeworks.engine.snapshots import Snapshot
from clozeworks.engine.stages import MicroBatches
from clozeworks.engine.trainer import Trainer
from clozeworks.objectives.batch import Batch
from clozeworks.runtime.workers import WorkerPool


@dataclass
class HeldOutEvaluation(TrainerCallback):
    """Measures the model every few steps and at the end; may end the run early.

    Attributes:
        names: The parts of the objective.
        held_out: This rank's part of the held-out text, as batches; empty if there is none.
        every_steps: Steps between two evaluations; 0 for a single one at the end.
        evaluator: Measures the model beside its loss; None if nothing else counts.
        early_stopping: Keeps the best weights by what the evaluator measures.
    """

    names: Sequence[str]
    held_out: MicroBatches
    every_steps: int | None
    evaluator: Evaluator | None = None
    early_stopping: EarlyStopping = field(default_factory=EarlyStopping)

    def resume(self, snapshot: Snapshot) -> None:
        """Takes over the best weights so far."""
        self.early_stopping.resume(snapshot.state["best"], snapshot.tensors.get("best", {}))

    def state(self) -> dict[str, Any]:
        """The best value so far."""
        return {"best": self.early_stopping.state()}

    def tensors(self) -> dict[str, dict[str, torch.Tensor]]:
        """The best weights so far."""
        weights = self.early_stopping.weights
        return {"best": dict(weights)} if weights else {}

    @property
    def finished(self) -> bool:
        """Whether early stopping ends the run."""
        return self.early_stopping.should_stop

    def on_step(self, trainer: Trainer) -> None:
        """Measures the model when it is time."""
        due = self.every_steps and trainer.step % self.every_steps == 0
        if due or trainer.step == trainer.stages.steps:
            self.evaluate(trainer)

    def evaluate(self, trainer: Trainer) -> StepResult | None:
        """Measures the model as it stands, and tells all callbacks.

        Returns:
            The loss on held-out text; None if there is no such text.
        """
        ranks = trainer.ranks
        has_text = ranks.summed([len(self.held_out)])[0] > 0
        if not has_text and self.evaluator is None:
            return None
        result, losses = None, dict[str, Any]()
        if has_text:
            result = evaluate(
                trainer.model,
                trainer.batch_loss,
                self.names,
                self.held_out,
                ranks,
                trainer.workers,
            )
            losses["loss"] = result.loss
            for name, part in result.parts.items():
                losses[name] = {
                    "loss": part.loss,
                    "accuracy": part.accuracy,
                    "perplexity": math.exp(min(part.loss, 100.0)),
                }
        record: dict[str, Any] = {"step": trainer.step, "evaluation": losses}
        if self.evaluator is not None:
            with trainer.workers.together():
                judged = self.evaluator()
            if judged.losses:
                losses["loss"] = sum(judged.losses.values())
                losses |= {name: {"loss": loss} for name, loss in judged.losses.items()}
            # Whether to go on must be decided alike, whatever the last bits on each rank.
            judged = replace(judged, value=ranks.agreed(judged.value))
            if "loss" in losses:
                judged = replace(judged, loss=ranks.agreed(losses["loss"]))
            best = self.early_stopping.update(judged, trainer.model, trainer.step)
            record["judged"] = {**judged.record, "best": best}
        for each in trainer.builtin:
            each.on_evaluate(trainer, record)
        trainer.callback.on_evaluate(trainer.step, record)
        return result


def evaluate(
    model: torch.nn.Module,
    loss: LossFunction,
    names: Sequence[str],
    micro_batches: Sequence[Batch],
    ranks: ProcessGroup,
    workers: WorkerPool,
) -> StepResult:
    """The losses of some batches, over all ranks, without dropout.

    Args:
        model: The model; its mode comes back afterwards.
        loss: The loss of a batch on the device.
        names: The parts of the objective.
        micro_batches: This rank's part of the text, possibly none.
        ranks: The processes that share the run.
        workers: Runs micro-batches in parallel.
    """

    def work(worker: int, micro_batch: Batch) -> Loss:
        with torch.inference_mode():
            return loss(micro_batch.tensors(ranks.device))

    training = model.training
    model.eval()
    try:
        losses = workers.run(work, micro_batches)
    finally:
        model.train(training)
    return measured(
        names, losses, sum(len(micro_batch.ids) for micro_batch in micro_batches), ranks
    )
