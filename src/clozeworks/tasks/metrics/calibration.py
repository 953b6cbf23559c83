"""Whether a model is as often right as it is sure: bins of confidence, and the error over them.

Paper: Naeini, Cooper, Hauskrecht 2015; Guo et al. 2017 (15 bins of equal width).
The idea: among answers given with a probability of about 0.8, about 80 % should be right. The
expected calibration error is the mean distance between the two, each bin counting for its answers.

Shapes: n items, C labels.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from clozeworks.tasks.metrics.bootstrap import ratio

BINS = 15


@dataclass(frozen=True)
class Bin:
    """Answers of about the same confidence."""

    low: float
    """Confidences are above this; the first bin has 0 as well."""
    high: float
    """They are at most this."""
    count: int
    confidence: float
    """Their mean probability, 0 if there are none."""
    accuracy: float
    """The fraction of them that is right, 0 if there are none."""


def calibration_bins(
    right: NDArray[np.bool_], confidence: NDArray[np.float64], *, bins: int = BINS
) -> tuple[Bin, ...]:
    """Sorts answers, (n,), into bins of equal width by the probability the model gave them."""
    edges = np.linspace(0, 1, bins + 1)
    positions = np.searchsorted(edges[1:-1], confidence, side="left")
    counts = np.bincount(positions, minlength=bins).astype(np.float64)
    sums = (np.bincount(positions, weights=part, minlength=bins) for part in (confidence, right))
    sure, true = (ratio(part.astype(np.float64), counts) for part in sums)
    rows = zip(edges, edges[1:], counts, sure, true, strict=False)
    return tuple(Bin(float(a), float(b), int(n), float(s), float(t)) for a, b, n, s, t in rows)


def calibration_error(bins: tuple[Bin, ...]) -> float:
    """The expected calibration error: how far confidence and accuracy are apart on average."""
    total = sum(each.count for each in bins)
    return sum(each.count * abs(each.confidence - each.accuracy) for each in bins) / total
