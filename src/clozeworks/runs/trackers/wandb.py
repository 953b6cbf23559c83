"""Weights & Biases."""

from clozeworks.engine.callbacks import Session, SessionStatus
from clozeworks.runs.trackers.tracker import Tracker

# What wandb takes for a run that ended well, was killed, or failed.
_EXIT_CODES: dict[SessionStatus, int] = {"finished": 0, "stopped": 255, "failed": 1}


class WandbCallback(Tracker):
    """Logs a run to Weights & Biases; without a project to that of `WANDB_PROJECT`."""

    name, module, function = "wandb", "wandb", "init"

    def on_session_begin(self, session: Session) -> None:
        """Begins a run, beside one that the program may have of its own, or goes on with it."""
        before = self.recalled(session)
        self._run = self.library.init(
            project=self.project,
            name=session.name,
            group=session.run if session.name != session.run else None,
            config=dict(session.settings),
            dir=str(session.folder),
            id=before,
            resume="allow" if before else None,
            reinit="create_new",
        )
        self.remember(session, self._run.id)

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Logs the numbers of a step."""
        self._run.log(numbers, step=step)

    def on_session_end(self, status: SessionStatus) -> None:
        """Ends the run."""
        self._run.finish(exit_code=_EXIT_CODES[status])
