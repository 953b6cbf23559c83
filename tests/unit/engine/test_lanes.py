"""Lanes: which lane does what, errors, thread counts, and an end that waits for one piece only."""

import threading
import time

import pytest
import torch

from clozeworks.engine.micro_batches import MicroBatchThreads


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("pieces", [0, 1, 2, 7])
def test_results_are_in_the_order_of_the_pieces_and_lanes_are_fixed(lanes, count, pieces):
    found = lanes(count).run(lambda lane, piece: (lane, piece * 10), list(range(pieces)))
    assert found == [(place % count, place * 10) for place in range(pieces)]


def test_a_lane_does_its_pieces_in_order(lanes):
    seen = {0: [], 1: []}

    def work(lane, piece):
        time.sleep(0.002 if lane == 0 else 0)
        seen[lane].append(piece)

    lanes(2).run(work, list(range(9)))
    assert seen == {0: [0, 2, 4, 6, 8], 1: [1, 3, 5, 7]}


def test_two_lanes_work_at_the_same_time(lanes):
    both = threading.Barrier(2, timeout=10)
    lanes(2).run(lambda lane, piece: both.wait(), [0, 1])


def test_an_error_comes_out_and_the_lanes_can_go_on(lanes):
    made = lanes(2)

    def work(lane, piece):
        if piece == 3:
            raise ValueError("piece 3")
        return piece

    with pytest.raises(ValueError, match="piece 3"):
        made.run(work, list(range(6)))
    assert made.run(work, [0, 1, 2]) == [0, 1, 2]


def test_the_number_of_threads_stays_as_it_was_and_a_lane_has_one(lanes):
    torch.set_num_threads(2)
    made = lanes()
    assert made.count == 2 and torch.get_num_threads() == 2
    assert made.run(lambda lane, piece: torch.get_num_threads(), [0, 1]) == [1, 1]
    later = []
    thread = threading.Thread(target=lambda: later.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert later == [2] and torch.get_num_threads() == 2


def test_what_is_done_between_pieces_may_use_all_threads(lanes):
    two = lanes(2)
    threads = torch.get_num_threads()
    with two.alone(10):
        assert torch.get_num_threads() == 1
        with two.together():
            assert torch.get_num_threads() == 2
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == threads


def test_one_lane_works_in_this_thread_with_all_of_torchs_threads(lanes):
    torch.set_num_threads(2)
    here = lanes(1).run(
        lambda lane, piece: (threading.current_thread(), torch.get_num_threads()), [0]
    )
    assert here == [(threading.main_thread(), 2)]


def test_an_accelerator_has_one_lane(lanes):
    assert lanes(device=torch.device("cuda")).count == 1


def test_closing_ends_the_threads_behind_the_piece_they_are_at():
    """As after a second signal: the rest of a long step is not done."""
    before = threading.active_count()
    made = MicroBatchThreads(torch.device("cpu"), 2)
    begun, go, seen = threading.Semaphore(0), threading.Event(), []

    def work(lane, piece):
        begun.release()
        seen.append(piece)
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
