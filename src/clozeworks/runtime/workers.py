"""Worker threads: the micro-batches of a training step, or batches of inference, in parallel.

On a CPU, two batches on one thread each are faster than one batch on two threads: the threads never
wait for each other between the many small operations of a forward pass. An accelerator is parallel
inside: there the pool is the calling thread, and batches run one after the other.

A thread that is still in torch's code when Python ends aborts the whole program. So the threads are
those of an executor, which Python itself waits for at its end, wherever a signal came; and closing
a pool waits for the items that are being worked on, whatever interrupts it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from queue import Empty, SimpleQueue
from threading import Barrier, Event
from typing import TypeVar

import torch

from clozeworks.runtime.waiting import outlast

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
        self._threads: ThreadPoolExecutor | None = None
        self._tasks: list[Future[None]] = []  # of the last call, or those that have not ended
        self._closed = Event()
        if self.count == 1:
            return
        self._threads = ThreadPoolExecutor(self.count, "worker")
        threads, begun = torch.get_num_threads(), Barrier(self.count)
        try:
            for task in self._begin([partial(_take_one_core, begun)] * self.count):
                task.result()
        except BaseException:
            begun.abort()
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

        def run(worker: int) -> None:
            for index in range(worker, len(items), self.count):
                if self._closed.is_set():  # whoever waited for this has been interrupted
                    raise RuntimeError("the workers are closed")
                results[index] = work(worker, items[index])

        tasks = self._begin(partial(run, worker) for worker in range(self.count))
        errors = [error for error in (task.exception() for task in tasks) if error]
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
                while not (stop.is_set() or self._closed.is_set()):
                    item = waiting.get_nowait()
                    try:
                        finished.put(infer(item))
                    except BaseException as error:
                        finished.put(error)

        try:
            self._begin([run] * self.count)
            for _ in items:
                result = finished.get()
                if isinstance(result, BaseException):
                    raise result
                yield result
        finally:
            stop.set()

    def begin(self, work: Callable[[], None]) -> None:
        """Has a worker do something as soon as it is free; nobody waits for it but `close`.

        A pool of one does it now. Errors are the work's own to handle.
        """
        if self._threads is None:
            work()
            return
        self._tasks = [task for task in self._tasks if not task.done()]
        self._tasks.append(self._threads.submit(work))

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
        self._closed.set()
        outlast(self._tasks)
        if self._threads is not None:
            self._threads.shutdown(cancel_futures=True)

    def _begin(self, works: Iterable[Callable[[], None]]) -> list[Future[None]]:
        """Hands each thread its work."""
        assert self._threads is not None
        self._tasks = []
        for work in works:
            self._tasks.append(self._threads.submit(work))
        return self._tasks

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


def _take_one_core(begun: Barrier) -> None:
    torch.get_num_threads()  # a thread takes the general number once, when first asked
    torch.set_num_threads(1)
    begun.wait()  # for the others, so that each is another thread
