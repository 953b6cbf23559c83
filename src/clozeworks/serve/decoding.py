"""Texts of all requests that a model writes, grown together.

The idea: each request draws its own tokens, by its own rules, in its own thread; only the passes of
the model are shared. A new prompt joins between two tokens, a finished text leaves, and nobody
waits for the longest.

Shapes: n rows of a caller, V vocabulary.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from queue import Empty, SimpleQueue

import torch
from torch import Tensor

from clozeworks.core.model import Model
from clozeworks.errors import ClozeworksError
from clozeworks.generate.session import GrowingTexts
from clozeworks.inference.loop import Cancelled
from clozeworks.serve.work import DeadlinePassed, Overloaded, Work

# Callers that may wait until there is room for their text.
_MOST_WAITING = 256


class SharedRows:
    """The rows of one caller among those of all: the face of `Decoding` to a session."""

    def __init__(self, decoding: "Decoding", work: Work, width: int = 1) -> None:
        self._decoding, self.work, self._width = decoding, work, width
        self.prompts: list[list[int]] = []
        self.start: int | None = None
        self.room = 0
        """How many tokens may still be added to each row."""
        self.rows = 0
        """How many rows it has among those of all."""
        self.reserved = 0
        """How many rows there must be memory for: before its first token, those it will have."""
        self.order: list[int] = []
        """Which of them it goes on with."""
        self.tokens: Tensor | None = None
        """The next token of each; None while it does not wait for a pass."""
        self.closed = False
        self.replies: SimpleQueue[Tensor | BaseException] = SimpleQueue()
        self.begun = 0.0
        """When it was turned to."""

    def prefill(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, start: int | None
    ) -> Tensor:
        """The logits after the prompts, (B, V), as soon as there is room for them."""
        self.prompts, self.room, self.start = [list(ids) for ids in prompts], max_new_tokens, start
        self.reserved = self._width * len(prompts)
        self.work.tokens += sum(map(len, self.prompts))
        self.work.prepared()
        entered = time.monotonic()
        self._decoding.enter(self)
        self.work.on_cancel(lambda: self.replies.put(Cancelled("nobody waits for the text.")))
        logits = self._reply()
        self.work.timings.queue += self.begun - entered
        return logits

    def step(self, tokens: Tensor) -> Tensor:
        """The logits after one more token of every row, (n,) to (n, V)."""
        self.begun = time.monotonic()
        self._decoding.post(self, tokens)
        return self._reply()

    def reorder(self, rows: Sequence[int]) -> None:
        """Goes on with these rows, in this order; one may be there several times."""
        self.order = [self.order[row] for row in rows]

    def reorder_prompts(self, prompts: Sequence[int]) -> None:
        """Rows keep their prompts: `reorder` is all there is to do."""

    def close(self) -> None:
        """Leaves; the rows of others close up before the next pass."""
        self._decoding.leave(self)

    def _reply(self) -> Tensor:
        try:
            reply = self.replies.get(timeout=self.work.left)
        except Empty:
            self.work.check()
            raise DeadlinePassed("the text took too long.") from None
        if isinstance(reply, BaseException):
            raise reply
        self.work.timings.inference += time.monotonic() - self.begun
        self.work.written += len(reply)  # one token is drawn from each row
        return reply


class Decoding:
    """What one model writes at the moment.

    Args:
        model: A model that can generate, its weights as they are best read.
        changed: A lock for everything here that tells who waits for it, and wakes them.
        most_tokens: The most tokens that are kept at a time: rows times the longest of them.
        prefill_tokens: The most tokens of prompts that are read between two passes; a longer prompt
            is read alone.
    """

    def __init__(
        self, model: Model, changed: Callable[[], None], most_tokens: int, prefill_tokens: int
    ) -> None:
        self.model, self._changed = model, changed
        self.most_tokens, self.prefill_tokens = most_tokens, prefill_tokens
        self._arriving: deque[SharedRows] = deque()
        self._growing: list[SharedRows] = []
        self._texts: GrowingTexts | None = None

    def __len__(self) -> int:
        """How many rows grow."""
        return sum(each.rows for each in self._growing)

    @property
    def waiting(self) -> int:
        """How many callers wait to begin."""
        return len(self._arriving)

    # Called by the threads of requests.

    def enter(self, rows: SharedRows) -> None:
        """Adds a caller whose prompts are not read yet.

        Raises:
            Overloaded: If too many wait already.
        """
        if len(self._arriving) >= _MOST_WAITING:
            raise Overloaded(
                f"{len(self._arriving):,} others wait for their text to begin; ask again in a "
                "second."
            )
        self._arriving.append(rows)
        self._changed()

    def post(self, rows: SharedRows, tokens: Tensor) -> None:
        """A caller waits for the pass over its next tokens."""
        rows.tokens = tokens
        self._changed()

    def leave(self, rows: SharedRows) -> None:
        """A caller has ended, in whatever way."""
        rows.closed = True
        self._changed()

    # Called by the thread that computes.

    @property
    def ready(self) -> bool:
        """Whether there is something to do: all that grow have chosen a token, or one can begin."""
        alive = [each for each in self._growing if not each.closed]
        if self._growing and all(each.tokens is not None for each in alive):
            return True  # if none is alive, what was kept for them goes
        return bool(self._beginning())

    def advance(self) -> list[Exception]:
        """Reads the prompts of those who arrived, then grows every text by a token.

        Returns:
            Errors that are nobody's mistake.
        """
        arrived = self._beginning()
        for each in arrived:
            self._arriving.remove(each)
        waits = [each for each in arrived if not each.closed]
        failures = self._begin(waits) if waits else []
        alive = [each for each in self._growing if not each.closed]
        if not alive:
            self._growing, self._texts = [], None
        elif all(each.tokens is not None for each in alive):
            failures += self._grow(alive)
        return failures

    def fail(self, error: ClozeworksError) -> None:
        """Ends everything."""
        for each in (*self._arriving, *self._growing):
            each.replies.put(error)
        self._arriving.clear()
        self._growing, self._texts = [], None

    def _beginning(self) -> list[SharedRows]:
        """Those who begin now, in the order in which they came; whoever left is among them."""
        found: list[SharedRows] = []
        growing = [each for each in self._growing if not each.closed]
        tokens = 0
        for each in list(self._arriving):
            if each.closed or each.work.over:
                found.append(each)
                continue
            new = sum(map(len, each.prompts))
            inside = [*growing, *(one for one in found if not one.closed), each]
            rows = sum(one.reserved for one in inside)
            longest = max(_longest(one) for one in inside)
            first = len(inside) == 1
            if not first and rows * longest > self.most_tokens:
                break
            if tokens and tokens + new > self.prefill_tokens:
                break
            tokens += new
            found.append(each)
        return found

    @torch.inference_mode()
    def _begin(self, arrived: Sequence[SharedRows]) -> list[Exception]:
        begin = time.monotonic()
        for each in arrived:
            each.begun = begin
        texts = GrowingTexts(self.model)
        prompts = [ids for each in arrived for ids in each.prompts]
        most = max(each.room for each in arrived)
        try:
            # One model has one start token.
            logits = texts.prefill(prompts, most, arrived[0].start)
            if self._texts is not None:
                most = max([most, *(each.room for each in self._growing if not each.closed)])
                texts = GrowingTexts.joined([self._texts, texts], most)
        except Exception as error:
            if len(arrived) > 1:
                return [failure for each in arrived for failure in self._begin([each])]
            return _told(error, arrived)
        self._texts = texts
        split = torch.split(logits, [len(each.prompts) for each in arrived])
        for each, own in zip(arrived, split, strict=True):
            each.rows = len(each.prompts)
            each.order = list(range(each.rows))
            self._growing.append(each)
            each.replies.put(own)
        return []

    @torch.inference_mode()
    def _grow(self, alive: Sequence[SharedRows]) -> list[Exception]:
        assert self._texts is not None
        order, first = [], 0
        for each in self._growing:
            if not each.closed:
                order += [first + row for row in each.order]
            first += each.rows
        tokens = [each.tokens for each in alive if each.tokens is not None]
        try:
            if order != list(range(first)):
                self._texts.choose(order)
            logits = self._texts.step(torch.cat(tokens))
        except Exception as error:
            self._growing, self._texts = [], None
            return _told(error, alive)
        self._growing = list(alive)
        split = torch.split(logits, [len(each.order) for each in alive])
        for each, own in zip(alive, split, strict=True):
            each.rows = each.reserved = len(each.order)
            each.tokens = None
            each.order = list(range(each.rows))
            each.room -= 1
            each.replies.put(own)
        return []


def _told(error: Exception, several: Sequence[SharedRows]) -> list[Exception]:
    """Tells callers that a pass failed; returns the error if it is nobody's mistake."""
    for each in several:
        each.tokens = None
        each.replies.put(error)
    return [] if isinstance(error, ClozeworksError) else [error]


def _longest(rows: SharedRows) -> int:
    """The most tokens that a row of a caller may have in the end."""
    return max(map(len, rows.prompts)) + rows.room
