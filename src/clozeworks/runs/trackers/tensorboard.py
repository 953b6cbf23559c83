"""TensorBoard: the numbers of a run in the folder `tensorboard`, beside `metrics.jsonl`."""

from collections.abc import Mapping
from typing import Any

from clozeworks.engine.callbacks import Session, SessionStatus
from clozeworks.runs.folder import TENSORBOARD
from clozeworks.runs.trackers.tracker import Tracker


class TensorBoardCallback(Tracker):
    """Writes the numbers of a run for TensorBoard; it has no projects."""

    name, module, function = "tensorboard", "torch.utils.tensorboard", "SummaryWriter"

    def on_session_begin(self, session: Session) -> None:
        """Opens the folder; points after the step that the session goes on from are dropped."""
        self._writer = self.library.SummaryWriter(
            str(session.folder / TENSORBOARD),
            purge_step=0 if session.step is None else session.step + 1,
        )

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Writes the numbers of a step."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)

    def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
        """Writes what was measured, so that it can be seen at once."""
        super().on_evaluate(step, record)
        self._writer.flush()

    def on_session_end(self, status: SessionStatus) -> None:
        """Writes what is left."""
        self._writer.close()
