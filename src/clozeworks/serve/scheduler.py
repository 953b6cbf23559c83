"""The one thread of a server that computes, for all requests and all models.

The idea: every request is answered by a thread of its own with the methods that everybody has
(`model.classify`, `model.stream`); where these would run a model, they wait for the scheduler. It
takes turns: the oldest inputs of all requests as a batch, then a token of every text that grows. So
nothing is computed twice at a time, and nothing waits while the machine is idle.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from threading import Condition, Thread
from typing import Any

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
        self.beat = time.monotonic()
        """When the thread was last seen."""
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
        self._queue = BatchQueue(batch_tokens, self._pool.count)
        self._decodings: dict[int, Decoding] = {}
        self._thread = Thread(target=self._run, name="scheduler", daemon=True)

    # What requests use.

    @contextmanager
    def serving(self, work: Work) -> Iterator[None]:
        """Within the block, in this thread, models are run by the scheduler."""
        work.prepare()
        with running_on(partial(self._compute, work)), growing_in(partial(self._open, work)):
            yield

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
        """A batch, then a token of every growing text; waits if there is nothing to do."""
        with self._changed:
            batches = self._queue.take()
            ready = [each for each in self._decodings.values() if each.ready]
            self.beat = time.monotonic()
            if not batches and not ready:
                self._changed.wait(_BEAT)
                return
        failures = self._batches(batches) if batches else []
        for decoding in ready:
            failures += decoding.advance()
            self.steps += 1
        # A failure is one in a row until something succeeds.
        self.failures = self.failures + len(failures) if failures else 0
        if self.failures >= _MOST_FAILURES:
            raise failures[-1]

    def _batches(self, batches: list[list[BatchInput]]) -> list[Exception]:
        self.batches += len(batches)
        self.computed_tokens += sum(each.cost for batch in batches for each in batch)
        # Cores that wait for each other at each operation are worth it for long texts alone: they
        # have requests to read and to answer, too.
        if len(batches) == 1 and sum(each.cost for each in batches[0]) >= _WORTH_ALL_CORES:
            with torch.inference_mode():
                return computed(batches[0])
        return [error for _, errors in self._pool.infer(computed, batches) for error in errors]
