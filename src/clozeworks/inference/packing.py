"""From tokens to what a model takes: packed numbers and their layout."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import torch
from torch import Tensor

from clozeworks.core.context import Trace
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model, hidden_states_at
from clozeworks.errors import CheckpointError
from clozeworks.text.tokenizer.encoding import Encoded
from clozeworks.text.valid import place_of


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

    def word_scores(self, model: Model, asked: Tensor) -> Tensor:
        """Scores of every entry of the vocabulary at some places in ascending order, (n, V)."""
        vectors = hidden_states_at(model, self.ids, self.layout, self.types, asked)
        scores: Tensor = model.heads["vocabulary"](vectors)
        return scores


def pack(encoded: Sequence[Encoded], device: torch.device) -> Packed:
    """Puts texts one after the other in the order given."""
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
    places: Sequence[str] | None = None,
) -> None:
    """Insists on results without NaN and infinity; else names the weights that are to blame.

    Args:
        model: The model that gave them.
        rows: The results, (n, W).
        texts: The number of the text each row belongs to.
        what: What a row is, for the message.
        places: Where each text came from.

    Raises:
        CheckpointError: A number is not finite.
    """
    finite = rows.isfinite().all(dim=1)
    if finite.all():
        return
    first = min(text for text, whole in zip(texts, finite.tolist(), strict=True) if not whole)
    where = f"{what} of {place_of(first, places)} is not finite"
    damaged = [name for name, weight in model.named_parameters() if not weight.isfinite().all()]
    if damaged:
        more = f" and {len(damaged) - 3:,} more" if len(damaged) > 3 else ""
        raise CheckpointError(
            f"{where}; the model's weights are damaged, NaN or infinity stands in "
            f"{', '.join(damaged[:3])}{more}; restore the model folder."
        )
    kind = str(next(model.parameters()).dtype).removeprefix("torch.")
    raise CheckpointError(
        f"{where}; the model's weights are, but on the way a number grew too large for {kind}; "
        f"load the model with a wider dtype."
    )
