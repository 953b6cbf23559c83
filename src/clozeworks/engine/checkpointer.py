"""When a snapshot is written, and what happens if it cannot be."""

import time
from collections.abc import Callable
from contextlib import suppress

from clozeworks.engine.callbacks import TrainerCallback
from clozeworks.engine.settings import Checkpointing
from clozeworks.engine.snapshots import Snapshot, Snapshots
from clozeworks.engine.trainer import Trainer
from clozeworks.errors import OutputError


class Checkpointer(TrainerCallback):
    """Writes a snapshot every few steps or minutes, beside the training, and one at the end.

    Args:
        snapshots: Where they are.
        settings: When they are written.
    """

    def __init__(self, snapshots: Snapshots, settings: Checkpointing) -> None:
        self.snapshots = snapshots
        self._settings = settings
        self._written = time.monotonic()
        self._due = False  # whether a snapshot waits for a step whose numbers are finite

    def resume(self, snapshot: Snapshot) -> None:
        """The snapshot that a run goes on from need not be written again."""
        self.snapshots.newest = snapshot.step

    def on_train_begin(self, trainer: Trainer) -> None:
        """Starts the clock."""
        self._written = time.monotonic()

    def on_before_update(self, trainer: Trainer) -> None:
        """Waits until the tensors of a snapshot that is being written may change."""
        self.snapshots.wait_for_tensors()

    def on_step_end(self, trainer: Trainer) -> None:
        """Begins to write a snapshot when it is time."""
        self._settle(trainer, self.snapshots.raise_failure)
        late = time.monotonic() - self._written >= 60 * self._settings.every_minutes
        every = self._settings.every_steps
        self._due |= every is not None and trainer.step % every == 0
        self._due |= trainer.ranks.agreed(late) > 0
        # While numbers are not finite, no snapshot may push out those from before.
        if self._due and not trainer.guards.in_a_row:
            self._due = False
            self._written = time.monotonic()
            if trainer.ranks.leads:
                self._settle(trainer, self.snapshots.wait)
            self._begin(trainer)

    def on_exception(self) -> None:
        """Lets a snapshot that is being written come to its end: it may be what is needed next."""
        with suppress(OutputError):
            self.snapshots.wait()

    def on_train_end(self, trainer: Trainer) -> None:
        """Writes the last snapshot, unless it is there already."""
        if trainer.ranks.leads:
            self._settle(trainer, self.snapshots.wait, go_on=True)
        if not trainer.ranks.leads or self.snapshots.newest != trainer.step:
            self._begin(trainer)
        if trainer.ranks.leads:
            self._settle(trainer, self.snapshots.wait, go_on=False)

    def _begin(self, trainer: Trainer) -> None:
        tensors, state = trainer.state()
        if trainer.ranks.leads:
            # While numbers are not finite, those from before must stay.
            prune = not trainer.guards.in_a_row
            self.snapshots.begin(trainer.step, tensors, state, prune=prune)

    def _settle(
        self, trainer: Trainer, done: Callable[[], None], *, go_on: bool | None = None
    ) -> None:
        """Says that a snapshot could not be written; goes on or stops, as the recipe says."""
        try:
            done()
        except OutputError as error:
            steps = self.snapshots.steps()
            kept = f"the one of step {steps[-1]:,} stays" if steps else "there is none yet"
            if go_on is None:
                go_on = self._settings.when_unwritable == "go on"
            if not go_on:
                raise OutputError(
                    f"{error}; {kept}; make room, then run the same again."
                ) from error
            trainer.callback.on_message(f"{error}; {kept}, and the run goes on.")
