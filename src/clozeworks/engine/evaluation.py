"""Evaluation while a model trains: the loss on held-out text, the best weights, early stopping.

Held-out text is the same, masked alike, every time. Fine-tuning measures the model on the dev set,
too, keeps the weights that did best there, and may stop when they do not become better.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from clozeworks.core.loss import Loss
from clozeworks.engine.callbacks import TrainerCallback
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.gradients import LossFunction, StepResult, measured
from clozeworks.engine.snapshots import Snapshot
from clozeworks.engine.stages import MicroBatches
from clozeworks.engine.trainer import Trainer
from clozeworks.objectives.batch import Batch
from clozeworks.runtime.workers import WorkerPool


@dataclass(frozen=True)
class EvalResult:
    """What an evaluator measured."""

    value: float
    """The number that decides."""
    higher_is_better: bool
    """Whether more is better."""
    record: dict[str, Any]
    """All that was measured, as plain data."""
    losses: Mapping[str, float] = field(default_factory=dict)
    """Losses by the name of the task, if they were measured on the way."""
    kept: Any = None
    """What else is worth keeping as long as these weights are the best."""
    loss: float | None = None
    """What it cost in all, which decides between equal values; None if it is not known."""


# Measures the model as it stands.
Evaluator = Callable[[], EvalResult]


@dataclass
class EarlyStopping:
    """Keeps the best weights so far."""

    patience: int | None = None
    """Evaluations without a better value after which a run ends; None: it never does."""
    value: float | None = None
    """The best value; None before the first evaluation."""
    loss: float | None = None
    """What the weights with that value cost; None if it is not known."""
    step: int = 0
    """The step it was reached at."""
    waited: int = 0
    """Evaluations since the value became better."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """Copies of all parameters that may change, by name."""
    kept: Any = None
    """What the evaluator wanted to be kept with them; None if that was in another session."""

    def update(self, result: EvalResult, model: nn.Module, step: int) -> bool:
        """Keeps the weights if they are better than the best; says whether they are.

        Of equal values the one with the lower loss counts: a few items are all right long before a
        model is sure of them. Otherwise the earlier one stays; what is not a number is never
        better. Patience waits for a better value, not for a lower loss.
        """
        sign = 1.0 if result.higher_is_better else -1.0
        better = result.value == result.value and (
            self.value is None or sign * result.value > sign * self.value
        )
        self.waited = 0 if better else self.waited + 1
        if not better and not self._equal_and_cheaper(result):
            return False
        self.value, self.loss, self.step = result.value, result.loss, step
        self.kept = result.kept
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if not parameter.requires_grad:
                    continue
                if name in self.weights:
                    self.weights[name].copy_(parameter)
                else:
                    self.weights[name] = parameter.detach().clone()
        return True

    def _equal_and_cheaper(self, result: EvalResult) -> bool:
        if result.value != self.value or result.loss is None or self.loss is None:
            return False
        return result.loss < self.loss or (self.loss != self.loss and result.loss == result.loss)

    @property
    def should_stop(self) -> bool:
        """Whether the value has not become better for as long as patience lasts."""
        return self.patience is not None and self.waited >= self.patience

    def restore(self, model: nn.Module) -> None:
        """Puts the best weights back."""
        own = dict(model.named_parameters())
        with torch.no_grad():
            for name, weights in self.weights.items():
                own[name].copy_(weights)

    def state(self) -> dict[str, Any]:
        """What a snapshot keeps of it beside the weights."""
        return {"value": self.value, "loss": self.loss, "step": self.step, "waited": self.waited}

    def resume(self, state: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        """Goes on from a snapshot."""
        self.value, self.step, self.waited = state["value"], state["step"], state["waited"]
        self.loss = state.get("loss")
        self.weights = {name: tensor.clone() for name, tensor in weights.items()}


@dataclass
class HeldOutEvaluation(TrainerCallback):
    """Measures the model every few steps and at the end; may end the run early."""

    names: Sequence[str]
    """The parts of the objective."""
    held_out: MicroBatches
    """This rank's part of the held-out text, as batches; empty if there is none."""
    every_steps: int | None
    """Steps between two evaluations; 0 for a single one at the end."""
    evaluator: Evaluator | None = None
    """Measures the model beside its loss; None if nothing else counts."""
    early_stopping: EarlyStopping = field(default_factory=EarlyStopping)
    """Keeps the best weights by what the evaluator measures."""

    def resume(self, snapshot: Snapshot) -> None:
        """Takes over the best weights so far."""
        self.early_stopping.resume(snapshot.state["best"], snapshot.tensors.get("best", {}))

    def state(self) -> dict[str, Any]:
        """The best value so far."""
        return {"best": self.early_stopping.state()}

    def tensors(self) -> dict[str, dict[str, Tensor]]:
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
                trainer.model, trainer.batch_loss, self.names, self.held_out, ranks, trainer.workers
            )
            losses["loss"] = result.loss
            for name, part in result.parts.items():
                losses[name] = {
                    **part.record(),
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
    model: nn.Module,
    loss: LossFunction,
    names: Sequence[str],
    micro_batches: Sequence[Batch],
    ranks: ProcessGroup,
    workers: WorkerPool,
) -> StepResult:
    """The losses of some batches, over all ranks, without dropout.

    The mode of the model comes back afterwards.
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
