"""How often an anchor is nearer to its positive than to its negatives.

The rule is strict: a tie is wrong, so that a model which gives the same vector to every text has an
accuracy of 0.

Shapes: n triplets.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.tasks.metrics.bootstrap import Values, check_lengths, measured_from_sums
from clozeworks.tasks.metrics.correlation import finite
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.wording import counted


def triplets(
    positive: Sequence[float] | NDArray[np.generic],
    negative: Sequence[float] | NDArray[np.generic],
    *,
    intervals: bool = False,
) -> Measured:
    """The fraction of anchors that are nearer to their positive, and by how much on average.

    Args:
        positive: How similar anchor and positive are, (n,).
        negative: How similar anchor and negative are, (n,); of several negatives the nearest.
        intervals: Whether intervals are wanted, by resampling triplets.

    Raises:
        InputError: If they are not as many, there are none, or one is not a number.
    """
    check_lengths(len(positive), len(negative))
    margins = finite("positive", positive) - finite("negative", negative)
    size = len(margins)

    def values(sums: Float64Array) -> Values:
        right, margin = sums.T / size
        return {"accuracy": right, "margin": margin}

    ties = int((margins == 0).sum())
    note = f"{counted(ties, 'triplet')} with equally similar positive and negative; a tie is wrong."
    statistics = np.column_stack([margins > 0, margins])
    return measured_from_sums(
        statistics, values, "accuracy", intervals=intervals, notes=[note] if ties else []
    )
