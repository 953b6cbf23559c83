"""Inputs of all requests, computed in batches of a token budget.

The idea: what may share a batch forms a group (equal computations of one model). The oldest input
decides which group is next, and the batch is filled with the oldest inputs of that group. Age is
counted in tokens: the hundredth text of a list is as old as a text that came a hundred texts later,
so a long list does not keep others waiting, and nobody waits for ever.
"""

import heapq
import time
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from clozeworks.core.model import Model
from clozeworks.errors import ClozeworksError
from clozeworks.inference.loop import BatchOptions, Computation, by_budget
from clozeworks.serve.work import Work

BatchGroup = tuple[int, Hashable]
Results = tuple[list[int], Sequence[Any]]


@dataclass(eq=False)
class Job:
    """The inputs of one computation of a request."""

    work: Work
    model: Model
    computation: Computation[Any, Any]
    inputs: Sequence[Any]
    costs: Sequence[int]
    results: SimpleQueue[Results | BaseException] = field(default_factory=SimpleQueue)
    queued: float = field(default_factory=time.monotonic)
    begun: float | None = None
    failed: bool = False

    @property
    def group(self) -> BatchGroup:
        """What it may share batches with."""
        return id(self.model), self.computation.key

    def fail(self, error: BaseException) -> None:
        """Ends with an error; inputs that have not begun are dropped."""
        if not self.failed:
            self.failed = True
            self.results.put(error)

    def finished(self, options: BatchOptions) -> Iterator[Results]:
        """The indices of inputs and their outputs, as they come.

        Raises:
            Cancelled: If nobody wants them any longer.
            DeadlinePassed: If they come too late.
        """
        left = len(self.inputs)
        self.work.on_cancel(lambda: self.results.put(([], [])))
        while left:
            try:
                result = self.results.get(timeout=self.work.left)
            except Empty:
                result = [], []
            if isinstance(result, BaseException):
                raise result
            if left > len(result[0]):  # what is all there is given, however late
                self.work.check()
            left -= len(result[0])
            if result[0]:
                yield result


@dataclass(frozen=True)
class BatchInput:
    """One input of a job."""

    job: Job
    number: int

    @property
    def cost(self) -> int:
        """Its tokens."""
        return self.job.costs[self.number]


@dataclass(eq=False)
class _Waiting:
    """The inputs that wait and may share a batch."""

    heap: list[tuple[int, int, BatchInput]] = field(default_factory=list)
    """By age, then in the order they came."""
    tokens: int = 0
    """Of all of them."""


class BatchQueue:
    """Inputs that wait, the oldest first; not safe for several threads.

    Args:
        batch_tokens: Tokens of a batch.
        workers: How many batches are computed at a time.
    """

    def __init__(self, batch_tokens: int, workers: int) -> None:
        self.batch_tokens, self.workers = batch_tokens, workers
        self._groups: dict[BatchGroup, _Waiting] = {}
        self._age = 0  # of the input that was taken last
        self._count = 0

    def __len__(self) -> int:
        return sum(len(waiting.heap) for waiting in self._groups.values())

    def add(self, job: Job) -> None:
        """Adds the inputs of a job, the longest first, so that batches are of similar lengths."""
        waiting = self._groups.setdefault(job.group, _Waiting())
        waiting.tokens += sum(job.costs)
        age = self._age
        for number in sorted(range(len(job.inputs)), key=lambda number: -job.costs[number]):
            heapq.heappush(waiting.heap, (age, self._count, BatchInput(job, number)))
            self._count += 1
            age += job.costs[number]

    def take(self, free: int) -> list[list[BatchInput]]:
        """The batches that are computed next; none if nothing waits.

        A batch has no more than a worker's part of what waits, or half of what it may have, so that
        workers that begin one after the other end together. Inputs of jobs that failed, or that
        nobody waits for, are dropped.

        Args:
            free: How many workers have nothing to do; there are no more batches than that.
        """
        while self._groups:
            group = min(self._groups, key=lambda group: self._groups[group].heap[0][:2])
            waiting, taken, tokens = self._groups[group], list[BatchInput](), 0
            part = max(-(-waiting.tokens // self.workers), self.batch_tokens // 2)
            most = min(part, self.batch_tokens) * free
            heap = waiting.heap
            while heap and (not taken or tokens + heap[0][2].cost <= most):
                age, _, each = heapq.heappop(heap)
                waiting.tokens -= each.cost
                if each.job.failed or each.job.work.over:
                    continue
                self._age = max(self._age, age)
                taken.append(each)
                tokens += each.cost
            if not heap:
                del self._groups[group]
            if taken:
                costs = [each.cost for each in taken]
                batches = by_budget(costs, self.batch_tokens, free)
                return [[taken[number] for number in batch] for batch in batches]
        return []

    def fail(self, error: ClozeworksError) -> None:
        """Ends everything that waits."""
        for waiting in self._groups.values():
            for _, _, each in waiting.heap:
                each.job.fail(error)
        self._groups.clear()


def computed(batch: Sequence[BatchInput]) -> list[Exception]:
    """Computes a batch and tells its jobs; what fails together is computed job by job.

    Returns:
        Errors that are nobody's mistake.
    """
    begin = time.monotonic()
    jobs = {id(each.job): each.job for each in batch}
    for job in jobs.values():
        if job.begun is None:
            job.begun = begin
            job.work.timings.queue += begin - job.queued
    try:
        outputs = batch[0].job.computation.forward([_input(each) for each in batch])
    except Exception as error:
        if len(jobs) > 1:
            alone = [[each for each in batch if each.job is job] for job in jobs.values()]
            return [failure for own in alone for failure in computed(own)]
        batch[0].job.fail(error)
        return [] if isinstance(error, ClozeworksError) else [error]
    seconds = time.monotonic() - begin
    found: dict[int, tuple[list[int], list[Any]]] = {number: ([], []) for number in jobs}
    for each, output in zip(batch, outputs, strict=True):
        numbers, own = found[id(each.job)]
        numbers.append(each.number)
        own.append(output)
    for number, job in jobs.items():
        job.work.timings.inference += seconds
        job.results.put(found[number])
    return []


def _input(each: BatchInput) -> Any:
    return each.job.inputs[each.number]
