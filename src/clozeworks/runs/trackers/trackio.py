"""Trackio: the local tracker of Hugging Face."""

import sys
from contextlib import redirect_stdout

from clozeworks.engine.callbacks import Session, SessionStatus
from clozeworks.runs.trackers.tracker import Tracker


class TrackioCallback(Tracker):
    """Logs a run to Trackio; without a project to one called clozeworks."""

    name, module, function = "trackio", "trackio", "init"

    def on_session_begin(self, session: Session) -> None:
        """Begins a run, or goes on with it."""
        before = self.recalled(session)
        with redirect_stdout(sys.stderr):  # the output of a command is for its results
            self._run = self.library.init(
                project=self.project or "clozeworks",
                name=before or session.name,
                group=session.run if session.name != session.run else None,
                config=dict(session.settings),
                resume="allow" if before else "never",
                embed=False,
            )
        self.remember(session, self._run.name)

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Logs the numbers of a step."""
        self._run.log(numbers, step=step)

    def on_session_end(self, status: SessionStatus) -> None:
        """Ends the run; Trackio does not ask how."""
        with redirect_stdout(sys.stderr):
            self.library.finish()
