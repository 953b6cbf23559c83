"""What is done to the logit of a cross-encoder, as sentence-transformers says it in `config.json`.

Since version 4 it stands in `sentence_transformers.activation_fn`, before it stood in
`sbert_ce_default_activation_function`: the name of a class of torch.
"""

from collections.abc import Mapping
from typing import Any, Literal

from clozeworks.errors import CheckpointError

CrossEncoderActivation = Literal["sigmoid", "identity", "tanh"]
NEWER, OLDER = "sentence_transformers", "sbert_ce_default_activation_function"
ACTIVATION = "activation_fn"
_CLASSES: dict[CrossEncoderActivation, str] = {
    "sigmoid": "torch.nn.modules.activation.Sigmoid",
    "identity": "torch.nn.modules.linear.Identity",
    "tanh": "torch.nn.modules.activation.Tanh",
}


def states_activation(config: Mapping[str, Any]) -> bool:
    """Whether a config is that of a cross-encoder."""
    newer = config.get(NEWER)
    return OLDER in config or (isinstance(newer, Mapping) and ACTIVATION in newer)


def stated_activation(config: Mapping[str, Any], folder: str) -> CrossEncoderActivation | None:
    """The activation that a config states; None if it states none.

    Raises:
        CheckpointError: If it is not known here.
    """
    newer = config.get(NEWER)
    stated = newer.get(ACTIVATION) if isinstance(newer, Mapping) else None
    stated = config.get(OLDER) if stated is None else stated
    if stated is None:
        return None
    name = str(stated).rsplit(".", 1)[-1].lower()
    for known in _CLASSES:
        if name == known:
            return known
    raise CheckpointError(
        f"{folder}: the activation of the scores is {str(stated)!r}; known: "
        f"{', '.join(_CLASSES.values())}; correct {NEWER}.{ACTIVATION} in config.json."
    )


def published_activation(activation: CrossEncoderActivation) -> dict[str, Any]:
    """An activation as published configs state it."""
    return {NEWER: {ACTIVATION: _CLASSES[activation]}}
