"""Batches of all requests: who is computed first, by which core, and how much at a time."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

import clozeworks as cw
from clozeworks.inference.loop import Computation, compute_in_order
from clozeworks.serve.batches import BatchQueue, Job
from clozeworks.serve.scheduler import Scheduler
from clozeworks.serve.work import Work

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "lay", "in", "its", "garden"]
TEXTS = [" ".join(WORDS[n % 5 : n % 5 + 2 + n % 7]) for n in range(24)]


@pytest.fixture(scope="module")
def bert(tiny_models):
    return cw.load(tiny_models["bert"])


@pytest.fixture(scope="module")
def gpt2(writers):
    return cw.load(writers["gpt2"])


def test_a_long_list_does_not_keep_others_waiting(bert):
    scheduler, order = Scheduler(batch_tokens=32), []
    lock = threading.Lock()

    def request(name, texts):
        with scheduler.serving(Work()):
            bert.embed(texts)
        with lock:
            order.append(name)

    threads = [threading.Thread(target=request, args=("long", TEXTS * 40))]
    threads[0].start()
    while scheduler.waiting < len(TEXTS) * 40:
        time.sleep(0.01)
    threads += [threading.Thread(target=request, args=("short", ["the cat"]))]
    threads[1].start()
    while scheduler.waiting < len(TEXTS) * 40 + 1:
        time.sleep(0.01)
    scheduler.start()
    for thread in threads:
        thread.join()
    scheduler.stop()
    assert order == ["short", "long"]


@pytest.fixture
def two_cores():
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(threads)


def test_a_batch_begins_while_another_is_computed(two_cores, bert):
    scheduler, both = Scheduler(), threading.Barrier(2, timeout=20)

    def forward(inputs):
        both.wait()  # passes only when two batches are computed at a time
        return inputs

    def request(number):
        with scheduler.serving(Work()):
            computation = Computation(number, forward)
            return compute_in_order(bert.model, [number], [1], computation)

    with scheduler.running(), ThreadPoolExecutor(2) as pool:
        assert list(pool.map(request, [1, 2])) == [[1], [2]]
    assert scheduler.batches == 2


def test_texts_grow_while_there_are_always_batches(two_cores, bert, gpt2):
    scheduler, ended = Scheduler(), threading.Event()

    def embed():
        while not ended.is_set():
            with scheduler.serving(Work()):
                bert.embed(TEXTS[:4])

    with scheduler.running(), ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(embed)
        try:
            with scheduler.serving(Work(seconds=60)):
                text = gpt2.generate("the cat", max_new_tokens=12)
            while not scheduler.batches:
                time.sleep(0.001)
        finally:
            ended.set()
    assert text.text == gpt2.generate("the cat", max_new_tokens=12).text


def test_workers_that_begin_one_after_the_other_get_equal_parts(bert):
    queue = BatchQueue(batch_tokens=1024, workers=2)
    computation = Computation("same", list)
    job = Job(Work(), bert.model, computation, list(range(30)), [100] * 30)
    queue.add(job)
    taken = []
    while queue:
        taken.append([sum(each.cost for each in batch) for batch in queue.take(1)])
    # As much as a batch holds, then half of what is left, but no less than half a batch.
    assert taken == [[1000], [1000], [500], [500]]
    queue.add(job)
    assert [sum(each.cost for each in batch) for batch in queue.take(2)] == [1000, 1000]


def test_a_batch_that_never_ends_is_noticed(two_cores, bert):
    scheduler, go_on = Scheduler(), threading.Event()

    def request():
        with scheduler.serving(Work()):
            computation = Computation("slow", lambda inputs: go_on.wait(20) and inputs)
            compute_in_order(bert.model, [1], [1], computation)

    with scheduler.running():
        thread = threading.Thread(target=request)
        thread.start()
        while not scheduler.batches:
            time.sleep(0.001)
        begun = scheduler.beat
        with scheduler.serving(Work()):
            bert.embed("the cat")  # by the other core
        assert scheduler.beat == begun
        go_on.set()
        thread.join()
