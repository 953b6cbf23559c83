"""Worker threads: the micro-batches of a training step, or batches of inference, in parallel.

On a CPU, two batches on one thread each are faster than one batch on two threads: the threads never
wait for each other between the many small operations of a forward pass. An accelerator is parallel
inside: there the pool is the calling thread, and batches run one after the other.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Event, Thread
from typing import TypeVar

import torch

# Parameters of a model whose update is worth more than one thread.
_WORTH_HELP = 1 << 25

WorkItem = TypeVar("WorkItem")
WorkResult = TypeVar("WorkResult")


def workers(device: torch.device) -> int:
    """How many batches run at the same time on a device."""
    return torch.get_num_threads() if device.type == "cpu" else 1


class WorkerPool:
    """Threads that each compute on one core; a pool of one is the calling thread, on all cores.

    Args:
        device: Where the work is done.
        count: How many workers; one for each of torch's threads on a CPU if not given.
    """

    def __init__(self, device: torch.device, count: int | None = None) -> None:
        self.count = count or workers(device)
        self._device = device
        self._queues: list[SimpleQueue[Callable[[], None] | None]] = []
        self._threads: list[Thread] = []
        self._closed = False
        if self.count == 1:
            return
        threads, begun = torch.get_num_threads(), SimpleQueue[None]()
        try:
            for _ in range(self.count):
                self._queues.append(SimpleQueue())
                work = partial(_work, self._queues[-1], begun)
                thread = Thread(target=work, daemon=True, name="worker")
                thread.start()
                self._threads.append(thread)
            for _ in self._threads:
                begun.get()
        except BaseException:
            self.close()
            raise
        finally:
            # Trap: set_num_threads in a worker also sets what threads made later, anybody's, will
            # start with. So the old number is set again as soon as all workers have taken theirs.
            torch.set_num_threads(threads)

    def run(
        self, work: Callable[[int, WorkItem], WorkResult], items: Sequence[WorkItem]
    ) -> list[WorkResult]:
        """Calls `work(worker, item)` for every item; the results are in the order of the items.

        Worker i does items i, i + count, i + 2 * count and so on, in this order, so that sums come
        out the same every time.
        """
        if self.count == 1:
            return [work(0, item) for item in items]
        results: dict[int, WorkResult] = {}
        finished: SimpleQueue[BaseException | None] = SimpleQueue()

        def run(worker: int) -> None:
            try:
                for index in range(worker, len(items), self.count):
                    if self._closed:  # whoever waited for this has been interrupted
                        raise RuntimeError("the workers are closed")
                    results[index] = work(worker, items[index])
                finished.put(None)
            except BaseException as error:
                finished.put(error)

        for worker, queue in enumerate(self._queues):
            queue.put(partial(run, worker))
        errors = [error for error in (finished.get() for _ in range(self.count)) if error]
        if errors:
            raise errors[0]
        return [results[index] for index in range(len(items))]

    def infer(
        self, work: Callable[[WorkItem], WorkResult], items: Sequence[WorkItem]
    ) -> Iterator[tuple[WorkItem, WorkResult]]:
        """Yields each item with its result as soon as it is there, in no fixed order.

        There are no gradients, and workers compute in the precision of the caller. If the caller
        stops early or an item fails, work that has not begun is dropped.
        """

        def infer(item: WorkItem) -> tuple[WorkItem, WorkResult]:
            with torch.inference_mode():
                return item, work(item)

        if self.count == 1:
            yield from map(infer, items)
            return
        waiting: SimpleQueue[WorkItem] = SimpleQueue()
        for item in items:
            waiting.put(item)
        finished: SimpleQueue[tuple[WorkItem, WorkResult] | BaseException] = SimpleQueue()
        stop = Event()
        # Trap: autocast belongs to the thread that entered it; workers must be told.
        precision = partial(
            torch.autocast,
            self._device.type,
            dtype=torch.get_autocast_dtype(self._device.type),
            enabled=torch.is_autocast_enabled(self._device.type),
            cache_enabled=torch.is_autocast_cache_enabled(),
        )

        def run() -> None:
            with precision(), suppress(Empty):
                while not stop.is_set():
                    item = waiting.get_nowait()
                    try:
                        finished.put(infer(item))
                    except BaseException as error:
                        finished.put(error)

        try:
            for queue in self._queues:
                queue.put(run)
            for _ in items:
                result = finished.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            stop.set()

    @contextmanager
    def alone(self, parameters: int) -> Iterator[None]:
        """Within the block this thread works alone, unless there is much to do between items.

        Threads that help each other through a small update wait for each other at each of its many
        operations. If another program has one of the cores, that takes longer than the items.
        """
        with _threads(1 if self.count > 1 and parameters < _WORTH_HELP else None):
            yield

    @contextmanager
    def together(self) -> Iterator[None]:
        """Within the block, between items, this thread may use as many threads as workers have."""
        with _threads(self.count if self.count > 1 else None):
            yield

    def close(self) -> None:
        """Ends the threads; they finish the item they are at, and begin no other."""
        self._closed = True
        for queue in self._queues:
            queue.put(None)
        # Trap: a thread that is still in torch's code when Python ends brings the program down.
        for thread in self._threads:
            thread.join()
        self._queues, self._threads = [], []

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def _threads(count: int | None) -> Iterator[None]:
    """Another number of torch's threads within the block; the same if None."""
    threads = torch.get_num_threads()
    if count is not None:
        torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _work(queue: "SimpleQueue[Callable[[], None] | None]", begun: "SimpleQueue[None]") -> None:
    torch.get_num_threads()  # a thread takes the general number once, when first asked
    torch.set_num_threads(1)
    begun.put(None)
    while (work := queue.get()) is not None:
        work()
