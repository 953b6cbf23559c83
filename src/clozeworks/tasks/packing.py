"""From tokens to what a model takes: packed numbers and their layout."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from clozeworks.core.flow import Trace
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model
from clozeworks.text.encoded import Encoded


@dataclass(frozen=True)
class Packed:
    """Texts one after the other."""

    ids: Tensor
    types: Tensor
    layout: Layout

    def hidden(self, model: Model, trace: Trace | None = None) -> Tensor:
        """The model's vectors of all tokens, (N, W)."""
        vectors: Tensor = model(self.ids, self.layout, self.types, trace)
        return vectors


def pack(encoded: Sequence[Encoded], device: torch.device) -> Packed:
    """Puts texts one after the other in the order given."""
    layout = Layout([len(text) for text in encoded])
    ids = torch.tensor(list(chain.from_iterable(text.ids for text in encoded)), dtype=torch.long)
    types = torch.tensor(
        list(chain.from_iterable(text.types for text in encoded)), dtype=torch.long
    )
    return Packed(ids.to(device), types.to(device), layout)


@contextmanager
def evaluating(model: Model) -> Iterator[None]:
    """Without dropout, whatever mode the model is in; the mode comes back afterwards."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def device_of(model: Model) -> torch.device:
    """Where the model's weights are."""
    return next(model.parameters()).device
