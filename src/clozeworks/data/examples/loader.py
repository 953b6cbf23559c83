"""Batches by step: any step's batch can be made, in any order, by any process.

The whole position of a loader is the number of the next step. Examples are visited in a new random
order every epoch; a batch may hold the end of one epoch and the beginning of the next, so that
every example counts equally often.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import lru_cache
from itertools import accumulate, count
from typing import Generic, TypeVar

from clozeworks.arrays import Int64Array
from clozeworks.data.examples import Examples
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import MISSING, InputError, SettingError
from clozeworks.rng import RandomStream
from clozeworks.runtime.waiting import outlast
from clozeworks.spec import NonNegativeInt, PositiveInt, check
from clozeworks.wording import counted

Made = TypeVar("Made")

MAX_EPOCHS = 5000  # of a step; so a step of 4,096 tokens can be had of a single word


class Loader(Generic[Made]):
    """Batches of examples, made by a function of the clean examples.

    Args:
        examples: The examples, by number.
        collate: Makes a batch of some of them; a pure function.
        seed: Chooses the order.
        batch_tokens: Tokens of a step over all ranks: as many examples as have this many on
            average.
        batch_size: Examples of a step instead of tokens.
        rank: Which part of each step this process has.
        ranks: How many parts there are. All parts together are the step, however many.
        workers: Threads that make batches ahead; with 0 each is made when it is needed.
        ahead: How many batches are made ahead.

    Raises:
        SettingError: If a number is out of its range, or a step has fewer examples than ranks.
    """

    def __init__(
        self,
        examples: Examples,
        collate: Callable[[ExampleArrays], Made],
        *,
        seed: int,
        batch_tokens: int | None = None,
        batch_size: int | None = None,
        rank: int = 0,
        ranks: int = 1,
        workers: int = 1,
        ahead: int = 4,
    ) -> None:
        if (batch_tokens is None) == (batch_size is None):
            rule = "a step has so many tokens, or so many examples"
            value = MISSING if batch_size is None else batch_size
            raise SettingError("batch_size", value, rule, "give it or `batch_tokens`, not both")
        check("batch_tokens", batch_tokens, PositiveInt | None)
        check("batch_size", batch_size, PositiveInt | None)
        check("ranks", ranks, PositiveInt)
        check("workers", workers, NonNegativeInt)
        check("ahead", ahead, NonNegativeInt)
        if not 0 <= rank < ranks:
            raise SettingError("rank", rank, f"it must be from 0 to {ranks - 1}")
        self.examples = examples
        self.collate = collate
        self.batch_size = batch_size or max(1, round((batch_tokens or 0) / examples.mean_length))
        if self.batch_size < ranks:
            raise InputError(
                f"a step has {counted(self.batch_size, 'example')} and there are {ranks} ranks; "
                "each needs at least one; use more tokens a step or fewer ranks."
            )
        self.rank, self.ranks = rank, ranks
        self.workers, self.ahead = workers, ahead
        self._rng = RandomStream(seed, "order")
        # Copies differ in size; how many examples lie before each is all one needs to know.
        sizes = [examples.size(copy) for copy in range(examples.copies)]
        self._before = [0, *accumulate(sizes)]
        epoch = max(1, self._before[-1] // examples.copies)
        if self.batch_size > MAX_EPOCHS * epoch:
            raise InputError(
                f"a step has {counted(self.batch_size, 'example')} and an epoch has "
                f"{counted(epoch, 'example')}; a step is at most {MAX_EPOCHS:,} epochs; use "
                "fewer tokens a step or more text."
            )
        self._order = lru_cache(maxsize=2)(self._shuffled)

    def epoch_of(self, step: int) -> float:
        """How many epochs have passed when a step begins."""
        epoch, offset = self._locate(step * self.batch_size)
        return epoch + offset / self.examples.size(epoch)

    def batch(self, step: int) -> Made:
        """This rank's part of a step."""
        return self.collate(self.clean(step))

    def clean(self, step: int) -> ExampleArrays:
        """This rank's examples of a step before anything is hidden."""
        if step < 0:
            raise SettingError("step", step, "steps are counted from 0")
        first = step * self.batch_size
        begin = first + self.batch_size * self.rank // self.ranks
        end = first + self.batch_size * (self.rank + 1) // self.ranks
        pieces = []
        while begin < end:
            epoch, offset = self._locate(begin)
            order = self._order(epoch)
            chosen = order[offset : offset + end - begin]
            pieces.append(self.examples.take(epoch, chosen))
            begin += len(chosen)
        return ExampleArrays.join(pieces)

    def batches(self, start: int = 0, end: int | None = None) -> Iterator[Made]:
        """The batches of steps from `start` on, made ahead by the workers."""
        steps = count(start) if end is None else iter(range(start, end))
        if self.workers == 0:
            yield from map(self.batch, steps)
            return
        waiting: deque[Future[Made]] = deque()
        pool = ThreadPoolExecutor(self.workers, thread_name_prefix="loader")
        try:
            for step in steps:
                waiting.append(pool.submit(self.batch, step))
                if len(waiting) > self.ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            outlast(waiting)

    def _locate(self, position: int) -> tuple[int, int]:
        """The epoch and the number in it of the example at a position of the whole run."""
        cycle, rest = divmod(position, self._before[-1])
        copy = bisect_right(self._before, rest) - 1
        return cycle * self.examples.copies + copy, rest - self._before[copy]

    def _shuffled(self, epoch: int) -> Int64Array:
        return self.examples.order(epoch, self._rng)
