"""Where an answer begins, where it ends given its beginning, and whether there is one.

Paper: Yang et al. 2019 (XLNet on SQuAD 2.0).
The idea: an end that knows the beginning is surer than one of two independent pointers. In training
the right beginning is given; afterwards the best few are tried, each with ends of its own. Whether
there is an answer is read from the last token beside the mean of all tokens, each weighted by its
probability to be the first of the answer.
Where paper and code differ: Hugging Face calls probabilities logarithms and adds them up; here, as
in the released code, logarithms are added.
Used by: XLNet's question answering with a beam.

Shapes: N tokens, T tokens of a text that may be in an answer, S beginnings, B texts, W width.
"""

from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from clozeworks.core.heads import Head, HeadSpec
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.norm import NormSpec
from clozeworks.core.layout import Layout
from clozeworks.core.ops.segments import text_normalizers
from clozeworks.spec import spec


@spec
class AnswerBeam(HeadSpec):
    """A logit of every token to begin an answer, to end it after each of the best beginnings."""

    paper: ClassVar[str] = "Yang et al. 2019"

    norm: NormSpec
    starts: int = 5
    """How many beginnings are tried."""
    dropout: float = 0.0

    def build(self, width: int, embeddings: Embeddings) -> "AnswerBeamModule":
        """Makes the module."""
        return AnswerBeamModule(width, self.norm.build(width), self.starts, self.dropout)


class AnswerBeamModule(Head):
    """Three small networks: of beginnings, of ends, and of texts without an answer."""

    def __init__(self, width: int, norm: nn.Module, starts: int, dropout: float) -> None:
        super().__init__()
        self.starts = starts
        self.dropout = Dropout(dropout)
        self.start = nn.Linear(width, 1)
        self.end_dense = nn.Linear(2 * width, width)
        self.end_norm = norm
        self.end = nn.Linear(width, 1)
        self.none_dense = nn.Linear(2 * width, width)
        self.none = nn.Linear(width, 1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Tokens (n, W) to their logits to begin an answer, (n, 1)."""
        logits: Tensor = self.start(x)
        return logits

    def end_logits(self, x: Tensor, start: Tensor) -> Tensor:
        """Tokens (…, W) and beginnings (…, W) to logits of ends, (…)."""
        hidden = self.end_norm(torch.tanh(self.end_dense(torch.cat([x, start], dim=-1))))
        logits: Tensor = self.end(hidden).squeeze(-1)
        return logits

    def none_logits(self, start: Tensor, last: Tensor) -> Tensor:
        """Vectors of beginnings (…, W) and of last tokens (…, W) to logits of no answer, (…)."""
        hidden = torch.tanh(self.none_dense(torch.cat([start, last], dim=-1)))
        logits: Tensor = self.none(hidden).squeeze(-1)
        return logits

    def logits(
        self, hidden_states: Tensor, layout: Layout, positions: Tensor | None = None
    ) -> Tensor:
        """Logits of all tokens, or of those at some positions only, which alone may be in answers.

        Returns:
            For each of them (n, S + 2): its logit to begin an answer; its logit to end the answer
            that begins at each of the S tokens with the highest first ones (a text with fewer
            repeats the last of them); the logit that its text holds no answer.
        """
        x = self.dropout(hidden_states)
        rows = layout.rows(x.device)
        if positions is not None:
            rows = rows[positions]
        able = torch.bincount(rows, minlength=len(layout)).tolist()
        tokens = (x if positions is None else x[positions]).split(able)
        last = x[layout.last(x.device)]
        return torch.cat(list(map(self._logits, tokens, last)))

    def _logits(self, x: Tensor, last: Tensor) -> Tensor:
        """The same of one text, from the tokens that may be in answers, (T, W), and its last."""
        if not len(x):
            return x.new_zeros(0, self.starts + 2)
        start = self(x)  # (T, 1)
        order = start[:, 0].argsort(descending=True, stable=True)
        best = order[torch.arange(self.starts, device=x.device).clamp(max=len(x) - 1)]
        ends = self.end_logits(
            x[:, None].expand(-1, len(best), -1), x[best].expand(len(x), -1, -1)
        )  # (T, S)
        none = self.none_logits((start.softmax(dim=0) * x).sum(dim=0), last)
        return torch.cat([start, ends, none.expand(len(x), 1)], dim=1)

    def losses(self, hidden_states: Tensor, layout: Layout, ends: Tensor) -> tuple[Tensor, Tensor]:
        """What the first and last tokens of answers cost, and which texts were answered right.

        Args:
            hidden_states: All tokens, (N, W).
            layout: Where texts begin and end.
            ends: The first and the last token of each answer, counted from the first of its text,
                (B, 2); twice 0 without an answer, which stands at the last token then.

        Returns:
            -log p(first) / 2 - log p(last) / 2 - log p(answer or none) / 2 of each text, (B,), and
            whether first and last are the likeliest, (B,).
        """
        x = self.dropout(hidden_states)
        rows, missing = layout.rows(x.device), (ends == 0).all(dim=1)
        right = torch.where(missing[:, None], layout.last(x.device)[:, None], _at(layout, ends))
        start = x[right[:, 0]]  # (B, W)
        logits = torch.cat([self(x), self.end_logits(x, start[rows])[:, None]], dim=1)  # (N, 2)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        chosen = logits.gather(0, right)  # (B, 2)
        none = self.none_logits(start, x[layout.last(x.device)])
        doubt = F.binary_cross_entropy_with_logits(
            none.to(logits.dtype), missing.to(logits.dtype), reduction="none"
        )
        highest = torch.segment_reduce(
            logits.detach(), "max", lengths=layout.sizes(x.device), axis=0
        )
        pointers = (text_normalizers(logits, layout) - chosen).sum(dim=1)
        return (pointers + doubt) / 2, (chosen.detach() >= highest).all(dim=1)


def _at(layout: Layout, positions: Tensor) -> Tensor:
    """Positions in texts, (B, n), as positions in the batch."""
    return layout.first(positions.device)[:, None] + positions
