"""Workers of inference: every item once, errors, precision, and threads that come to an end."""

import threading
import time

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.runtime.workers import WorkerPool

CPU = torch.device("cpu")


def side_by_side(work, items):
    """As the loop of inference uses the pool."""
    with WorkerPool(CPU, min(2, len(items)) or 1) as pool:
        yield from pool.infer(work, items)


@pytest.fixture(autouse=True)
def two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_every_item_once_each_worker_on_one_thread():
    seen = dict(side_by_side(lambda item: (item * 2, torch.get_num_threads()), list(range(20))))
    assert seen == {item: (item * 2, 1) for item in range(20)}
    assert torch.get_num_threads() == 2
    inside = []
    thread = threading.Thread(target=lambda: inside.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert inside == [2], "threads made afterwards must not inherit the workers' setting"


def test_a_failure_reaches_the_caller_and_drops_the_rest():
    begun = []

    def work(item):
        begun.append(item)
        time.sleep(0.001)
        if item == 1:
            raise ValueError("item 1")

    with pytest.raises(ValueError, match="item 1"):
        list(side_by_side(work, list(range(1000))))
    assert len(begun) < 1000
    assert torch.get_num_threads() == 2


def test_no_gradients_are_kept():
    weight = torch.ones(2, requires_grad=True)
    for _, result in side_by_side(lambda item: weight * item, [1, 2, 3]):
        assert not result.requires_grad


def precision(_):
    state = (torch.get_autocast_dtype("cpu"), torch.is_autocast_cache_enabled())
    return torch.is_autocast_enabled("cpu"), *state


def test_workers_compute_in_the_precision_of_the_caller():
    outside = precision(None)
    entered = torch.autocast("cpu", dtype=torch.float16, cache_enabled=False)
    with entered:
        assert dict(side_by_side(precision, [1, 2, 3])) == dict.fromkeys(
            [1, 2, 3], (True, torch.float16, False)
        )
        with torch.autocast("cpu", enabled=False):
            assert not any(on for _, (on, *_) in side_by_side(precision, [1, 2, 3]))
    assert dict(side_by_side(precision, [1, 2])) == {1: outside, 2: outside}


def test_vectors_in_half_precision_are_those_of_one_thread(tiny_models):
    model = cw.load(tiny_models["bert"])
    texts = ["the cat sat", "the dog lay on the rug", "Paris", "北京的天气很好"]

    def embed(threads):
        torch.set_num_threads(threads)
        return model.embed(
            texts, batch_tokens=1
        )  # a text is a batch, however many workers there are

    with torch.autocast("cpu", dtype=torch.bfloat16):
        together, alone = embed(2), embed(1)
    np.testing.assert_array_equal(together, alone)
    assert not np.allclose(together, embed(2), atol=1e-5)


def test_many_short_rounds_never_hang():
    for count in range(300):
        items = list(range(count % 7))
        assert sorted(item for item, _ in side_by_side(lambda item: item, items)) == items
