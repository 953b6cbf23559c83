"""What is asked of the tokens a tower returns. One file per kind of head.

A head says what it reads: `tokens` (packed hidden states, or those of asked positions),
`tokens_and_first` (the same, each beside the first one of its text), `pooled` (one vector per text
from the model's pooler), `texts` (all tokens and where texts begin and end) or `given` (what the
objective that brings the head hands over, such as both ends of a span).
"""

from typing import ClassVar, Literal

from torch import nn

from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.spec import Slot

Reads = Literal["tokens", "tokens_and_first", "pooled", "texts", "given"]
TOKEN_TABLE = "embeddings.tokens.weight"
POSITION_TABLE = "embeddings.positions.table.weight"


class HeadSpec(Slot):
    """Slot: a head."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.core.heads"
    reads: ClassVar[Reads]

    def build(self, width: int, embeddings: Embeddings) -> nn.Module:
        """Makes the module: (n, W) to (n, outputs)."""
        raise NotImplementedError

    def shared(self) -> dict[str, str]:
        """Parameters it has in common with the body: its own name of each to the model's."""
        return {}
