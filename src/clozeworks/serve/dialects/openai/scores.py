"""Scores of pairs and labels of texts, in the words of vLLM; labels in those of infinity, too."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from pydantic import Field

from clozeworks.errors import InputError
from clozeworks.language_model import LanguageModel
from clozeworks.serve.dialects.label_scores import CLASSIFY, label_scores
from clozeworks.serve.dialects.openai.bodies import (
    OpenAIBody,
    TruncatePromptTokens,
    cut_to,
    found,
    headed,
    usage,
)
from clozeworks.serve.dialects.openai.errors import OPENAI
from clozeworks.serve.dialects.rerankers import INFINITY
from clozeworks.serve.endpoint import Call, Endpoint
from clozeworks.serve.models import EMBED, RERANK, ServedModel

_Pairs = Sequence[tuple[str, str]]


class PairScoresBody(OpenAIBody):
    """Pairs of texts to be scored."""

    text_1: str | list[str] = Field(
        description="A text, which stands before every other one; or one for each of `text_2`.",
        examples=["a question"],
    )
    text_2: str | list[str] = Field(examples=[["an answer", "another"]])
    truncate_prompt_tokens: TruncatePromptTokens = None

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The pairs.

        Raises:
            InputError: If the numbers of texts do not fit.
        """
        first = [self.text_1] if isinstance(self.text_1, str) else self.text_1
        second = [self.text_2] if isinstance(self.text_2, str) else self.text_2
        if len(first) == 1:
            first = first * len(second)
        if len(first) != len(second) or not first:
            raise InputError(
                f"text_1 has {len(first):,} texts and text_2 {len(second):,}; each needs its "
                "partner; give one text_1 for all, or two lists of equal length."
            )
        return list(zip(first, second, strict=True))


def _scored(call: Call, body: PairScoresBody) -> Any:
    pairs = body.pairs
    read = sum(len(text) for pair in pairs for text in pair)
    call.check_characters(read, "text_1 is read with each text_2")
    served = _scorer(call, body.model)
    model = served.language_model()
    if RERANK in served.abilities:
        scores = _read_together(model, pairs)
    else:
        scores = _cosines(model, pairs, cut_to(body.truncate_prompt_tokens))
    return {
        **headed(call, "list", served.name, "score"),
        "data": [
            {"index": number, "object": "score", "score": score}
            for number, score in enumerate(scores)
        ],
        "usage": usage(call.work.tokens),
    }


def _scorer(call: Call, name: str | None) -> ServedModel:
    """The model that is meant: one that reads two texts together, or else one that embeds."""
    if name is None:
        return found(call, name, RERANK if call.models.able(RERANK) else EMBED)
    served = found(call, name)
    return served if RERANK in served.abilities else found(call, name, EMBED)


def _read_together(model: LanguageModel, pairs: _Pairs) -> list[float]:
    """How well the second text of each pair answers the first."""
    scores = [0.0] * len(pairs)
    places: dict[str, list[int]] = {}
    for place, (first, _) in enumerate(pairs):
        places.setdefault(first, []).append(place)
    for first, own in places.items():
        for each in model.rerank(first, [pairs[place][1] for place in own]):
            scores[own[each.index]] = each.score
    return scores


def _cosines(model: LanguageModel, pairs: _Pairs, options: dict[str, Any]) -> list[float]:
    """The cosines of the vectors of each pair."""
    texts = list(dict.fromkeys(text for pair in pairs for text in pair))
    vectors = dict(zip(texts, model.embed(texts, normalize=True, **options), strict=True))
    return [float(np.dot(vectors[first], vectors[second])) for first, second in pairs]


class ClassifyTextsBody(OpenAIBody):
    """Texts to be labelled."""

    input: str | list[str] = Field(examples=["a text of yours", ["a text of yours", "another"]])
    raw_scores: bool | None = Field(
        None,
        description="If it is given, the answer has the shape that infinity's clients read: every "
        "label with its probability or, if it is true, with what the model computed before that.",
    )


def _classified(call: Call, body: ClassifyTextsBody) -> Any:
    served = found(call, body.model, CLASSIFY)
    texts = [body.input] if isinstance(body.input, str) else body.input
    if not texts:
        raise InputError("input is empty; there must be at least one text; add one.")
    several = label_scores(served, CLASSIFY, texts, "none" if body.raw_scores else None)
    if body.raw_scores is None:
        task: Any = served.tasks[CLASSIFY]
        shape = "list"
        data: list[Any] = [_labelled(n, task.labels, scores) for n, scores in enumerate(several)]
    else:
        shape = "classify"
        data = [
            [{"label": label, "score": score} for label, score in scores.items()]
            for scores in several
        ]
    return {
        **headed(call, shape, served.name, "classify"),
        "data": data,
        "usage": usage(call.work.tokens),
    }


def _labelled(number: int, labels: Sequence[str], scores: dict[str, float]) -> dict[str, Any]:
    """The likeliest label, and the probabilities of all in the order of the head."""
    return {
        "index": number,
        "label": next(iter(scores)),
        "probs": [scores[label] for label in labels],
        "num_classes": len(labels),
    }


def scores_endpoints() -> list[Endpoint]:
    """Scores and labels."""
    pairs = [
        Endpoint(
            path=path,
            summary="score pairs of texts",
            answer=_scored,
            dialect=OPENAI,
            body=PairScoresBody,
            fields=frozenset({"text_1", "text_2"}),
            examples={"one to many": {"text_1": "a question", "text_2": ["an answer", "another"]}},
        )
        for path in ("/score", "/v1/score")
    ]
    labels = partial(
        Endpoint,
        path="/classify",
        summary="label texts",
        answer=_classified,
        body=ClassifyTextsBody,
    )
    return [
        *pairs,
        labels(
            dialect=INFINITY,
            fields=frozenset({"raw_scores"}),
            examples={"one": {"input": ["a text of yours"], "raw_scores": False}},
        ),
        labels(
            dialect=OPENAI,
            fields=frozenset({"input"}),
            examples={"one": {"input": ["a text of yours"]}},
        ),
    ]
