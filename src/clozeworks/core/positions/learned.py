"""Learned absolute positions.

Paper: Gehring et al. 2017; Devlin et al. 2019 use them in BERT.
The idea: one trained vector per position, looked up by the token's position in its own text.
Where paper and code differ: fairseq (RoBERTa) numbers positions from 2, because rows 0 and 1 of its
table belong to unused and padding positions; a table of 514 rows therefore takes 512 tokens.
Used by: BERT, RoBERTa and their relatives, DistilBERT, GPT.

Shapes: N tokens, W width.
"""

from typing import ClassVar

from torch import Tensor, nn

from clozeworks.core.layout import Layout
from clozeworks.core.positions import InputPositionSpec
from clozeworks.errors import InputError
from clozeworks.spec import spec


@spec
class Learned(InputPositionSpec):
    """A table with one vector per position."""

    paper: ClassVar[str] = "Gehring et al. 2017"

    count: int
    """Rows of the table."""
    offset: int = 0
    """The row of a text's first token."""

    def max_length(self) -> int:
        """The longest text the table can number."""
        return self.count - self.offset

    def build(self, width: int) -> "LearnedModule":
        """Makes the module."""
        return LearnedModule(width, self.count, self.offset)


class LearnedModule(nn.Module):
    """Looks up one vector per position."""

    def __init__(self, width: int, count: int, offset: int) -> None:
        super().__init__()
        self.table = nn.Embedding(count, width)
        self.offset = offset

    def forward(self, layout: Layout) -> Tensor:
        """One vector per token, (N, W)."""
        max_length = self.table.num_embeddings - self.offset
        longest = max(layout.ends, default=0)
        if longest > max_length:
            where = layout.ends.index(longest) + 1
            raise InputError(
                f"text {where} has {longest:,} tokens; this model takes at most {max_length:,}; "
                f"cut the text, or ask for truncation."
            )
        positions: Tensor = self.table(layout.positions(self.table.weight.device) + self.offset)
        return positions
