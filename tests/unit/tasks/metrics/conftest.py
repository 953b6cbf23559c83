"""What tests of intervals compare with."""

import numpy as np
import pytest

from clozeworks.tasks.metrics.bootstrap import intervals_of, resamples_from_counts


@pytest.fixture
def slow_interval():
    """The interval of any value: a function of the drawn items' numbers, called for each draw."""

    def interval(function, size, **options):
        def values(counts):
            drawn = (np.repeat(np.arange(size), row) for row in counts.astype(np.int64))
            return {"value": np.array([function(numbers) for numbers in drawn], np.float64)}

        return intervals_of(resamples_from_counts(size, values, **options))["value"]

    return interval
