"""Sums, normalisers and softmax within each text of a packed batch.

Shapes: N tokens, B texts, C columns.
"""

import torch
from torch import Tensor

from clozeworks.core.layout import Layout


def text_sums(x: Tensor, layout: Layout) -> Tensor:
    """The sum over the tokens of each text: (N, C) to (B, C)."""
    total: Tensor = torch.segment_reduce(x, "sum", lengths=layout.sizes(x.device), axis=0)
    return total


def text_normalizers(x: Tensor, layout: Layout) -> Tensor:
    """The logarithm of the sum of exponentials over the tokens of each text: (N, C) to (B, C)."""
    with torch.no_grad():
        highest = torch.segment_reduce(x, "max", lengths=layout.sizes(x.device), axis=0)
    shifted = (x - highest[layout.rows(x.device)]).exp()
    return text_sums(shifted, layout).log() + highest


def text_softmax(x: Tensor, layout: Layout) -> Tensor:
    """Softmax over the tokens of each text: (N, C) to (N, C)."""
    return (x - text_normalizers(x, layout)[layout.rows(x.device)]).exp()
