"""Classification of texts: one label, several labels, or a number.

Paper: Devlin et al. 2019 (a projection of the pooled first token).
Data: texts, each with a label, a set of labels, or a number.
Hides and asks: hides nothing; asks each window for its text's label.
Loss: -log softmax for one label, if wanted smoothed and weighted (`label_loss`); for several the
mean over labels of the binary cross-entropy; for a number the squared error, in standard
deviations of the training items (`standardization`).
Relations: `Compare` is the same for two texts. Long texts are read through windows; every window
learns the label of its text, and an answer is the mean over windows, each counting for the tokens
it judges.
Example: `Classify(labels=("negative", "positive"))`, or for numbers
`{kind = "classify", labels = ["rating"], problem = "number"}`.

Shapes: B windows, C labels.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from statistics import fmean
from typing import Annotated, Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clozeworks.arrays import Float32Array
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.text_classes import TEXT_POOLINGS, TextClasses
from clozeworks.core.loss import LossTerm
from clozeworks.core.model import Model
from clozeworks.data.augment.changing import TextEditor
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.columns import LABEL_COLUMNS, TEXT_COLUMNS
from clozeworks.data.labelled.items import (
    Item,
    ItemLocations,
    Label,
    Role,
    wrong_text,
)
from clozeworks.data.labelled.labels import (
    TEXT_LABELS,
    AskedKind,
    described_labels,
    read_labels,
)
from clozeworks.data.labelled.reading import Reading
from clozeworks.errors import CheckpointError, SettingError, UnknownName
from clozeworks.objectives.batch import ANSWERS, BatchTensors
from clozeworks.spec import Above, Below, spec
from clozeworks.tasks.labels.activation import states_activation
from clozeworks.tasks.labels.loss import LabelLoss
from clozeworks.tasks.labels.names import check_names, number_of, right_label
from clozeworks.tasks.labels.standardization import Standardization
from clozeworks.tasks.metrics.calibration import calibration_bins
from clozeworks.tasks.metrics.classification import one_label, several_labels
from clozeworks.tasks.metrics.labels import KnownLabels, numbered_labels, per_label
from clozeworks.tasks.metrics.measured import Measured, with_primary
from clozeworks.tasks.metrics.numbers import numbers
from clozeworks.tasks.results.details import (
    CalibrationCurve,
    Detail,
    DetailTable,
    Mistake,
    ScatterPlot,
    label_details,
)
from clozeworks.tasks.results.records import best_scores
from clozeworks.tasks.spans.windows import TokenWindow, Windows, judged_in, read_windows
from clozeworks.tasks.task import (
    CommandOption,
    LabelSetTask,
    Prepared,
    PublishedHeads,
    ShownPrediction,
    Target,
    Task,
    TaskData,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer

Problem = Literal["one", "several", "number"]
PUBLISHED_PROBLEMS: dict[Problem, str] = {
    "one": "single_label_classification",
    "several": "multi_label_classification",
    "number": "regression",
}
LABEL_KINDS: dict[Problem, AskedKind] = {"one": "one", "several": "several", "number": "numbers"}
POOLER = "pooler"
FAMILY_HEAD, OWN_HEAD = "classes", "text_classes"


class LabelledTexts(Item):
    """One or more texts with a label, several labels, or a number."""

    __slots__ = ()

    label: Label
    label_kinds: ClassVar[Mapping[str, str]] = TEXT_LABELS

    def renamed(self, names: Mapping[str, str]) -> Self:
        """With its labels called otherwise."""
        if isinstance(self.label, tuple):
            named = tuple(names[label] for label in self.label)
            return replace(self, label=named)  # type: ignore[type-var]
        return replace(self, label=names[str(self.label)])  # type: ignore[type-var]

    def augmented(self, editor: TextEditor) -> Self:
        """With other words in each text."""
        changed = {name: editor.text(getattr(self, name), name) for name in self.text_names}
        return replace(self, **changed)  # type: ignore[type-var]

    @classmethod
    def from_row(
        cls, row: Mapping[str, Any], source_location: str, bad: BadRows
    ) -> "LabelledTexts":
        """The texts of a row, and what stands in the column of the label."""
        texts = [row[name] for name in cls.text_names]
        for name, text in zip(cls.text_names, texts, strict=True):
            if wrong := wrong_text(text, "text" if len(texts) == 1 else f"{name} text"):
                raise ValueError(wrong)
        return cls(*texts, row.get("label"), source_location)  # type: ignore[call-arg]

    @classmethod
    def settle(
        cls, items: Sequence[Item], reading: Reading, bad: BadRows
    ) -> tuple[Sequence[Item], str]:
        """Reads the labels, whose kind shows in all of them together."""
        cells = [(item.gold, item.source_location) for item in items]
        labels, kind = read_labels(cells, reading.labels, reading.label_separator, bad)
        return [replace(items[number], label=label) for number, label in labels.items()], kind  # type: ignore[type-var]

    @classmethod
    def described_labels(cls, has_column: bool, kind: str) -> str:
        """What the labels are, after the names of the columns."""
        return described_labels(has_column, kind)

    @classmethod
    def has_label_set(cls, kind: str) -> bool:
        """Names are a fixed set, numbers are not."""
        return kind in ("one", "several")


@dataclass(frozen=True, slots=True)
class TextItem(LabelledTexts):
    """A text and its label."""

    text: str
    label: Label = None
    """A label, several, or a number; None if it is not known."""
    source_location: str = ""

    command: ClassVar[str] = "classify"
    roles: ClassVar[tuple[Role, ...]] = (
        Role("text", TEXT_COLUMNS, holds="text"),
        Role("label", LABEL_COLUMNS, required=False, holds="label"),
    )


@dataclass(frozen=True)
class Classified:
    """What a model says of a text, or of two."""

    label: Label
    """The label; all labels that hold; or a number."""
    score: float | None
    """The probability of the label; of several that of the least probable; None for a number."""
    scores: dict[str, float]
    """The probability of every label; empty for a number."""
    windows: int = 1
    """Through how many windows it was read."""
    truncated: bool = False
    """Whether only a part of it was read, as the model was trained."""

    def to_dict(self, top: int | None = None) -> dict[str, Any]:
        """As JSON can hold it; `top` is how many scores are kept."""
        label = list(self.label) if isinstance(self.label, tuple) else self.label
        scores = {"score": self.score, "scores": best_scores(self.scores, top)}
        reading = {"windows": self.windows, **({"truncated": True} if self.truncated else {})}
        return {"label": label, **({} if self.score is None else scores), **reading}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any], item: Any = None) -> "Classified":
        """The same from what `to_dict` wrote of all scores."""
        label = record["label"]
        return cls(
            label=tuple(map(str, label)) if isinstance(label, list) else label,
            score=record.get("score"),
            scores=dict(record.get("scores", {})),
            windows=record["windows"],
            truncated=record.get("truncated", False),
        )

    def __str__(self) -> str:
        if isinstance(self.label, float):
            return f"{self.label:.3f}"
        label = ", ".join(self.label) if isinstance(self.label, tuple) else self.label
        return label or "no label"


@spec
class Classify(LabelSetTask[Any, Classified]):
    """Says what a text is about, or how much of something it is."""

    paper: ClassVar[str] = "Devlin et al. 2019"
    item_type: ClassVar[type[Item]] = TextItem
    answer_type: ClassVar[type[Any]] = Classified
    summary: ClassVar[str] = "label texts: one label, several, or a number"
    description: ClassVar[str] = (
        "Give each text its label; or several labels, or a number, as the model was trained. Long "
        "texts are read through windows; they are truncated only if the model was trained so."
    )
    title: ClassVar[str] = "Text classification"
    ability: ClassVar[str] = "classify texts"
    architecture: ClassVar[str] = "…ForSequenceClassification"
    pipeline_tag: ClassVar[str] = "text-classification"
    command_options: ClassVar[Mapping[str, CommandOption]] = {
        "top": CommandOption(
            int,
            "How many labels are shown, the most likely first. If not given, people are shown one, "
            "and JSON holds all.",
            "-k",
        )
    }
    can_truncate: ClassVar[bool] = True
    can_probe: ClassVar[bool] = True
    python_usage: ClassVar[str] = 'outputs = model.classify(["a text"])'
    pipeline_input: ClassVar[str] = '"a text"'
    """What a pipeline of transformers takes, for the card."""
    head_names: ClassVar[tuple[str, ...]] = (OWN_HEAD, FAMILY_HEAD)

    labels: tuple[str, ...]
    """The labels in the order of the head; for a number its name."""
    problem: Problem = "one"
    """one label, several, or a number."""
    pooling: str = POOLER
    """The family's own pooler, or first, mean, max, attention."""
    over_windows: Literal["mean", "max"] = "mean"
    """How the windows of a long text agree: by their mean, or by the surest one."""
    threshold: Annotated[float, Above(0), Below(1)] = 0.5
    """Of several labels those at least this probable hold."""
    metric: str | None = None
    """What it is measured by first; the usual one of the problem if not given."""
    windows: Windows = Windows()
    label_loss: LabelLoss = LabelLoss()
    """How much each label counts, and how sure a model should be of it; for one label."""
    standardize: bool = True
    """Whether numbers are learned as distances from their mean in standard deviations; what a model
    predicts and what is saved are the numbers themselves in any case."""
    standardization: Standardization = Standardization()
    """In which units the head predicts numbers while it is trained; it follows from the data."""

    def __post_init__(self) -> None:
        check_names(self.labels)
        if self.problem == "one" and len(self.labels) < 2:
            rule = "to choose one there must be at least two"
            advice = 'give more, or set `problem` to "several" or "number"'
            raise SettingError("labels", self.labels, rule, advice)
        if self.problem == "number" and len(self.labels) != 1:
            rule = "`problem` is 'number', and a number has one name"
            raise SettingError("labels", self.labels, rule, "give one")
        if self.problem == "number" and self.over_windows != "mean":
            rule = "`problem` is 'number', and of numbers only the mean is taken"
            raise SettingError("over_windows", self.over_windows, rule, "leave it out")
        if self.pooling not in (POOLER, *TEXT_POOLINGS):
            raise UnknownName("pooling", self.pooling, (POOLER, *TEXT_POOLINGS))
        if self.problem != "one":
            self.label_loss.refuse_unless_plain(f"problem is {self.problem!r}")

    @classmethod
    def prepare(cls, settings: Mapping[str, Any], data: TaskData) -> Prepared:
        """The task with the labels of the data, or the name of its number."""
        train = data.train
        if train.kind == "numbers":
            names = (column.name for column in train.columns if column.role == "label")
            data = replace(data, labels=[next(names, "number")])
        problem = next(name for name, kind in LABEL_KINDS.items() if kind == train.kind)
        return super().prepare({**settings, "problem": problem}, data)

    @classmethod
    def from_checkpoint(cls, published: PublishedHeads) -> "Classify | None":
        """What a classifier's config says; whether it is for one text or two it does not say."""
        labels = published.labels(cls.head_names)
        if labels is None or cls is not Classify:
            return None
        if len(labels) == 1 and states_activation(published.config):
            return None  # a cross-encoder
        return cls(
            labels=labels,
            problem=_published_problem(published.config, len(labels), published.folder),
        )

    def suited_to(self, kind: type[Task[Any, Any]]) -> "Classify | None":
        """A published folder cannot say whether it is for one text or two; so it is for both."""
        if kind is type(self):
            return self
        if not (issubclass(kind, Classify) and type(self) is Classify):
            return None
        return kind(**{each.name: getattr(self, each.name) for each in fields(self)})

    @property
    def head(self) -> str:
        """The family's classifier, or a head of our own where the pooling is not the family's."""
        return FAMILY_HEAD if self.pooling == POOLER else OWN_HEAD

    @property
    def label_kind(self) -> AskedKind:
        """What the label of an item is."""
        return LABEL_KINDS[self.problem]

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """The family's classifier, and the pooler it reads if the family has one."""
        if self.head == OWN_HEAD:
            return frozenset()
        return frozenset({FAMILY_HEAD, *({POOLER} & set(available))})

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """A head of our own where the pooling is not the family's."""
        if self.head == FAMILY_HEAD:
            return {}
        count, dropout = len(self.labels), blueprint.embeddings.dropout
        return {OWN_HEAD: TextClasses(count=count, pooling=self.pooling, dropout=dropout)}

    def windows_of(
        self, items: Sequence[Any], tokenizer: Tokenizer, max_length: int | None
    ) -> list[TokenWindow]:
        """The tokens of texts; of two that do not fit, the longer one is read through windows."""
        kind = self.item_type
        texts, *pairs = ([getattr(item, name) for item in items] for name in kind.text_names)
        return read_windows(
            tokenizer,
            texts,
            *pairs,
            windows=self.windows,
            max_length=max_length,
            moves="longer" if pairs else "only",
            source_locations=ItemLocations(items, kind.asked_unit),
        )

    def targets(self, item: TextItem, windows: Sequence[TokenWindow]) -> list[Target]:
        """What is right for the item is right for each of its windows."""
        return [Target(label=self.right(item))] * len(windows)

    def right(self, item: TextItem) -> NDArray[Any]:
        """The label's number; a row of zeros and ones; or the number as the head predicts it."""
        if self.problem == "number":
            number = number_of(item.label, item.source_location)
            return np.asarray(self.standardization.to_head(number), np.float32)
        if self.problem == "one":
            return np.asarray(right_label(item.label, self.labels, item.source_location))
        row = np.zeros(len(self.labels), np.float32)
        labels = (item.label,) if isinstance(item.label, str) else item.label
        for label in labels if isinstance(labels, tuple) else (None,):
            row[right_label(label, self.labels, item.source_location)] = 1
        return row

    def settled(self, items: Sequence[Any], head: HeadSpec | None = None) -> Self:
        """The same task with what depends on the training items as numbers."""
        if self.problem == "number" and self.standardize:
            values = (number_of(item.label, item.source_location) for item in items)
            seen = Standardization.of(values, centred=head is None or head.has_bias)
            return replace(self, standardization=seen)
        if self.problem != "one":
            return self
        gold = (self.labels[int(self.right(item))] for item in items)
        return replace(self, label_loss=self.label_loss.settled(self.labels, gold))

    def to_save(self) -> Self:
        """The same task, its head predicting numbers as they are."""
        return replace(self, standardization=Standardization())

    def losses(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> dict[str, LossTerm]:
        """What predicting the labels costs."""
        return {self.name: self.cost(*self.logits_and_labels(model, hidden_states, tensors))}

    @property
    def takes_loss(self) -> bool:
        """Whatever the labels are."""
        return True

    def logits_and_labels(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> tuple[Tensor, Tensor]:
        """The logits of each window, (B, C), and what is right for it."""
        logits = self.logits(model, hidden_states, tensors.layout)
        return logits, tensors.targets[self.name][ANSWERS]

    def cost(self, logits: Tensor, labels: Tensor) -> LossTerm:
        """What predicting labels costs.

        Args:
            logits: The logits of each window, (B, C).
            labels: The number of the right label, (B,); for several labels a row of zeros and ones,
                (B, C); the number itself, in units of the head, (B,).
        """
        if self.problem == "one":
            return self.label_loss.cost(logits, labels, self.labels)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        labels = labels.to(logits.dtype)
        if self.problem == "number":
            errors = (logits[:, 0] - labels).square()
            return LossTerm(errors.sum(), len(labels))
        total = F.binary_cross_entropy_with_logits(logits, labels, reduction="sum")
        correct = ((logits > 0) == (labels > 0.5)).all(dim=1).sum()
        return LossTerm(total / len(self.labels), len(labels), correct)

    @property
    def chooses(self) -> bool:
        """Whether an answer is a choice between labels."""
        return self.problem != "number"

    def choices(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> Tensor:
        """The logits of each choice, (B, C); of several labels yes and no of each, (B C, 2)."""
        logits = self.logits(model, hidden_states, tensors.layout)
        if self.problem == "one":
            return logits
        return torch.stack([logits, torch.zeros_like(logits)], dim=-1).flatten(0, 1)

    def decode(
        self, item: TextItem, windows: Sequence[TokenWindow], logits: Sequence[Float32Array]
    ) -> Classified:
        """The label of a text from the logits of its windows."""
        each = np.stack(logits).astype(np.float64)
        read = len(windows), any(window.dropped for window in windows)
        if self.problem == "number":
            value = self.standardization.from_head(float(_weights(windows) @ each[:, 0]))
            return Classified(value, None, {}, *read)
        by_window = softmax(each) if self.problem == "one" else 1 / (1 + np.exp(-each))
        if len(windows) == 1:
            probabilities = by_window[0]
        else:
            mean = self.over_windows == "mean"
            probabilities = _weights(windows) @ by_window if mean else by_window.max(0)
            if self.problem == "one":
                probabilities = probabilities / probabilities.sum()
        named = dict(zip(self.labels, probabilities.tolist(), strict=True))
        if self.problem == "one":
            best = int(probabilities.argmax())
            return Classified(self.labels[best], named[self.labels[best]], named, *read)
        held = tuple(label for label, probability in named.items() if probability >= self.threshold)
        surest = min((named[label] for label in held), default=1 - float(probabilities.max()))
        return Classified(held, surest, named, *read)

    def measure(
        self, items: Sequence[Any], answers: Sequence[Classified], *, intervals: bool = False
    ) -> Measured:
        """Accuracy and F1 of labels, or correlations of numbers."""
        if self.problem == "number":
            measured = numbers(*_numbers(items, answers), intervals=intervals)
        else:
            gold = np.array([self.right(item) for item in items])
            probabilities = np.array([[a.scores[label] for label in self.labels] for a in answers])
            if self.problem == "one":
                predicted = [self.labels.index(str(answer.label)) for answer in answers]
                measured = one_label(
                    gold, predicted, self.labels, probabilities=probabilities, intervals=intervals
                )
            else:
                measured = several_labels(
                    gold > 0.5, probabilities >= self.threshold, self.labels, intervals=intervals
                )
        return (
            measured if self.metric is None else with_primary(measured, self.metric, "task.metric")
        )

    def baseline(self, train: Sequence[Any], dev: Sequence[Any]) -> tuple[str, list[Classified]]:
        """The answer that suits most training items."""
        if self.problem == "number":
            mean = fmean(number_of(item.label, item.source_location) for item in train)
            answer = Classified(mean, None, {})
            return f"always predicting the mean ({mean:.4g})", [answer] * len(dev)
        counts = Counter(label for item in train for label in item.labels)
        fractions = {label: counts[label] / len(train) for label in self.labels}
        first = max(fractions, key=lambda label: fractions[label])
        if self.problem == "one":
            total = sum(fractions.values())
            fractions = {label: each / total for label, each in fractions.items()}
            answer = Classified(first, fractions[first], fractions)
            how = f"always predicting {first!r}, the most frequent label of the training data"
            return how, [answer] * len(dev)
        held = tuple(label for label, each in fractions.items() if each >= 0.5) or (first,)
        answer = Classified(held, 1.0, {label: float(label in held) for label in self.labels})
        return f"always predicting {' + '.join(map(repr, held))}", [answer] * len(dev)

    def known_labels(self, items: Sequence[Any], answers: Sequence[Classified]) -> KnownLabels:
        """Precision, recall and F1 of each label, and what was taken for what."""
        if self.problem == "number":
            return KnownLabels()
        gold = np.array([self.right(item) for item in items])
        if self.problem == "several":
            held = np.array([[label in a.label for label in self.labels] for a in answers])  # type: ignore[operator]
            return KnownLabels(labels=per_label(gold > 0.5, held, self.labels))
        predicted = np.array([self.labels.index(str(answer.label)) for answer in answers])
        return numbered_labels(gold, predicted, self.labels, "label")

    def details(
        self, items: Sequence[Any], answers: Sequence[Classified], measured: Measured
    ) -> list[Detail]:
        """Labels, confusion and calibration, or gold numbers against predicted ones."""
        if self.problem == "number":
            return [ScatterPlot(*_numbers(items, answers))]
        details = label_details(self.known_labels(items, answers))
        if self.problem == "several":
            return details
        matrix, *tables = details
        pairs = zip(items, answers, strict=True)
        correct = [self.labels[int(self.right(item))] == answer.label for item, answer in pairs]
        confidence = np.array([answer.score for answer in answers], np.float64)
        bins = calibration_bins(np.array(correct), confidence)
        rows = tuple(
            (
                f"{each.low:.2f} to {each.high:.2f}",
                f"{each.count:,}",
                f"{each.confidence:.1%}",
                f"{each.accuracy:.1%}",
            )
            for each in bins
            if each.count
        )
        columns = ("confidence", "predictions", "mean confidence", "accuracy")
        return [matrix, CalibrationCurve(bins), *tables, DetailTable(columns, rows)]

    def mistakes(self, items: Sequence[Any], answers: Sequence[Classified]) -> list[Mistake]:
        """Wrong labels, the most confident first, or numbers that are off."""
        wrong = self._number_mistake if self.problem == "number" else self._label_mistake
        return [mistake for mistake in map(wrong, items, answers) if mistake is not None]

    def _number_mistake(self, item: Any, answer: Classified) -> Mistake | None:
        (gold,), (predicted,) = _numbers([item], [answer])
        if gold == predicted:
            return None
        off = abs(predicted - gold)
        kind = "too high" if predicted > gold else "too low"
        return Mistake.of(item, kind, f"{gold:.4g}", f"{predicted:.4g}", off, f"off by {off:.4g}")

    def _label_mistake(self, item: Any, answer: Classified) -> Mistake | None:
        gold, predicted = _names(item.label), _names(answer.label)
        if set(gold) == set(predicted):
            return None
        if self.problem == "one":
            assert answer.score is not None
            kind, weight = f"{predicted[0]} instead of {gold[0]}", answer.score
        else:
            kind = _kind_of_several(set(gold), set(predicted))
            weight = max(abs(answer.scores[label] - (label in gold)) for label in self.labels)
        right, wrong = (", ".join(names) or "none" for names in (gold, predicted))
        return Mistake.of(item, kind, right, wrong, weight)

    def shown(self, item: Any, answer: Classified, top: int = 1) -> ShownPrediction:
        """The label before the text, and further labels below it."""
        best = best_scores(answer.scores, top) if top > 1 else {}
        return ShownPrediction(str(answer), answer.score, item.texts, scores=tuple(best.items()))

    def configured(self, **options: Any) -> "tuple[Classify, None]":
        """Several labels can be shown only where there are labels."""
        if options.get("top") is not None and self.problem == "number":
            rule = "this model predicts a number"
            raise SettingError("--top", options["top"], rule, "leave --top out")
        return self, None

    @property
    def is_published(self) -> bool:
        """Whether transformers answers as we do."""
        return self.head == FAMILY_HEAD

    def transformers_usage(self, *, chats: bool = False) -> str | None:
        """A pipeline."""
        if not self.is_published:
            return None
        options = {"number": ', function_to_apply="none"', "several": ", top_k=None"}
        return (
            "from transformers import pipeline\n\n"
            f'pipe = pipeline("{self.pipeline_tag}", "FOLDER"{options.get(self.problem, "")})\n'
            f"outputs = pipe({self.pipeline_input})"
        )

    def usage_notes(self) -> list[str]:
        """That a pooling of our own is not known elsewhere."""
        if self.is_published:
            return []
        return [
            f"The pooling is {self.pooling!r}, which differs from the family's own: transformers "
            "loads only the encoder."
        ]

    @property
    def cost_value(self) -> str | None:
        """The logarithmic loss of one label, the squared error of a number."""
        return {"one": "log_loss", "number": "mean_squared_error"}.get(self.problem)

    def settings(self) -> Mapping[str, Any]:
        """Labels and kind of problem as published configs state them."""
        return {**super().settings(), "problem_type": PUBLISHED_PROBLEMS[self.problem]}


def _published_problem(config: Mapping[str, Any], labels: int, name: str) -> Problem:
    """The kind of problem a published config states; if it states none, one label is a number."""
    stated = config.get("problem_type")
    if stated is None:
        return "number" if labels == 1 else "one"
    for problem, published in PUBLISHED_PROBLEMS.items():
        if stated == published:
            return problem
    known = ", ".join(PUBLISHED_PROBLEMS.values())
    raise CheckpointError(
        f"{name}: problem_type is {stated!r}; known: {known}; correct config.json."
    )


def _numbers(
    items: Sequence[Any], answers: Sequence[Classified]
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Gold and predicted numbers."""
    gold = tuple(number_of(item.label, item.source_location) for item in items)
    return gold, tuple(number_of(answer.label, "the prediction") for answer in answers)


def _names(label: Label) -> tuple[str, ...]:
    return label if isinstance(label, tuple) else (str(label),)


def _kind_of_several(gold: set[str], predicted: set[str]) -> str:
    if gold < predicted:
        return "labels too many"
    return "labels missing" if predicted < gold else "other labels"


def softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Logits to probabilities, row by row."""
    raised = np.exp(logits - logits.max(axis=-1, keepdims=True))
    probabilities: NDArray[np.float64] = raised / raised.sum(axis=-1, keepdims=True)
    return probabilities


def _weights(windows: Sequence[TokenWindow]) -> NDArray[np.float64]:
    """How much each window counts: by the tokens it judges, so that each token counts once."""
    if len(windows) == 1:
        return np.ones(1)
    counts = np.bincount(judged_in(windows), minlength=len(windows))
    weights: NDArray[np.float64] = counts / counts.sum()
    return weights
