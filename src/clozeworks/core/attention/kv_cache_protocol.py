"""What earlier passes over the same texts left, for attention to look at.

The idea: what an attention computed for a token never changes when more tokens follow it, so it can
be kept. Which tokens follow, and of which texts, is the business of those that keep it.
Used by: `cache.py`, texts that grow token by token; `branches.py`, texts that begin alike.

Shapes: N tokens, M tokens that are looked at, H query heads, K key heads, D head width.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable
from typing import Any

from torch import Tensor

from clozeworks.core.layout import Layout


class KVCache(ABC):
    """Keys and values of earlier passes, handed to every attention of a tower by its flow."""

    @abstractmethod
    def begin(self, layout: Layout) -> None:
        """Before a pass over more tokens."""

    @abstractmethod
    def end(self, layout: Layout) -> None:
        """Behind a pass: its tokens are now among those before."""

    @abstractmethod
    def attend(
        self, q: Tensor, k: Tensor, v: Tensor, *, queries: Layout, keys: Layout, **rest: Any
    ) -> Tensor:
        """`core.attend.attend`, where keys and values of earlier passes are looked at, too."""

    @abstractmethod
    def attend_source(
        self,
        attention: Hashable,
        q: Tensor,
        project: Callable[[], tuple[Tensor, Tensor]],
        *,
        queries: Layout,
        keys: Layout,
        scale: float | None = None,
    ) -> Tensor:
        """Looks at what an encoder made, whose keys and values are projected once.

        Args:
            attention: Who asks.
            q: Packed queries, (N, H, D).
            project: Makes packed keys and values, (M, K, D).
            queries: Where the texts of q begin and end.
            keys: The same for keys and values.
            scale: What scores are multiplied by; 1 / sqrt(D) if not given.
        """
