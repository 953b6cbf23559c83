"""The batched-inference loop: every forward pass of inference runs here.

The idea: texts of similar length are put together into batches of a fixed number of tokens, and
batches run in parallel on the worker pool, so that inference costs what the real tokens cost at the
speed of the machine's matrix product. The longest texts go first: if their batch fits into memory,
all do. `in_order` returns results in the order of the inputs; `in_batches` yields each batch as
soon as it is done, for callers that keep results in an array.

Interrupting, cancelling and errors end the loop after the batches that are running; the model is
left in the mode it was in.

A `Computation` says more than a function of a batch: which inputs of other callers may share its
batches. `compute` runs it here, or hands it to whoever runs those of all callers (`running_on`).
"""

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypedDict, TypeVar

import torch

from clozeworks.core.model import Model
from clozeworks.errors import ClozeworksError, SettingError
from clozeworks.runtime.progress import Progress
from clozeworks.runtime.workers import WorkerPool, workers

# Small enough that the activations of a batch stay in a CPU's cache. Larger is better on a GPU.
CPU_BATCH_TOKENS = 1024
# Fewer tokens are computed faster by all cores together than by each core its part.
_WORTH_A_WORKER = 96
ACCELERATOR_BATCH_TOKENS = 16384

Unit = TypeVar("Unit")
Output = TypeVar("Output")


@dataclass(frozen=True)
class Computation(Generic[Unit, Output]):
    """What a model computes of inputs that do not know their neighbours."""

    key: Hashable
    """Computations of one model with equal keys compute the same, so their inputs may share a
    batch, whoever asks for them."""
    forward: Callable[[list[Unit]], Sequence[Output]]
    """From the inputs of a batch to an output for each. It runs in a worker thread."""


class Cancelled(ClozeworksError):  # noqa: N818 (the name is the sentence)
    """The caller no longer wants the results."""


@dataclass(frozen=True)
class BatchOptions:
    """How a loop is run; results are the same whatever the options."""

    batch_tokens: int | None = None
    """Tokens per batch; chosen for the device if not given."""
    progress: Progress | None = None
    """Called with tokens done and tokens in all, after each batch."""
    cancelled: Callable[[], bool] | None = None
    """Called before each batch, possibly from another thread; True ends the loop with
    `Cancelled`."""


class BatchKeywords(TypedDict, total=False):
    """The fields of `BatchOptions` as keyword arguments; `progress=True` shows a bar."""

    batch_tokens: int | None
    progress: Progress | bool | None
    cancelled: Callable[[], bool] | None


class Runner(Protocol):
    """Runs the computations of several callers."""

    def __call__(
        self,
        model: Model,
        inputs: Sequence[Any],
        costs: Sequence[int],
        computation: Computation[Any, Any],
        options: BatchOptions,
    ) -> Iterator[tuple[list[int], Sequence[Any]]]:
        """What `compute` does."""


_runner: ContextVar[Runner | None] = ContextVar("runner", default=None)


@contextmanager
def running_on(runner: Runner) -> Iterator[None]:
    """Within the block, in this thread, computations are handed to a runner."""
    token = _runner.set(runner)
    try:
        yield
    finally:
        _runner.reset(token)


def compute(
    model: Model,
    inputs: Sequence[Unit],
    costs: Sequence[int],
    computation: Computation[Unit, Output],
    options: BatchOptions | None = None,
) -> Iterator[tuple[list[int], Sequence[Output]]]:
    """Computes something of every input, in batches; the other arguments are those of `in_batches`.

    Yields:
        The indices of some inputs and the output for each of them, as soon as they are there.
    """
    runner = _runner.get()
    if runner is not None:
        return runner(model, inputs, costs, computation, options or BatchOptions())

    def forward(batch: list[int]) -> Sequence[Output]:
        return computation.forward([inputs[number] for number in batch])

    return in_batches(model, costs, forward, options)


def compute_in_order(
    model: Model,
    inputs: Sequence[Unit],
    costs: Sequence[int],
    computation: Computation[Unit, Output],
    options: BatchOptions | None = None,
) -> list[Output]:
    """One output for each input, in order; the arguments are those of `compute`."""
    outputs: dict[int, Output] = {}
    for numbers, several in compute(model, inputs, costs, computation, options):
        outputs.update(zip(numbers, several, strict=True))
    return [outputs[number] for number in range(len(inputs))]


def in_batches(
    model: Model,
    costs: Sequence[int],
    forward: Callable[[list[int]], Output],
    options: BatchOptions | None = None,
    *,
    groups: Sequence[Hashable] | None = None,
) -> Iterator[tuple[list[int], Output]]:
    """Runs a function on batches, without dropout and without gradients.

    Args:
        model: The model that the function calls.
        costs: The number of tokens of each input.
        forward: From the indices of the inputs of a batch to what is yielded for it. It runs in a
            worker thread.
        options: Batch size, progress, cancellation.
        groups: Only inputs with an equal value here share a batch; None if all may.

    Yields:
        The indices of a batch and what `forward` returned for them, as soon as it is there.

    Raises:
        Cancelled: If `options.cancelled` returns True.
        SettingError: If `options.batch_tokens` is below 1.
    """
    options = options or BatchOptions()
    device = device_of(model)
    batches = _batches(costs, groups, options.batch_tokens, device)

    def run(batch: list[int]) -> Output:
        if options.cancelled is not None and options.cancelled():
            raise Cancelled("the work was cancelled before it was done; start it again.")
        return forward(batch)

    total, done = sum(costs), 0
    # Who shares the machine with other callers does not take all of it.
    count = 1 if _runner.get() is not None else min(workers(device), len(batches)) or 1
    with evaluating(model), WorkerPool(device, count) as pool:
        for batch, output in pool.infer(run, batches):
            yield batch, output
            done += sum(costs[number] for number in batch)
            if options.progress is not None:
                options.progress(done, total)


def in_order(
    model: Model,
    costs: Sequence[int],
    forward: Callable[[list[int]], Sequence[Output]],
    options: BatchOptions | None = None,
    *,
    groups: Sequence[Hashable] | None = None,
) -> list[Output]:
    """One output for each input, in order; the arguments are those of `in_batches`."""
    outputs: dict[int, Output] = {}
    for batch, several in in_batches(model, costs, forward, options, groups=groups):
        outputs.update(zip(batch, several, strict=True))
    return [outputs[number] for number in range(len(costs))]


def _batches(
    costs: Sequence[int],
    groups: Sequence[Hashable] | None,
    batch_tokens: int | None,
    device: torch.device,
) -> list[list[int]]:
    if batch_tokens is None:
        on_cpu = device.type == "cpu"
        batch_tokens = CPU_BATCH_TOKENS if on_cpu else ACCELERATOR_BATCH_TOKENS
    if groups is None:
        return by_budget(costs, batch_tokens, workers(device))
    alike: dict[Hashable, list[int]] = {}
    for number, group in enumerate(groups):
        alike.setdefault(group, []).append(number)
    return [
        [numbers[index] for index in batch]
        for numbers in alike.values()
        for batch in by_budget([costs[n] for n in numbers], batch_tokens, workers(device))
    ]


def by_budget(lengths: Sequence[int], batch_tokens: int, workers: int = 1) -> list[list[int]]:
    """Groups the indices of texts into batches, the longest text first.

    Texts of similar length end up together, and the first batch is the one that needs the most
    memory: if it fits, all do. Texts of equal length keep their order.

    Args:
        lengths: The number of tokens of each text.
        batch_tokens: The maximum number of tokens of a batch. A longer text gets its own batch.
        workers: How many batches run at a time. Batches are made smaller, if need be, so that each
            worker gets equally many and none waits for the last one. Few tokens are not split:
            that would read all weights once more, and take longer.

    Raises:
        SettingError: If the budget is below 1.
    """
    if batch_tokens < 1:
        raise SettingError("batch_tokens", batch_tokens, "it must be at least 1")
    workers = min(workers, max(sum(lengths) // _WORTH_A_WORKER, 1))
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    batches = _filled(order, lengths, batch_tokens)
    wanted = -(-len(batches) // workers) * workers
    if workers > 1 and len(batches) < len(lengths):
        # The smallest budget that still gives so many batches fills them all alike.
        low, high = 0, batch_tokens
        while high - low > 1:
            middle = (low + high) // 2
            enough = len(_filled(order, lengths, middle)) <= wanted
            low, high = (low, middle) if enough else (middle, high)
        batches = _filled(order, lengths, high)
    return batches


def _filled(order: Sequence[int], lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Fills one batch after the other."""
    batches: list[list[int]] = []
    room = 0
    for index in order:
        length = lengths[index]
        if not batches or length > room:
            batches.append([])
            room = batch_tokens
        batches[-1].append(index)
        room -= length
    return batches


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Without dropout, whatever mode the model is in; the mode comes back afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def device_of(model: Model) -> torch.device:
    """Where the model's weights are."""
    return next(model.parameters()).device
