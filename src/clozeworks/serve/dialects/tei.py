"""What clients of text-embeddings-inference (TEI) ask.

TEI serves one model and has no field for its name; here the only model that can do it is meant, or
the one that an additional field `model` names. Two things differ on purpose: nothing is cut unless
`truncate` is true (since version 1.9 TEI cuts unless it is false), and texts that are classified
are read through windows, as a whole. Offsets count characters. Answers are bare lists; how many
tokens were read stands in the header `x-compute-tokens`.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from clozeworks import __version__
from clozeworks.errors import InputError, UnknownName
from clozeworks.inference.embed import Vectors
from clozeworks.language_model import LanguageModel
from clozeworks.serve.dialects.label_scores import CLASSIFY, label_scores
from clozeworks.serve.dialects.meant import meant
from clozeworks.serve.dialects.rerankers import relevance
from clozeworks.serve.endpoint import Call, ClientDialect, Endpoint
from clozeworks.serve.limits import ServerLimits
from clozeworks.serve.models import COMPARE, EMBED, RERANK, ServedModel
from clozeworks.serve.work import TooMuch

# Numbers that an answer with a vector for each token holds; as JSON they are 200 MB.
_MOST_NUMBERS = 1 << 24
# TEI's statuses and types of errors, by ours.
_ERRORS = {
    400: (400, "Validation"),
    401: (401, "Unauthorized"),
    404: (424, "Backend"),
    405: (405, "Validation"),
    408: (408, "Overloaded"),
    413: (413, "Validation"),
    422: (422, "Validation"),
    429: (429, "Overloaded"),
    503: (503, "Unhealthy"),
}


def _tei_error(status: int, message: str, request_id: str) -> tuple[int, Any]:
    status, kind = _ERRORS.get(status, (424, "Backend"))
    return status, {"error": message, "error_type": kind}


TEI = ClientDialect("tei", _tei_error)


class TEIBody(BaseModel):
    """What every body may hold."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    model: str | None = Field(
        None, description="Not of TEI: the name of a model, if several can do it."
    )


class TruncatingBody(TEIBody):
    """What bodies with texts may hold."""

    truncate: bool | None = Field(
        None, description="Cut texts that are too long; else they are refused."
    )
    truncation_direction: Literal["left", "right", "Left", "Right"] = Field(
        "right", description="Which end is cut; only the right one can be."
    )

    def may_cut(self) -> bool:
        """Whether texts may be cut.

        Raises:
            InputError: If they are to be cut at their beginning.
        """
        if self.truncate and self.truncation_direction.lower() == "left":
            raise InputError(
                f"truncation_direction is {self.truncation_direction!r}; texts are cut at their "
                "end only; cut them yourself, or leave truncation_direction out."
            )
        return bool(self.truncate)


TextOrIds = str | list[int]
_Found = TypeVar("_Found")
_Inputs = Field(description="A text or several; each may also be a list of token ids.")
_PromptName = Field(None, description="The name of a prompt of the model, put before each text.")


# Vectors.


class EmbedRequest(TruncatingBody):
    """Texts to be turned into vectors."""

    inputs: TextOrIds | list[TextOrIds] = _Inputs
    prompt_name: str | None = _PromptName
    normalize: bool = Field(True, description="Whether vectors are scaled to length 1.")
    dimensions: int | None = Field(None, ge=1, description="The first dimensions alone.")


class EmbedAllRequest(TruncatingBody):
    """Texts whose tokens are to be turned into vectors."""

    inputs: TextOrIds | list[TextOrIds] = _Inputs
    prompt_name: str | None = _PromptName


def sentence_vectors(
    served: ServedModel,
    texts: Sequence[str],
    *,
    prompt_name: str | None = None,
    normalize: bool | None = None,
    dimensions: int | None = None,
    truncate: bool = False,
) -> Vectors:
    """One vector per text, cut to so many dimensions, then scaled.

    Raises:
        InputError: If the model was not trained for vectors of this width, or a text is too long.
        UnknownName: If it has no prompt of this name.
    """
    model = served.language_model()
    _check_prompt(model, prompt_name)
    allowed = dimensions if dimensions in served.truncate_dims else None
    vectors = model.embed(
        list(texts),
        prompt=prompt_name,
        normalize=normalize,
        truncate_dim=allowed,
        truncate=truncate,
    )
    if dimensions not in (None, allowed) and len(texts) and vectors.shape[1] != dimensions:
        known = ", ".join(f"{each:,}" for each in (*served.truncate_dims, vectors.shape[1]))
        raise InputError(
            f"dimensions is {dimensions:,}; {served.name} has vectors of {known} dimensions, and "
            "was not trained for others; choose one of these, or leave it out."
        )
    return vectors


def _check_prompt(model: LanguageModel, name: str | None) -> None:
    if name is not None and name not in model.prompts.texts:
        raise UnknownName("prompt_name", name, model.prompts.texts)


def _texts_of(model: LanguageModel, inputs: Any) -> list[str]:
    """The texts; token ids become the text they stand for.

    Raises:
        InputError: If no text has these tokens.
    """
    alone = isinstance(inputs, str) or bool(inputs and isinstance(inputs[0], int))
    texts = []
    for number, each in enumerate([inputs] if alone else inputs, 1):
        text = each if isinstance(each, str) else model.tokenizer.decode(each)
        if not isinstance(each, str):
            again = model.tokenizer.encode([text])[0]
            plain = [i for i, special in zip(again.ids, again.special, strict=True) if not special]
            if each not in (again.ids, plain):
                raise InputError(
                    f"input {number:,} is a list of token ids that no text has; ids must be of "
                    f"this model ({model.name}); send the text itself."
                )
        texts.append(text)
    return texts


def _embed(call: Call, body: EmbedRequest) -> list[Vectors]:
    served = meant(call, body.model, EMBED)
    vectors = sentence_vectors(
        served,
        _texts_of(served.language_model(), body.inputs),
        prompt_name=body.prompt_name,
        normalize=body.normalize,
        dimensions=body.dimensions,
        truncate=body.may_cut(),
    )
    return _counted(call, [*vectors])


def _embed_all(call: Call, body: EmbedAllRequest) -> list[Vectors]:
    model = meant(call, body.model, EMBED).language_model()
    _check_prompt(model, body.prompt_name)
    before = model.prompts.find(body.prompt_name)
    texts = [(before.text if before else "") + text for text in _texts_of(model, body.inputs)]
    _check_numbers(model, texts)
    found = model.hidden_states(texts, truncate=body.may_cut())
    return _counted(call, [each.vectors for each in found])


def _check_numbers(model: LanguageModel, texts: Sequence[str]) -> None:
    """Checks how much an answer with a vector for each token holds.

    Raises:
        TooMuch: If it is more than is sent at a time.
    """
    lengths = map(len, model.tokenizer.encode(texts))
    most, width = model.max_length, model.blueprint.width
    tokens = sum(length if most is None else min(length, most) for length in lengths)
    if tokens * width > _MOST_NUMBERS:
        raise TooMuch(
            f"vectors of {tokens:,} tokens are asked for, at most those of "
            f"{_MOST_NUMBERS // width:,} are sent; send less at a time."
        )


# Pairs and labels.


class ComparedSentences(BaseModel):
    """A sentence, and those it is compared with."""

    model_config = ConfigDict(extra="forbid")

    source_sentence: str
    sentences: list[str] = Field(min_length=1)


class SimilarityParameters(TruncatingBody):
    """How sentences are compared."""

    prompt_name: str | None = _PromptName


class SimilarityRequest(TEIBody):
    """Sentences to be compared with one."""

    inputs: ComparedSentences
    parameters: SimilarityParameters = Field(
        default_factory=lambda: SimilarityParameters.model_validate({})
    )


def _similarity(call: Call, body: SimilarityRequest) -> list[float]:
    served, chosen = meant(call, body.model, EMBED), body.parameters
    found = similarities(
        served, body.inputs, prompt_name=chosen.prompt_name, truncate=chosen.may_cut()
    )
    return _counted(call, found)


def similarities(
    served: ServedModel,
    sentences: ComparedSentences,
    *,
    prompt_name: str | None = None,
    truncate: bool = False,
) -> list[float]:
    """How similar each sentence is to the first one, as the model measures it."""
    model = served.language_model()
    _check_prompt(model, prompt_name)
    table = model.similarity(
        sentences.source_sentence, sentences.sentences, prompt=prompt_name, truncate=truncate
    )
    found: list[float] = table[0].tolist()
    return found


class TEIRerankRequest(TruncatingBody):
    """Texts to be put in order for a query."""

    query: str = Field(description="What is asked.")
    texts: list[str] = Field(min_length=1, description="The texts.")
    raw_scores: bool = Field(False, description="Whether scores are logits.")
    return_text: bool = Field(False, description="Whether texts are given back.")


def _rerank(call: Call, body: TEIRerankRequest) -> list[dict[str, Any]]:
    served = meant(call, body.model, RERANK)
    may_cut = body.may_cut()
    found = relevance(call, served, body.query, body.texts, raw=body.raw_scores)
    if not may_cut and any(each.cut for each in found):
        longest = next(each.index for each in found if each.cut)
        raise InputError(
            f"text {longest + 1:,} does not fit beside the query; shorten it, or allow it to be "
            "cut with truncate = true."
        )
    ranks = [
        {
            "index": each.index,
            "score": each.score,
            **({"text": body.texts[each.index]} if body.return_text else {}),
        }
        for each in found
    ]
    return _counted(call, ranks)


class PredictRequest(TruncatingBody):
    """Texts or pairs of texts to be labelled."""

    inputs: str | list[str] | list[list[str]] = Field(
        description="A text, a pair of texts, or a list of lists of one or two texts."
    )
    raw_scores: bool = Field(False, description="Whether scores are logits.")


def _predict(call: Call, body: PredictRequest) -> Any:
    alone = isinstance(body.inputs, str) or isinstance(next(iter(body.inputs), ""), str)
    given: Any = [[body.inputs] if isinstance(body.inputs, str) else body.inputs]
    rows = given if alone else body.inputs
    if wrong := next((number for number, row in enumerate(rows, 1) if len(row) not in (1, 2)), 0):
        raise InputError(
            f"input {wrong:,} has {len(rows[wrong - 1]):,} texts; give one, or a pair; put several "
            "into lists of their own: [[a], [b]]."
        )
    found: list[Any] = [None] * len(rows)
    for ability, count in ((CLASSIFY, 1), (COMPARE, 2)):
        numbers = [number for number, row in enumerate(rows) if len(row) == count]
        if numbers:
            several = [rows[number][0] if count == 1 else tuple(rows[number]) for number in numbers]
            served = meant(call, body.model, ability)
            transform = "none" if body.raw_scores else _usual(served)
            may_cut = body.may_cut()
            scores = label_scores(served, ability, several, transform, may_cut=may_cut)
            for number, own in zip(numbers, scores, strict=True):
                found[number] = [{"score": score, "label": label} for label, score in own.items()]
    return _counted(call, found[0] if alone else found)


def _usual(served: ServedModel) -> Literal["sigmoid"] | None:
    """A reranker's one logit becomes a score from 0 to 1; others are read as they were trained."""
    task = served.language_model().task
    return "sigmoid" if task is not None and task.item_type.command == RERANK else None


# Tokens.


class TokenizeRequest(TEIBody):
    """Texts to be cut into tokens."""

    inputs: str | list[str] = Field(description="A text or several.")
    add_special_tokens: bool = Field(True, description="With those that the model reads.")
    prompt_name: str | None = _PromptName


class DecodeRequest(TEIBody):
    """Tokens to be turned into text."""

    ids: list[int] | list[list[int]] = Field(description="Token ids of a text, or of several.")
    skip_special_tokens: bool = Field(True, description="Leave special tokens out.")


def _tokenize(call: Call, body: TokenizeRequest) -> list[list[dict[str, Any]]]:
    model = call.model(body.model).language_model()
    _check_prompt(model, body.prompt_name)
    before = "" if body.prompt_name is None else model.prompts.texts[body.prompt_name]
    inputs = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    texts = [before + text for text in inputs]
    found = []
    encoded = model.tokenizer.encode(texts, special=body.add_special_tokens, offsets=True)
    call.check_tokens(sum(map(len, encoded)), "ids and offsets")
    for text, own in zip(texts, encoded, strict=True):
        tokens = []
        for token, special, (start, stop) in zip(
            own.ids, own.special, own.offsets or [], strict=True
        ):
            place = (None, None) if special else (start, stop)
            word = model.tokenizer.token_of(token) if special else text[start:stop]
            tokens.append(
                {
                    "id": token, "text": word, "special": special,
                    "start": place[0], "stop": place[1],
                }
            )  # fmt: skip
        found.append(tokens)
    return found


def _decode(call: Call, body: DecodeRequest) -> list[str]:
    tokenizer = call.model(body.model).language_model().tokenizer
    ids: Any = body.ids if body.ids and isinstance(body.ids[0], list) else [body.ids]
    return [tokenizer.decode(each, skip_special=body.skip_special_tokens) for each in ids]


# The server.


def _info(call: Call, body: None) -> dict[str, Any]:
    """What is served; of several models, the first, and the names of all."""
    served = [each for each in call.models if each.outline is not None]
    model = served[0].outline if served else None
    usual = ServerLimits()
    about = {
        "model_dtype": None if model is None else _dtype(model),
        "model_type": {} if model is None else _model_type(model, served[0].abilities),
        "max_input_length": model.max_length if model is not None and model.has_tokenizer else None,
    }
    return {
        "model_id": served[0].name if served else None,
        "model_sha": None,
        **about,
        "max_concurrent_requests": call.limits.get("requests", usual.requests),
        "max_batch_tokens": call.limits.get("tokens", usual.tokens),
        "max_batch_requests": None,
        "max_client_batch_size": call.limits.get("inputs", usual.inputs),
        "auto_truncate": False,
        "tokenization_workers": 1,
        "version": __version__,
        "sha": None,
        "docker_label": None,
        "models": {each.name: list(each.abilities) for each in call.models},
    }


def _dtype(model: LanguageModel) -> str:
    return str(next(model.model.parameters()).dtype).removeprefix("torch.")


def _model_type(model: LanguageModel, abilities: Sequence[str]) -> dict[str, Any]:
    """An embedding model, a classifier or a reranker, as TEI tells them apart."""
    task = model.task
    chooses = {CLASSIFY, COMPARE} & {*abilities}
    if task is None or task.head_labels is None or not chooses:
        return {"embedding": {"pooling": "+".join(model.pooling.modes)}}
    labels = dict(enumerate(task.head_labels))
    kind = "reranker" if task.item_type.command == RERANK else "classifier"
    return {
        kind: {
            "id2label": {str(number): label for number, label in labels.items()},
            "label2id": {label: number for number, label in labels.items()},
        }
    }


def _counted(call: Call, answer: _Found) -> _Found:
    """The answer; how many tokens were read goes into a header."""
    call.headers["x-compute-tokens"] = str(call.work.tokens)
    return answer


_TEXTS = ["The cat sat on the mat.", "The dog lay on the rug."]
_PAIR = {"source_sentence": _TEXTS[0], "sentences": _TEXTS}
_RANKED: Mapping[str, Any] = {"query": "Where is the cat?", "texts": _TEXTS}


def tei_endpoints() -> list[Endpoint]:
    """Its endpoints."""
    rerank = partial(
        Endpoint, summary="put texts in order for a query", answer=_rerank, dialect=TEI,
        body=TEIRerankRequest, fields=frozenset({"texts"}),
        examples={"two": {**_RANKED, "return_text": True}},
    )  # fmt: skip
    return [
        Endpoint(
            path="/embed", summary="turn texts into vectors", answer=_embed, dialect=TEI,
            body=EmbedRequest,
            examples={"one": {"inputs": _TEXTS[0]}, "several": {"inputs": _TEXTS}},
        ),
        Endpoint(
            path="/embed_all", summary="turn the tokens of texts into vectors", answer=_embed_all,
            dialect=TEI, body=EmbedAllRequest, examples={"one": {"inputs": _TEXTS[0]}},
        ),
        rerank(path="/rerank"),
        rerank(path="/"),
        Endpoint(
            path="/predict", summary="label texts, or pairs of texts", answer=_predict,
            dialect=TEI, body=PredictRequest,
            examples={"one": {"inputs": _TEXTS[0]}, "several": {"inputs": [[_TEXTS[0]]]}},
        ),
        Endpoint(
            path="/similarity", summary="say how similar sentences are to one",
            answer=_similarity, dialect=TEI, body=SimilarityRequest,
            examples={"two": {"inputs": _PAIR}},
        ),
        Endpoint(
            path="/tokenize", summary="cut texts into tokens", answer=_tokenize, dialect=TEI,
            body=TokenizeRequest, fields=frozenset({"inputs"}),
            examples={"one": {"inputs": _TEXTS[0]}},
        ),
        Endpoint(
            path="/decode", summary="turn tokens into text", answer=_decode, dialect=TEI,
            body=DecodeRequest, examples={"one": {"ids": [5, 6, 7]}},
        ),
        Endpoint(
            path="/info", summary="say what is served", answer=_info, dialect=TEI, method="GET"
        ),
    ]  # fmt: skip
