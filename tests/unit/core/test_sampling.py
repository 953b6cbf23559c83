"""Draws from a vocabulary: as often as softmax says, and a function of each text's seed."""

import pytest
import torch
from scipy.stats import chi2

from clozeworks.core.ops.sampling import drawn_entries, gumbel

ENTRIES, WIDTH = 12, 5


@pytest.fixture
def decoder():
    generator = torch.Generator().manual_seed(3)
    weight = torch.randn(ENTRIES, WIDTH, generator=generator)
    bias = torch.randn(ENTRIES, generator=generator)
    return weight, bias


def distance(draws, shares):
    seen = torch.bincount(draws, minlength=len(shares)).double()
    wanted = shares.double() * len(draws)
    return float(((seen - wanted) ** 2 / wanted).sum())


def test_as_often_as_softmax_says(decoder):
    weight, bias = decoder
    x = torch.randn(1, WIDTH, generator=torch.Generator().manual_seed(1)).expand(40_000, WIDTH)
    draws = drawn_entries(x, weight, bias, [25_000, 15_000], [5, 6])
    scores = x[0] @ weight.T + bias
    limit = chi2.ppf(0.9999, ENTRIES - 1)
    assert distance(draws, scores.softmax(dim=0)) < limit
    # The usual mistakes: the best entry every time, or another temperature.
    assert distance(scores.argmax().expand(40_000), scores.softmax(dim=0)) > limit
    assert distance(draws, (scores / 0.9).softmax(dim=0)) > limit


def test_neighbours_change_nothing(decoder):
    weight, bias = decoder
    x = torch.randn(30, WIDTH, generator=torch.Generator().manual_seed(2))
    counts, seeds = [7, 0, 13, 10], [1, 2, 3, 2**62]
    together = drawn_entries(x, weight, bias, counts, seeds).split(counts)
    for text, seed, found in zip(x.split(counts), seeds, together, strict=True):
        alone = drawn_entries(text, weight, bias, [len(text)], [seed])
        assert alone.tolist() == found.tolist()
    other = drawn_entries(x, weight, bias, counts, [9, 2, 3, 4])
    assert other[:7].tolist() != together[0].tolist()
    assert other[7:20].tolist() == together[2].tolist()


def test_a_vocabulary_of_several_slices():
    """Slices are an affair of speed; which entries are drawn is one of chance."""
    weight = torch.zeros(2_500, 1)
    bias = torch.full((2_500,), -20.0)
    bias[[3, 1_100, 2_499]] = torch.tensor([0.0, 1.0, 2.0])
    draws = drawn_entries(torch.zeros(6_000, 1), weight, bias, [6_000], [1])
    shares = torch.tensor([0.0, 1.0, 2.0]).softmax(dim=0)
    places = torch.searchsorted(torch.tensor([3, 1_100, 2_499]), draws)
    assert set(draws.tolist()) == {3, 1_100, 2_499}
    assert distance(places, shares) < chi2.ppf(0.9999, 2)


def test_nothing_hidden_draws_nothing(decoder):
    weight, bias = decoder
    assert drawn_entries(torch.zeros(0, WIDTH), weight, bias, [0, 0], [1, 2]).shape == (0,)


def test_the_noise_is_gumbel():
    generators = [torch.Generator().manual_seed(seed) for seed in (4, 5)]
    noise = gumbel([700, 300], 301, generators).double()
    assert noise.shape == (1000, 301)
    assert torch.isfinite(noise).all()
    assert noise.mean().item() == pytest.approx(0.5772157, abs=0.01)
    assert noise.var().item() == pytest.approx(1.644934, abs=0.03)
    # The highest of many draws decides, so the upper tail must be right: P(x > 6) = 1 - exp(-e^-6).
    assert (noise > 6).double().mean().item() == pytest.approx(0.0024757, rel=0.15)
