"""What the layers of one forward pass share: the layout, and what was asked to be kept."""

from dataclasses import dataclass, field

from torch import Tensor

from clozeworks.core.layout import Layout


@dataclass
class Trace:
    """Keeps what happens inside a forward pass, for those who want to look.

    `hidden` holds the embeddings and then the output of every layer, each (N, W). `attention`
    holds, per attention in running order, one (heads, queries, keys) tensor per text; None leaves
    them out, which saves computing them.
    """

    hidden: list[Tensor] = field(default_factory=list)
    attention: list[list[Tensor]] | None = field(default_factory=list)


@dataclass
class Flow:
    """Handed to every part of every layer."""

    layout: Layout
    trace: Trace | None = None

    def keep_hidden(self, x: Tensor) -> None:
        """Notes the tokens as they are between two layers."""
        if self.trace is not None:
            self.trace.hidden.append(x)

    def attention_weights(self) -> list[Tensor] | None:
        """A fresh list for the next attention to fill, if weights are wanted."""
        if self.trace is None or self.trace.attention is None:
            return None
        self.trace.attention.append([])
        return self.trace.attention[-1]
