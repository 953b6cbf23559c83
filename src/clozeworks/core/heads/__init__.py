"""What is asked of the tokens a tower returns. One file per kind of head.

A head says what it reads: `tokens` (packed hidden states, or those of asked positions) or `pooled`
(one vector per text from the model's pooler).
"""

from typing import ClassVar, Literal

from torch import nn

from clozeworks.core.embeddings import Embeddings
from clozeworks.core.spec import Slot


class HeadSpec(Slot):
    """Slot: a head."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.core.heads"
    reads: ClassVar[Literal["tokens", "pooled"]]

    def build(self, width: int, embeddings: Embeddings) -> nn.Module:
        """Makes the module: (n, W) to (n, outputs)."""
        raise NotImplementedError
