"""What bodies of OpenAI's clients have in common: names of models, texts or token ids, usage."""

import time
from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, StrictInt

from clozeworks.errors import InputError
from clozeworks.serve.dialects.meant import meant, named
from clozeworks.serve.endpoint import Call
from clozeworks.serve.models import ServedModel
from clozeworks.text.tokenizer.tokenizer import Tokenizer

TokenIds = list[StrictInt]
TextsOrIds = str | list[str] | TokenIds | list[TokenIds]
_IDS_ARE_OURS = (
    "token ids were read as ids of {name}'s own vocabulary; ids of another tokenizer mean another "
    "text; send texts to be sure."
)


class OpenAIBody(BaseModel):
    """What every body may hold; fields that are not listed have no effect."""

    model_config = ConfigDict(extra="ignore", protected_namespaces=())

    model: str | None = Field(
        None,
        description="The name of a model; not needed if only one can do it.",
        examples=["my-model"],
    )
    user: str | None = Field(None, description="Has no effect.")


TruncatePromptTokens = Annotated[
    int | None,
    Field(
        ge=-1,
        description="Texts are cut to so many tokens, to the model's length if it is -1; texts that"
        " are too long are refused if it is not given.",
        examples=[-1],
    ),
]


def found(call: Call, name: str | None, ability: str | None = None) -> ServedModel:
    """The model that is meant, by its name or by what it must be able to do."""
    name = named(call, name)
    return call.model(name) if ability is None else meant(call, name, ability)


def several(given: TextsOrIds, field: str) -> Any:
    """One text or several, or the same as token ids, as a list of either.

    Raises:
        InputError: If there is none.
    """
    if isinstance(given, str):
        return [given]
    if not given:
        raise InputError(f"{field} is empty; there must be at least one text; add one.")
    return [given] if isinstance(given[0], int) else given


def check_ids(tokenizer: Tokenizer, several_ids: Sequence[Sequence[int]], field: str) -> None:
    """Checks that token ids may be this tokenizer's.

    Raises:
        InputError: If one is outside of the vocabulary, or a list is empty.
    """
    for number, ids in enumerate(several_ids):
        if not ids:
            raise InputError(f"{field}[{number}] is empty; it must hold a token; add one.")
        wrong = next((each for each in ids if not 0 <= each < tokenizer.size), None)
        if wrong is not None:
            raise InputError(
                f"{field}[{number}] holds the token id {wrong:,}; ids of this model go from 0 to "
                f"{tokenizer.size - 1:,}, so another tokenizer made it; send texts (in langchain: "
                "OpenAIEmbeddings(check_embedding_ctx_length=False))."
            )


def warn_of_ids(call: Call, served: ServedModel) -> None:
    """Tells a client that its token ids are taken as this model's.

    Raises:
        InputError: If the server takes none.
    """
    if not call.limits.get("token_ids", True):
        raise InputError(
            "this server takes no token ids, which could be those of another tokenizer; send texts "
            "(in langchain: OpenAIEmbeddings(check_embedding_ctx_length=False))."
        )
    name = served.name.encode("ascii", "replace").decode()  # as a header holds it
    call.headers["x-warning"] = _IDS_ARE_OURS.format(name=name)


def cut_to(length: int | None) -> dict[str, Any]:
    """The options of methods for `truncate_prompt_tokens`.

    Raises:
        InputError: If nothing would be left.
    """
    if length is None:
        return {}
    if length == 0:
        raise InputError(
            "truncate_prompt_tokens is 0; a text needs a token; write -1 to cut to the model's "
            "length."
        )
    return {"truncate": True} if length < 0 else {"truncate": True, "max_length": length}


def headed(call: Call, kind: str, model: str, prefix: str) -> dict[str, Any]:
    """The fields that begin an answer."""
    return {
        "id": f"{prefix}-{call.id}",
        "object": kind,
        "created": int(time.time()),
        "model": model,
    }


def usage(read: int, written: int = 0) -> dict[str, int]:
    """Tokens that were read and written."""
    return {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written}
