"""What repairs a space: identities of whitening, and what is refused."""

import numpy as np
import pytest

from clozeworks.errors import InputError, SettingError
from clozeworks.inference.space import measures
from clozeworks.inference.space.repair import METHODS, fit_repair


@pytest.fixture
def cone():
    """Vectors with a mean far from 0 and variances that differ by a factor of 10,000."""
    rng = np.random.default_rng(0)
    turned = np.linalg.qr(rng.normal(size=(12, 12)))[0]
    return (rng.normal(size=(500, 12)) * np.logspace(0, -2, 12)) @ turned + 3.0


def test_whitened_vectors_have_mean_0_and_covariance_1(cone):
    repaired = fit_repair(cone).apply(cone)
    assert measures.mean_cosine(cone) > 0.98
    np.testing.assert_allclose(repaired.mean(axis=0), 0, atol=1e-6)
    np.testing.assert_allclose(repaired.T @ repaired / len(repaired), np.eye(12), atol=1e-6)
    assert abs(measures.mean_cosine(repaired)) < 0.01
    assert measures.iso_score(measures.principal_directions(repaired)[0]) == pytest.approx(1)


@pytest.mark.parametrize("method", ["whiten", "pca"])
def test_fewer_dimensions_are_the_first_ones(cone, method):
    whole, part = fit_repair(cone, method), fit_repair(cone, method, 5)
    np.testing.assert_array_equal(whole.apply(cone)[:, :5], part.apply(cone))


def test_principal_components_keep_distances(cone):
    repaired = fit_repair(cone, "pca").apply(cone)
    for one, other in ((0, 1), (7, 400)):
        before = np.linalg.norm(cone[one] - cone[other])
        assert np.linalg.norm(repaired[one] - repaired[other]) == pytest.approx(before)
    variances = repaired.var(axis=0)
    assert (np.diff(variances) < 0).all()


def test_the_mean_alone(cone):
    np.testing.assert_allclose(fit_repair(cone, "centre").apply(cone), cone - cone.mean(axis=0))


@pytest.mark.parametrize(("width", "removed"), [(12, 1), (260, 3)])
def test_all_but_the_top(width, removed):
    x = np.random.default_rng(0).normal(size=(300, width)) + 1
    repair = fit_repair(x, "all-but-the-top")
    repaired = repair.apply(x)
    before, after = (np.linalg.svd(each - each.mean(0))[1] for each in (x, repaired))
    np.testing.assert_allclose(after[: width - removed], before[removed:width])
    np.testing.assert_allclose(after[width - removed :], 0, atol=1e-9)
    directions = "1 top direction" if removed == 1 else "3 top directions"
    assert str(repair) == f"the mean and {directions} taken out, {width} dimensions"


@pytest.mark.parametrize("method", METHODS)
def test_a_repair_is_a_dense_layer(cone, method):
    repair = fit_repair(cone, method)
    np.testing.assert_allclose(repair.apply(cone), cone @ repair.matrix + repair.bias, atol=1e-9)


def test_directions_without_variance_are_dropped(cone):
    flat = np.hstack([cone, cone[:, :3]])  # 15 dimensions, 12 of them free
    repair = fit_repair(flat)
    assert repair.dimensions == 12 and np.isfinite(repair.matrix).all()
    repaired = repair.apply(flat)
    np.testing.assert_allclose(repaired.T @ repaired / len(repaired), np.eye(12), atol=1e-6)
    with pytest.raises(SettingError) as caught:
        fit_repair(flat, dimensions=13)
    assert str(caught.value) == (
        "dimensions is 13; only 12 directions have any variance here; set at most 12."
    )


def refused(sentence, *arguments, error=InputError):
    with pytest.raises(error) as caught:
        fit_repair(*arguments)
    assert str(caught.value) == sentence


def test_too_few_texts(cone):
    refused(
        "there are 12 texts for 12 dimensions; a direction without texts in it has no variance to "
        "be scaled by; give more than 12 texts, ten times as many at best, or lower --dimensions "
        "(dimensions in Python).",
        cone[:12],
    )
    refused(
        "there are 5 texts for 5 of 12 dimensions; a direction without texts in it has no variance "
        "to be scaled by; give more than 5 texts, ten times as many at best, or lower --dimensions "
        "(dimensions in Python).",
        *(cone[:5], "pca", 5),
    )
    assert fit_repair(cone[:6], "whiten", 5).dimensions == 5
    refused(
        "there is 1 text for 12 dimensions; a direction without texts in it has no variance to be "
        "scaled by; give more than 12 texts, ten times as many at best.",
        *(cone[:1], "all-but-the-top"),
    )
    refused("there is 1 text; the mean of one says nothing; give more texts.", cone[:1], "centre")
    refused("the vectors of all texts are the same; give texts that differ.", np.ones((20, 3)))


def test_settings_that_do_not_fit(cone):
    methods = "centre, whiten, all-but-the-top, pca"
    refused(f"method is 'zca'; it must be one of: {methods}.", cone, "zca", error=SettingError)
    refused(
        "dimensions is 13; vectors have 12 dimensions; it must be from 1 to 12.",
        *(cone, "whiten", 13),
        error=SettingError,
    )
    refused(
        "dimensions is 4; `method` centre keeps all dimensions; leave it out, or whiten.",
        *(cone, "centre", 4),
        error=SettingError,
    )
