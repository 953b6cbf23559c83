"""Vectors of texts, as OpenAI's clients ask for them."""

from base64 import b64encode
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from clozeworks.errors import InputError
from clozeworks.inference.embed import Vectors
from clozeworks.language_model import LanguageModel
from clozeworks.serve.dialects.openai.bodies import (
    OpenAIBody,
    TextsOrIds,
    TruncatePromptTokens,
    check_ids,
    cut_to,
    found,
    several,
    warn_of_ids,
)
from clozeworks.serve.dialects.openai.errors import OPENAI
from clozeworks.serve.dialects.rerankers import INFINITY
from clozeworks.serve.endpoint import Call, Endpoint
from clozeworks.serve.models import EMBED, ServedModel
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

MOST_INPUTS = 2_048


class EmbeddingsBody(OpenAIBody):
    """Texts to be turned into vectors."""

    input: TextsOrIds = Field(
        description="One text or several; or token ids of the model's own vocabulary.",
        examples=["a text of yours", ["a text of yours", "another"]],
    )
    encoding_format: Literal["float", "base64"] | None = Field(
        None,
        description="float for numbers (if it is not given), base64 for little-endian float32.",
        examples=["base64"],
    )
    dimensions: int | None = Field(
        None,
        ge=1,
        description="The first dimensions alone, scaled to length 1; only widths that the model was"
        " trained for.",
        examples=[256],
    )
    prompt: str | None = Field(
        None, description="The name of a prompt of the model, or a text put before each text."
    )
    truncate_prompt_tokens: TruncatePromptTokens = None


class InfinityEmbeddingsBody(EmbeddingsBody):
    """Texts to be turned into vectors, as the client of infinity asks for them."""

    dimensions: int | None = Field(None, ge=0, description="All dimensions if it is 0.")
    modality: Literal["text"] = "text"


def _embedded(call: Call, body: EmbeddingsBody) -> Any:
    served = found(call, body.model, EMBED)
    texts = _texts(call, served, body.input)
    call.check_characters(len(body.prompt or "") * len(texts), "prompt stands before each text")
    vectors = served.language_model().embed(
        texts,
        prompt=body.prompt,
        source_locations=[f"input[{number}]" for number in range(len(texts))],
        **_narrowed(served, body.dimensions or None),
        **cut_to(body.truncate_prompt_tokens),
    )
    as_text = body.encoding_format == "base64"
    return {
        "object": "list",
        "data": [
            {
                "object": "embedding",
                "index": number,
                "embedding": _base64(vector) if as_text else vector,
            }
            for number, vector in enumerate(vectors)
        ],
        "model": served.name,
        "usage": {"prompt_tokens": call.work.tokens, "total_tokens": call.work.tokens},
    }


def _base64(vector: Vectors) -> str:
    return b64encode(vector.astype("<f4").tobytes()).decode("ascii")


def _texts(call: Call, served: ServedModel, given: TextsOrIds) -> list[str]:
    """The texts that are meant.

    Raises:
        InputError: If there are none or too many, or if token ids are not this model's.
    """
    listed = several(given, "input")
    if len(listed) > MOST_INPUTS:
        raise InputError(
            f"input has {len(listed):,} texts; at most {MOST_INPUTS:,} are taken at a time; send "
            "fewer."
        )
    if isinstance(listed[0], str):
        return list(listed)
    tokenizer = served.language_model().tokenizer
    check_ids(tokenizer, listed, "input")
    warn_of_ids(call, served)
    return _read_back(tokenizer, listed)


def _read_back(tokenizer: Tokenizer, several_ids: Sequence[Sequence[int]]) -> list[str]:
    """Texts that have these token ids, special ones among them or not.

    Raises:
        InputError: If a text reads as other ids.
    """
    texts = [tokenizer.decode(ids) for ids in several_ids]
    readings = (tokenizer.encode(texts), tokenizer.encode(texts, special=False))
    for number, (ids, *read) in enumerate(zip(several_ids, *readings, strict=True)):
        if all(list(each.ids) != list(ids) for each in read):
            raise InputError(
                f"input[{number}] holds {counted(len(ids), 'token id')} that no text has: as text "
                "they read as others, so another tokenizer may have made them; send texts (in "
                "langchain: OpenAIEmbeddings(check_embedding_ctx_length=False))."
            )
    return texts


def _narrowed(served: ServedModel, dimensions: int | None) -> dict[str, Any]:
    """The options of `embed` for vectors of a width.

    Raises:
        InputError: If the model was not trained for it.
    """
    if dimensions is None:
        return {}
    width = vector_width(served.language_model())
    if dimensions == width:
        return {}
    if dimensions not in served.truncate_dims:
        known = ", ".join(f"{each:,}" for each in sorted({*served.truncate_dims, width}))
        raise InputError(
            f"dimensions is {dimensions:,}; vectors of {served.name} mean something at "
            f"{known} dimensions, as it was trained; choose one of these, or leave it out."
        )
    return {"truncate_dim": dimensions, "normalize": True}


def vector_width(model: LanguageModel) -> int:
    """How many dimensions the vectors of a model have."""
    own = model.model.sentence
    return model.blueprint.width * len(model.pooling.modes) if own is None else own.width


def embeddings_endpoints() -> list[Endpoint]:
    """Vectors, at OpenAI's path and, for clients that know no version, without it."""
    one = {"input": "a text of yours"}
    summary = "turn texts into vectors"
    infinity = Endpoint(
        path="/embeddings",
        summary=summary,
        answer=_embedded,
        dialect=INFINITY,
        body=InfinityEmbeddingsBody,
        fields=frozenset({"modality"}),
        examples={"one": {**one, "modality": "text", "dimensions": 0}},
    )
    openai = [
        Endpoint(
            path=path,
            summary=summary,
            answer=_embedded,
            dialect=OPENAI,
            body=EmbeddingsBody,
            fields=frozenset({"input"}),
            examples={
                "one": one,
                "several": {"input": ["a text of yours", "another"], "encoding_format": "base64"},
            },
        )
        for path in ("/v1/embeddings", "/embeddings")
    ]
    return [infinity, *openai]
