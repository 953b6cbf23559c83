"""MLflow."""

from collections.abc import Iterator, Mapping
from typing import Any

from clozeworks.engine.callbacks import Session, SessionStatus
from clozeworks.runs.trackers.tracker import Tracker
from clozeworks.wording import shortened

_STATUSES: dict[SessionStatus, str] = {
    "finished": "FINISHED",
    "stopped": "KILLED",
    "failed": "FAILED",
}
# What MLflow takes at once, and of one value, whatever the store.
_PARAMETERS, _LONGEST = 100, 500


class MLflowCallback(Tracker):
    """Logs a run to MLflow; a project is an experiment, without one that of the program."""

    name, module, function = "mlflow", "mlflow", "start_run"

    def on_session_begin(self, session: Session) -> None:
        """Begins a run, within one that the program may have of its own, or goes on with it."""
        if self.project is not None:
            self.library.set_experiment(self.project)
        before = self.recalled(session)
        name = {"run_id": before} if before else {"run_name": session.name}
        nested = self.library.active_run() is not None
        self._run = self.library.start_run(**name, nested=nested).info.run_id
        self.remember(session, self._run)
        if before:  # parameters are written once
            return
        parameters = list(_parameters(session.settings))
        for start in range(0, len(parameters), _PARAMETERS):
            self.library.log_params(dict(parameters[start : start + _PARAMETERS]))

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Logs the numbers of a step."""
        self.library.log_metrics(numbers, step=step, run_id=self._run)

    def on_session_end(self, status: SessionStatus) -> None:
        """Ends the run."""
        self.library.end_run(_STATUSES[status])


def _parameters(settings: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Settings one by one, by the path that recipes have for them."""
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _parameters(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", shortened(str(value), _LONGEST)
