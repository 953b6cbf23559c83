"""Workers: which worker does what, errors, thread counts, and an end that waits for one item."""

import gc
import sys
import threading
import time
from concurrent import futures

import pytest
import torch

from clozeworks.runtime.waiting import outlast
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
    while not made._closed.is_set():
        time.sleep(0.001)
    go.set()
    for thread in (closer, caller):
        thread.join(10)
        assert not thread.is_alive()
    assert sorted(seen) == [0, 1] and threading.active_count() == before
    made.close()  # a second time does no harm


# A program that ends while a worker multiplies matrices, and nobody has closed the pool.
LEFT_AT_WORK = """
import sys, time, torch
from clozeworks.runtime.waiting import outlast
from clozeworks.runtime.workers import WorkerPool

def work(item):
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        torch.ones(300, 300) @ torch.ones(300, 300)

pool = WorkerPool(torch.device("cpu"), 2)
results = pool.infer(work, range(6))
next(results)
sys.exit(7)
"""


def test_a_program_that_ends_while_workers_work_is_not_aborted(start):
    process = start(["-c", LEFT_AT_WORK])
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (7, "")


def interrupted_at(place, files, call):
    """Calls something, and interrupts it at a place: so many instructions in some files later."""
    seen = 0

    def count(frame, event, argument):
        nonlocal seen
        if not frame.f_code.co_filename.endswith(files):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        if event == "opcode":
            seen += 1
            if seen == place:
                sys.settrace(None)
                raise KeyboardInterrupt
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        call()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("early", [False, True])
def test_wherever_it_is_interrupted_no_thread_goes_on(early):
    """At every instruction of the pool, one after the other; also when the caller leaves early."""
    working = []

    def work(item):
        working.append(item)
        time.sleep(0.001)
        working.remove(item)

    def life():
        with WorkerPool(CPU, 2) as pool:
            pool.run(lambda worker, item: work(item), [0, 1])
            for _ in pool.infer(work, [2, 3, 4, 5]):
                if early:
                    break

    place = 1
    while interrupted_at(place, ("clozeworks/runtime/workers.py",), life):
        place += 11
        left = [t for t in threading.enumerate() if t.name.startswith("worker")]
        assert not any(thread.daemon for thread in left)  # so Python waits for them at its end
        if left:
            gc.collect()  # idle ones end when the pool is gone
        for thread in left:
            thread.join(10)
            assert not thread.is_alive(), place
        assert not working
    assert place > 300


def test_tasks_are_outlasted_whatever_interrupts_it(monkeypatch):
    go, tries = threading.Event(), []

    def interrupted(tasks):
        tries.append(len(tries))
        if len(tries) < 3:
            raise KeyboardInterrupt
        go.set()
        return futures.wait(tasks)

    monkeypatch.setattr("clozeworks.runtime.waiting.wait", interrupted)
    with futures.ThreadPoolExecutor(1) as pool:
        task = pool.submit(go.wait, 10)
        with pytest.raises(KeyboardInterrupt):
            outlast([task])
        assert task.done() and len(tries) == 3
