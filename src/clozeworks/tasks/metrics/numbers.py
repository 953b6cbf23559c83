"""How well numbers are predicted: correlations, and how far off they are.

The values are those of scipy, with 0 and a note where a correlation is not defined.

Shapes: n items, D draws.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.tasks.metrics.bootstrap import Values, measured_from_counts
from clozeworks.tasks.metrics.correlation import Correlations
from clozeworks.tasks.metrics.measured import Measured


def numbers(
    gold: Sequence[float] | NDArray[np.generic],
    predicted: Sequence[float] | NDArray[np.generic],
    *,
    intervals: bool = False,
) -> Measured:
    """Pearson and Spearman correlation, their mean, and the mean absolute and squared error.

    Equal numbers share the mean of their ranks.

    Args:
        gold: The right numbers, (n,).
        predicted: The predicted ones, (n,).
        intervals: Whether intervals are wanted.

    Raises:
        InputError: If they are not as many, there are none, or one is not a number.
    """
    correlations = Correlations(gold, predicted)
    off = correlations.predicted - correlations.gold
    errors = np.column_stack([np.abs(off), off * off])

    def values(counts: Float64Array) -> Values:
        found = correlations.values(counts)
        absolute, squared = (counts @ errors / len(off)).T
        pearson, spearman = found["pearson"], found["spearman"]
        return {
            "pearson": pearson,
            "spearman": spearman,
            "pearson_and_spearman": (pearson + spearman) / 2,
            "mean_absolute_error": absolute,
            "mean_squared_error": squared,
        }

    return measured_from_counts(
        len(off), values, "spearman", intervals=intervals, notes=correlations.notes()
    )
