"""What can be had without a model: guesses by what is frequent in the training items.

A number means little beside nothing. These are the answers somebody could give who saw the labels
of the training items and never reads a text; a model that is not better has learned nothing.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.task import Task


@dataclass(frozen=True)
class GuessingBaseline:
    """What guessing comes to.

    Attributes:
        how: What is guessed, in a few words.
        measured: How good it is on the dev set.
    """

    how: str
    measured: Measured

    def beaten_by(self, measured: Measured) -> bool:
        """Whether a model is better by its primary value."""
        return measured.better_than(self.measured)

    def in_reach_of(self, measured: Measured) -> bool:
        """Whether the interval of a model's primary value holds that of guessing."""
        low, high = measured.intervals.get(measured.primary, (measured.value, measured.value))
        return low <= self.measured.value <= high


def guess(
    task: Task[Any, Any], train: Sequence[Any], dev: Sequence[Any]
) -> GuessingBaseline | None:
    """Guesses items from the labels of others, and measures it.

    Args:
        task: What is asked.
        train: The items whose labels are known.
        dev: The items that are guessed.

    Returns:
        How good guessing is; None if the task knows no way to guess.
    """
    guessed = task.baseline(train, dev)
    return None if guessed is None else GuessingBaseline(guessed[0], task.measure(dev, guessed[1]))
