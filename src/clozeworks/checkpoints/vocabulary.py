"""A checkpoint for a tokenizer that has grown: a row for every new piece.

Paper: Gee et al. 2022 (fast vocabulary transfer).
The idea: a new piece begins as the mean of the pieces it stood for, wherever the model has a value
per entry of the vocabulary: the table of token vectors, a decoder of its own, the output bias.
"""

import dataclasses

import torch
from torch import Tensor

from clozeworks.checkpoints.folder import Checkpoint
from clozeworks.families.family import vocabulary_size
from clozeworks.text.training.extend import Extension


def extended(checkpoint: Checkpoint, extension: Extension) -> Checkpoint:
    """The same checkpoint for a grown vocabulary; what it knew of old pieces is unchanged.

    Rows that had no token before, as tables rounded up to a multiple have them, are used first.

    Args:
        checkpoint: A checkpoint with the tokenizer that was extended. It is left as it is.
        extension: What the tokenizer became.
    """
    model = checkpoint.model
    blueprint = model.blueprint
    rows = blueprint.embeddings.tokens
    first = extension.tokenizer.size - len(extension.pieces)
    assert first <= rows, "the extension belongs to another tokenizer"
    # Which parameters have a value per entry is asked of the blueprint, not of their names.
    other = vocabulary_size(blueprint, rows + 1).build("meta").state_dict()
    grown = vocabulary_size(blueprint, max(rows, extension.tokenizer.size)).build("meta")
    tied = model.tied()
    state: dict[str, Tensor] = {}
    for name, values in model.state_dict().items():
        if name not in tied:
            per_entry = other[name].shape != values.shape
            state[name] = _with_rows(values, first, extension.replaced) if per_entry else values
    trained = {name: value.requires_grad for name, value in model.named_parameters()}
    grown.load_state_dict(state, strict=False, assign=True)
    grown.tie()
    for name, value in grown.named_parameters():
        value.requires_grad_(trained[name])
    return dataclasses.replace(
        checkpoint, model=grown.train(model.training), tokenizer=extension.tokenizer
    )


def _with_rows(values: Tensor, first: int, replaced: list[list[int]]) -> Tensor:
    """Values of old entries, then the mean of those that each new one replaces.

    Shapes: (V, ...) to (V + n, ...), or (V, ...) where V has room for the n new ones.
    """
    means = [values[ids].float().mean(dim=0) for ids in replaced]
    new = torch.stack(means).to(values.dtype)
    return torch.cat([values[:first], new, values[first + len(new) :]])
