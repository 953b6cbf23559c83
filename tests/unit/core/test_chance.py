"""The generator gives the published answers, and depends on nothing but where it is asked."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from clozeworks.rng import RandomStream, below, far_below, order, philox


@pytest.mark.parametrize(
    ("counter", "key", "answer"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (
            (0xFFFFFFFF,) * 4,
            (0xFFFFFFFF,) * 2,
            (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD),
        ),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
            (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox_gives_the_known_answers(counter, key, answer):
    assert philox(counter, key).tolist() == list(answer)


def test_numbers_depend_only_on_their_place():
    rng = RandomStream(7, "masks")
    epochs, indices = np.array([0, 3, 3]), np.array([5, 5, 2**40])
    together = rng.words(epochs, indices, 10)
    for row, (epoch, index) in enumerate(zip(epochs, indices, strict=True)):
        assert (rng.words(epoch, index, 10)[0] == together[row]).all()
    # Asking for more changes nothing about the first ones.
    assert (rng.words(epochs, indices, 23)[:, :10] == together).all()


def test_four_draws_can_be_asked_for_alone():
    rng = RandomStream(7, "masks")
    epochs, indices, blocks = np.array([0, 3, 3]), np.array([5, 5, 2**40]), np.array([0, 2, 9])
    together = rng.words(epochs, indices, 40).reshape(3, 10, 4)
    assert (rng.four(epochs, indices, blocks) == together[[0, 1, 2], blocks]).all()
    assert rng.four([], [], []).shape == (0, 4)


def test_no_places_and_no_draws_give_no_words():
    assert RandomStream(0, "test").words(0, np.zeros(0, np.int64), 5).shape == (0, 5)
    assert RandomStream(0, "test").words(0, 3, 0).shape == (1, 0)


def test_every_part_of_the_place_counts():
    places = {
        "": RandomStream(7, "masks").words(1, 2, 8),
        "seed": RandomStream(8, "masks").words(1, 2, 8),
        "stream": RandomStream(7, "pairs").words(1, 2, 8),
        "child": RandomStream(7, "masks").stream("a").words(1, 2, 8),
        "epoch": RandomStream(7, "masks").words(2, 2, 8),
        "index": RandomStream(7, "masks").words(1, 3, 8),
        "far index": RandomStream(7, "masks").words(1, 2 + 2**32, 8),
    }
    assert len({words.tobytes() for words in places.values()}) == len(places)


def test_uniform_numbers_are_uniform_within_and_across_places():
    rng = RandomStream(0, "test")
    long = rng.uniform(0, 0, 200_000)[0]
    many = rng.uniform(0, np.arange(200_000), 1)[:, 0]
    for numbers in (long, many):
        assert kstest(numbers, "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.01
    assert kstest(long**1.03, "uniform").pvalue < 1e-3  # the test can tell


def test_whole_numbers_are_uniform():
    words = RandomStream(0, "test").words(0, 0, 300_000)[0]
    assert chisquare(np.bincount(below(words, 7), minlength=7)).pvalue > 1e-3
    far = far_below(words.reshape(-1, 2), 11)
    assert chisquare(np.bincount(far, minlength=11)).pvalue > 1e-3
    assert far_below(words.reshape(-1, 2), 2**50).max() > 2**49


def test_limits_may_differ_from_place_to_place():
    words = RandomStream(0, "test").words(0, 0, 5)[0]
    limits = np.array([1, 2, 3, 10, 2**31])
    assert (below(words, limits) < limits).all()
    assert below(words, limits)[0] == 0


def test_a_permutation_holds_each_number_once_and_all_are_equally_likely():
    rng = RandomStream(0, "order")
    assert sorted(rng.permutation(0, 1000)) == list(range(1000))
    assert (rng.permutation(0, 1000) != rng.permutation(1, 1000)).any()
    rows = order(rng.words(0, np.arange(24_000), 4))
    codes = rows @ [64, 16, 4, 1]
    assert chisquare(np.unique(codes, return_counts=True)[1]).pvalue > 1e-3
    assert len(np.unique(codes)) == 24
