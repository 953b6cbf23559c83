"""How probable the right labels of a sequence are, when neighbours matter.

Paper: Lafferty, McCallum & Pereira 2001 (conditional random fields).
The idea: a path of labels scores the sum of what each word says for its label and of what each move
between neighbours is worth; it is compared with all paths at once. The sum over all paths takes one
pass over the words.
Where papers and code differ: papers put no score on the first and the last label; code does.
Trap: only positions that have labels may be given. Gather the first sub-token of each word first.

Shapes: N words of all sequences, B sequences, L the longest, K labels.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from clozeworks.core.layout import Layout

# What a forbidden move is worth. exp of it is 0 in every floating type; infinity would make
# gradients that are no numbers where a label cannot be reached at all.
FORBIDDEN = -10_000.0


class MoveTensors(NamedTuple):
    """A value for each first label, each move (row to column) and each last label."""

    start: Tensor
    """(K,)."""
    move: Tensor
    """(K, K)."""
    end: Tensor
    """(K,)."""

    def forbid(self, allowed: "MoveTensors") -> "MoveTensors":
        """The same scores with what is not allowed (False) made impossible."""
        pairs = zip(self, allowed, strict=True)
        return MoveTensors(*(score.masked_fill(~mask, FORBIDDEN) for score, mask in pairs))


def log_likelihoods(logits: Tensor, labels: Tensor, layout: Layout, moves: MoveTensors) -> Tensor:
    """The log-probability of each sequence's labels, (B,); 0 for one without words.

    It is computed in float32 or wider.

    Args:
        logits: A logit for each word and label, (N, K).
        labels: The right label of each word, (N,).
        layout: Where the sequences begin and end.
        moves: The scores of moves; forbidden ones in place.
    """
    assert logits.shape[0] == labels.shape[0] == layout.total, "the layout is of other words"
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    moves = MoveTensors(*(part.to(logits.dtype) for part in moves))
    return _path_scores(logits, labels, layout, moves) - _all_paths(logits, layout, moves)


def _path_scores(logits: Tensor, labels: Tensor, layout: Layout, moves: MoveTensors) -> Tensor:
    """The score of the right path of each sequence, (B,)."""
    rows = layout.rows(logits.device)  # (N,)
    first = layout.positions(logits.device) == 0
    last = layout.positions(logits.device) == (layout.sizes(logits.device) - 1)[rows]
    previous = labels.roll(1)  # at a first word another sequence's label, which is not used
    steps = torch.where(first, moves.start[labels], moves.move[previous, labels])
    steps = steps + torch.where(last, moves.end[labels], torch.zeros_like(steps))
    steps = steps + logits.gather(1, labels[:, None])[:, 0]
    return steps.new_zeros(len(layout)).index_add(0, rows, steps)


def _all_paths(logits: Tensor, layout: Layout, moves: MoveTensors) -> Tensor:
    """The logarithm of the sum of exp(score) over all paths of each sequence, (B,)."""
    device = logits.device
    rows, positions = layout.rows(device), layout.positions(device)
    padded = logits.new_zeros(layout.longest, len(layout), logits.shape[1])
    padded = padded.index_put((positions, rows), logits)  # (L, B, K)
    sizes = layout.sizes(device)[:, None]  # (B, 1)
    reached = moves.start.expand(len(layout), -1)  # (B, K)
    for word, of_word in enumerate(padded):
        if word > 0:
            onward = torch.logsumexp(reached[:, :, None] + moves.move, dim=1)  # (B, K)
            reached = torch.where(word < sizes, onward + of_word, reached)
        else:
            reached = reached + of_word
    total = torch.logsumexp(reached + moves.end, dim=1)
    return torch.where(sizes[:, 0] > 0, total, torch.zeros_like(total))
