"""What computes in a server, for all requests and all models, the oldest inputs first.

The idea: every request is answered by a thread of its own with the methods that everybody has
(`model.classify`, `model.stream`); where these would run a model, they wait for the scheduler. It
gives every core that is free the oldest inputs of all requests as a batch. A token of every text
that grows takes all cores, as soon as the batches that were begun have ended. So nothing waits
while a core is idle.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Condition, Thread
from typing import Any
from weakref import WeakValueDictionary

import torch

from clozeworks.core.model import Model
from clozeworks.core.ops.packed_weights import packed
from clozeworks.generate.session import DecoderRows, growing_in
from clozeworks.inference.loop import CPU_BATCH_TOKENS, BatchOptions, Computation, running_on
from clozeworks.inference.prompts import cache_bytes
from clozeworks.runtime.memory import available
from clozeworks.runtime.workers import WorkerPool
from clozeworks.serve.batches import BatchInput, BatchQueue, Job, computed
from clozeworks.serve.decoding import Decoding, SharedRows
from clozeworks.serve.work import Overloaded, ServerStopped, Work

# Work in hand that is refused to grow: what a machine of two cores reads in a quarter of a minute.
MOST_TOKENS = 131_072
# So many failures in a row that were nobody's mistake end the server.
_MOST_FAILURES = 5
# The fraction of the available memory that the texts of a model may take while they grow.
_MEMORY_FRACTION = 0.5
_BEAT = 1.0
# Batches of fewer tokens are computed by one core.
_WORTH_ALL_CORES = 256


class Scheduler:
    """Computes for all requests.

    Args:
        most_tokens: The most tokens of work in hand; more is refused, unless it is alone.
        batch_tokens: Tokens of a batch.
        device: Where models compute.
    """

    def __init__(
        self,
        *,
        most_tokens: int = MOST_TOKENS,
        batch_tokens: int = CPU_BATCH_TOKENS,
        device: torch.device | None = None,
    ) -> None:
        self.most_tokens, self.batch_tokens = most_tokens, batch_tokens
        self.tokens = 0
        """Tokens in hand."""
        self.batches = 0
        """How many batches were computed."""
        self.computed_tokens = 0
        """How many tokens they had."""
        self.steps = 0
        """How often growing texts grew by a token."""
        self.failures = 0
        """Failures in a row that were nobody's mistake."""
        self.fatal: BaseException | None = None
        """What ended the thread."""
        self._device = device or torch.device("cpu")
        self._changed = Condition()
        self._stopping = False
        self._pool = WorkerPool(self._device)
        self._running: dict[int, float] = {}  # batches, and when they began
        self._turned = time.monotonic()
        self._broken: BaseException | None = None  # what a batch failed with that no job was told
        self._grew = False  # what was done last: texts grew, or batches began
        self._queue = BatchQueue(batch_tokens, self._pool.count)
        # Those of which somebody holds rows: a model that nobody uses can be let go.
        self._decodings: WeakValueDictionary[int, Decoding] = WeakValueDictionary()
        self._thread = Thread(target=self._run, name="scheduler", daemon=True)

    # What requests use.

    @contextmanager
    def serving(self, work: Work) -> Iterator[None]:
        """Within the block, in this thread, models are run by the scheduler."""
        work.prepare()
        with running_on(partial(self._compute, work)), growing_in(partial(self._open, work)):
            yield

    @property
    def beat(self) -> float:
        """When the thread was last seen, or the batch began that has been computed for longest."""
        return min([self._turned, *list(self._running.values())])

    @property
    def waiting(self) -> int:
        """Inputs and prompts that have not begun."""
        return len(self._queue) + sum(each.waiting for each in list(self._decodings.values()))

    @property
    def growing(self) -> int:
        """Texts that are being written."""
        return sum(map(len, list(self._decodings.values())))

    def start(self) -> None:
        """Begins to compute."""
        self._thread.start()

    def stop(self) -> None:
        """Ends; what is still wanted fails."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.close()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Computes within the block; whoever has it compute already goes on."""
        if self._thread.is_alive():
            yield
            return
        self.start()
        try:
            yield
        finally:
            self.stop()

    @contextmanager
    def _admitted(self, tokens: int) -> Iterator[None]:
        """Takes work in hand.

        Raises:
            Overloaded: If there is too much already.
            ServerStopped: If nothing is taken any longer.
        """
        with self._changed:
            if self._stopping:
                raise ServerStopped("the server is about to end; ask another one.")
            if self.tokens and self.tokens + tokens > self.most_tokens:
                raise Overloaded(
                    f"{self.tokens:,} tokens are in hand, {tokens:,} more would be too many (at "
                    f"most {self.most_tokens:,}); ask again in a second, or send less at a time."
                )
            self.tokens += tokens
        try:
            yield
        finally:
            with self._changed:
                self.tokens -= tokens

    def _compute(
        self,
        work: Work,
        model: Model,
        inputs: Sequence[Any],
        costs: Sequence[int],
        computation: Computation[Any, Any],
        options: BatchOptions,
    ) -> Iterator[tuple[list[int], Sequence[Any]]]:
        if not inputs:
            return
        work.prepared()
        work.check()
        total, done = sum(costs), 0
        with self._admitted(total):
            work.tokens += total
            job = Job(work, model, computation, inputs, costs)
            with self._changed:
                self._queue.add(job)
                self._changed.notify_all()
            try:
                for numbers, outputs in job.finished(options):
                    yield numbers, outputs
                    done += sum(costs[number] for number in numbers)
                    if options.progress is not None:
                        options.progress(done, total)
            finally:
                job.failed = True  # whatever has not begun is not wanted any longer
                work.prepare()

    def _open(self, work: Work, model: Model, max_new_tokens: int, width: int) -> DecoderRows:
        with self._changed:
            if self._stopping:
                raise ServerStopped("the server is about to end; ask another one.")
            decoding = self._decodings.get(id(model))
            if decoding is None:
                have = available(self._device) or 8 << 30
                most = max(int(have * _MEMORY_FRACTION) // cache_bytes(model), 1)
                decoding = Decoding(packed(model), self._notify, most, 2 * self.batch_tokens)
                self._decodings[id(model)] = decoding
        return SharedRows(decoding, work, width)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    # What the thread does.

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._turn()
        except BaseException as error:
            self.fatal = error
        finally:
            with self._changed:
                self._stopping = True
                ended = ServerStopped("the server ended before the answer was there.")
                self._queue.fail(ended)
                for decoding in self._decodings.values():
                    decoding.fail(ended)

    def _turn(self) -> None:
        """Begins batches, or has every growing text grow by a token; waits if neither is possible.

        Both come in turns if there is always more of both.
        """
        batches: list[list[BatchInput]] = []
        with self._changed:
            self._turned = time.monotonic()
            if self._broken is not None:
                raise self._broken
            ready = [each for each in self._decodings.values() if each.ready]
            free = self._pool.count - len(self._running)
            if free > 0 and (self._grew or not ready):
                batches = self._queue.take(free)
            if batches:
                self._count(batches)
            elif not ready or self._running:
                # Growing takes all cores: it waits for the batches, and none begins before it.
                self._grew = self._grew and not ready
                self._changed.wait(_BEAT)
                return
        self._grew = not batches
        if batches:
            self._begin(batches)
            return
        for decoding in ready:
            failures = decoding.advance()
            self.steps += 1
            self._told(failures)

    def _count(self, batches: list[list[BatchInput]]) -> None:
        self._running |= {id(batch): self._turned for batch in batches}
        self.batches += len(batches)
        self.computed_tokens += sum(each.cost for batch in batches for each in batch)

    def _begin(self, batches: list[list[BatchInput]]) -> None:
        # Cores that wait for each other at each operation are worth it for long texts alone: they
        # have requests to read and to answer, too.
        is_long = sum(each.cost for each in batches[0]) >= _WORTH_ALL_CORES
        if is_long and len(batches) == len(self._running) == 1:
            self._compute_batch(batches[0])
            return
        for batch in batches:
            self._pool.begin(partial(self._compute_batch, batch))

    def _compute_batch(self, batch: list[BatchInput]) -> None:
        try:
            with torch.inference_mode():
                failures = computed(batch)
            self._told(failures)
        except BaseException as error:
            self._broken = error
        with self._changed:
            del self._running[id(batch)]
            self._changed.notify_all()

    def _told(self, failures: list[Exception]) -> None:
        """Counts failures: one is in a row until something succeeds; too many end the thread."""
        with self._changed:
            self.failures = self.failures + len(failures) if failures else 0
            if self.failures >= _MOST_FAILURES:
                raise failures[-1]
