"""Any step's batch can be had directly, the same for any number of workers and ranks."""

import numpy as np
import pytest
from scipy.stats import chisquare

from clozeworks.data.examples import Examples
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.data.examples.loader import Loader
from clozeworks.errors import InputError, SettingError


class Numbered(Examples):
    """Three epochs of different sizes; an example is one token that tells its epoch and number."""

    copies = 3
    mean_length = 4.0

    def size(self, epoch):
        return (10, 7, 12)[epoch % 3]

    def take(self, epoch, indices):
        indices = np.asarray(indices)
        assert (indices < self.size(epoch)).all()
        count = len(indices)
        flags = np.zeros(count, np.bool_)
        return ExampleArrays(
            ids=1000 * epoch + indices,
            types=np.zeros(count, np.int64),
            special=flags,
            word_starts=flags,
            lengths=np.ones(count, np.int64),
            epochs=np.full(count, epoch),
            indices=indices,
        )


def loader(**options):
    settings = {"seed": 5, "batch_size": 4, "workers": 0, **options}
    return Loader(Numbered(), lambda clean: clean.ids.tolist(), **settings)


def test_every_example_of_every_epoch_comes_once():
    seen = [number for step in range(29) for number in loader().batch(step)]
    # Four cycles of three epochs: 4 x 29 examples.
    wanted = [
        1000 * epoch + number for epoch in range(12) for number in range(Numbered().size(epoch))
    ]
    assert sorted(seen) == sorted(wanted)
    # Epochs follow one another.
    assert [number // 1000 for number in seen] == sorted(number // 1000 for number in seen)


def test_orders_differ_by_epoch_and_seed():
    def order(epoch, seed=5):
        made = Loader(Numbered(), lambda clean: clean, seed=seed, batch_size=29, workers=0)
        clean = made.clean(epoch // 3)
        return clean.indices[clean.epochs == epoch].tolist()

    assert sorted(order(0)) == list(range(10))
    assert order(0) != order(3)
    assert order(0) != order(0, seed=6)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_batches_are_the_same_for_any_number_of_workers(workers):
    made = loader(workers=workers)
    assert list(made.batches(0, 20)) == [loader().batch(step) for step in range(20)]
    # Going on in the middle is the same as having come there.
    assert list(made.batches(13, 20)) == [loader().batch(step) for step in range(13, 20)]


@pytest.mark.parametrize("ranks", [2, 3, 4])
def test_the_shares_of_all_ranks_are_the_step(ranks):
    for step in (0, 2, 17):
        shares = [loader(rank=rank, ranks=ranks).batch(step) for rank in range(ranks)]
        assert [number for share in shares for number in share] == loader().batch(step)
        assert all(shares)


def test_a_far_step_is_found_at_once():
    step = 123_456_789
    batch = loader().batch(step)
    first = step * 4
    cycle, rest = divmod(first, 29)
    epoch = cycle * 3 + (0 if rest < 10 else 1 if rest < 17 else 2)
    assert batch[0] // 1000 == epoch
    assert loader().epoch_of(step) == pytest.approx(epoch, abs=1)


def test_tokens_of_a_step_become_examples():
    assert loader(batch_size=None, batch_tokens=16).batch_size == 4
    assert loader(batch_size=None, batch_tokens=1).batch_size == 1
    assert len(loader(batch_size=45_000).batch(1)) == 45_000


def test_every_place_in_an_epoch_is_equally_likely():
    counts = np.zeros((10, 10))
    made = Loader(Numbered(), lambda clean: clean, seed=1, batch_size=29, workers=0)
    for cycle in range(2000):
        clean = made.clean(cycle)
        counts[np.arange(10), clean.indices[clean.epochs == 3 * cycle]] += 1
    assert chisquare(counts, axis=None).pvalue > 1e-3


def test_a_worker_that_stops_early_leaves_nothing_behind():
    iterator = loader(workers=2).batches()
    next(iterator)
    iterator.close()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (
            {"batch_tokens": 5},
            "batch_size is 4; a step has so many tokens, or so many examples; give",
        ),
        ({"batch_size": None}, "batch_size is missing; a step has so many tokens, or so many"),
        ({"batch_size": None, "batch_tokens": 0}, "batch_tokens is 0; it must be at least 1"),
        ({"batch_size": -5}, "batch_size is -5; it must be at least 1"),
        ({"workers": -1}, "workers is -1; it must be at least 0"),
        ({"rank": 2, "ranks": 2}, "rank is 2; it must be from 0 to 1"),
        ({"ranks": 5}, "a step has 4 examples and there are 5 ranks"),
        (
            {"batch_size": 45_001},
            "a step has 45,001 examples and an epoch has 9 examples; a step is",
        ),
    ],
)
def test_settings_that_make_no_sense_are_named(options, sentence):
    with pytest.raises((SettingError, InputError), match=sentence):
        loader(**options)


def test_steps_are_counted_from_zero():
    with pytest.raises(SettingError, match="step is -1"):
        loader().batch(-1)
