"""Workers: which worker does what, errors, thread counts, and an end that waits for one item."""

import threading
import time

import pytest
import torch

from clozeworks.runtime.workers import WorkerPool

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def one_thread():
    """A test of threads sets its own number."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def workers():
    """Makes pools, and ends them."""
    pools = []

    def build(count=None, device=CPU):
        pools.append(WorkerPool(device, count))
        return pools[-1]

    yield build
    for pool in pools:
        pool.close()


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("items", [0, 1, 2, 7])
def test_results_are_in_the_order_of_the_items_and_workers_are_fixed(workers, count, items):
    found = workers(count).run(lambda worker, item: (worker, item * 10), list(range(items)))
    assert found == [(place % count, place * 10) for place in range(items)]


def test_a_worker_does_its_items_in_order(workers):
    seen = {0: [], 1: []}

    def work(worker, item):
        time.sleep(0.002 if worker == 0 else 0)
        seen[worker].append(item)

    workers(2).run(work, list(range(9)))
    assert seen == {0: [0, 2, 4, 6, 8], 1: [1, 3, 5, 7]}


def test_two_workers_work_at_the_same_time(workers):
    both = threading.Barrier(2, timeout=10)
    workers(2).run(lambda worker, item: both.wait(), [0, 1])


def test_an_error_comes_out_and_the_workers_can_go_on(workers):
    made = workers(2)

    def work(worker, item):
        if item == 3:
            raise ValueError("item 3")
        return item

    with pytest.raises(ValueError, match="item 3"):
        made.run(work, list(range(6)))
    assert made.run(work, [0, 1, 2]) == [0, 1, 2]


def test_the_number_of_threads_stays_as_it_was_and_a_worker_has_one(workers):
    torch.set_num_threads(2)
    made = workers()
    assert made.count == 2 and torch.get_num_threads() == 2
    assert made.run(lambda worker, item: torch.get_num_threads(), [0, 1]) == [1, 1]
    later = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [2] and torch.get_num_threads() == 2


def test_what_is_done_between_items_may_use_all_threads(workers):
    two = workers(2)
    threads = torch.get_num_threads()
    with two.alone(10):
        assert torch.get_num_threads() == 1
        with two.together():
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == threads


def test_one_worker_works_in_this_thread_with_all_of_torchs_threads(workers):
    torch.set_num_threads(2)
    here = workers(1).run(
        lambda worker, item: (threading.current_thread(), torch.get_num_threads()), [0]
    )
    assert here == [(threading.main_thread(), 2)]


def test_an_accelerator_has_one_worker(workers):
    assert workers(device=torch.device("cuda")).count == 1


def test_closing_ends_the_threads_behind_the_item_they_are_at():
    """As after a second signal: the rest of a long step is not done."""
    before = threading.active_count()
    made = WorkerPool(CPU, 2)
    begun, go, seen = threading.Semaphore(0), threading.Event(), []

    def work(worker, item):
        begun.release()
        seen.append(item)
        assert go.wait(10)

    def waiting():
        with pytest.raises(RuntimeError, match="the workers are closed"):
            made.run(work, list(range(100)))

    caller = threading.Thread(target=waiting)
    caller.start()
    assert begun.acquire(timeout=10) and begun.acquire(timeout=10)
    closer = threading.Thread(target=made.close)
    closer.start()
    while not made._closed:
        time.sleep(0.001)
    go.set()
    for thread in (closer, caller):
        thread.join(10)
        assert not thread.is_alive()
    assert sorted(seen) == [0, 1] and threading.active_count() == before
    made.close()  # a second time does no harm
