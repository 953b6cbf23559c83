"""Reranking in the words of Cohere and of infinity.

Who is asked at `/v1/rerank`: a body with `top` speaks our own words (`native.py`); any other is
Cohere's. Its client sends `model`, `query` and `documents` alone if nothing else is set, which is
what a body of our own may hold, too; such a body is answered in both shapes at once: `results` and
`meta` as Cohere has them, `model`, `outputs` and `usage` as ours. At `/rerank` a body with `texts`
is TEI's (`tei.py`), one with `raw_scores`, which the client of infinity always sends, is
infinity's, and any other Cohere's, as Jina and vLLM have it.

Scores are from 0 to 1: the sigmoid of the logit, or the probability of the last label of a model
that compares; documents are ordered by their logits, which do not tie. What does not fit beside
the query is cut by such models; that is said of the document, and among Cohere's warnings.
"""

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from clozeworks.errors import InputError
from clozeworks.language_model.pair_scores import PairScore, scored_pairs
from clozeworks.serve.dialects.meant import meant, named
from clozeworks.serve.endpoint import Call, ClientDialect, Endpoint
from clozeworks.serve.models import RERANK, ServedModel
from clozeworks.serve.native_body import usage_of
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

_ONLY_COHERE = frozenset({"top_n", "return_documents", "rank_fields", "max_chunks_per_doc"})


# What all of them compute.


@dataclass(frozen=True)
class Relevance:
    """How well a document answers a query."""

    index: int
    """Which of the documents it is, counted from 0."""
    score: float
    """From 0 to 1; the logit if raw scores are asked for."""
    own: PairScore
    """As the model itself has it."""
    cut: bool
    """Whether only its beginning was read."""


def relevance(
    call: Call, served: ServedModel, query: str, texts: Sequence[str], *, raw: bool = False
) -> list[Relevance]:
    """The documents with their scores, the best first; equal ones stay in order.

    Args:
        call: The request.
        served: A model that reranks.
        query: The query.
        texts: The documents.
        raw: Whether scores are logits.

    Raises:
        InputError: If raw scores are asked of a model that has none.
        TooMuch: If the query makes too much to read.
    """
    model = served.language_model()
    call.check_characters(len(query) * len(texts), "query is read with each document")
    if not query.strip():
        raise InputError("query is empty; write what documents are to answer.")
    task = served.tasks.get(RERANK)
    if task is None:  # it compares
        if raw:
            raise InputError(
                f"raw_scores is true; {served.name} compares two texts and has a logit for each "
                "label, not one for the pair; leave raw_scores out."
            )
        scored = scored_pairs(model, query, texts)
        found = [(each.score, each, False) for each in scored]
    else:
        # Equal texts are read once: in two batches their scores might differ in the last digit.
        places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
        read = model.predict([(query, text) for text in places], task)
        each_read = [read[places[text]] for text in texts]
        found = [
            (
                each.logits[0] if raw else _sigmoid(each.logits[0]),
                PairScore(each.scores[0], each.logits[0]),
                each.truncated,
            )
            for each in each_read
        ]
    order = sorted(range(len(texts)), key=lambda number: -found[number][1].logit)
    return [Relevance(number, *found[number]) for number in order]


def _sigmoid(logit: float) -> float:
    return 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0


# Cohere.


def _cohere_error(status: int, message: str, request_id: str) -> tuple[int, Any]:
    return status, {"id": request_id, "message": message}


COHERE = ClientDialect("cohere", _cohere_error)
_Query = Field(description="What is asked.")
_Model = Field(None, description="The name of a model; not needed if only one can rerank.")
_TopN = Field(None, ge=1, description="So many documents; all of them if there are fewer.")


class CohereRerank(BaseModel):
    """Documents to be put in order, as version 1 of Cohere's interface has it."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    query: str = _Query
    documents: list[str | dict[str, Any]] = Field(
        min_length=1, description="Texts, or objects whose field `text` is one."
    )
    model: str | None = _Model
    top_n: int | None = _TopN
    rank_fields: list[str] | None = Field(
        None, min_length=1, description="The fields of objects that are read; `text` if not given."
    )
    return_documents: bool = Field(False, description="Whether documents are given back, whole.")
    max_chunks_per_doc: int | None = Field(
        None, ge=1, description="Without effect: a document is read in one piece."
    )


class CohereRerankV2(BaseModel):
    """Documents to be put in order, as version 2 of Cohere's interface has it."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    query: str = _Query
    documents: list[str] = Field(min_length=1, description="Texts.")
    model: str | None = _Model
    top_n: int | None = _TopN
    max_tokens_per_doc: int | None = Field(
        None, ge=1, description="Documents are cut after so many tokens; not at all if not given."
    )
    priority: int | None = Field(None, description="Without effect: the oldest request is first.")


def _texts_of(documents: Sequence[str | Mapping[str, Any]], fields: Sequence[str]) -> list[str]:
    """What is read of each document."""
    texts = []
    for number, document in enumerate(documents, 1):
        if isinstance(document, str):
            texts.append(document)
            continue
        parts = []
        for name in fields:
            value = document.get(name)
            if isinstance(value, bool) or not isinstance(value, str | int | float):
                raise InputError(
                    f"document {number:,} has no text in {name!r}; it has {', '.join(document)}; "
                    "say which fields are read with rank_fields."
                )
            parts.append(str(value))
        texts.append("\n".join(parts))
    return texts


def _cohere_v1(call: Call, body: CohereRerank) -> dict[str, Any]:
    served = meant(call, body.model, RERANK)
    texts = _texts_of(body.documents, body.rank_fields or ["text"])
    found = relevance(call, served, body.query, texts)[: body.top_n]
    results = _results(found)
    if body.return_documents:
        for result in results:
            document = body.documents[result["index"]]
            result["document"] = {"text": document} if isinstance(document, str) else document
    answer = _cohere_answer(call, results, "1", _warnings(found))
    if body.model_fields_set & _ONLY_COHERE:
        return answer
    outputs = [
        {
            "index": each.index,
            "score": each.own.score,
            "document": body.documents[each.index],
            "logit": each.own.logit,
        }
        for each in found
    ]
    return {**answer, "model": served.name, "outputs": outputs, "usage": usage_of(call)}


def _plain_cohere(call: Call, body: CohereRerank) -> dict[str, Any]:
    """At `/rerank`, where Jina and vLLM also say which model it was and what it read."""
    answer = _cohere_v1(call, body)
    answer.pop("outputs", None)
    return {
        **answer,
        "model": meant(call, body.model, RERANK).name,
        "usage": {"prompt_tokens": call.work.tokens, "total_tokens": call.work.tokens},
    }


def _cohere_v2(call: Call, body: CohereRerankV2) -> dict[str, Any]:
    served = meant(call, body.model, RERANK)
    texts, warnings = body.documents, list[str]()
    if body.max_tokens_per_doc is not None:
        texts, cut = _beginnings(served.language_model().tokenizer, texts, body.max_tokens_per_doc)
        if cut:
            warnings.append(f"{counted(cut, 'document')} cut after max_tokens_per_doc tokens.")
    found = relevance(call, served, body.query, texts)[: body.top_n]
    return _cohere_answer(call, _results(found), "2", [*warnings, *_warnings(found)])


def _beginnings(tokenizer: Tokenizer, texts: Sequence[str], most: int) -> tuple[list[str], int]:
    """The texts up to so many tokens, and how many of them were cut."""
    kept, cut = [], 0
    for text, encoded in zip(
        texts, tokenizer.encode(texts, special=False, offsets=True), strict=True
    ):
        assert encoded.offsets is not None
        is_long = len(encoded) > most
        kept.append(text[: encoded.offsets[most - 1][1]] if is_long else text)
        cut += is_long
    return kept, cut


def _results(found: Sequence[Relevance]) -> list[dict[str, Any]]:
    return [
        {
            "index": each.index,
            "relevance_score": each.score,
            **({"truncated": True} if each.cut else {}),
        }
        for each in found
    ]


def _warnings(found: Sequence[Relevance]) -> list[str]:
    cut = sum(each.cut for each in found)
    if not cut:
        return []
    return [f"{counted(cut, 'document')} cut where it did not fit beside the query."]


def _cohere_answer(
    call: Call, results: list[dict[str, Any]], version: str, warnings: list[str]
) -> dict[str, Any]:
    tokens = {"input_tokens": call.work.tokens, "output_tokens": 0}
    meta = {"api_version": {"version": version}, "tokens": tokens}
    return {
        "id": call.id,
        "results": results,
        "meta": {**meta, **({"warnings": warnings} if warnings else {})},
    }


# Infinity.


def _infinity_error(status: int, message: str, request_id: str) -> tuple[int, Any]:
    kind = "invalid_request_error" if status < 500 else "server_error"
    error = {"message": message, "type": kind, "param": None, "code": status}
    if status != 422:
        return status, {"error": error}
    # Its client reads what FastAPI says of a body.
    return status, {
        "error": error,
        "detail": [{"loc": ["body"], "msg": message, "type": "value_error"}],
    }


INFINITY = ClientDialect("infinity", _infinity_error)


class InfinityRerank(BaseModel):
    """Documents to be put in order, as infinity has it."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    query: str = _Query
    documents: list[str] = Field(min_length=1, description="Texts.")
    model: str | None = _Model
    top_n: int | None = _TopN
    return_documents: bool = Field(False, description="Whether documents are given back.")
    raw_scores: bool = Field(False, description="Whether scores are logits.")


def _infinity(call: Call, body: InfinityRerank) -> dict[str, Any]:
    served = meant(call, named(call, body.model), RERANK)
    found = relevance(call, served, body.query, body.documents, raw=body.raw_scores)[: body.top_n]
    results = _results(found)
    if body.return_documents:
        for result in results:
            result["document"] = body.documents[result["index"]]
    return {
        "object": "rerank",
        "results": results,
        "model": served.name,
        "usage": {"prompt_tokens": call.work.tokens, "total_tokens": call.work.tokens},
        "id": call.id,
        "created": int(time.time()),
    }


_TEXTS = ["The cat sat on the mat.", "The dog lay on the rug."]
_EXAMPLE = {"query": "Where is the cat?", "documents": _TEXTS}
_SUMMARY = "put documents in order for a query"


def reranker_endpoints() -> list[Endpoint]:
    """The endpoints of both; see above whose is asked where paths are the same."""
    return [
        Endpoint(
            path="/v1/rerank", summary=_SUMMARY, answer=_cohere_v1, dialect=COHERE,
            body=CohereRerank,
            examples={"two": {**_EXAMPLE, "top_n": 1},
                      "objects": {"query": "Where is the cat?", "return_documents": True,
                                  "documents": [{"text": text} for text in _TEXTS]}},
        ),
        Endpoint(
            path="/v2/rerank", summary=_SUMMARY, answer=_cohere_v2, dialect=COHERE,
            body=CohereRerankV2, examples={"two": {**_EXAMPLE, "top_n": 1}},
        ),
        Endpoint(
            path="/rerank", summary=_SUMMARY, answer=_infinity, dialect=INFINITY,
            body=InfinityRerank, fields=frozenset({"raw_scores"}),
            examples={"two": {**_EXAMPLE, "raw_scores": False, "return_documents": True}},
        ),
        Endpoint(
            path="/rerank", summary=_SUMMARY, answer=_plain_cohere, dialect=COHERE,
            body=CohereRerank, fields=frozenset({"documents"}),
            examples={"two": {**_EXAMPLE, "return_documents": True}},
        ),
    ]  # fmt: skip
