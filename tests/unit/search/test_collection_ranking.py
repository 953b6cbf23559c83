"""Documents that come block by block are ranked as all of them at once, ties by falling id."""

import numpy as np
import pytest

from clozeworks.search.collection_ranking import DocumentRanking
from clozeworks.tasks.metrics.retrieval import ranked


@pytest.mark.parametrize("blocks", [(40,), (1, 39), (13, 13, 14), (5,) * 8])
def test_blocks_and_ties_change_nothing(blocks):
    rng = np.random.default_rng(0)
    queries, documents = (rng.integers(-1, 2, (n, 3)).astype(np.float32) for n in (9, 40))
    ids = [str(number) for number in rng.permutation(40)]
    ranking = DocumentRanking(queries, ids, 7)
    begin = 0
    for size in blocks:
        ranking.add(documents[begin : begin + size])
        begin += size
    for query, found in zip(queries, ranking.results(), strict=True):
        scores = dict(zip(ids, (documents @ query).tolist(), strict=True))
        assert [each for each, _ in found] == ranked(scores, 7)
        assert [score for _, score in found] == [scores[each] for each, _ in found]
