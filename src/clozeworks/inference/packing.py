"""From encoded texts to what a model takes: packed token ids and their layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor

from clozeworks.arrays import Int64Array
from clozeworks.core.context import Trace
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model, hidden_states_at
from clozeworks.errors import CheckpointError
from clozeworks.text.tokenizer.encoding import Encoded
from clozeworks.text.valid import location_of


@dataclass(frozen=True)
class Packed:
    """The texts of a batch one after the other, without padding."""

    ids: Tensor
    types: Tensor
    layout: Layout

    def hidden_states(self, model: Model, trace: Trace | None = None) -> Tensor:
        """The model's hidden states of all tokens as heads read them, (N, W)."""
        hidden_states: Tensor = model(self.ids, self.layout, self.types, trace)
        return hidden_states

    def encoded(self, model: Model, trace: Trace | None = None) -> Tensor:
        """The encoder's hidden states of all tokens, (N, W)."""
        return model.encode(self.ids, self.layout, self.types, trace)

    def to_pool(self, model: Model, *, only_first: bool) -> tuple[Tensor, Layout]:
        """The encoder's hidden states and their layout: of all tokens, or of first ones alone."""
        if only_first and model.computes_some:
            return model.first_tokens(self.ids, self.layout, self.types), Layout(
                [1] * len(self.layout)
            )
        return self.encoded(model), self.layout

    def positions(self, of_texts: Sequence[Int64Array]) -> Tensor:
        """Positions in each text as positions in the batch, (n,)."""
        shifted = [own + start for own, start in zip(of_texts, self.layout.starts, strict=True)]
        return torch.from_numpy(np.concatenate(shifted)).to(self.ids.device)

    def vocabulary_logits(self, model: Model, positions: Tensor) -> Tensor:
        """Logits over the vocabulary at some positions, which are in ascending order, (n, V)."""
        hidden_states = hidden_states_at(model, self.ids, self.layout, self.types, positions)
        logits: Tensor = model.heads["vocabulary"](hidden_states)
        return logits


def pack(encoded: Sequence[Encoded], device: torch.device) -> Packed:
    """Puts texts one after the other, in the order given."""
    layout = Layout([len(text) for text in encoded])
    ids = torch.tensor(list(chain.from_iterable(text.ids for text in encoded)), dtype=torch.long)
    types = torch.tensor(
        list(chain.from_iterable(text.types for text in encoded)), dtype=torch.long
    )
    return Packed(ids.to(device), types.to(device), layout)


def check_finite(
    model: Model,
    rows: Tensor,
    texts: Sequence[int],
    what: str,
    source_locations: Sequence[str] | None = None,
) -> None:
    """Checks that results hold no NaN and no infinity, and names the damaged weights if they do.

    Args:
        model: The model that computed them.
        rows: The results, (n, W).
        texts: The index of the text that each row belongs to.
        what: What a row is, for the message.
        source_locations: Where each text came from, for the message.

    Raises:
        CheckpointError: If a number is not finite.
    """
    finite = rows.isfinite().all(dim=1)
    if finite.all():
        return
    first = min(text for text, whole in zip(texts, finite.tolist(), strict=True) if not whole)
    where = f"{what} of {location_of(first, source_locations)} is not finite"
    damaged = [name for name, weight in model.named_parameters() if not weight.isfinite().all()]
    if damaged:
        more = f" and {len(damaged) - 3:,} more" if len(damaged) > 3 else ""
        raise CheckpointError(
            f"{where}; the model's weights are damaged: there is NaN or infinity in "
            f"{', '.join(damaged[:3])}{more}; restore the model folder."
        )
    kind = str(next(model.parameters()).dtype).removeprefix("torch.")
    raise CheckpointError(
        f"{where}; the model's weights are finite, but an activation overflowed {kind}; load the "
        f"model with a wider dtype."
    )
