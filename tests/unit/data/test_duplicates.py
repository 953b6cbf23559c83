"""A hash is new once, wherever the ones before it are kept."""

import pytest

from clozeworks.data.corpus import duplicates
from clozeworks.data.corpus.duplicates import seen_before


@pytest.mark.parametrize("most", [1, 7, 1000])
def test_each_hash_is_new_once(monkeypatch, most):
    monkeypatch.setattr(duplicates, "MOST_IN_MEMORY", most)
    hashes = [bytes([number % 50, number % 7]) for number in range(600)]
    with seen_before() as is_new:
        found = [is_new(digest) for digest in hashes]
    first = {digest: hashes.index(digest) for digest in hashes}
    assert [place for place, new in enumerate(found) if new] == sorted(first.values())
