"""How well similarity is judged: the correlation of scores with what people said.

Paper: Cer et al. 2017 (STS benchmark); Reimers, Beyer, Gurevych 2016 (Spearman rather than
Pearson).
The idea: a score need not be a grade, it must put pairs in the right order, so Spearman decides.
The score is the cosine alone: the best of several similarities would be chosen on the test.

Shapes: n pairs.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clozeworks.tasks.metrics.bootstrap import measured_from_counts
from clozeworks.tasks.metrics.correlation import Correlations
from clozeworks.tasks.metrics.measured import Measured


def sts(
    gold: Sequence[float] | NDArray[np.generic],
    scores: Sequence[float] | NDArray[np.generic],
    *,
    intervals: bool = False,
) -> Measured:
    """Spearman (equal numbers share the mean of their ranks) and Pearson correlation.

    Args:
        gold: How similar people say the texts of each pair are, (n,), on any scale.
        scores: How similar the model says they are, (n,).
        intervals: Whether intervals are wanted, by resampling pairs.

    Raises:
        InputError: If they are not as many, there are none, or one is not a number.
    """
    found = Correlations(gold, scores)
    size = len(found.gold)
    return measured_from_counts(
        size, found.values, "spearman", intervals=intervals, notes=found.notes()
    )
