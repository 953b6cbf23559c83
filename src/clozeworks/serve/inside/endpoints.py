"""Endpoints that look inside a model: attention, lens, attributions, contexts, pieces.

A pass with gradients is a computation like any other: the scheduler runs it in small batches
between those of other requests, and drops what nobody waits for. Of attention one layer is sent at
a time.
"""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field

from clozeworks.core.heads.query_start import NAME as QUERY_START
from clozeworks.core.heads.vocabulary import NAME as VOCABULARY
from clozeworks.errors import InputError, SettingError
from clozeworks.language_model import LanguageModel
from clozeworks.look.attributions import MOST_STEPS, STEPS
from clozeworks.serve.endpoint import Call, Endpoint
from clozeworks.serve.models import ServedModel
from clozeworks.serve.native_body import NativeBody, usage_of
from clozeworks.serve.replies import NATIVE

# Tokens of a text whose attention is shown whole, all heads; of longer ones a head at a time.
MOST_AT_ONCE = 160
# Tokens of a text at most: what is computed of all pairs of them must fit beside other requests.
MOST_TOKENS = 2_048


class LookBody(NativeBody):
    """A text that is looked at."""

    inputs: str
    pair: str | None = Field(None, description="A second text that is read with it.")

    @property
    def text(self) -> str | tuple[str, str]:
        """The text, or both."""
        return self.inputs if self.pair is None else (self.inputs, self.pair)


class AttentionBody(LookBody):
    """A text whose attention is looked at."""

    target: str | None = Field(None, description="What an encoder-decoder writes for it.")
    layer: int = Field(-1, description="The layer that is sent in full, from 1; -1 is the last.")
    head: int | None = Field(None, ge=1, description="This head alone; needed for long texts.")
    top: int | None = Field(None, ge=1, description="So many keys of each query, as [key, value].")
    packed: bool = Field(False, description="Matrices as 16-bit numbers in base64.")


def _attention(call: Call, body: AttentionBody) -> Any:
    served, model = _model(call, body, body.inputs, body.pair, body.target)
    view = model.look.attention(body.text, target=body.target, layers=[body.layer])
    longest = max(len(each.keys) for each in view.streams)
    heads = min(each.heads for each in view.streams)
    if body.head is not None and body.head > heads:
        raise SettingError("head", body.head, f"this model has {heads} heads", f"use 1 to {heads}")
    head = body.head
    if head is None and body.top is None and longest > MOST_AT_ONCE:
        head = 1  # the answer says so
    return _answer(call, served, view.to_dict(body.top, head=head, packed=body.packed))


class LensBody(NativeBody):
    """A text that is looked at through the vocabulary head."""

    inputs: str
    target: str | None = Field(None, description="What an encoder-decoder writes for it.")
    places: list[int] | None = Field(None, description="Numbers of tokens; gaps, or all.")
    right: list[str] | None = Field(None, description="The right words for the gaps.")
    top: int = Field(5, ge=1, le=100)


def _lens(call: Call, body: LensBody) -> Any:
    served, model = _model(call, body, body.inputs, body.target)
    view = model.look.lens(
        body.inputs, target=body.target, places=body.places, right=body.right, top=body.top
    )
    return _answer(call, served, view.to_dict())


class AttributionBody(LookBody):
    """A text, and a number that a model computes of it."""

    label: str | None = None
    word: str | int | None = Field(
        None, description="The word in a gap; where each word has a label, the number of one."
    )
    gap: int = Field(0, ge=0)
    target: str | None = Field(None, description="What follows the text, or is written for it.")
    token: int | None = Field(None, ge=0, description="Which token of the target; all if missing.")
    other: str | None = Field(None, description="A text: what makes both similar is asked.")
    baseline: Literal["mask", "pad", "zero", "mean"] | None = None
    steps: int = Field(STEPS, ge=1, le=MOST_STEPS)
    leave_out: bool = True


def _attributed(call: Call, body: AttributionBody) -> Any:
    served, model = _model(call, body, body.inputs, body.pair, body.target, body.other)
    view = model.look.attribute(
        body.text,
        label=body.label,
        word=body.word,
        gap=body.gap,
        target=body.target,
        token=body.token,
        other=body.other,
        baseline=body.baseline,
        steps=body.steps,
        leave_out=body.leave_out,
    )
    return _answer(call, served, view.to_dict())


class ContextsBody(NativeBody):
    """A word, and texts with it."""

    word: str
    texts: list[str]
    forms: list[str] = Field([], description="Further forms of the word.")
    labels: list[str | None] | None = Field(None, description="Its sense in each text.")
    layer: int | str | None = Field(None, description="A number, or sum_last_four; the last.")
    correction: Literal["raw", "centred", "whitened"] = "centred"
    neighbours: int = Field(5, ge=1, le=50)


def _contexts(call: Call, body: ContextsBody) -> Any:
    served, model = _model(call, body)
    view = model.look.contexts(
        body.word,
        body.texts,
        forms=body.forms,
        labels=body.labels,
        layer=body.layer,
        correction=body.correction,
        neighbours=body.neighbours,
    )
    return _answer(call, served, view.to_dict())


def _tokens(call: Call, body: LookBody) -> Any:
    served, model = _model(call, body)
    return _answer(call, served, model.look.tokens(body.text).to_dict())


def _views(call: Call, body: None) -> Any:
    """What can be looked at in each model."""
    return {"models": [found for each in call.models if (found := _described(each))]}


def _described(served: ServedModel) -> dict[str, Any] | None:
    """What a client must know to ask: what there is to see, and what is asked for it."""
    model = served.outline
    if model is None or served.index is not None or not model.has_tokenizer:
        return None
    plan, task = model.blueprint, model.task
    has_words = VOCABULARY in plan.heads
    views = ["attention", "attributions", "contexts", "tokens"]
    pairs = task is not None and not task.writes and len(task.item_type.text_names) > 1
    tower = plan.encoder if plan.decoder is None else plan.decoder
    return {
        "name": served.name,
        "views": [*views[:1], *(["lens"] if has_words else []), *views[1:]],
        "layers": len(plan.encoder.running_order()),
        "answering_layers": len(tower.running_order()),
        "max_length": model.max_length,
        "mask": model.tokenizer.special.mask if has_words and not plan.can_generate else None,
        "needs_gap": QUERY_START in plan.heads,
        "writes": plan.decoder is not None,
        "follows": has_words and plan.can_generate and plan.decoder is None,
        "labels": None if task is None or task.head_labels is None else [*task.head_labels],
        "per_word": task is not None and task.per_token and not pairs,
        "pairs": pairs,
        "texts": [*task.item_type.text_names] if task is not None else ["text"],
    }


def _model(call: Call, body: NativeBody, *texts: str | None) -> tuple[ServedModel, LanguageModel]:
    """The model that is asked, and whether it is asked about texts that are not too long.

    Raises:
        InputError: If it has no tokenizer, or a text is longer than is looked at over HTTP.
    """
    served = call.model(body.model)
    model = served.language_model()
    if not model.has_tokenizer:
        raise InputError(f"{served.name} has no tokenizer, so it reads no text; ask another one.")
    model.tokenizer.encode(
        [each for each in texts if each is not None],
        max_length=MOST_TOKENS,
        advice="look at a part of it, or use clozeworks look",
    )
    return served, model


def _answer(call: Call, served: ServedModel, output: dict[str, Any]) -> dict[str, Any]:
    return {"model": served.name, "output": output, "usage": usage_of(call)}


def look_endpoints() -> Sequence[Endpoint]:
    """Everything that can be looked at."""
    return _ENDPOINTS


_TEXT = "a text of yours"
_ENDPOINTS = [
    Endpoint(
        path="/v1/look/models", summary="say what can be looked at in each model", answer=_views,
        dialect=NATIVE, method="GET",
    ),
    Endpoint(
        path="/v1/look/attention", summary="show what a model attends to, one layer at a time",
        answer=_attention, dialect=NATIVE, body=AttentionBody,
        examples={"last layer": {"inputs": _TEXT, "top": 3}},
    ),
    Endpoint(
        path="/v1/look/lens", summary="show which words a model would say at each layer",
        answer=_lens, dialect=NATIVE, body=LensBody,
        examples={"a gap": {"inputs": "A [MASK] text.", "top": 3}},
    ),
    Endpoint(
        path="/v1/look/attributions", summary="show what each word does to a prediction",
        answer=_attributed, dialect=NATIVE, body=AttributionBody,
        examples={"a gap": {"inputs": "A [MASK] text.", "steps": 20}},
    ),
    Endpoint(
        path="/v1/look/contexts", summary="compare the vectors of a word in many texts",
        answer=_contexts, dialect=NATIVE, body=ContextsBody,
        examples={"a word": {"word": "text", "texts": [_TEXT, "another text", "a third text"]}},
    ),
    Endpoint(
        path="/v1/look/tokens", summary="show the pieces of a text", answer=_tokens,
        dialect=NATIVE, body=LookBody, examples={"one": {"inputs": _TEXT}},
    ),
]  # fmt: skip
