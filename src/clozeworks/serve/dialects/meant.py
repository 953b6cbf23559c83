"""Which model is meant where a client names none, and several could do what it asks.

A classifier reads pairs, too, and a reranker's head gives texts a number; but whoever serves a
classifier beside a reranker means each for what it was trained for.
"""

from clozeworks.serve.endpoint import Call
from clozeworks.serve.models import EMBED, FILL, GENERATE, ServedModel

# Compat: what clients send where nobody named a model: infinity's, and huggingface_hub in chats.
_UNNAMED = ("default/not-specified", "dummy")


def named(call: Call, name: str | None) -> str | None:
    """The name of a model, or None if a client sent one because nobody had named a model."""
    if name in _UNNAMED and all(each.name != name for each in call.models):
        return None
    return name


def meant(call: Call, name: str | None, ability: str) -> ServedModel:
    """The model of this name, the only one that was trained for it, or the only one that can.

    Raises:
        UnknownModel: If there is none, or several and none is named.
    """
    if name is None:
        trained = [
            each
            for each in call.models.able(ability)
            if not each.unloadable and is_trained_for(each, ability)
        ]
        if len(trained) == 1:
            return trained[0]
    return call.model(name, ability)


def is_trained_for(served: ServedModel, ability: str) -> bool:
    """Whether a model was trained for something that it can do.

    Without a task it was trained to fill gaps, which makes it good for vectors, or to write.
    """
    model = served.outline
    task = None if model is None else model.task
    if task is not None:
        return task.item_type.command == ability
    return ability in (FILL, GENERATE) or (ability == EMBED and GENERATE not in served.abilities)
