"""How many tokens: every rounding rule, and that each token is as likely as any other."""

import numpy as np
import pytest
from scipy.stats import chi2

from clozeworks.errors import SettingError
from clozeworks.objectives.noise.budget import Bernoulli, Ceiling, Exact, RandomRounding
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.noise.words import rows_of
from clozeworks.rng import RandomStream

CHANCE = RandomStream(1, "test")
ALL = [Exact(), RandomRounding(), Ceiling(), Bernoulli()]


def hide(choice, clean):
    """Which tokens are hidden."""
    return choice.positions(clean, Draws.of(clean, CHANCE))


def counts(budget, clean):
    places = hide(SingleTokens(budget=budget), clean)
    return np.bincount(rows_of(clean, places), minlength=len(clean))


@pytest.mark.parametrize("most", [None, 20])
def test_exact_is_berts_formula_for_every_length(examples, most):
    sizes = list(range(1, 520))
    found = counts(Exact(max_count=most), examples(sizes))
    for size, count in zip(sizes, found, strict=True):
        length = size + 2
        wanted = max(1, int(round(length * 0.15)))  # noqa: RUF046 (the formula as released)
        assert count == min(wanted, most or wanted), length


def test_halves_are_rounded_to_the_even_neighbour(examples):
    found = counts(Exact(), examples([8, 28, 48, 68]))  # 10, 30, 50, 70 tokens with special ones
    assert found.tolist() == [2, 4, 8, 10]
    assert [int(length * 0.15 + 0.5) for length in (10, 30, 50, 70)] != found.tolist()


def test_the_known_sizes_of_bert(examples):
    assert counts(Exact(), examples([126, 510])).tolist() == [19, 77]
    assert counts(Exact(max_count=20), examples([126, 510])).tolist() == [19, 20]


def test_ceiling_counts_text_only(examples):
    assert counts(Ceiling(), examples([1, 6, 7, 18, 20, 21])).tolist() == [1, 1, 2, 3, 3, 4]
    # The usual mistake counts special tokens too.
    assert int(np.ceil((20 + 2) * 0.15)) == 4


def test_no_budget_takes_more_than_there_is(examples):
    clean = examples([1, 2, 3])
    assert counts(Exact(fraction=1.0), clean).tolist() == [1, 2, 3]
    assert counts(Ceiling(fraction=1.0), clean).tolist() == [1, 2, 3]
    assert counts(Exact(), examples([0, 0])).tolist() == [0, 0]


def test_random_rounding_is_right_on_average(examples, fits):
    clean = examples([8] * 20_000)  # 15 % of 10 tokens: 1 or 2, equally often
    found = counts(RandomRounding(), clean)
    assert set(found.tolist()) == {1, 2}
    split = np.bincount(found)[1:]
    assert fits(split, [1, 1]) > 1e-3
    assert abs(found.mean() - 1.5) < 3 * 0.5 / np.sqrt(len(found))
    clean = examples([11] * 20_000)  # 1.95: 2 in 95 of 100
    assert fits(np.bincount(counts(RandomRounding(), clean))[1:], [5, 95]) > 1e-3
    exact = counts(Exact(), clean)
    assert abs(exact.mean() - 1.95) > 3 * 0.5 / np.sqrt(len(exact))  # rounding is off


def test_coins_vary_as_coins_do(examples):
    clean = examples([40] * 5000)

    def spread(budget):  # the sum of squares is chi-square distributed for coins
        off = (counts(budget, clean) - 6.0) ** 2 / (40 * 0.15 * 0.85)
        return chi2.cdf(off.sum(), len(clean))

    assert 1e-3 < spread(Bernoulli()) < 1 - 1e-3
    assert spread(Exact()) < 1e-3  # a fixed number varies too little
    assert (counts(Bernoulli(), examples([2] * 1000)) == 0).any()


@pytest.mark.parametrize("budget", ALL, ids=lambda budget: type(budget).__name__)
def test_every_place_is_equally_likely(budget, examples, fits):
    size, many = 30, 25_000
    clean = examples([size] * many)
    places = hide(SingleTokens(budget=budget), clean)
    assert len(places) >= 100_000
    within = np.bincount(places % (size + 2), minlength=size + 2)
    assert within[0] == within[-1] == 0  # special tokens
    share = len(places) / (size * many)
    # Without replacement counts vary less than chi-square expects.
    shrink = 1.0 if isinstance(budget, Bernoulli) else (1 - share) * size / (size - 1)
    assert fits(within[1:-1], np.ones(size), shrink) > 1e-3


def test_the_test_of_places_can_tell(examples, fits):
    class Coarse(RandomStream):
        def words(self, epochs, indices, count):
            return super().words(epochs, indices, count) >> np.uint32(27)

    clean = examples([30] * 25_000)
    places = SingleTokens().positions(
        clean, Draws.of(clean, Coarse(1, "test"))
    )  # ties go to the earlier token
    within = np.bincount(places % 32, minlength=32)[1:-1]
    assert fits(within, np.ones(30), 0.87) < 1e-3


@pytest.mark.parametrize("budget", ALL, ids=lambda budget: type(budget).__name__)
def test_any_share_can_be_asked(budget, examples):
    clean = examples([50] * 400)
    found = counts(type(budget)(fraction=0.4), clean)
    assert abs(found.mean() / 50 - 0.4) < 0.03


def test_what_budgets_refuse():
    for kind in (Exact, RandomRounding, Ceiling, Bernoulli):
        for share in (0.0, -0.1, 1.1):
            with pytest.raises(SettingError) as caught:
                kind(fraction=share)
            assert str(caught.value) == (f"fraction is {share}; it must be above 0 and at most 1.")
    with pytest.raises(SettingError, match=r"^max_count is 0; it must be at least 1.$"):
        Exact(max_count=0)
