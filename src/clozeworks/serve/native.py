"""The server's own endpoints: one for each task, made from what the task states about itself.

Inputs are texts, or objects with the fields of the task's items; outputs are what
`clozeworks TASK … --json` writes. A task that is added to the registry has an endpoint as soon as
its file exists.
"""

from dataclasses import asdict
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, create_model

from clozeworks import config, registry
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import Item
from clozeworks.errors import InputError
from clozeworks.inference.fill import texts_with
from clozeworks.language_model.pair_scores import scored_pairs
from clozeworks.serve.endpoint import Call, Endpoint
from clozeworks.serve.forms import asked_roles, form_of, languages_read, shown_json
from clozeworks.serve.generation import generation_endpoint
from clozeworks.serve.models import EMBED, FILL, RERANK, SCORE, SEARCH, ServedModel
from clozeworks.serve.native_body import NativeBody, answer_of
from clozeworks.serve.replies import NATIVE
from clozeworks.tasks.rerank.task import ranked
from clozeworks.tasks.task import Task, command_name, task_classes


def native_endpoints() -> list[Endpoint]:
    """An endpoint for each task, and those of models without a task."""
    tasks = [_of_task(kind, task) for kind, task in task_classes().items() if kind != EMBED]
    return [*tasks, *_OTHERS, generation_endpoint()]


# Tasks.


def _of_task(kind: str, task: type[Task[Any, Any]]) -> Endpoint:
    name = command_name(kind)
    item = task.item_type.asked_as((), has_lists=False)
    options: dict[str, Any] = {
        option: (each.type | None, Field(default=None, description=each.help))
        for option, each in task.command_options.items()
    }
    options.setdefault(
        "top",
        (int | None, Field(default=None, ge=1, description="So many labels or candidates.")),
    )
    row = _row(name, task.item_type)
    one = str | row if len(item.text_names) == 1 else row
    body = create_model(
        f"{task.__name__}Body",
        __base__=NativeBody,
        inputs=(one | list[one], Field(description=f"One {item.asked_unit} or several.")),  # type: ignore[arg-type,valid-type]
        show=(bool, Field(False, description="Answers also as a page shows them, in `shown`.")),
        **options,
    )
    example = dict(zip(item.text_names, item.example, strict=False))
    return Endpoint(
        path=f"/v1/{name}",
        summary=task.summary,
        answer=partial(_predicted, name, task),
        dialect=NATIVE,
        body=body,
        # Documents are put in order on the same path.
        fields=frozenset({"inputs"}) if name == RERANK else frozenset(),
        examples={"one": {"inputs": example}, "several": {"inputs": [example, example]}},
    )


def _row(name: str, item: type[Item]) -> type[BaseModel]:
    """The fields of an item that a model is asked about.

    Where rows come in two forms, such as texts and lists of words, no field is needed in all.
    """
    fields: dict[str, Any] = {}
    for role in asked_roles(item):
        kind: Any = str if role.is_text else Any
        fields[role.name] = (
            kind if role.needed else kind | None,
            Field(default=... if role.needed else None),
        )
    return create_model(
        f"{name.title().replace('-', '')}Input", __config__=ConfigDict(extra="forbid"), **fields
    )


def _predicted(name: str, kind: type[Task[Any, Any]], call: Call, body: Any) -> Any:
    served = call.model(body.model, name)
    model = served.language_model()
    chosen = {option: getattr(body, option) for option in kind.command_options}
    own = served.tasks.get(name) or model.task_for(kind)  # which says why it cannot
    task, change = own.configured(**chosen)
    several = body.inputs if isinstance(body.inputs, list) else [body.inputs]
    items = [_item(task, each, n) for n, each in enumerate(several, start=1)]
    read = sum(len(text) for item in items for read in item.sequences for text in read)
    call.check_characters(read, "inputs hold texts that are read several times")
    found = model.predict(items, task)
    if change is not None:
        found = list(map(change, found))
    top, one = getattr(body, "top", None), not isinstance(body.inputs, list)
    outputs = [each.to_dict(top) for each in found]
    answer = answer_of(call, served.name, outputs, one=one)
    if body.show:
        shown = [shown_json(task, *pair, top) for pair in zip(items, found, strict=True)]
        answer["shown"] = shown[0] if one else shown
    return answer


def _item(task: Task[Any, Any], given: Any, number: int) -> Item:
    """The item of a text or of a row, as the model's own task reads it.

    Raises:
        InputError: If it cannot be one.
    """
    where = f"item {number:,}"
    try:
        if isinstance(given, str):
            made: Item = task.from_input(task.item_from(given, where))
            return made
        row = given.model_dump(exclude_none=True)
        if not row:
            names = ", ".join(type(given).model_fields)
            raise ValueError(f"nothing is given; give {names}")
        has_lists = any(isinstance(cell, list) for cell in row.values())
        kind = task.item_type.asked_as(row.keys(), has_lists)
        item: Item = task.from_input(kind.from_row(row, where, BadRows()))
        return item
    except ValueError as error:
        raise InputError(f"{where}: {str(error).removesuffix('.')}.") from error


# Vectors, and what is done with them.


class EmbedBody(NativeBody):
    """Texts to be turned into vectors."""

    inputs: str | list[str]
    prompt: str | None = Field(None, description="The name of a prompt of the model, or a text.")
    pooling: str | list[str] | None = None
    normalize: bool | None = Field(None, description="Scaled to length 1; as the model says.")
    truncate_dim: int | None = Field(None, ge=1, description="The first dimensions alone.")
    max_length: int | None = Field(None, ge=1, description="The most tokens of a text.")
    truncate: bool = Field(False, description="Cut texts that are too long; else they are refused.")


def _embedded(call: Call, body: EmbedBody) -> Any:
    served = call.model(body.model, EMBED)
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    call.check_characters(len(body.prompt or "") * len(texts), "prompt stands before each text")
    vectors = served.language_model().embed(
        texts,
        prompt=body.prompt,
        pooling=body.pooling,
        normalize=body.normalize,
        truncate_dim=body.truncate_dim,
        max_length=body.max_length,
        truncate=body.truncate,
    )
    return answer_of(call, served.name, list(vectors), one=isinstance(body.inputs, str))


class RerankBody(NativeBody):
    """Documents to be put in order for a query."""

    query: str
    documents: list[str]
    top: int | None = Field(None, ge=1)


def _reranked(call: Call, body: RerankBody) -> Any:
    served = call.model(body.model, RERANK)
    read = len(body.query) * len(body.documents)
    call.check_characters(read, "query is read with each document")
    scored = scored_pairs(served.language_model(), body.query, body.documents)
    outputs = [
        {**each.to_dict(), "logit": scored[each.index].logit}
        for each in ranked(body.documents, scored)[: body.top]
    ]
    return answer_of(call, served.name, outputs, one=False)


class SearchBody(NativeBody):
    """A query to an index."""

    inputs: str | list[str]
    top: int = Field(10, ge=1, le=1_000)
    by: Literal["vectors", "words", "both"] = "vectors"
    where: str | list[str] | dict[str, Any] | None = None
    rerank: str | None = Field(None, description="The name of a model that reranks.")
    exact: bool = Field(False, description="Look at all vectors.")
    show: bool = Field(False, description="Says in `shown` what stands around each passage.")


def _searched(call: Call, body: SearchBody) -> Any:
    served = call.model(body.model, SEARCH)
    assert served.index is not None
    reranker = None if body.rerank is None else call.model(body.rerank, RERANK).language_model()
    found = served.index.search(
        [body.inputs] if isinstance(body.inputs, str) else body.inputs,
        top=body.top, by=body.by, where=body.where, rerank=reranker, exact=body.exact,
    )  # fmt: skip
    outputs = [[_hit(each) for each in hits] for hits in found]
    one = isinstance(body.inputs, str)
    answer = answer_of(call, served.name, outputs, one=one)
    if body.show:
        shown = [[{"before": each.before, "after": each.after} for each in hits] for hits in found]
        answer["shown"] = shown[0] if one else shown
    return answer


def _hit(hit: Any) -> dict[str, Any]:
    record: dict[str, Any] = hit.to_dict() if hasattr(hit, "to_dict") else asdict(hit)
    return record


# The vocabulary.


class FillBody(NativeBody):
    """Texts with gaps."""

    inputs: str | list[str]
    top: int = Field(5, ge=1)
    words: list[str] | None = Field(None, description="Only these words are ranked.")
    show: bool = Field(False, description="Says in `shown` the text that each candidate makes.")


def _filled(call: Call, body: FillBody) -> Any:
    served = call.model(body.model, FILL)
    texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
    found = served.language_model().fill(texts, top=body.top, words=body.words)
    outputs = [asdict(each) for each in found]
    one = isinstance(body.inputs, str)
    answer = answer_of(call, served.name, outputs, one=one)
    if body.show:
        shown = [texts_with(served.language_model().tokenizer, each) for each in found]
        answer["shown"] = shown[0] if one else shown
    return answer


class ScoreBody(NativeBody):
    """Texts whose likelihood is asked."""

    inputs: str | list[str]
    continuations: str | list[str] | None = Field(
        None, description="What follows each text; then only this is scored."
    )
    max_length: int | None = Field(None, description="The most tokens of a window.")
    overlap: int | None = Field(None, description="The least context of a later window, in tokens.")


def _scored(call: Call, body: ScoreBody) -> Any:
    served = call.model(body.model, SCORE)
    found: Any = served.language_model().score(
        body.inputs,
        body.continuations,
        max_length=body.max_length,
        overlap=body.overlap,
    )
    one = isinstance(body.inputs, str)
    outputs = [asdict(each) for each in ([found] if one else found)]
    return answer_of(call, served.name, outputs, one=one)


# What there is to ask.


def _abilities(call: Call, body: None) -> Any:
    """What each model can be asked, and what a client must know to read its answers."""
    return {"models": [_described(each) for each in call.models]}


def _described(served: ServedModel) -> dict[str, Any]:
    record: dict[str, Any] = {"name": served.name, "abilities": [*served.abilities]}
    record["forms"] = {ability: form_of(ability, served) for ability in served.abilities}
    model = served.outline
    if model is None:
        return record
    own = model.task
    record["task"] = None if own is None else command_name(registry.kind(type(own)))
    record["tasks"] = {name: config.plain(task.to_save()) for name, task in served.tasks.items()}
    record["dtype"] = str(model.dtype).removeprefix("torch.")
    if model.has_tokenizer:
        record["max_length"] = model.max_length
        record["reads"] = languages_read(model.tokenizer)
    if EMBED in served.abilities:
        prompts = model.prompts
        record["pooling"] = str(model.pooling)
        record["prompts"] = {"texts": dict(prompts.texts), "default": prompts.default}
        record["similarity"] = prompts.file.get("similarity_fn_name")
    return record


_TEXT, _TEXTS = "a text of yours", ["a text of yours", "another"]
_OTHERS = [
    Endpoint(
        path="/v1/server", summary="say what the server measures of itself",
        answer=lambda call, body: call.measured(), dialect=NATIVE, method="GET", counted=False,
    ),
    Endpoint(
        path="/v1/abilities", summary="say what each model can be asked", answer=_abilities,
        dialect=NATIVE, method="GET",
    ),
    Endpoint(
        path="/v1/embed", summary="turn texts into vectors", answer=_embedded, dialect=NATIVE,
        body=EmbedBody, examples={"one": {"inputs": _TEXT}, "several": {"inputs": _TEXTS}},
    ),
    Endpoint(
        path="/v1/rerank", summary="put documents in order for a query", answer=_reranked,
        dialect=NATIVE, body=RerankBody,
        fields=frozenset({"top"}),  # without it a client of Cohere may ask; see rerankers.py
        examples={"two": {"query": "a question", "documents": _TEXTS, "top": 2}},
    ),
    Endpoint(
        path="/v1/search", summary="find documents of an index", answer=_searched, dialect=NATIVE,
        body=SearchBody, examples={"one": {"inputs": "a question", "top": 3}},
    ),
    Endpoint(
        path="/v1/fill", summary="rank words for gaps", answer=_filled, dialect=NATIVE,
        body=FillBody, examples={"one": {"inputs": "A [MASK] text.", "top": 3}},
    ),
    Endpoint(
        path="/v1/score", summary="say how likely texts are", answer=_scored, dialect=NATIVE,
        body=ScoreBody,
        fields=frozenset({"inputs"}),  # without it a client of vLLM asks; see openai/scores.py
        examples={"one": {"inputs": _TEXT}},
    ),
]  # fmt: skip
