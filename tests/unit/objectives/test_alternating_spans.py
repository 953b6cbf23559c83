"""T5's spans: how many, how they are cut, where they stand."""

from itertools import combinations

import numpy as np
import pytest

from clozeworks.errors import SettingError
from clozeworks.objectives.noise.alternating_spans import (
    AlternatingSpans,
    composition,
    raw_length,
)
from clozeworks.objectives.noise.draws import Draws
from clozeworks.rng import RandomStream


def masks(choice, lengths, seed=0, epoch=0, first=0):
    rng = RandomStream(seed, "test")
    numbers, most = np.arange(first, first + len(lengths)), max(*lengths, 2)
    drawn = [rng.stream(name).words(epoch, numbers, most) for name in ("hidden", "kept")]
    mask = choice.mask(np.array(lengths), *drawn)
    return np.split(mask, np.cumsum(lengths)[:-1])


def runs(mask):
    """The lengths of the runs of a mask, and whether each is hidden."""
    edges = np.flatnonzero(np.diff(mask)) + 1
    return [(len(run), bool(run[0])) for run in np.split(mask, edges)]


def test_the_helper_of_the_released_code():
    assert raw_length(512, 0.15, 3) == (568, 114)
    assert raw_length(1024, 0.15, 20) == (1193, 189)
    assert raw_length(512, 0.5, 3) == (766, 512)  # one less, for targets as long as the inputs
    assert raw_length(2, 0.15, 3) == (1, 1)
    with pytest.raises(SettingError) as caught:
        raw_length(1, 0.15, 3)
    assert str(caught.value) == ("length is 1; a token of text and the end need 2; raise length.")


@pytest.mark.parametrize(("share", "mean"), [(0.15, 3.0), (0.5, 3.0), (0.15, 20.0), (0.25, None)])
def test_numbers_are_exact_and_spans_alternate(share, mean):
    choice = AlternatingSpans(fraction=share, mean=mean)
    lengths = list(range(2, 600))
    for length, mask in zip(lengths, masks(choice, lengths), strict=True):
        hidden = min(max(int(np.round(np.float32(length) * np.float32(share))), 1), length - 1)
        spans = 1 if mean is None else max(int(np.round(np.float32(hidden) / np.float32(mean))), 1)
        spans = min(spans, length - hidden)
        assert mask.sum() == hidden, length
        found = runs(mask)
        assert [is_hidden for _, is_hidden in found] == [False, True] * spans, length
        assert not mask[0] and mask[-1]


def test_published_numbers_and_rounding():
    hidden, spans = AlternatingSpans().counts(np.array([568, 511, 10, 30, 190]))
    # 1.5 and 4.5 go to the even neighbour. 190 * 0.15 is above 28.5 in float32, and not in float64.
    assert hidden.tolist() == [85, 77, 2, 4, 29] and round(190 * 0.15) == 28
    assert spans.tolist() == [28, 26, 1, 1, 10]


def test_short_texts():
    assert [mask.tolist() for mask in masks(AlternatingSpans(), [1, 0, 2, 3])] == [
        [False],
        [],
        [False, True],
        [False, False, True],
    ]


def test_a_mean_of_one_with_most_hidden_still_fits():
    for mask in masks(AlternatingSpans(fraction=0.8, mean=1.0), [50] * 20):
        assert mask.sum() == 40 and sum(hidden for _, hidden in runs(mask)) == 10


@pytest.mark.parametrize(("items", "parts"), [(6, 3), (7, 2), (5, 5), (5, 1), (8, 4)])
def test_all_ways_to_cut_are_equally_likely(items, parts, fits):
    count = 20_000
    words = RandomStream(1, "cuts").words(0, np.arange(count), 40)
    sizes = composition(words, np.full(count, items), np.full(count, parts))
    assert sizes.shape == (count, parts) and (sizes >= 1).all() and (sizes.sum(1) == items).all()
    possible = [
        tuple(np.diff([0, *(cut + 1 for cut in cuts), items]).tolist())
        for cuts in combinations(range(items - 1), parts - 1)
    ]
    if len(possible) > 1:
        assert fits(counted(sizes, possible), np.ones(len(possible))) > 1e-4
    if 2 < parts < items:
        # The usual mistake: give each part a token, and throw the rest at parts one by one.
        generator = np.random.default_rng(0)
        wrong = 1 + generator.multinomial(items - parts, np.ones(parts) / parts, count)
        assert fits(counted(wrong, possible), np.ones(len(possible))) < 1e-10


def counted(sizes, possible):
    found, counts = np.unique(sizes, axis=0, return_counts=True)
    table = {tuple(row): count for row, count in zip(found.tolist(), counts, strict=True)}
    assert set(table) <= set(possible)
    return [table.get(way, 0) for way in possible]


def test_rows_of_different_sizes_do_not_touch_each_other():
    words = RandomStream(2, "cuts").words(0, np.arange(3), 30)
    items, parts = np.array([9, 30, 4]), np.array([4, 7, 1])
    together = composition(words, items, parts)
    for row in range(3):
        few = words[row : row + 1, : items[row]]
        alone = composition(few, items[row : row + 1], parts[row : row + 1])[0]
        assert together[row][: parts[row]].tolist() == alone.tolist()
        assert not together[row][parts[row] :].any()


def test_a_rolled_mask_may_begin_and_end_anywhere(examples, fits):
    clean = examples([40] * 4000)
    rng = RandomStream(3, "x")
    plain = AlternatingSpans().positions(clean, Draws.of(clean, rng))
    rolled = AlternatingSpans(roll=True).positions(clean, Draws.of(clean, rng))
    flags = np.zeros((2, len(clean.ids)), bool)
    flags[0, plain], flags[1, rolled] = True, True
    one, other = (flags.reshape(2, 4000, 42)[:, :, 1:-1]).sum(1)  # tokens of text alone
    assert one[0] == 0 and one[-1] == 4000
    assert fits(other, np.ones(40), shrink=1 - 6 / 40) > 1e-4
    for before, after in flags.reshape(2, 4000, 42)[:, :20, 1:-1].swapaxes(0, 1):
        assert any(np.array_equal(np.roll(before, step), after) for step in range(40))


def test_special_tokens_are_not_hidden_and_batches_do_not_matter(examples):
    clean = examples([30, 4, 61, 17])
    rng = RandomStream(3, "x")
    whole = AlternatingSpans().positions(clean, Draws.of(clean, rng))
    assert not clean.special[whole].any()
    alone = examples([17], ids=[[clean.ids[-18:-1]]], first=3)
    places = AlternatingSpans().positions(alone, Draws.of(alone, rng))
    start = clean.starts[3]
    assert (whole[whole >= start] - start).tolist() == places.tolist()


def test_settings_that_cannot_be_used():
    for share in (0, 1):
        with pytest.raises(SettingError) as caught:
            AlternatingSpans(fraction=share)
        assert str(caught.value) == f"fraction is {share}; it must be above 0 and below 1."
    with pytest.raises(SettingError) as caught:
        AlternatingSpans(mean=0.5)
    assert str(caught.value) == "mean is 0.5; it must be at least 1."
