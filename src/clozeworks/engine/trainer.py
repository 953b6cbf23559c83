"""The loop: batches in, updates out, whatever the model and the objective.

A run's state is its weights, its optimizer, the number of steps done, and a few numbers for
reporting. Everything else, data and dropout included, is a function of the seed and the step.

What happens around a step is done by built-in callbacks (`TrainerCallback`): `MetricsLogger` writes
metrics, `HeldOutEvaluation` measures, `Checkpointer` writes snapshots.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from clozeworks.core.loss import Loss
from clozeworks.engine.cached_gradients import CachedGradients, LossOverVectors
from clozeworks.engine.callbacks import Callback, TrainerCallback, Update
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.gradients import Gradients, LossFunction, StepResult, norm_of
from clozeworks.engine.guards import Guards
from clozeworks.engine.settings import Training
from clozeworks.engine.snapshots import Snapshot, TensorGroups, fill_optimizer, optimizer_tensors
from clozeworks.engine.stages import Stages
from clozeworks.engine.stopping import Stop, StopNow
from clozeworks.errors import CheckpointError
from clozeworks.objectives.batch import BatchTensors
from clozeworks.runtime.workers import WorkerPool


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    step: int
    """Steps done, over all sessions."""
    finished: bool
    """Whether these are all."""
    signal: int
    """The signal that stopped it; 0 if none did, or a callback."""
    tokens: int
    """Tokens seen, over all sessions."""
    seconds: float
    """Time spent, over all sessions."""
    guards: Guards
    """What was marked on the way."""


@dataclass
class Trainer:
    """Trains a model from its last snapshot to the end."""

    model: nn.Module
    """The model, on its device."""
    loss: Callable[[Any, BatchTensors], Loss]
    """The loss of a model, the first argument, on a batch on its device; not called where
    `over_vectors` is given."""
    stages: Stages
    """Where batches come from."""
    training: Training
    """How the model is trained; its learning rate is settled."""
    seed: int
    """The seed of the run."""
    ranks: ProcessGroup
    """The processes that share the run."""
    workers: WorkerPool
    """Runs micro-batches in parallel."""
    builtin: Sequence[TrainerCallback]
    """Logging, evaluation and snapshots, in this order."""
    callback: Callback
    """The display and the callbacks of the user."""
    over_vectors: LossOverVectors | None = None
    """The loss, where it is a function of the vectors of all texts of a step; else None."""
    guards: Guards = field(default_factory=Guards)
    """Watches for numbers that are not finite."""

    def __post_init__(self) -> None:
        training = self.training
        assert training.learning_rate is not None, "the learning rate is settled"
        self._learning_rate = training.learning_rate
        self.optimizer = training.optimizer.build(
            self.model,
            training.learning_rate,
            training.freezing.apply(self.model, training.layer_decay),
        )
        called: Any = torch.compile(self.model) if training.compile else self.model
        self.batch_loss: LossFunction = lambda batch: self.loss(called, batch)
        self.gradients = self._gradients(called)
        self.step = 0
        self.tokens = 0
        self._names = {id(value): name for name, value in self.model.named_parameters()}
        self._before = self._saved = 0.0  # seconds of earlier sessions; all until the last snapshot
        self._began = time.monotonic()

    def _gradients(self, called: Any) -> Gradients:
        ranks, workers, precision = self.ranks, self.workers, self.training.precision
        if (loss := self.over_vectors) is None:
            return Gradients(
                self.model, self.batch_loss, ranks, workers, seed=self.seed, precision=precision
            )
        return CachedGradients(
            self.model, called, loss, ranks, workers, seed=self.seed, precision=precision
        )

    @property
    def seconds(self) -> float:
        """Time spent on the run, over all sessions."""
        return self._before + time.monotonic() - self._began

    @property
    def finished(self) -> bool:
        """Whether nothing is left to train."""
        return self.step >= self.stages.steps or self._ended_early

    @property
    def _ended_early(self) -> bool:
        return any(each.finished for each in self.builtin)

    def run(self) -> Outcome:
        """Trains until all steps are done, or a signal or a callback stops the run."""
        self.model.train()
        self.callback.on_train_begin(self.stages.steps)
        for each in self.builtin:
            each.on_train_begin(self)
        self._began = time.monotonic()
        stage_begins, batches = self.stages.begins(), self.stages.batches(self.step)
        parameters = sum(parameter.numel() for parameter in self.model.parameters())
        requested = False  # whether a callback stops the run
        # Trap: leaving the loop early must end the loader's threads at once, not at exit.
        with (
            Stop(alone=self.ranks.count == 1) as stop,
            closing(batches),
            self.workers.alone(parameters),
        ):
            try:
                for step, micro_batches in batches:
                    if self.finished:  # it ended here before, and was killed afterwards
                        break
                    if step in stage_begins:
                        self.callback.on_message(
                            f"Step {step:,}: from here on {stage_begins[step]}."
                        )
                    with stop.interruptible():
                        for each in self.builtin:
                            each.on_step_begin(self, micro_batches)
                        result = self.gradients.take(step, micro_batches)
                    self._update(result)
                    requested |= self.callback.on_step(self.step, result) is True
                    for each in self.builtin:  # metrics and evaluation
                        each.on_step(self)
                    must_stop = self.ranks.summed([float(requested or stop.signal != 0)])[0] > 0
                    if must_stop or self._ended_early:
                        break
                    for each in self.builtin:  # snapshots
                        each.on_step_end(self)
            except StopNow:
                pass
            except BaseException:
                for each in self.builtin:
                    each.on_exception()
                raise
            for each in self.builtin:  # the last snapshot
                each.on_train_end(self)
            # What the snapshot says, so that whoever makes the model again from it says the same.
            outcome = Outcome(
                self.step, self.finished, stop.signal, self.tokens, self._saved, self.guards
            )
            self.callback.on_train_end(outcome)
            return outcome

    def _update(self, result: StepResult) -> None:
        """Updates the weights, unless the numbers are not finite."""
        for group in self.optimizer.param_groups:
            if self.step < group["start_step"]:
                for parameter in group["params"]:
                    parameter.grad = None
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = norm_of(grads)
        for each in self.builtin:
            each.on_before_update(self)
        factor = self.training.schedule.factor(self.step, self.stages.steps)
        learning_rate = self._learning_rate * factor
        usable = self.guards.finite(result.loss, norm)
        spike = usable and self.guards.is_spike(result.loss)
        if usable:
            clip = self.training.max_grad_norm
            if clip is not None and norm > clip:
                torch._foreach_mul_(grads, clip / norm)
            for group in self.optimizer.param_groups:
                group["lr"] = learning_rate * group["lr_scale"]
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.tokens += result.tokens
        self.step += 1
        update = Update(result, norm, learning_rate, skipped=not usable, spike=spike)
        for each in self.builtin:
            each.on_update(self, update)
        if not usable:
            self.callback.on_message(
                f"Step {self.step:,}: loss {result.loss:.4g}, gradient {norm:.4g}: not finite, "
                f"so the weights stay as they were ({self.guards.skipped:,} times so far)."
            )
            self.guards.check(self.step, learning_rate, self.model)
        elif spike:
            self.callback.on_message(
                f"Step {self.step:,}: the loss, {result.loss:.3f}, is far above the usual "
                f"{self.guards.mean:.3f}."
            )

    def state(self) -> tuple[TensorGroups, dict[str, Any]]:
        """What a snapshot holds: tensors by file and name, and plain data."""
        self._saved = self.seconds
        tensors: dict[str, dict[str, Tensor]] = {
            "model": dict(self.model.named_parameters()),
            "optimizer": optimizer_tensors(self.optimizer, self._names),
        }
        state = {"tokens": self.tokens, "seconds": self._saved, "guards": self.guards.state()}
        for each in self.builtin:
            tensors |= each.tensors()
            state |= each.state()
        return tensors, {**state, "workers": self.workers.count, "ranks": self.ranks.count}

    def resume(self, snapshot: Snapshot) -> None:
        """Goes on from a snapshot.

        Raises:
            CheckpointError: If it belongs to another model.
        """
        weights, state = snapshot.tensors["model"], snapshot.state
        parameters = dict(self.model.named_parameters())
        shapes = [
            {(n, tensor.shape) for n, tensor in each.items()} for each in (parameters, weights)
        ]
        for name, _ in shapes[0] ^ shapes[1]:
            raise CheckpointError(
                f"the snapshot of step {snapshot.step:,} belongs to another model: {name} is not "
                "in both, or has another shape; use another run folder."
            )
        with torch.no_grad():
            for name, parameter in parameters.items():
                parameter.copy_(weights[name])
        fill_optimizer(self.optimizer, self._names, snapshot.tensors["optimizer"])
        self.step = snapshot.step
        self.tokens = state["tokens"]
        self.guards = Guards.from_state(state["guards"])
        self._before = self._saved = state["seconds"]
        for each in self.builtin:
            each.resume(snapshot)
        if state["workers"] != self.workers.count or state["ranks"] != self.ranks.count:
            self.callback.on_message(
                f"The run was begun with {state['ranks']} processes of {state['workers']} threads "
                f"and goes on with {self.ranks.count} of {self.workers.count}: the results will be "
                "those of another run of the same recipe, not the same to the bit."
            )
