"""Runs independent batches at the same time.

On a CPU, two batches on one thread each are faster than one batch on two threads: the threads never
wait for each other between the many small steps of a forward pass. On an accelerator batches run
one after the other, because the device is parallel inside.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from threading import Barrier
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

    def alone(item: Item) -> tuple[Item, Result]:
        with torch.inference_mode():
            return item, work(item)

    threads = torch.get_num_threads()
    count = min(workers(device), len(items))
    if count <= 1:
        yield from map(alone, items)
        return

    # Trap: set_num_threads also sets what threads made later, anybody's, will start with. So all
    # workers begin together, each with one thread, and then the old number is set again.
    begun = Barrier(count + 1)

    def begin() -> None:
        torch.get_num_threads()  # a thread takes the general number once, when first asked
        torch.set_num_threads(1)
        begun.wait()

    pool = ThreadPoolExecutor(count, initializer=begin)
    try:
        # Trap: concurrent.futures.wait holds locks of the futures; Ctrl-C inside it would leave
        # them held, and the workers would never end.
        finished: SimpleQueue[Future[tuple[Item, Result]]] = SimpleQueue()
        for item in items:
            pool.submit(alone, item).add_done_callback(finished.put)
        begun.wait()
        torch.set_num_threads(threads)
        for _ in items:
            yield finished.get().result()
    finally:
        begun.abort()  # where something stopped us before all had begun
        pool.shutdown(wait=True, cancel_futures=True)
        torch.set_num_threads(threads)
