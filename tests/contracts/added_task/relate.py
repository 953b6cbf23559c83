"""Relations: how two marked spans of a text are related.

Paper: Soares et al. 2019 (entity markers around both spans).
Data: texts, each with a head span, a tail span and the relation between them.
Hides and asks: hides nothing; asks each text, its spans marked, for the relation.
Loss: -log softmax of the relation.
Relations: `Classify` for a whole text.
Example: `Relate(labels=("none", "part_of"))`.

Shapes: B texts, C relations.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from torch import Tensor

from clozeworks.core.loss import LossTerm
from clozeworks.core.model import Model
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import Item, ItemLocations, Label, Role, Span, wrong_text
from clozeworks.data.labelled.labels import TEXT_LABELS, read_labels
from clozeworks.data.labelled.reading import Reading
from clozeworks.errors import InputError
from clozeworks.objectives.batch import ANSWERS, BatchTensors
from clozeworks.spec import spec
from clozeworks.tasks.labels.loss import LabelLoss
from clozeworks.tasks.labels.names import check_names, right_label
from clozeworks.tasks.metrics.classification import one_label
from clozeworks.tasks.metrics.labels import KnownLabels, numbered_labels
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.results.details import (
    PREDICTED,
    Detail,
    Mark,
    Mistake,
    label_details,
    marked,
)
from clozeworks.tasks.spans.windows import TokenWindow, Windows, read_windows
from clozeworks.tasks.task import LabelSetTask, ShownPrediction, Target
from clozeworks.text.tokenizer.tokenizer import Tokenizer

HEAD = "classes"


@dataclass(frozen=True, slots=True)
class RelationItem(Item):
    """A text, two spans of it, and how they are related."""

    text: str
    head: Span
    tail: Span
    label: Label = None
    source_location: str = ""

    command: ClassVar[str] = "relate"
    roles: ClassVar[tuple[Role, ...]] = (
        Role("text", ("text", "sentence"), holds="text"),
        Role("head", ("head", "subject"), is_span=True),
        Role("tail", ("tail", "object"), is_span=True),
        Role("relation", ("relation", "label"), required=False, holds="label"),
    )
    suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".json")
    asked_suffixes: ClassVar[tuple[str, ...]] = (".jsonl", ".json")
    asked_roles: ClassVar[tuple[str, ...]] = ("text", "head", "tail")
    label_role: ClassVar[str] = "relation"
    label_kinds: ClassVar[Mapping[str, str]] = TEXT_LABELS

    def inputs(self) -> dict[str, Any]:
        return {"text": self.text, "head": list(self.head), "tail": list(self.tail)}

    def renamed(self, names: Mapping[str, str]) -> Self:
        return replace(self, label=names[str(self.label)])

    @classmethod
    def from_texts(cls, texts: Sequence[str], source_location: str = "") -> Item:
        raise InputError("a text alone has no spans; name a file with text, head and tail.")

    @classmethod
    def from_row(cls, row: Mapping[str, Any], source_location: str, bad: BadRows) -> Item:
        if wrong := wrong_text(row["text"], "text"):
            raise ValueError(wrong)
        spans = []
        for role in ("head", "tail"):
            span = row[role]
            if not isinstance(span, list) or len(span) != 2:
                raise ValueError(f"the {role} is {span!r}; it must be [begin, end]; fix it")
            spans.append((span[0], span[1]))
        return cls(row["text"], spans[0], spans[1], row.get("relation"), source_location)

    @classmethod
    def settle(
        cls, items: Sequence[Item], reading: Reading, bad: BadRows
    ) -> tuple[Sequence[Item], str]:
        cells = [(item.gold, item.source_location) for item in items]
        labels, kind = read_labels(cells, "one", None, bad)
        return [replace(items[number], label=label) for number, label in labels.items()], kind

    @classmethod
    def has_label_set(cls, kind: str) -> bool:
        return True

    @property
    def marked(self) -> str:
        """The text with a sign on both sides of each span."""
        text = self.text
        for (begin, end), sign in sorted([(self.head, "@"), (self.tail, "#")], reverse=True):
            text = f"{text[:begin]}{sign} {text[begin:end]} {sign}{text[end:]}"
        return text


@dataclass(frozen=True)
class Related:
    """The relation of two spans, and how probable each relation is."""

    label: str
    score: float
    scores: dict[str, float]
    windows: int = 1

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        best = sorted(self.scores.items(), key=lambda each: -each[1])[:top]
        scores = {"score": self.score, "scores": dict(best)}
        return {"relation": self.label, **scores, "windows": self.windows}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], item: Any = None) -> "Related":
        return cls(record["relation"], record["score"], record["scores"], record["windows"])


@spec
class Relate(LabelSetTask[RelationItem, Related]):
    """Says how two spans of a text are related."""

    paper: ClassVar[str] = "Soares et al. 2019"
    item_type: ClassVar[type[Item]] = RelationItem
    answer_type: ClassVar[type[Any]] = Related
    summary: ClassVar[str] = "relate two spans of a text"
    description: ClassVar[str] = "Say how two spans of each text are related."
    title: ClassVar[str] = "Relations of spans"
    ability: ClassVar[str] = "relate spans"
    architecture: ClassVar[str] = "…ForSequenceClassification"
    pipeline_tag: ClassVar[str] = "text-classification"
    head_names: ClassVar[tuple[str, ...]] = (HEAD,)

    windows: Windows = Windows()

    def __post_init__(self) -> None:
        check_names(self.labels)

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        return frozenset({HEAD, *({"pooler"} & set(available))})

    def windows_of(
        self, items: Sequence[RelationItem], tokenizer: Tokenizer, max_length: int | None
    ) -> list[TokenWindow]:
        return read_windows(
            tokenizer,
            [item.marked for item in items],
            windows=self.windows,
            max_length=max_length,
            source_locations=ItemLocations(items, "text"),
        )

    def targets(self, item: RelationItem, windows: Sequence[TokenWindow]) -> list[Target]:
        right = np.asarray(right_label(item.label, self.labels, item.source_location))
        return [Target(label=right)] * len(windows)

    def losses(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> dict[str, LossTerm]:
        logits = self.logits(model, hidden_states, tensors.layout)
        answers = tensors.targets[self.name][ANSWERS]
        return {self.name: LabelLoss().cost(logits, answers, self.labels)}

    def decode(
        self, item: RelationItem, windows: Sequence[TokenWindow], logits: Sequence[Any]
    ) -> Related:
        mean = np.mean(np.stack(logits), axis=0, dtype=np.float64)
        raised = np.exp(mean - mean.max())
        named = dict(zip(self.labels, (raised / raised.sum()).tolist(), strict=True))
        best = max(named, key=lambda label: named[label])
        return Related(best, named[best], named, len(windows))

    def measure(
        self,
        items: Sequence[RelationItem],
        answers: Sequence[Related],
        *,
        intervals: bool = False,
    ) -> Measured:
        gold, predicted = self._numbers(items, answers)
        return one_label(gold, predicted, self.labels, intervals=intervals)

    def _numbers(self, items: Sequence[RelationItem], answers: Sequence[Related]) -> Any:
        gold = [right_label(item.label, self.labels, item.source_location) for item in items]
        return np.array(gold), np.array([self.labels.index(each.label) for each in answers])

    def baseline(
        self, train: Sequence[RelationItem], dev: Sequence[RelationItem]
    ) -> tuple[str, list[Related]]:
        usual = Counter(str(item.label) for item in train).most_common(1)[0][0]
        return f"always predicting {usual!r}", [Related(usual, 1.0, {usual: 1.0})] * len(dev)

    def known_labels(
        self, items: Sequence[RelationItem], answers: Sequence[Related]
    ) -> KnownLabels:
        return numbered_labels(*self._numbers(items, answers), self.labels, "relation")

    def details(
        self, items: Sequence[RelationItem], answers: Sequence[Related], measured: Measured
    ) -> list[Detail]:
        return label_details(self.known_labels(items, answers))

    def mistakes(self, items: Sequence[RelationItem], answers: Sequence[Related]) -> list[Mistake]:
        return [
            Mistake.of(
                item,
                f"{answer.label} instead of {item.label}",
                str(item.label),
                answer.label,
                answer.score,
                texts=(marked(item.text, [Mark(*item.head, PREDICTED, "head")]),),
            )
            for item, answer in zip(items, answers, strict=True)
            if item.label != answer.label
        ]

    def shown(self, item: RelationItem, answer: Related, top: int = 1) -> ShownPrediction:
        spans = [Mark(*item.head, PREDICTED, "head"), Mark(*item.tail, PREDICTED, "tail")]
        return ShownPrediction(
            answer.label,
            answer.score,
            marked=marked(item.text, spans),
            whole=True,
            scores=tuple(answer.scores.items()) if top > 1 else (),
        )
