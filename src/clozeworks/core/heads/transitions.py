"""What it is worth that one label follows another: the learned part of a linear-chain CRF.

Paper: Lafferty, McCallum & Pereira 2001; Lample et al. 2016 (over a neural tagger).
The idea: beside the logits of each word, every first label, every move and every last label has a
score of its own. It reads no tokens; `core/ops/crf.py` adds it to the logits of another head.
Where paper and code differ: first values are 0, not random, so that a tagger with this head begins
as the same tagger without it.
Trap: the names end in `bias` because that is what they are to the rest of the model: added whatever
the text is. First weights are 0 and weight decay spares them.
Used by: tagging with a CRF.

Shapes: N words of all sequences, B sequences, K labels.
"""

from typing import ClassVar

import torch
from torch import Tensor, nn

from clozeworks.core.heads import HeadSpec
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.core.ops.crf import MoveTensors, log_likelihoods
from clozeworks.spec import spec


@spec
class Transitions(HeadSpec):
    """A score for each first label, each move and each last label."""

    paper: ClassVar[str] = "Lafferty et al. 2001"

    count: int
    """The labels."""

    def build(self, width: int, embeddings: Embeddings) -> "TransitionsModule":
        """Makes the module; it has the same size whatever the width."""
        return TransitionsModule(self.count)


class TransitionsModule(nn.Module):
    """Scores of moves, all 0 at first."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.start_bias = nn.Parameter(torch.zeros(count))
        self.move_bias = nn.Parameter(torch.zeros(count, count))
        self.end_bias = nn.Parameter(torch.zeros(count))

    def moves(self, allowed: MoveTensors | None = None) -> MoveTensors:
        """The scores, with moves that are not allowed made impossible."""
        learned = MoveTensors(self.start_bias, self.move_bias, self.end_bias)
        return learned if allowed is None else learned.forbid(allowed)

    def forward(
        self, logits: Tensor, labels: Tensor, layout: Layout, allowed: MoveTensors | None = None
    ) -> Tensor:
        """The sum over sequences of log p(right labels), in float32 or wider.

        It takes another head's logits of each word, (N, K), the right labels, (N,), and what a tag
        scheme allows, as masks; these labels must be allowed themselves.
        """
        return log_likelihoods(logits, labels, layout, self.moves(allowed)).sum()
