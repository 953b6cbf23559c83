"""What `huggingface_hub.InferenceClient(model=URL)` asks of a server: one path for every task.

The client posts `{"inputs": …, "parameters": {…}}` to the address it was given, whatever it wants.
What is meant follows from the body: objects with a question or a source sentence say it, and so do
most parameters; a text alone is for what the model at hand was trained for. A text with a gap is
filled by a model that can, a prompt is continued, anything else is turned into a vector. Where
several models could be meant, or to ask a model for something else, the address says it:
`InferenceClient(model=URL + "/pipeline/token-classification")`.

Summaries, translations and continued prompts are asked for with equal bodies; the answer holds the
text under the name of each.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from clozeworks.errors import InputError
from clozeworks.inference.embed import Vectors
from clozeworks.inference.fill import Filled, texts_with
from clozeworks.serve.dialects.hub_generation import (
    WRITE,
    GenerationParameters,
    WritingParameters,
    composed,
    continued,
    named_as_all,
    streamed,
)
from clozeworks.serve.dialects.label_scores import CLASSIFY, Transform, label_scores
from clozeworks.serve.dialects.meant import is_trained_for, meant
from clozeworks.serve.dialects.tei import ComparedSentences, sentence_vectors, similarities
from clozeworks.serve.dialects.zero_shot import entailment_model, zero_shot
from clozeworks.serve.endpoint import Call, ClientDialect, Endpoint, Stream
from clozeworks.serve.models import COMPARE, EMBED, FILL, GENERATE, ServedModel, UnknownModel
from clozeworks.tasks.answer import Answer, Answered
from clozeworks.tasks.tag import OUTSIDE, Tag, Tagged
from clozeworks.text.tokenizer.tokenizer import GAPS, Tokenizer

ANSWER, TAG = Answer.item_type.command, Tag.item_type.command
# What the client makes exceptions of, by our statuses.
_KINDS = {422: "validation", 413: "validation", 400: "validation", 429: "overloaded"}
_USUAL_TOP = 5
ParametersType = TypeVar("ParametersType", bound=BaseModel)


def _hub_error(status: int, message: str, request_id: str) -> tuple[int, Any]:
    return status, {"error": message, "error_type": _KINDS.get(status, "generation")}


HUB = ClientDialect("huggingface_hub", _hub_error)


# Bodies.


class AskedQuestion(BaseModel):
    """A question, and the text its answer stands in."""

    model_config = ConfigDict(extra="forbid")

    question: str
    context: str


class HubBody(BaseModel):
    """A text or several, or what else a task reads, and its parameters."""

    model_config = ConfigDict(extra="forbid", protected_namespaces=())

    inputs: str | list[str] | AskedQuestion | ComparedSentences = Field(
        description="A text or several; question and context; source_sentence and sentences."
    )
    parameters: dict[str, Any] = Field(
        default_factory=dict, description="Those of the client's methods."
    )
    model: str | None = Field(None, description="The name of a model, if several could be meant.")
    stream: bool = Field(False, description="Of a text that is written: whether it comes by token.")
    options: dict[str, Any] | None = Field(None, description="Without effect.")
    normalize: bool | None = Field(None, description="Of vectors: whether they have length 1.")
    prompt_name: str | None = Field(None, description="Of vectors: the name of a prompt.")
    truncate: bool | None = Field(None, description="Of vectors: cut texts that are too long.")
    truncation_direction: Literal["left", "right"] | None = None
    dimensions: int | None = Field(None, ge=1, description="Of vectors: the first ones alone.")
    encoding_format: Literal["float"] | None = None

    @property
    def texts(self) -> list[str]:
        """The texts.

        Raises:
            InputError: If there is something else.
        """
        if isinstance(self.inputs, str):
            return [self.inputs]
        if isinstance(self.inputs, list):
            return self.inputs
        raise InputError(
            f"inputs has {', '.join(self.inputs.model_dump())}; this task reads a text, or a list "
            "of texts."
        )

    def shaped(self, found: Sequence[Any]) -> Any:
        """An answer for one text, or a list of answers."""
        return found[0] if isinstance(self.inputs, str) else list(found)


_VECTOR_FIELDS = {
    *("normalize", "prompt_name", "truncate"),
    *("truncation_direction", "dimensions", "encoding_format"),
}


class NoParameters(BaseModel):
    """None are known."""

    model_config = ConfigDict(extra="forbid")


class ClassificationParameters(NoParameters):
    """How labels are scored."""

    top_k: int | None = Field(None, ge=1, description="So many labels.")
    function_to_apply: Transform | None = Field(None, description="What is done to the logits.")


class TaggingParameters(NoParameters):
    """How words are put together."""

    aggregation_strategy: Literal["none", "simple", "first", "average", "max"] | None = Field(
        None, description="none: a tag for each word; anything else: entities."
    )
    ignore_labels: list[str] | None = Field(None, description='Tags left out; "O" if not given.')
    stride: int | None = Field(None, description="Without effect: windows are the model's own.")


class AnsweringParameters(NoParameters):
    """How answers are looked for."""

    top_k: int | None = Field(None, ge=1, description="So many answers, as a list if above 1.")
    max_answer_len: int | None = Field(None, ge=1, description="The most tokens of an answer.")
    max_seq_len: int | None = Field(None, ge=1, description="The tokens of a window.")
    doc_stride: int | None = Field(None, ge=0, description="Tokens that windows share.")
    handle_impossible_answer: bool | None = Field(None, description="Whether there may be none.")
    align_to_words: bool | None = Field(None, description="Without effect.")


class FillingParameters(NoParameters):
    """Which words are ranked."""

    top_k: int | None = Field(None, ge=1, description="So many words; 5 if not given.")
    targets: list[str] | None = Field(None, description="Only these are ranked.")


class ZeroShotParameters(NoParameters):
    """The labels, and how they are asked about."""

    candidate_labels: list[str] = Field(min_length=1)
    hypothesis_template: str | None = None
    multi_label: bool | None = None


def _parameters(body: HubBody, kind: type[ParametersType]) -> ParametersType:
    """The parameters of a task.

    Raises:
        InputError: If one of them is not known or cannot be used.
    """
    try:
        return kind.model_validate(body.parameters)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        where = ".".join(("parameters", *map(str, first["loc"][:1])))
        known = ", ".join(kind.model_fields) or "none"
        if first["type"] == "extra_forbidden":
            raise InputError(f"{where} is not known; known: {known}; leave it out.") from error
        what = "is missing" if first["type"] == "missing" else f"cannot be used: {first['msg']}"
        raise InputError(f"{where} {what}; known: {known}.") from error


# Answers.


def _vectors(call: Call, served: ServedModel, body: HubBody) -> list[Vectors]:
    _parameters(body, NoParameters)
    if body.truncate and body.truncation_direction == "left":
        raise InputError(
            "truncation_direction is 'left'; texts are cut at their end only; cut them yourself, "
            "or leave it out."
        )
    vectors = sentence_vectors(
        served,
        body.texts,
        prompt_name=body.prompt_name,
        normalize=body.normalize,
        dimensions=body.dimensions,
        truncate=bool(body.truncate),
    )
    return [*vectors]


def _similarity(call: Call, served: ServedModel, body: HubBody) -> list[float]:
    if not isinstance(body.inputs, ComparedSentences):
        raise InputError("inputs is a text; this task reads source_sentence and sentences.")
    return similarities(served, body.inputs, truncate=bool(body.truncate))


def _classified(call: Call, served: ServedModel, body: HubBody) -> list[list[dict[str, Any]]]:
    chosen = _parameters(body, ClassificationParameters)
    scores = label_scores(served, CLASSIFY, body.texts, chosen.function_to_apply)
    return [_labels(own)[: chosen.top_k] for own in scores]


def _labels(scores: Mapping[str, float]) -> list[dict[str, Any]]:
    return [{"label": label, "score": score} for label, score in scores.items()]


def _zero_shot(call: Call, served: ServedModel, body: HubBody) -> Any:
    chosen = _parameters(body, ZeroShotParameters)
    found = zero_shot(
        call,
        served,
        body.texts,
        chosen.candidate_labels,
        template=chosen.hypothesis_template,
        several=bool(chosen.multi_label),
    )
    return body.shaped([_labels(own) for own in found])


def _tagged(call: Call, served: ServedModel, body: HubBody) -> Any:
    chosen = _parameters(body, TaggingParameters)
    ignored = [OUTSIDE] if chosen.ignore_labels is None else chosen.ignore_labels
    task: Any = served.tasks[TAG]
    grouped = chosen.aggregation_strategy != "none"
    found = served.language_model().predict(body.texts, task)
    if grouped and task.rules.begins:
        return body.shaped([_entities(each, ignored) for each in found])
    kind = "entity_group" if grouped else "entity"
    return body.shaped([_words(each, kind, ignored) for each in found])


def _entities(tagged: Tagged, ignored: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "entity_group": each.type,
            "score": each.score,
            "word": each.text,
            "start": each.begin,
            "end": each.end,
        }
        for each in tagged.entities
        if each.type not in ignored
    ]


def _words(tagged: Tagged, kind: str, ignored: Sequence[str]) -> list[dict[str, Any]]:
    rows = zip(tagged.tags, tagged.scores, tagged.words, tagged.spans, strict=True)
    return [
        {kind: tag, "index": index, "score": score, "word": word, "start": begin, "end": end}
        for index, (tag, score, word, (begin, end)) in enumerate(rows, 1)
        if tag not in ignored
    ]


def _answered(call: Call, served: ServedModel, body: HubBody) -> Any:
    if not isinstance(body.inputs, AskedQuestion):
        raise InputError("inputs is a text; this task reads question and context.")
    chosen = _parameters(body, AnsweringParameters)
    task: Any = served.tasks[ANSWER].configured(top=chosen.top_k)[0]
    if chosen.handle_impossible_answer is not None:
        own = 0.0 if task.threshold is None else task.threshold
        task = replace(task, threshold=own if chosen.handle_impossible_answer else None)
    if chosen.max_answer_len is not None:
        task = replace(task, longest=chosen.max_answer_len)
    if chosen.max_seq_len is not None or chosen.doc_stride is not None:
        windows = task.windows
        length = chosen.max_seq_len or windows.length
        shared = {} if chosen.doc_stride is None else {"overlap": chosen.doc_stride, "step": None}
        task = replace(task, windows=replace(windows, length=length, **shared))
    pair = (body.inputs.question, body.inputs.context)
    (found,) = served.language_model().predict([pair], task)
    return _answers(found, chosen.top_k or 1)


def _answers(found: Answered, top: int) -> Any:
    best = {
        "answer": found.text, "score": found.score, "start": found.begin or 0, "end": found.end or 0
    }  # fmt: skip
    if top == 1:
        return best
    return [
        {"answer": each.text, "score": each.score, "start": each.begin, "end": each.end}
        for each in found.candidates[:top]
    ]


def _filled(call: Call, served: ServedModel, body: HubBody) -> Any:
    chosen = _parameters(body, FillingParameters)
    model = served.language_model()
    top = chosen.top_k or (len(chosen.targets) if chosen.targets else _USUAL_TOP)
    found = model.fill(body.texts, top=top, words=chosen.targets)
    gaps = [_gaps(model.tokenizer, each) for each in found]
    return body.shaped([each[0] if len(each) == 1 else each for each in gaps])


def _gaps(tokenizer: Tokenizer, filled: Filled) -> list[list[dict[str, Any]]]:
    """The candidates of each gap, each with the text that it makes; other gaps stay."""
    return [
        [
            {
                "score": each.score,
                "token": tokenizer.id_of(each.token),
                "token_str": each.word,
                "sequence": text,
            }
            for each, text in zip(candidates, texts, strict=True)
        ]
        for candidates, texts in zip(filled.gaps, texts_with(tokenizer, filled), strict=True)
    ]


def _continued(call: Call, served: ServedModel, body: HubBody) -> Any:
    chosen = _parameters(body, GenerationParameters)
    if body.stream:
        if not isinstance(body.inputs, str):
            raise InputError("inputs is a list, and stream is true; send one prompt at a time.")
        return streamed(served, body.inputs, chosen)
    found = continued(served, body.texts, chosen)
    if not body.parameters:  # it may be a summary that was asked for
        found = [{**each, **named_as_all(each["generated_text"])} for each in found]
    return found if isinstance(body.inputs, str) else [[each] for each in found]


def _composed(call: Call, served: ServedModel, body: HubBody) -> list[dict[str, str]]:
    return composed(served, body.texts, _parameters(body, WritingParameters))


# What is meant.


@dataclass(frozen=True)
class HubTask:
    """One of the client's methods."""

    name: str
    """What the hub calls it."""
    ability: str
    """What a model must be able to do."""
    answer: Callable[[Call, ServedModel, HubBody], Any]
    parameters: type[BaseModel]

    def takes(self, body: HubBody) -> bool:
        """Whether a body with a text could be meant for it."""
        given, known = body.parameters.keys(), self.parameters.model_fields
        needed = {name for name, field in known.items() if field.is_required()}
        fits_stream = not body.stream or self.ability == GENERATE
        return fits_stream and needed <= given <= known.keys()


_VECTORS = HubTask("feature-extraction", EMBED, _vectors, NoParameters)
_SIMILARITY = HubTask("sentence-similarity", EMBED, _similarity, NoParameters)
_ANSWERING = HubTask("question-answering", ANSWER, _answered, AnsweringParameters)
_ZERO_SHOT = HubTask("zero-shot-classification", COMPARE, _zero_shot, ZeroShotParameters)
_TEXT_TASKS = (
    _ZERO_SHOT,
    HubTask("token-classification", TAG, _tagged, TaggingParameters),
    HubTask("text-classification", CLASSIFY, _classified, ClassificationParameters),
    HubTask("fill-mask", FILL, _filled, FillingParameters),
    HubTask("text-generation", GENERATE, _continued, GenerationParameters),
    HubTask("summarization", WRITE, _composed, WritingParameters),
    HubTask("translation", WRITE, _composed, WritingParameters),
    _VECTORS,
)


def _meant(call: Call, body: HubBody) -> tuple[ServedModel, HubTask]:
    """The model and the task that a body is for.

    Raises:
        InputError: If no task has such parameters.
        UnknownModel: If no model can do it, or several could be meant.
    """
    tasks = _possible(body)
    if body.model is not None:
        models = [call.model(body.model)]
    elif len(tasks) == 1:
        models = [_able(call, tasks[0], None)]
    else:
        models = [each for each in call.models if each.outline is not None]
    usual = [(each, task) for each in models if (task := _usual(each, tasks, body))]
    abilities = {task.ability for task in tasks}
    able = usual or [
        (each, next(task for task in tasks if task.ability in each.abilities))
        for each in models
        if abilities.intersection(each.abilities)
    ]
    if len(able) == 1:
        return able[0]
    names = ", ".join(f"{model.name} ({task.name})" for model, task in able)
    if not able:
        raise UnknownModel(
            f"no model here does any of {', '.join(dict.fromkeys(t.name for t in tasks))}; GET "
            "/info says what each can do."
        )
    raise UnknownModel(
        f"inputs could be for {names}; name one with the field model, or the task with the "
        "address: /pipeline/TASK."
    )


def _possible(body: HubBody) -> tuple[HubTask, ...]:
    """The tasks that a body could be for."""
    if isinstance(body.inputs, AskedQuestion):
        return (_ANSWERING,)
    if isinstance(body.inputs, ComparedSentences):
        return (_SIMILARITY,)
    if body.model_fields_set & _VECTOR_FIELDS:
        return (_VECTORS,)
    found = tuple(each for each in _TEXT_TASKS if each.takes(body))
    if not found:
        known = {name for each in _TEXT_TASKS for name in each.parameters.model_fields}
        unknown = sorted(body.parameters.keys() - known)
        what = f"{', '.join(unknown)}, which no task has" if unknown else "parameters of two tasks"
        raise InputError(
            f"parameters has {what}; leave out what the task does not know, or name "
            "it with the address: /pipeline/TASK."
        )
    return found


def _usual(served: ServedModel, tasks: Sequence[HubTask], body: HubBody) -> HubTask | None:
    """The task that a model was trained for, if it is one of some."""
    able = [each for each in tasks if each.ability in served.abilities]
    trained = [each for each in able if is_trained_for(served, each.ability)]
    return next((each for each in trained if each.ability != FILL or _has_gaps(served, body)), None)


def _has_gaps(served: ServedModel, body: HubBody) -> bool:
    model = served.outline
    if model is None or not isinstance(body.inputs, str | list):
        return False
    return any(_has_gap(model.tokenizer, text) for text in body.texts)


def _has_gap(tokenizer: Tokenizer, text: str) -> bool:
    return bool(GAPS.search(text)) or (tokenizer.special.mask or "[MASK]") in text


def _able(call: Call, task: HubTask, name: str | None) -> ServedModel:
    if task is _ZERO_SHOT:
        return entailment_model(call, name)
    return meant(call, name, task.ability)


def _answer(call: Call, body: HubBody) -> Any:
    served, task = _meant(call, body)
    return _counted(call, task.answer(call, served, body))


def _answer_as(task: HubTask, call: Call, body: HubBody) -> Any:
    return _counted(call, task.answer(call, _able(call, task, body.model), body))


def _counted(call: Call, answer: Any) -> Any:
    if not isinstance(answer, Stream):
        call.headers["x-compute-tokens"] = str(call.work.tokens)
    return answer


_TEXT = "The cat sat on the mat."
_EXAMPLES: Mapping[str, Any] = {
    "text": {"inputs": _TEXT},
    "question": {"inputs": {"question": "Where is the cat?", "context": _TEXT}},
    "sentences": {"inputs": {"source_sentence": _TEXT, "sentences": [_TEXT, "A dog barks."]}},
    "labels": {"inputs": _TEXT, "parameters": {"candidate_labels": ["animals", "politics"]}},
    "gap": {"inputs": "The [MASK] sat on the mat.", "parameters": {"top_k": 3}},
    "prompt": {"inputs": "Once upon", "parameters": {"max_new_tokens": 20}},
}
_BY_TASK = {
    _ANSWERING.name: "question",
    _SIMILARITY.name: "sentences",
    _ZERO_SHOT.name: "labels",
    "fill-mask": "gap",
    "text-generation": "prompt",
}


def hub_endpoints() -> list[Endpoint]:
    """One path for every task, and one for each."""
    every = Endpoint(
        path="/", summary="what the model was trained for, or what the parameters say",
        answer=_answer, dialect=HUB, body=HubBody, examples=_EXAMPLES,
    )  # fmt: skip
    tasks = (*_TEXT_TASKS, _ANSWERING, _SIMILARITY)
    return [every, *map(_of_task, tasks)]


def _of_task(task: HubTask) -> Endpoint:
    example = _BY_TASK.get(task.name, "text")
    return Endpoint(
        path=f"/pipeline/{task.name}",
        summary=f"{task.name}, as InferenceClient asks for it",
        answer=partial(_answer_as, task),
        dialect=HUB,
        body=HubBody,
        examples={example: _EXAMPLES[example]},
    )
