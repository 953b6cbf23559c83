"""Callbacks: who is told what happens in a run, and may stop it."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clozeworks.engine.gradients import StepResult
    from clozeworks.engine.trainer import Outcome


class Callback:
    """Is told what happens in a run. Every method does nothing; override those you need."""

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


class CallbackList(Callback):
    """Tells several callbacks, one after the other.

    A callback of a user that fails does not end the run: it is reported, and told nothing more.

    Args:
        own: Callbacks of the job; what they raise is raised.
        users: Callbacks of the user.
    """

    def __init__(self, own: Iterable[Callback], users: Iterable[Callback] = ()) -> None:
        self.own = list(own)
        self.users = list(users)

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

    def _tell(self, call: Callable[[Callback], Any]) -> list[Any]:
        answers = [call(callback) for callback in self.own]
        for callback in list(self.users):
            try:
                answers.append(call(callback))
            except Exception as error:
                self.users.remove(callback)
                self.on_message(
                    f"The callback {type(callback).__name__} failed ({type(error).__name__}: "
                    f"{error}); it is told nothing more, and the run goes on."
                )
        return answers
