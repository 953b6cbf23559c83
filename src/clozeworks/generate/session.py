"""The logits of the next token, for texts that grow.

The idea: the first pass reads all prompts packed, whatever their lengths; from then on every text
brings one token a pass, and a cache holds the rest. An encoder-decoder reads the prompts once and
answers them from a start token on.

Shapes: B prompts, n rows (texts that grow), V vocabulary.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

import torch
from torch import Tensor

from clozeworks.core.attention.kv_cache import GrowingCache
from clozeworks.core.context import AttentionSource
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.core.ops.packed_weights import packed

# Below so many tokens the weights are not read often enough to lay them out anew.
_WORTH_PACKING = 16


class DecoderRows(Protocol):
    """Texts that grow in a model, alone or beside those of other callers."""

    def prefill(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, start: int | None
    ) -> Tensor:
        """The logits after the prompts, (B, V); `start` begins the texts of an encoder-decoder."""

    def step(self, tokens: Tensor) -> Tensor:
        """The logits after one more token of every row, (n,) to (n, V)."""

    def reorder(self, rows: Sequence[int]) -> None:
        """Goes on with these rows, in this order; one may be there several times."""

    def reorder_prompts(self, prompts: Sequence[int]) -> None:
        """Goes on with these prompts alone, in this order."""

    def close(self) -> None:
        """Gives up what is kept."""


class GrowingTexts:
    """Texts that grow in a model: what it keeps of their tokens.

    Args:
        model: A model that can generate.
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self._encoded: AttentionSource | None = None
        self._cache = GrowingCache(0)

    @property
    def device(self) -> torch.device:
        """Where the model computes."""
        return self.model.embeddings.tokens.weight.device

    def prefill(
        self, prompts: Sequence[Sequence[int]], max_new_tokens: int, start: int | None
    ) -> Tensor:
        """The logits after the prompts, (B, V); `start` begins the texts of an encoder-decoder."""
        texts = prompts
        if self.model.decoder is not None:
            layout = Layout([len(text) for text in texts])
            self._encoded = AttentionSource(self.model(self._packed(texts), layout), layout)
            assert start is not None, "an answer begins with a start token"
            texts = [[start] for _ in texts]
        layout = Layout([len(text) for text in texts])
        self._cache = GrowingCache(layout.longest + max_new_tokens)
        hidden_states = self._pass(self._packed(texts), layout)
        return self._logits(hidden_states[layout.last(hidden_states.device)])

    def step(self, tokens: Tensor) -> Tensor:
        """The logits after one more token of every row, (n,) to (n, V)."""
        return self._logits(self._pass(tokens, self._cache.following()))

    def reorder(self, rows: Sequence[int]) -> None:
        """Goes on with these rows, in this order; one may be there several times."""
        self._cache.choose(rows)

    def reorder_prompts(self, prompts: Sequence[int]) -> None:
        """Goes on with these prompts alone, in this order."""
        self._cache.choose_sources(prompts)

    def close(self) -> None:
        """Gives up what is kept."""
        self._encoded, self._cache = None, GrowingCache(0)

    @classmethod
    def joined(cls, several: "Sequence[GrowingTexts]", max_new_tokens: int) -> "GrowingTexts":
        """The rows of several, in their order, as those of one; several are used up.

        A row has its prompt to itself from now on: `reorder` is enough for both.
        """
        whole = cls(several[0].model)
        whole._encoded = several[0]._encoded  # what attentions need of it they have kept
        whole._cache = GrowingCache.joined([each._cache for each in several], max_new_tokens)
        return whole

    def choose(self, rows: Sequence[int]) -> None:
        """Goes on with these rows and their prompts, where each row has one to itself."""
        self._cache.choose(rows)
        self._cache.choose_sources(rows)

    def _packed(self, texts: Sequence[Sequence[int]]) -> Tensor:
        return torch.tensor([token for text in texts for token in text], device=self.device)

    def _pass(self, ids: Tensor, layout: Layout) -> Tensor:
        if self._encoded is None:
            return self.model(ids, layout, cache=self._cache)  # type: ignore[no-any-return]
        return self.model.decode(ids, layout, self._encoded, cache=self._cache)

    def _logits(self, hidden_states: Tensor) -> Tensor:
        logits: Tensor = self.model.vocabulary(hidden_states)
        return logits.to(torch.promote_types(logits.dtype, torch.float32))


def _alone(model: Model, max_new_tokens: int, width: int) -> DecoderRows:
    return GrowingTexts(packed(model) if max_new_tokens >= _WORTH_PACKING else model)


# From a model, the maximum number of new tokens and of rows of a prompt to where texts grow.
_Opener = Callable[[Model, int, int], DecoderRows]
_opener: ContextVar[_Opener] = ContextVar("opener", default=_alone)


@contextmanager
def growing_in(opener: _Opener) -> Iterator[None]:
    """Within the block, in this thread, sessions keep their texts where `opener` says.

    Args:
        opener: From a model, the maximum number of new tokens and that of rows of a prompt to where
            texts grow.
    """
    token = _opener.set(opener)
    try:
        yield
    finally:
        _opener.reset(token)


class DecoderSession:
    """The logits of the next token, row by row.

    Args:
        model: A model that can generate.
        prompts: Token ids, at least one each.
        max_new_tokens: The maximum number of tokens that are added to each.
        start: The decoder start token of an encoder-decoder.
        width: The maximum number of rows that a prompt will have.
    """

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        start: int | None,
        width: int = 1,
    ):
        self.model = model
        self.max_new_tokens = max_new_tokens
        self._prompts = [list(prompt) for prompt in prompts]
        self._start = start
        self._texts = _opener.get()(model, max_new_tokens, width)

    def prefill(self) -> Tensor:
        """The logits after the prompts, (B, V)."""
        return self._texts.prefill(self._prompts, self.max_new_tokens, self._start)

    def step(self, tokens: Tensor) -> Tensor:
        """The logits after one more token of every row, (n,) to (n, V)."""
        return self._texts.step(tokens)

    def reorder(self, rows: Sequence[int]) -> None:
        """Goes on with these rows, in this order; one may be there several times."""
        self._texts.reorder(rows)

    def reorder_prompts(self, prompts: Sequence[int]) -> None:
        """Goes on with these prompts alone, in this order."""
        self._texts.reorder_prompts(prompts)

    def close(self) -> None:
        """Gives up what is kept; the texts have ended, or nobody wants them any longer."""
        self._texts.close()
