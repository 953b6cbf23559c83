"""Pieces of a step side by side, each on a core of its own.

On a CPU two pieces on one thread each are faster than one on two threads, which wait for each other
between the many small operations of a step. An accelerator is parallel inside and has one lane.
Which lane does a piece, and in which order, is fixed, so that sums come out the same every time.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread
from typing import TypeVar

import torch

# Parameters of a model whose update is worth more than one thread.
_WORTH_HELP = 1 << 25

MicroBatch = TypeVar("MicroBatch")
MicroBatchResult = TypeVar("MicroBatchResult")


class MicroBatchThreads:
    """Threads that live as long as a run; lane i does pieces i, i + count, i + 2 * count and so on.

    Args:
        device: Where the work is done.
        count: How many lanes; one for each of torch's threads on a CPU if not given.
    """

    def __init__(self, device: torch.device, count: int | None = None) -> None:
        threads = torch.get_num_threads()
        self.count = count or (threads if device.type == "cpu" else 1)
        self._todo: list[SimpleQueue[Callable[[], None] | None]] = []
        self._threads: list[Thread] = []
        self._closed = False
        if self.count == 1:
            return
        begun: SimpleQueue[None] = SimpleQueue()
        for _ in range(self.count):
            queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
            self._todo.append(queue)
            thread = Thread(target=_live, args=(queue, begun), daemon=True, name="lane")
            thread.start()
            self._threads.append(thread)
        for _ in self._todo:
            begun.get()
        # Trap: set_num_threads in a lane also sets what threads made later will start with.
        torch.set_num_threads(threads)

    def run(
        self,
        work: Callable[[int, MicroBatch], MicroBatchResult],
        micro_batches: Sequence[MicroBatch],
    ) -> list[MicroBatchResult]:
        """Calls `work(lane, piece)` for every piece; the results are in the order of the pieces."""
        if self.count == 1:
            return [work(0, micro_batch) for micro_batch in micro_batches]
        done: SimpleQueue[tuple[int, list[MicroBatchResult] | BaseException]] = SimpleQueue()

        def worked(worker: int, micro_batch: MicroBatch) -> MicroBatchResult:
            if self._closed:  # whoever waited for this has been interrupted
                raise RuntimeError("the workers are closed")
            return work(worker, micro_batch)

        def of_lane(worker: int) -> Callable[[], None]:
            def run() -> None:
                try:
                    done.put(
                        (
                            worker,
                            [
                                worked(worker, micro_batch)
                                for micro_batch in micro_batches[worker :: self.count]
                            ],
                        )
                    )
                except BaseException as error:
                    done.put((worker, error))

            return run

        for worker, queue in enumerate(self._todo):
            queue.put(of_lane(worker))
        by_lane: dict[int, list[MicroBatchResult]] = {}
        failed: BaseException | None = None
        for _ in self._todo:
            worker, found = done.get()
            if isinstance(found, BaseException):
                failed = failed or found
            else:
                by_lane[worker] = found
        if failed is not None:
            raise failed
        return [
            by_lane[index % self.count][index // self.count] for index in range(len(micro_batches))
        ]

    @contextmanager
    def alone(self, parameters: int) -> Iterator[None]:
        """Within the block this thread works alone, unless there is much to do between pieces.

        Threads that help each other through a small update wait for each other at each of its many
        operations. If another program has one of the cores, that takes longer than the pieces.

        Args:
            parameters: What is updated between pieces.
        """
        threads = torch.get_num_threads()
        if self.count > 1 and parameters < _WORTH_HELP:
            torch.set_num_threads(1)
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Within the block, between pieces, this thread may use as many threads as lanes have."""
        threads = torch.get_num_threads()
        if self.count > 1:
            torch.set_num_threads(self.count)
        try:
            yield
        finally:
            torch.set_num_threads(threads)

    def close(self) -> None:
        """Ends the threads; they finish the piece they are at, and begin no other."""
        self._closed = True
        for queue in self._todo:
            queue.put(None)
        # Trap: a thread that is still in torch's code when Python ends brings the program down.
        for thread in self._threads:
            thread.join()
        self._todo, self._threads = [], []


def _live(queue: "SimpleQueue[Callable[[], None] | None]", begun: "SimpleQueue[None]") -> None:
    torch.get_num_threads()  # a thread takes the general number once, when first asked
    torch.set_num_threads(1)
    begun.put(None)
    while (work := queue.get()) is not None:
        work()
