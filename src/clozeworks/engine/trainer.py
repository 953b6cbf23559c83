"""The loop: batches in, updates out, whatever the model and the objective.

A run's state is its weights, its optimiser, the number of steps done, and a few numbers for
reporting. Everything else, data and dropout among it, is a function of the seed and the step.
"""

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn

from clozeworks.core.loss import Loss
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.distributed import ProcessGroup
from clozeworks.engine.early_stopping import EarlyStopping, Judge
from clozeworks.engine.evaluation import evaluate
from clozeworks.engine.gradients import Gradients, LossFunction, StepResult, norm_of
from clozeworks.engine.guards import Guards
from clozeworks.engine.metrics import Metrics
from clozeworks.engine.micro_batches import MicroBatchThreads
from clozeworks.engine.settings import Checkpointing, Evaluation, Logging, Training
from clozeworks.engine.snapshots import Snapshot, Snapshots, fill_optimizer, optimizer_tensors
from clozeworks.engine.stages import MicroBatches, Stages
from clozeworks.engine.stopping import Stop, StopNow
from clozeworks.engine.window import StepWindow
from clozeworks.errors import CheckpointError, OutputError
from clozeworks.objectives.batch import BatchTensors
from clozeworks.runtime.matmul_peak import matmul_peak, operations

# A rate below this share of what was usual is worth a word.
_SLOW = 0.5
# Seconds for which it is not said again.
_SILENT = 600


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        step: Steps done, over all sessions.
        finished: Whether these are all.
        signal: The signal that stopped it; 0 if none did, or a callback.
        tokens: Tokens seen, over all sessions.
        seconds: Time spent, over all sessions.
        guards: What was marked on the way.
    """

    step: int
    finished: bool
    signal: int
    tokens: int
    seconds: float
    guards: Guards


@dataclass
class Trainer:
    """Trains a model from wherever its snapshots are to the end.

    Attributes:
        model: The model, on its device.
        loss: What a model, the first argument, loses on a batch on its device.
        names: The parts of the objective.
        stages: Where batches come from.
        held_out: This rank's share of the held-out text, as batches; none if there is none.
        training: How it is trained; its learning rate is settled.
        logging: When a line of metrics is written; settled.
        evaluation: When it is measured on held-out text; settled.
        checkpointing: When snapshots are written.
        seed: The seed of the run.
        ranks: The processes that share the run.
        workers: Pieces side by side.
        snapshots: Where snapshots are.
        metrics: The file of what is measured; None on ranks that do not write.
        callback: Who is told.
        judge: Measures the model beside its loss at each evaluation; None if nothing else counts.
        best: Keeps the best weights by what the judge finds.
    """

    model: nn.Module
    loss: Callable[[Any, BatchTensors], Loss]
    names: Sequence[str]
    stages: Stages
    held_out: MicroBatches
    training: Training
    logging: Logging
    evaluation: Evaluation
    checkpointing: Checkpointing
    seed: int
    ranks: ProcessGroup
    workers: MicroBatchThreads
    snapshots: Snapshots
    metrics: Metrics | None
    callback: Callback
    judge: Judge | None = None
    best: EarlyStopping = field(default_factory=EarlyStopping)
    guards: Guards = field(default_factory=Guards)

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
        self._loss: LossFunction = lambda batch: self.loss(called, batch)
        self.step = 0
        self.tokens = 0
        self._names = {id(value): name for name, value in self.model.named_parameters()}
        self._window = StepWindow(self.names)
        self._before = self._spent = 0.0  # seconds of earlier sessions; all until the last snapshot
        self._began = self._kept = time.monotonic()
        self._rates: list[float] = []
        self._said_slow = -math.inf
        self._peak = 0.0  # operations a second of a large product on this machine
        self._best = 0.0  # tokens a second at that speed; 0 while it is not known
        self._stop_requested = False  # by a callback
        self._due = False  # whether a snapshot waits for a step whose numbers are finite

    @property
    def seconds(self) -> float:
        """Time spent on the run, over all sessions."""
        return self._before + time.monotonic() - self._began

    def resume(self, snapshot: Snapshot) -> None:
        """Goes on from a snapshot.

        Raises:
            CheckpointError: It belongs to another model.
        """
        weights, state = snapshot.tensors["model"], snapshot.state
        own = dict(self.model.named_parameters())
        for name in own.keys() | weights.keys():
            if name not in own or name not in weights or own[name].shape != weights[name].shape:
                raise CheckpointError(
                    f"the snapshot of step {snapshot.step:,} belongs to another model: {name} is "
                    "not in both, or has another shape; use another run folder."
                )
        with torch.no_grad():
            for name, parameter in own.items():
                parameter.copy_(weights[name])
        fill_optimizer(self.optimizer, self._names, snapshot.tensors["optimizer"])
        self.step = self.snapshots.newest = snapshot.step
        self.tokens = state["tokens"]
        self.guards = Guards.from_state(state["guards"])
        self._window = StepWindow.from_state(self.names, state["window"])
        self.best.resume(state["best"], snapshot.tensors.get("best", {}))
        self._before = self._spent = state["seconds"]
        if state["workers"] != self.workers.count or state["ranks"] != self.ranks.count:
            self.callback.on_message(
                f"The run was begun with {state['ranks']} processes of {state['workers']} threads "
                f"and goes on with {self.ranks.count} of {self.workers.count}: the results will be "
                "those of another run of the same recipe, not the same to the bit."
            )

    def run(self) -> Outcome:
        """Trains until all steps are done or a signal comes."""
        self.model.train()
        self.callback.on_train_begin(self.stages.steps)
        gradients = Gradients(
            self.model,
            self._loss,
            self.ranks,
            self.workers,
            seed=self.seed,
            precision=self.training.precision,
        )
        self._peak = matmul_peak(self.ranks.device)
        self._began = self._kept = self._window.begin()
        batches = self.stages.batches(self.step)
        begins = self.stages.begins()
        # Trap: leaving the loop early must end the loader's threads at once, not at exit.
        count = sum(parameter.numel() for parameter in self.model.parameters())
        with (
            Stop(alone=self.ranks.count == 1) as stop,
            closing(batches),
            self.workers.alone(count),
        ):
            try:
                for step, micro_batches in batches:
                    if self.best.hopeless:  # it ended here before, and was killed afterwards
                        break
                    if step in begins:
                        self.callback.on_message(f"Step {step:,}: from here on {begins[step]}.")
                    with stop.interruptible():
                        self._count_operations(gradients, micro_batches)
                        measured = gradients.take(step, micro_batches)
                    self._update(measured)
                    self._stop_requested |= self.callback.on_step(self.step, measured) is True
                    self._report()
                    if self._must_stop(stop) or self.best.hopeless:
                        break
                    self._keep_if_due()
            except StopNow:
                pass
            except BaseException:
                with suppress(OutputError):  # what is being written may be what is needed next
                    self.snapshots.wait()
                raise
            self._keep(last=True)
            finished = self.step >= self.stages.steps or self.best.hopeless
            # What the snapshot says, so that whoever makes the model again from it says the same.
            outcome = Outcome(
                self.step, finished, stop.signal, self.tokens, self._spent, self.guards
            )
            self.callback.on_train_end(outcome)
            return outcome

    def _count_operations(self, gradients: Gradients, micro_batches: MicroBatches) -> None:
        """Finds out, once a session, what the best speed of this machine would be in tokens."""
        if self._best or not self.ranks.leads or self.training.compile:
            return
        micro_batch = micro_batches[0]
        (needed,) = self.workers.run(
            lambda worker, micro_batch: operations(
                lambda: gradients.of_micro_batch(0, 0, micro_batch)
            ),
            [micro_batch],
        )
        self._best = self.ranks.count * self._peak * len(micro_batch.ids) / max(needed, 1.0)
        self._window.begin()

    def _update(self, measured: StepResult) -> None:
        """Makes the step, unless its numbers are not finite."""
        for group in self.optimizer.param_groups:
            if self.step < group["start_step"]:
                for parameter in group["params"]:
                    parameter.grad = None
        grads = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = norm_of(grads)
        self.snapshots.wait_for_tensors()
        rate = self._learning_rate * self.training.schedule.factor(self.step, self.stages.steps)
        usable = self.guards.finite(measured.loss, norm)
        spike = usable and self.guards.is_spike(measured.loss)
        if usable:
            clip = self.training.max_grad_norm
            if clip is not None and norm > clip:
                torch._foreach_mul_(grads, clip / norm)
            for group in self.optimizer.param_groups:
                group["lr"] = rate * group["lr_scale"]
            self.optimizer.step()
        self.optimizer.zero_grad()
        self.tokens += measured.tokens
        self.step += 1
        self._window.add(measured, norm, rate, skipped=not usable, spike=spike)
        if not usable:
            self.callback.on_message(
                f"Step {self.step:,}: loss {measured.loss:.4g}, gradient {norm:.4g}: not finite, "
                f"so the weights stay as they were ({self.guards.skipped:,} times so far)."
            )
            self.guards.check(self.step, rate, self.model)
        elif spike:
            self.callback.on_message(
                f"Step {self.step:,}: the loss, {measured.loss:.3f}, is far above the usual "
                f"{self.guards.mean:.3f}."
            )

    def _report(self) -> None:
        last = self.step == self.stages.steps
        if self.step % (self.logging.every_steps or 1) == 0 or last:
            record = self._window.record(self.step, self.tokens, self.seconds)
            record["epoch"] = round(self.stages.epoch_of(self.step), 4)
            if self._best:
                record["share_of_peak"] = round(record["tokens_per_second"] / self._best, 4)
            self._note_slowness(record["tokens_per_second"])
            self._log(record)
            self.callback.on_log(self.step, record)
            self._window = StepWindow(self.names)
            self._window.begin()
        every = self.evaluation.every_steps
        due = every and self.step % every == 0
        if due or last:
            self.evaluate()
            self._window.begin()

    def evaluate(self) -> StepResult | None:
        """Measures the model on held-out text, if there is any, and says what came out."""
        held_out = self.ranks.summed([len(self.held_out)])[0] > 0
        if not held_out and self.judge is None:
            return None
        found = None
        record: dict[str, Any] = {"step": self.step, "evaluation": {}}
        if held_out:
            found = evaluate(
                self.model, self._loss, self.names, self.held_out, self.ranks, self.workers
            )
            record["evaluation"]["loss"] = found.loss
        for name, part in found.parts.items() if found else ():
            record["evaluation"][name] = {
                "loss": part.loss,
                "accuracy": part.accuracy,
                "perplexity": math.exp(min(part.loss, 100.0)),
            }
        if self.judge is not None:
            with self.workers.together():
                judged = self.judge()
            if judged.losses:
                record["evaluation"]["loss"] = sum(judged.losses.values())
                record["evaluation"] |= {n: {"loss": loss} for n, loss in judged.losses.items()}
            # Whether to go on must be decided alike, whatever the last bits on each rank.
            judged = replace(judged, value=self.ranks.agreed(judged.value))
            if "loss" in record["evaluation"]:
                judged = replace(judged, loss=self.ranks.agreed(record["evaluation"]["loss"]))
            record["judged"] = {
                **judged.record,
                "best": self.best.look(judged, self.model, self.step),
            }
        self._log(record)
        self.callback.on_evaluate(self.step, record)
        return found

    def _log(self, record: dict[str, Any]) -> None:
        try:
            if self.metrics is not None:
                self.metrics.add(record)
        except OutputError as error:
            if self.checkpointing.when_unwritable == "stop":
                raise OutputError(f"{error}; make room, then run the same again.") from error
            self.callback.on_message(f"{error}; the lines are kept for later, and the run goes on.")

    def _note_slowness(self, rate: float) -> None:
        usual = sorted(self._rates)[len(self._rates) // 2] if len(self._rates) >= 5 else 0.0
        now = time.monotonic()
        if rate < _SLOW * usual and now - self._said_slow >= _SILENT:
            self._said_slow = now
            self.callback.on_message(
                f"Step {self.step:,}: {rate:,.0f} tokens a second, usually {usual:,.0f}: something "
                "else may be using this machine."
            )
        self._rates = [*self._rates[-19:], rate]

    def _must_stop(self, stop: Stop) -> bool:
        return any(self.ranks.summed([float(stop.signal != 0 or self._stop_requested)]))

    def _keep_if_due(self) -> None:
        self._settle(self.snapshots.complain)
        late = time.monotonic() - self._kept >= 60 * self.checkpointing.every_minutes
        every = self.checkpointing.every_steps
        self._due |= every is not None and self.step % every == 0
        self._due |= self.ranks.agreed(late) > 0
        # While numbers are not finite, no snapshot may push out those from before.
        if self._due and not self.guards.in_a_row:
            self._due = False
            self._keep()

    def _keep(self, *, last: bool = False) -> None:
        """Writes a snapshot: beside the training, or to its end if it is the last."""
        self._kept = time.monotonic()
        if not self.ranks.leads:
            self._spent = self.seconds
            return
        self._settle(self.snapshots.wait, go_on=True if last else None)
        if not last or self.snapshots.newest != self.step:
            self._spent = self.seconds
            self.snapshots.begin(
                self.step,
                {
                    "model": dict(self.model.named_parameters()),
                    "optimizer": optimizer_tensors(self.optimizer, self._names),
                    **({"best": dict(self.best.weights)} if self.best.weights else {}),
                },
                {
                    "tokens": self.tokens,
                    "seconds": self._spent,
                    "guards": self.guards.state(),
                    "window": self._window.state(),
                    "best": self.best.state(),
                    "workers": self.workers.count,
                    "ranks": self.ranks.count,
                },
                # While numbers are not finite, those from before must stay.
                prune=not self.guards.in_a_row,
            )
        if last:
            self._settle(self.snapshots.wait, go_on=False)

    def _settle(self, done: Callable[[], None], *, go_on: bool | None = None) -> None:
        """Says that a snapshot could not be written; goes on or stops, as the recipe says."""
        try:
            done()
        except OutputError as error:
            steps = self.snapshots.steps()
            kept = f"the one of step {steps[-1]:,} stays" if steps else "there is none yet"
            if go_on is None:
                go_on = self.checkpointing.when_unwritable == "go on"
            if not go_on:
                raise OutputError(
                    f"{error}; {kept}; make room, then run the same again."
                ) from error
            self.callback.on_message(f"{error}; {kept}, and the run goes on.")
