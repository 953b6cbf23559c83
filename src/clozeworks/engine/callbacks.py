"""Callbacks: what happens around the steps of a run.

A `Callback` is told what happens and may stop the run; users write their own. A `TrainerCallback`
is part of the engine: metrics, evaluation and snapshots. It sees the trainer, and what it remembers
is part of a snapshot.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor

    from clozeworks.engine.gradients import StepResult
    from clozeworks.engine.snapshots import Snapshot
    from clozeworks.engine.stages import MicroBatches
    from clozeworks.engine.trainer import Outcome, Trainer


# How a session ends: all steps are done, it can go on later, or an error ended it.
SessionStatus = Literal["finished", "stopped", "failed"]


@dataclass(frozen=True)
class Session:
    """A session of a run: from its first step, or from a snapshot.

    Each seed of fine-tuning, and each trial of a search, has sessions of its own.
    """

    folder: Path
    """Where the metrics of the session are written: that of the run, or of one of its seeds."""
    settings: Mapping[str, Any] = field(repr=False)
    """The recipe, with everything it left open settled."""
    step: int | None = None
    """The step it goes on from; None if it begins."""

    @property
    def run(self) -> str:
        """The name of the run."""
        return Path(self.settings["run"]).absolute().name

    @property
    def name(self) -> str:
        """The name of the run, and that of the seed or trial if it has several."""
        part = self.folder.absolute().name
        return self.run if part == self.run else f"{self.run}-{part}"


class Callback:
    """Is told what happens in a run. Every method does nothing; override those you need."""

    def on_session_begin(self, session: Session) -> None:
        """A session begins: its folder and its settings are known."""

    def on_train_begin(self, steps: int) -> None:
        """Training begins, or goes on: it has so many steps in all."""

    def on_step(self, step: int, result: "StepResult") -> bool | None:
        """A step is done.

        Args:
            step: How many steps are done.
            result: What the step cost; `result.loss` is the loss.

        Returns:
            True to stop the run after this step; it can go on later, from the snapshot that is
            written then.
        """
        return None

    def on_log(self, step: int, record: Mapping[str, Any]) -> None:
        """A line of the metrics file was written; the record is what it holds."""

    def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
        """The model was measured on held-out data; the record is a line of the metrics file."""

    def on_message(self, message: str) -> None:
        """Something a person should know."""

    def on_train_end(self, outcome: "Outcome") -> None:
        """Training is over, or was stopped."""

    def on_session_end(self, status: SessionStatus) -> None:
        """The session is over, also if an error ended it."""


class CallbackList(Callback):
    """Tells several callbacks, one after the other.

    A callback of a user that fails does not end the run: it is reported, and told nothing more.

    Args:
        job_callbacks: Callbacks of the job; what they raise is raised.
        user_callbacks: Callbacks of the user.
    """

    def __init__(
        self, job_callbacks: Iterable[Callback], user_callbacks: Iterable[Callback] = ()
    ) -> None:
        self._job_callbacks = list(job_callbacks)
        self._user_callbacks = list(user_callbacks)

    def on_session_begin(self, session: Session) -> None:
        """Tells all of them."""
        self._tell(lambda callback: callback.on_session_begin(session))

    def on_train_begin(self, steps: int) -> None:
        """Tells all of them."""
        self._tell(lambda callback: callback.on_train_begin(steps))

    def on_step(self, step: int, result: "StepResult") -> bool:
        """Tells all of them; whether one of them stops the run."""
        return any(self._tell(lambda callback: callback.on_step(step, result)))

    def on_log(self, step: int, record: Mapping[str, Any]) -> None:
        """Tells all of them."""
        self._tell(lambda callback: callback.on_log(step, record))

    def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
        """Tells all of them."""
        self._tell(lambda callback: callback.on_evaluate(step, record))

    def on_message(self, message: str) -> None:
        """Tells all of them."""
        self._tell(lambda callback: callback.on_message(message))

    def on_train_end(self, outcome: "Outcome") -> None:
        """Tells all of them."""
        self._tell(lambda callback: callback.on_train_end(outcome))

    def on_session_end(self, status: SessionStatus) -> None:
        """Tells all of them."""
        self._tell(lambda callback: callback.on_session_end(status))

    def _tell(self, call: Callable[[Callback], Any]) -> list[Any]:
        answers = [call(callback) for callback in self._job_callbacks]
        for callback in list(self._user_callbacks):
            try:
                answers.append(call(callback))
            except Exception as error:
                self._user_callbacks.remove(callback)
                self.on_message(
                    f"The callback {type(callback).__name__} failed ({type(error).__name__}: "
                    f"{error}); it is told nothing more, and the run goes on."
                )
        return answers


@dataclass(frozen=True)
class Update:
    """What a step did to the weights."""

    result: "StepResult"
    """What the step cost."""
    norm: float
    """The norm of the gradient, before clipping."""
    learning_rate: float
    """The learning rate, as the schedule has it at this step."""
    skipped: bool = False
    """Whether the weights stayed as they were, as the numbers were not finite."""
    spike: bool = False
    """Whether the loss was far above the usual."""


class TrainerCallback:
    """A built-in callback. Every method does nothing; the methods are in the order of a run."""

    def resume(self, snapshot: "Snapshot") -> None:
        """Takes over what a snapshot holds of it."""

    def on_train_begin(self, trainer: "Trainer") -> None:
        """The first step of a session follows."""

    def on_step_begin(self, trainer: "Trainer", micro_batches: "MicroBatches") -> None:
        """The gradient of these micro-batches is taken next; a second signal may interrupt this."""

    def on_before_update(self, trainer: "Trainer") -> None:
        """The weights and the state of the optimizer change next."""

    def on_update(self, trainer: "Trainer", update: Update) -> None:
        """The weights were updated, or the update was skipped."""

    def on_step(self, trainer: "Trainer") -> None:
        """A step is done, and the callbacks of the user were told."""

    def on_evaluate(self, trainer: "Trainer", record: dict[str, Any]) -> None:
        """The model was measured on held-out data."""

    def on_step_end(self, trainer: "Trainer") -> None:
        """All callbacks were told of the step, and nothing stops the run."""

    def on_exception(self) -> None:
        """An error ends the session."""

    def on_train_end(self, trainer: "Trainer") -> None:
        """The session is over, by the last step or because it was stopped."""

    @property
    def finished(self) -> bool:
        """Whether the run is complete before its last step."""
        return False

    def state(self) -> dict[str, Any]:
        """What a snapshot holds of it as plain data, by name."""
        return {}

    def tensors(self) -> dict[str, dict[str, "Tensor"]]:
        """What a snapshot holds of it as tensors, by file and name."""
        return {}
