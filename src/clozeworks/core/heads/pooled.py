"""One vector per text from its first or last token, and classes read from it.

Paper: Devlin et al. 2019 (tanh pooler, trained by next-sentence prediction), Liu et al. 2019
(RoBERTa's classifier has a dense tanh layer of its own), Sanh et al. 2019 (ReLU), Yang et al. 2019
(XLNet's special token stands last); Radford et al. 2018 (GPT: no token sees a later one, so the
last token alone has read the whole text); Gao et al. 2021 (SimCSE: dense and tanh before the loss).
Trap: the pooler's output is made for classification; it is a poor sentence vector.
Used by: classifiers of every family; BERT's next-sentence and ALBERT's sentence-order head; the
contrastive objective while it trains.

Shapes: N tokens, B texts, W width, C classes.
"""

from typing import ClassVar, Literal

from torch import Tensor, nn

from clozeworks.core.heads import Head, HeadSpec
from clozeworks.core.heads.tokens import ClassesModule
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.spec import spec


@spec
class Pooler:
    """activation(dense(first or last token))."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    activation: str = "tanh"
    dropout: float = 0.0
    """Dropped before the dense layer (RoBERTa)."""
    token: Literal["first", "last"] = "first"
    """Which token speaks for its text."""

    def build(self, width: int) -> "PoolerModule":
        """Makes the module."""
        return PoolerModule(width, self.activation, self.dropout, self.token)


class PoolerModule(nn.Module):
    """A dense layer and an activation."""

    def __init__(self, width: int, activation: str, dropout: float, token: str = "first") -> None:
        super().__init__()
        self.dropout = Dropout(dropout)
        self.dense = nn.Linear(width, width)
        self.activation = activation_named(activation)
        self.reads_first = token == "first"
        self._positions = {"first": Layout.first, "last": Layout.last}[token]

    def pool(self, hidden_states: Tensor, layout: Layout) -> Tensor:
        """All tokens (N, W) to a vector of each text (B, W)."""
        pooled: Tensor = self(hidden_states[self._positions(layout, hidden_states.device)])
        return pooled

    def forward(self, x: Tensor) -> Tensor:
        """One token of each text (B, W) to pooled vectors (B, W)."""
        return self.activation(self.dense(self.dropout(x)))


@spec
class PooledClasses(HeadSpec):
    """A logit per class for a whole text."""

    paper: ClassVar[str] = "Devlin et al. 2019"
    reads_pooler: ClassVar[bool] = True

    count: int
    dropout: float = 0.0

    def build(self, width: int, embeddings: Embeddings) -> "PooledClassesModule":
        """Makes the module: pooled vectors (B, W) to logits (B, C)."""
        return PooledClassesModule(width, self.count, self.dropout)


class PooledClassesModule(ClassesModule):
    """Classes of the vectors that the model's pooler makes."""

    @property
    def reads_first(self) -> bool:
        """If the pooler does."""
        return self._pooler[0].reads_first

    def attach(self, pooler: nn.Module | None) -> None:
        """Takes the model's pooler."""
        assert isinstance(pooler, PoolerModule), "a blueprint's check insists on a pooler"
        # Trap: as a plain attribute it would be a child, and its weights would have a second name.
        self._pooler = (pooler,)

    def read(
        self, hidden_states: Tensor, layout: Layout, positions: Tensor | None = None
    ) -> Tensor:
        """The pooler's vector of each text, (B, W)."""
        return self._pooler[0].pool(hidden_states, layout)


@spec
class Projection(HeadSpec):
    """activation(dense(vector)), freshly made, between a text's vector and the loss.

    The loss distorts the space it is computed in; a layer that is thrown away afterwards takes that
    on, and the tower's own vector stays good for other uses.
    """

    paper: ClassVar[str] = "Gao et al. 2021"

    activation: str = "tanh"

    def build(self, width: int, embeddings: Embeddings) -> PoolerModule:
        """Makes the module: vectors of texts (B, W) to vectors (B, W)."""
        return PoolerModule(width, self.activation, 0.0)


@spec
class LastTokenClasses(HeadSpec):
    """project(last token)."""

    paper: ClassVar[str] = "Radford et al. 2018"
    has_bias: ClassVar[bool] = False

    count: int

    def build(self, width: int, embeddings: Embeddings) -> "LastTokenClassesModule":
        """Makes the module."""
        return LastTokenClassesModule(width, self.count)


class LastTokenClassesModule(Head):
    """One projection, without a bias."""

    def __init__(self, width: int, count: int) -> None:
        super().__init__()
        self.project = nn.Linear(width, count, bias=False)

    def read(
        self, hidden_states: Tensor, layout: Layout, positions: Tensor | None = None
    ) -> Tensor:
        """The last token of each text, (B, W)."""
        return hidden_states[layout.last(hidden_states.device)]

    def forward(self, x: Tensor) -> Tensor:
        """Last tokens (B, W) to logits (B, C)."""
        logits: Tensor = self.project(x)
        return logits


@spec
class LastTokenScore(HeadSpec):
    """project(dropout(last token)): one logit for a text, by which it is chosen among others."""

    paper: ClassVar[str] = "Radford et al. 2018"

    dropout: float = 0.0

    def build(self, width: int, embeddings: Embeddings) -> "LastTokenScoreModule":
        """Makes the module: last tokens (B, W) to logits (B, 1)."""
        return LastTokenScoreModule(width, 1, self.dropout)


class LastTokenScoreModule(ClassesModule):
    """Dropout and one projection of the last token."""

    def read(
        self, hidden_states: Tensor, layout: Layout, positions: Tensor | None = None
    ) -> Tensor:
        """The last token of each text, (B, W)."""
        return hidden_states[layout.last(hidden_states.device)]
