"""Runs independent batches at the same time.

On a CPU, two batches on one thread each are faster than one batch on two threads: the threads never
wait for each other between the many small steps of a forward pass. On an accelerator batches run
one after the other, because the device is parallel inside.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar

import torch

Item = TypeVar("Item")
Result = TypeVar("Result")


def workers(device: torch.device) -> int:
    """How many batches run at the same time on a device."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def side_by_side(
    work: Callable[[Item], Result], items: Sequence[Item], device: torch.device
) -> Iterator[tuple[Item, Result]]:
    """Yields each item with its result as soon as it is there, in no fixed order.

    If the consumer stops early or an item fails, work that has not begun is dropped.
    """
    threads = workers(device)
    if threads == 1 or len(items) == 1:
        for item in items:
            with torch.inference_mode():
                yield item, work(item)
        return

    def alone(item: Item) -> tuple[Item, Result]:
        with torch.inference_mode():
            return item, work(item)

    # Inside a worker, one thread for everything: the setting is the thread's own.
    pool = ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,))
    try:
        # Trap: concurrent.futures.wait holds locks of the futures; Ctrl-C inside it would leave
        # them held, and the workers would never end.
        finished: SimpleQueue[Future[tuple[Item, Result]]] = SimpleQueue()
        for item in items:
            pool.submit(alone, item).add_done_callback(finished.put)
        for _ in items:
            yield finished.get().result()
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        # Trap: set_num_threads in a worker also sets what threads made later will start with.
        torch.set_num_threads(threads)
