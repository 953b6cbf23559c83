"""Runs independent batches at the same time.

On a CPU, two batches on one thread each are faster than one batch on two threads: the threads never
wait for each other between the many small steps of a forward pass. On an accelerator batches run
one after the other, because the device is parallel inside.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Semaphore, Thread
from typing import TypeVar

import torch

WorkItem = TypeVar("WorkItem")
WorkResult = TypeVar("WorkResult")


def workers(device: torch.device) -> int:
    """How many batches run at the same time on a device."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def side_by_side(
    work: Callable[[WorkItem], WorkResult], items: Sequence[WorkItem], device: torch.device
) -> Iterator[tuple[WorkItem, WorkResult]]:
    """Yields each item with its result as soon as it is there, in no fixed order.

    If the consumer stops early or an item fails, work that has not begun is dropped.
    """

    def alone(item: WorkItem) -> tuple[WorkItem, WorkResult]:
        with torch.inference_mode():
            return item, work(item)

    threads = torch.get_num_threads()
    count = min(workers(device), len(items))
    if count <= 1:
        yield from map(alone, items)
        return

    waiting: SimpleQueue[WorkItem] = SimpleQueue()
    for item in items:
        waiting.put(item)
    finished: SimpleQueue[tuple[WorkItem, WorkResult] | BaseException] = SimpleQueue()
    begun, stop = Semaphore(0), Event()
    # Trap: autocast belongs to the thread that entered it; workers must be told.
    precision = partial(
        torch.autocast,
        device.type,
        dtype=torch.get_autocast_dtype(device.type),
        enabled=torch.is_autocast_enabled(device.type),
        cache_enabled=torch.is_autocast_cache_enabled(),
    )

    def run() -> None:
        torch.get_num_threads()  # a thread takes the general number once, when first asked
        torch.set_num_threads(1)
        begun.release()
        with precision(), suppress(Empty):
            while not stop.is_set():
                item = waiting.get_nowait()
                try:
                    finished.put(alone(item))
                except BaseException as error:
                    finished.put(error)

    pool = [Thread(target=run, daemon=True) for _ in range(count)]
    try:
        for thread in pool:
            thread.start()
        # Trap: set_num_threads also sets what threads made later, anybody's, will start with. So
        # the old number is set again as soon as all workers have taken theirs.
        for _ in pool:
            begun.acquire()
        torch.set_num_threads(threads)
        for _ in items:
            result = finished.get()
            if isinstance(result, BaseException):
                raise result
            yield result
    finally:
        stop.set()
        for thread in pool:
            if thread.ident is not None:
                thread.join()
        torch.set_num_threads(threads)
