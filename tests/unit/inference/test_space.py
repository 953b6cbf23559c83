"""The measures of a space: identities, by hand, and what is known of Gaussian vectors."""

import numpy as np
import pytest
from scipy.stats import skew

from clozeworks.inference.space import measures
from clozeworks.inference.space.measures import Space, TextFacts, measure_space


def gaussian(count, width, seed=0):
    return np.random.default_rng(seed).normal(size=(count, width))


def measured(x, pairs=None) -> Space:
    facts = TextFacts(np.arange(len(x)) % 7, np.linspace(0, 1, len(x)))
    return measure_space(x.astype(np.float32), facts, pairs)


@pytest.mark.parametrize("equal", [1, 3, 12])
def test_equal_directions(equal):
    variances = np.zeros(12)
    variances[:equal] = 0.7
    assert measures.participation_ratio(variances) == pytest.approx(equal)
    assert measures.effective_rank(variances) == pytest.approx(equal)
    assert measures.iso_score(variances) == pytest.approx((equal - 1) / 11)


def test_the_score_is_that_of_the_participation_ratio():
    variances = np.random.default_rng(1).exponential(size=40)
    ratio = variances.sum() ** 2 / (variances**2).sum()
    assert measures.iso_score(variances) == pytest.approx((ratio - 1) / 39, abs=1e-12)


def published_iso_score(points):
    """Rudman et al. 2022, step by step, in their own terms: (n, D) points."""
    width = points.shape[1]
    rotated = points @ measures.principal_directions(points)[1]
    variances = np.diag(np.cov(rotated.T))
    normed = np.sqrt(width) * variances / np.linalg.norm(variances)
    defect = np.linalg.norm(normed - np.ones(width)) / np.sqrt(2 * (width - np.sqrt(width)))
    used = (width - defect**2 * (width - np.sqrt(width))) ** 2 / width**2
    return (width * used - 1) / (width - 1)


def test_the_published_definition():
    x = gaussian(300, 20) * np.linspace(0.1, 3, 20)
    assert measured(x).iso_score == pytest.approx(published_iso_score(x), abs=1e-6)


def test_gaussian_vectors_and_a_shift():
    x = gaussian(2000, 768)
    assert abs(measures.mean_cosine(x)) < 0.01
    shift = np.full(768, 0.8)
    expected = 0.64 * 768 / (0.64 * 768 + 768)  # |μ|² / (|μ|² + tr Σ)
    assert measures.mean_cosine(x + shift) == pytest.approx(expected, rel=0.01)
    assert abs(measures.mean_cosine(x + shift - (x + shift).mean(axis=0))) < 0.01


def test_cosines_of_all_pairs_by_hand():
    x = gaussian(600, 5) + 0.5  # more than one block of rows
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    upper = (unit @ unit.T)[np.triu_indices(600, 1)]
    found = measured(x)
    assert found.mean_cosine == pytest.approx(upper.mean(), abs=1e-6)
    assert found.uniformity == pytest.approx(np.log(np.exp(-4 + 4 * upper).mean()), abs=1e-5)
    assert found.cosines.sum() == 600 * 599 // 2
    # A number on the border of two bins may fall into either.
    assert np.abs(found.cosines - np.histogram(upper, 80, (-1, 1))[0]).sum() <= 4
    parts = measures.dimension_parts(x)
    assert parts.sum() == pytest.approx(upper.mean(), abs=1e-9)
    by_dimension = [np.outer(column, column)[np.triu_indices(600, 1)].mean() for column in unit.T]
    np.testing.assert_allclose(parts, by_dimension, atol=1e-9)


def test_a_dimension_that_decides_the_cosine():
    x = gaussian(200, 30)
    x[:, 17] += 40
    ((number, part), *_) = measured(x).dimension_shares
    assert number == 17 and part == pytest.approx(measured(x).mean_cosine, rel=0.01)


@pytest.mark.parametrize(
    ("width", "low", "high"), [(3, -0.7, -0.1), (20, 1.8, 3.7), (100, 3.5, 12)]
)
def test_hubs_of_gaussian_vectors(width, low, high):
    """More of them, the more dimensions there are: -0.5, 2.1 and 4.3 in one published draw."""
    assert low < skew(measures.neighbour_counts(gaussian(1500, width), 10)) < high


def test_neighbours_by_hand():
    points = np.array([[0.0], [1.0], [1.1], [5.0]])
    # The nearest of 0 is 1; of 1, 1.1; of 1.1, 1; of 5, 1.1.
    assert measures.neighbour_counts(points, 1).tolist() == [0, 2, 2, 0]
    x = gaussian(700, 6)
    unit = measures.unit_vectors(x)
    cosines = unit @ unit.T
    np.fill_diagonal(cosines, -np.inf)
    expected = np.bincount(np.argsort(-cosines, axis=1)[:, :10].ravel(), minlength=700)
    found = measured(x)
    assert found.named.tolist() == expected.tolist()
    assert found.never_near == np.mean(expected == 0) and found.neighbours == 10


def test_the_partition_score():
    """1 in all directions alike; the score of a cone by hand."""
    corners = np.vstack([np.eye(4), -np.eye(4)])
    assert measures.partition_score(corners) == pytest.approx(1)
    line = np.array([[1.0, 0], [1, 0], [1, 0]])
    assert measures.partition_score(line) == pytest.approx(np.exp(-2))
    unit = measures.unit_vectors(gaussian(40, 5) * np.linspace(0.2, 2, 5) + [1, 0, 2, 0, 1])
    _, _, rows = np.linalg.svd(unit)  # the eigenvectors of x'x are the rows here
    sums = [np.exp(unit @ (sign * row)).sum() for row in rows for sign in (1, -1)]
    assert measures.partition_score(unit) == pytest.approx(min(sums) / max(sums))


def test_alignment_is_of_vectors_of_length_1():
    one, other = np.array([[3.0, 0], [0, 2]]), np.array([[0, 5.0], [0, 9]])
    assert measures.alignment(one, other) == pytest.approx((2 + 0) / 2)
    assert measured(gaussian(9, 2), (one, other)).alignment == pytest.approx(1)
    assert measured(gaussian(9, 2)).alignment is None


def test_lengths_of_vectors():
    x = gaussian(50, 4)
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    x *= np.linspace(1, 2, 50)[:, None]
    facts = TextFacts(np.arange(50)[::-1].copy(), np.linspace(0, 1, 50))
    found = measure_space(x.astype(np.float32), facts)
    assert found.norm_and_frequency == pytest.approx(1)
    assert found.norm_and_length == pytest.approx(-1)
    alike = TextFacts(np.full(50, 3), np.zeros(50))
    assert measure_space(x.astype(np.float32), alike).norm_and_length == 0


def test_facts_of_texts():
    facts = TextFacts.of([[0, 1, 1], [0, 2]])  # 0 and 1 stand twice, 2 once
    assert facts.lengths.tolist() == [3, 2]
    np.testing.assert_allclose(facts.log_frequencies, [np.log(2), np.log(2) / 2])


def test_vectors_that_are_all_alike():
    found = measured(np.ones((5, 3)))
    assert found.mean_cosine == pytest.approx(1) and found.iso_score == 0
    assert found.effective_rank == 1 and found.hub_skewness == found.norm_and_length == 0
    assert all(np.isfinite(value) for value in found.to_dict().values() if type(value) is float)
