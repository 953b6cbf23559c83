"""Reranking: how well each document answers a query, the best first.

Paper: Nogueira & Cho 2019 (`[CLS] query [SEP] document [SEP]`, one logit); elsewhere a
cross-encoder.
Data: queries and documents with 0 or 1, a number, hard negatives, or lists (`items.py`).
Hides and asks: hides nothing; asks each pair of query and document for its logit.
Loss: what `loss` says; the usual one of the rows if it is not given (`losses/`).
Relations: `Compare` chooses between classes, `Embed` compares vectors, which is much cheaper and
less exact: it finds a hundred documents, this puts them in order. A document that does not fit is
cut, of two long texts the longer one first, as other cross-encoders do.
Example: `Rerank(loss=BinaryCrossEntropy())`.

Shapes: B pairs, N tokens.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from clozeworks import config as settings_reader
from clozeworks import registry
from clozeworks.arrays import Float32Array
from clozeworks.core.loss import Loss, LossTerm
from clozeworks.core.model import Model
from clozeworks.data.labelled.items import Item, ItemLocations
from clozeworks.errors import InputError, SettingError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.rng import RandomStream
from clozeworks.spec import spec
from clozeworks.tasks.classify import FAMILY_HEAD, POOLER, Classify
from clozeworks.tasks.labels.activation import (
    CrossEncoderActivation,
    published_activation,
    stated_activation,
)
from clozeworks.tasks.labels.names import published_labels
from clozeworks.tasks.metrics.measured import Measured, with_primary
from clozeworks.tasks.rerank.items import KINDS, RerankItem
from clozeworks.tasks.rerank.losses import RerankLoss, StepPairs
from clozeworks.tasks.rerank.measures import are_lists, by_query, measure_scores, numbers_of
from clozeworks.tasks.results.details import Detail, Mistake, ScatterPlot
from clozeworks.tasks.spans.windows import TokenWindow, Windows
from clozeworks.tasks.task import (
    Prepared,
    PublishedHeads,
    ShownPrediction,
    Target,
    Task,
    TaskData,
    with_kind,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

USUAL_LOSSES = {
    "judged": "binary_cross_entropy",
    "tuples": "binary_cross_entropy",
    "scores": "logit_mse",
    "margins": "logit_margin_mse",
    "lists": "lambda_loss",
}
"""The loss of each kind of rows, where none is named."""
# What published configs call the one row of the head.
_LABELS = ("LABEL_0",)


@dataclass(frozen=True)
class Reranked:
    """How well each document of an item answers its query."""

    scores: tuple[float, ...]
    """A score for each document."""
    logits: tuple[float, ...]
    """What the model computed, before an activation that makes large ones equal."""
    windows: int = 1
    truncated: bool = False
    """Whether a document was cut."""

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON can hold it."""
        found: dict[str, Any] = {"scores": [*self.scores], "logits": [*self.logits]}
        if len(self.scores) == 1:
            found = {"score": self.scores[0], "logit": self.logits[0]}
        return {**found, **({"truncated": True} if self.truncated else {})}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], item: Any = None) -> "Reranked":
        """The same from what `to_dict` wrote."""
        alone = "score" in record
        return cls(
            scores=(record["score"],) if alone else tuple(record["scores"]),
            logits=(record["logit"],) if alone else tuple(record["logits"]),
            truncated=record.get("truncated", False),
        )

    def __str__(self) -> str:
        return ", ".join(f"{score:.3f}" for score in self.scores)


@dataclass(frozen=True)
class RankedDocument:
    """A document and how well it answers a query."""

    index: int
    """Which of the documents it is, counted from 0."""
    score: float
    document: str

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {"index": self.index, "score": self.score, "document": self.document}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "RankedDocument":
        """The same from what `to_dict` wrote."""
        return cls(record["index"], record["score"], record["document"])


def ranked(documents: Sequence[str], scored: Sequence[tuple[float, float]]) -> list[RankedDocument]:
    """Documents by their logits, the best first; equal ones stay in order.

    Args:
        documents: The documents.
        scored: The score and the logit of each.
    """
    order = sorted(range(len(documents)), key=lambda number: -scored[number][1])
    return [RankedDocument(number, scored[number][0], documents[number]) for number in order]


@spec
class Rerank(Task[RerankItem, Reranked]):
    """Says how well documents answer a query."""

    paper: ClassVar[str] = "Nogueira & Cho 2019"
    item_type: ClassVar[type[Item]] = RerankItem
    answer_type: ClassVar[type[Any]] = Reranked
    summary: ClassVar[str] = "put the documents found for a query in order (a cross-encoder)"
    description: ClassVar[str] = (
        "Say how well each document answers its query: a query and a document are read together."
    )
    title: ClassVar[str] = "Reranking"
    ability: ClassVar[str] = "rerank documents"
    architecture: ClassVar[str] = "…ForSequenceClassification with one label: a cross-encoder"
    pipeline_tag: ClassVar[str] = "text-ranking"
    teaches: ClassVar[Mapping[str, str]] = {
        "query, document, label 0 or 1": "binary_cross_entropy, with a weight for rare relevance",
        "query, positive, negative…": "binary_cross_entropy: positives are 1, negatives 0",
        "query, documents, labels (lists)": "lambda_loss (or list_net)",
        "query, document, a number or a teacher's score": "logit_mse",
        "query, positive, negative…, teacher's scores": "logit_margin_mse",
        "query, document, a class": "none: use clozeworks finetune compare",
    }
    can_truncate: ClassVar[bool] = True
    can_augment: ClassVar[bool] = False
    texts_apart: ClassVar[bool] = True
    kinds_from_rows: ClassVar[frozenset[str]] = frozenset({"loss"})
    python_usage: ClassVar[str] = 'outputs = model.rerank("a query", ["a document", "another"])'

    # The field is a person's word; objectives have a method of this name (`batch_loss` calls it).
    loss: RerankLoss | None = None  # type: ignore[assignment]
    """What logits cost; what suits the rows if not given."""
    activation: CrossEncoderActivation | None = None
    """What makes a score of a logit: sigmoid, identity, tanh; what suits the loss if not given."""
    windows: Windows = Windows(keep="first")
    metric: str | None = None
    """What it is measured by first; the usual one of the rows if not given."""

    def __post_init__(self) -> None:
        if self.windows.keep != "first":
            rule = "a pair has one logit, and of what does not fit the beginning is read"
            raise SettingError("windows.keep", self.windows.keep, rule, "leave it out")

    # From rows to items.

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], data: TaskData) -> Prepared:
        """The task with the loss that suits the rows, and rows that suit the loss."""
        kind, train = data.train.kind, list(data.train.items)
        _check_learnable(kind, train)
        chosen = with_kind(settings, "loss", USUAL_LOSSES[kind])
        task: Rerank = settings_reader.read(Task, chosen, "task")
        assert task.loss is not None
        if kind not in task.loss.takes:
            able = [
                name
                for name, each in registry.specs(RerankLoss).items()
                if issubclass(each, RerankLoss) and kind in each.takes
            ]
            rule = f"the rows hold {KINDS[kind]}"
            advice = f"use {' or '.join(sorted(able))}"
            raise SettingError("loss.kind", registry.kind(type(task.loss)), rule, advice)
        messages = [f"The rows hold {KINDS[kind]}: the loss is {registry.kind(type(task.loss))}."]
        if kind == "margins":
            margins = sum(len(item.teacher) < len(item.documents) for item in train)
            messages.append(
                "The teacher's numbers are the scores of documents."
                if not margins
                else f"In {margins:,} of {counted(len(train), 'row')} the teacher's numbers are "
                "margins between the positive and each negative, in the others scores."
            )
        if task.loss.over_lists:
            train = lists_of(train) if kind in ("judged", "scores") else train
            _check_lists(train)
            messages.append(f"The documents of a query are compared: {_about(train)}.")
        elif without := sum(
            not any(label >= 1 for label in each.grades) for each in _judged(train)
        ):
            messages.append(
                f"{counted(without, 'query has', 'queries have')} no relevant document; they are "
                "kept, and teach what is not relevant."
            )
        loss = task.loss.settled([number for item in train for number in item.known or ()])
        messages += [f"{words[0].upper()}{words[1:]}." for words in [loss.in_words()] if words]
        task = replace(task, loss=loss, activation=task.activation or loss.activation)
        for item in data.dev.items:
            numbers_of(item)
        length = task.windows.length
        return Prepared(task, train, data.dev.items, tuple(messages), max_length=length)

    @classmethod
    def from_checkpoint(cls, published: PublishedHeads) -> "Rerank | None":
        """A cross-encoder with one logit, if the folder says that it is one."""
        labels = published.labels((FAMILY_HEAD,))
        activation = stated_activation(published.config, published.folder)
        if labels is None or len(labels) != 1 or activation is None:
            return None
        return cls(activation=activation)

    @classmethod
    def reading_head_of(cls, task: Task[Any, Any]) -> "Rerank | None":
        """A classifier that predicts a number reads the same head."""
        if not isinstance(task, Classify) or task.problem != "number" or task.head != FAMILY_HEAD:
            return None
        # Compat: what a published folder does not say is a sigmoid for sentence-transformers.
        return cls(activation="sigmoid" if type(task) is Classify else "identity")

    def fitted(self, published: PublishedHeads) -> Self | None:
        """The same, if there is a head with one row."""
        labels = published.labels((FAMILY_HEAD,))
        return self if labels is not None and len(labels) == 1 else None

    def suited_to(self, kind: type[Task[Any, Any]]) -> Task[Any, Any] | None:
        """A classifier that predicts a number reads the same head."""
        if issubclass(kind, Classify):
            return kind(labels=_LABELS, problem="number")
        return super().suited_to(kind)

    def to_save(self) -> Self:
        """Without the loss, which only training needs."""
        return replace(self, loss=None)

    @property
    def loss_over_step(self) -> bool:
        """Whether the documents of a query are compared."""
        return self.loss is not None and self.loss.over_lists

    @property
    def head(self) -> str:
        """The family's classifier."""
        return FAMILY_HEAD

    @property
    def head_labels(self) -> tuple[str, ...]:
        """Its one row."""
        return _LABELS

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """The family's classifier, and the pooler it reads if the family has one."""
        return frozenset({FAMILY_HEAD, *({POOLER} & set(available))})

    def settings(self) -> Mapping[str, Any]:
        """What the configs of cross-encoders say."""
        return {**published_labels(_LABELS), **published_activation(self.activation or "sigmoid")}

    # From items to logits.

    def windows_of(
        self, items: Sequence[RerankItem], tokenizer: Tokenizer, max_length: int | None
    ) -> list[TokenWindow]:
        """A window for each document of each item, with the query before it."""
        owners = [
            (n, place) for n, item in enumerate(items) for place in range(len(item.documents))
        ]
        queries = [items[number].query for number, _ in owners]
        documents = [items[number].documents[place] for number, place in owners]
        locations = ItemLocations(items, "row")
        encoded = tokenizer.encode(
            queries, documents, source_locations=[locations[number] for number, _ in owners]
        )
        limit = self.windows.limit(max_length)
        lengths = [len(each) for each in encoded]
        long = [n for n, length in enumerate(lengths) if limit is not None and length > limit]
        if long:
            pairs = [queries[n] for n in long], [documents[n] for n in long]
            shorter = tokenizer.encode(*pairs, max_length=limit, truncate=True)
            for number, cut in zip(long, shorter, strict=True):
                encoded[number] = cut
        return [
            TokenWindow(number, own, place, 0, len(own), dropped=length - len(own))
            for (number, place), own, length in zip(owners, encoded, lengths, strict=True)
        ]

    def targets(self, item: RerankItem, windows: Sequence[TokenWindow]) -> list[Target]:
        """The place of each document in its list, and what is right for it."""
        known = item.known
        if known is None or isinstance(known, str):
            where = item.source_location or "the item"
            raise InputError(f"{where} has no label; give its document 0, 1, a grade or a number.")
        return [
            Target(label=np.array([place, number], np.float32))
            for place, number in enumerate(known)
        ]

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """States what is known of each pair."""
        assert builder.clean.labels is not None
        builder.targets[self.name] = {ANSWERS: builder.clean.labels}

    # A loss of each pair, or of all lists of a step.

    def losses(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> dict[str, LossTerm]:
        """What the logits of a batch cost, where each pair costs by itself."""
        logits = self.logits(model, hidden_states, tensors.layout)
        return self.loss_of_vectors(model, logits, self.known(tensors)).terms  # type: ignore[return-value]

    def batch_loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """One forward pass, and what its logits cost."""
        return Task.loss(self, model, tensors)

    def loss_of_vectors(self, model: Any, vectors: Tensor, known: Mapping[str, Tensor]) -> Loss:
        """What the logits of a step cost, in float32: halves make documents equal."""
        assert self.loss is not None
        term = self.loss.cost(vectors[:, 0].float(), StepPairs.of(known[ANSWERS]))
        return Loss({self.name: term})

    # Answers.

    def decode(
        self, item: RerankItem, windows: Sequence[TokenWindow], logits: Sequence[Float32Array]
    ) -> Reranked:
        """The score of each document."""
        found = tuple(float(each[0]) for each in logits)
        scores = tuple(map(_SCORES[self.activation or "sigmoid"], found))
        return Reranked(scores, found, truncated=any(window.dropped for window in windows))

    def measure(
        self, items: Sequence[RerankItem], answers: Sequence[Reranked], *, intervals: bool = False
    ) -> Measured:
        """By what is known of the documents; see `measures.py`."""
        measured = measure_scores(items, [each.logits for each in answers], intervals=intervals)
        return measured if self.metric is None else with_primary(measured, self.metric)

    def baseline(
        self, train: Sequence[RerankItem], dev: Sequence[RerankItem]
    ) -> tuple[str, list[Reranked]] | None:
        """The order of the first stage, where it is known; of single pairs a score for all."""
        if all(item.first_stage for item in dev):
            said = [Reranked(item.first_stage, item.first_stage) for item in dev]
            return "the order of the first stage", said
        alike = [
            Reranked((0.0,) * len(item.documents), (0.0,) * len(item.documents)) for item in dev
        ]
        if are_lists(by_query(dev, [each.scores for each in alike])):
            return None  # which of equal documents comes first says nothing
        return "giving every document the same score", alike

    def details(
        self, items: Sequence[RerankItem], answers: Sequence[Reranked], measured: Measured
    ) -> list[Detail]:
        """Scores against numbers."""
        if measured.primary != "spearman":
            return []
        gold = tuple(number for item in items for number in numbers_of(item))
        return [ScatterPlot(gold, tuple(score for each in answers for score in each.scores))]

    def mistakes(self, items: Sequence[RerankItem], answers: Sequence[Reranked]) -> list[Mistake]:
        """Documents that stand above one that is more relevant."""
        wrong = []
        for item, answer in zip(lists_of(items), _answers_of(items, answers), strict=True):
            gold = numbers_of(item)
            best = max(range(len(gold)), key=lambda place: (gold[place], answer.logits[place]))
            first = max(range(len(gold)), key=lambda place: answer.logits[place])
            if gold[first] < gold[best]:
                gap = answer.logits[first] - answer.logits[best]
                shown = replace(item, documents=(item.documents[best], item.documents[first]))
                wrong.append(
                    Mistake.of(
                        shown,
                        "a less relevant document comes first",
                        f"{answer.scores[best]:.3f} for the better one",
                        f"{answer.scores[first]:.3f} for the other",
                        gap,
                        f"{gap:.3g} apart",
                    )
                )
        return wrong

    def reading_notes(self, answers: Sequence[Any]) -> list[str]:
        """How many documents were cut."""
        cut = sum(answer.truncated for answer in answers)
        if not cut:
            return ["Every pair of the dev set fits; nothing was cut."]
        return [
            f"{cut:,} of {counted(len(answers), 'row')} of the dev set have a document that does "
            "not fit beside its query; the beginning was read."
        ]

    def shown(self, item: RerankItem, answer: Reranked, top: int = 1) -> ShownPrediction:
        """The score before the texts."""
        return ShownPrediction(str(answer), None, item.texts)

    def transformers_usage(self, *, chats: bool = False) -> str | None:
        """Its cross-encoder."""
        return (
            "from sentence_transformers import CrossEncoder\n\n"
            'model = CrossEncoder("FOLDER")\n'
            'outputs = model.rank("a query", ["a document", "another"])'
        )


_SCORES = {
    # Trap: exp of a large number overflows.
    "sigmoid": lambda logit: 1 / (1 + math.exp(-logit)) if logit > -700 else 0.0,
    "identity": float,
    "tanh": math.tanh,
}


def lists_of(items: Sequence[RerankItem]) -> list[RerankItem]:
    """An item for each query, with all its documents, in the order in which queries first come."""
    queries: dict[str, list[RerankItem]] = {}
    for item in items:
        queries.setdefault(item.query, []).append(item)
    return [_joined(several) for several in queries.values()]


def _joined(items: Sequence[RerankItem]) -> RerankItem:
    if len(items) == 1:
        return items[0]

    def every(name: str) -> Any:
        values = [getattr(item, name) for item in items]
        return tuple(each for value in values for each in value) if all(values) else ()

    return replace(
        items[0],
        documents=every("documents"),
        label=every("label") or None,
        teacher=every("teacher"),
        first_stage=every("first_stage"),
    )


def _answers_of(items: Sequence[RerankItem], answers: Sequence[Reranked]) -> list[Reranked]:
    """The answers of all rows of a query as one."""
    queries: dict[str, list[Reranked]] = {}
    for item, answer in zip(items, answers, strict=True):
        queries.setdefault(item.query, []).append(answer)
    return [
        Reranked(
            tuple(score for each in several for score in each.scores),
            tuple(logit for each in several for logit in each.logits),
        )
        for several in queries.values()
    ]


def _judged(items: Sequence[RerankItem]) -> Any:
    """The candidates of each query, where labels say what is relevant."""
    if any(item.kind == "scores" for item in items):
        return ()
    return by_query(items, [(0.0,) * len(item.documents) for item in items])


def _check_learnable(kind: str, items: Sequence[RerankItem]) -> None:
    """Insists on rows that a reranker can learn from.

    Raises:
        InputError: If there is nothing to learn.
    """
    where = items[0].source_location or "the rows"
    if kind == "classes":
        raise InputError(
            f"{where}: the label is {items[0].label!r}, a class; a reranker learns 0 and 1, grades "
            "or numbers; use clozeworks finetune compare, whose models rerank, too."
        )
    if kind == "pairs":
        raise InputError(
            f"{where}: every document is relevant, so there is nothing to tell apart; add "
            "negatives (clozeworks mine finds some)."
        )
    if kind not in USUAL_LOSSES:
        raise InputError(
            f"{where}: there are no labels; a reranker learns from 0 and 1, from numbers, or from "
            "positives and negatives; name their column with --columns label=NAME."
        )


def _check_lists(items: Sequence[RerankItem]) -> None:
    """Insists on lists with something to compare."""
    if not any(len({*(item.known or ())}) > 1 for item in items):
        raise InputError(
            f"{items[0].source_location or 'the rows'}: no query has two documents with different "
            "labels, so there is nothing to put in order; add documents."
        )


def _about(items: Sequence[RerankItem]) -> str:
    """How many lists there are, and how many of them teach nothing."""
    documents = sum(len(item.documents) for item in items)
    alike = sum(len({*(item.known or ())}) < 2 for item in items)
    said = f"{counted(len(items), 'query', 'queries')} with {counted(documents, 'document')}"
    if not alike:
        return said
    return f"{said}, {alike:,} of which have documents of one label alone and teach no order"
