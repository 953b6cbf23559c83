"""Classification of texts: one label, several labels, or a number.

Paper: Devlin et al. 2019 (a projection of the pooled first token).
Data: texts, each with a label, a set of labels, or a number.
Hides and asks: hides nothing; asks each window for its text's label.
Loss: -log softmax for one label, if wanted smoothed and weighted (`label_loss`); for several the
mean over labels of the binary cross-entropy; for a number the squared error.
Relations: `Compare` is the same for two texts. Long texts are read through windows; every window
learns the label of its text, and an answer is the mean over windows, each counting for the tokens
it judges.
Example: `Classify(labels=("negative", "positive"))`, or for numbers
`{kind = "classify", labels = ["rating"], problem = "number"}`.

Shapes: B windows, C labels.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor

from clozeworks.arrays import Float32Array
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.text_classes import TEXT_POOLINGS, TextClasses
from clozeworks.core.layout import Layout
from clozeworks.core.loss import LossTerm
from clozeworks.core.model import Model
from clozeworks.data.labelled.items import ItemLocations, Label, PairItem, TextItem
from clozeworks.errors import SettingError, UnknownName
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.rng import RandomStream
from clozeworks.spec import spec
from clozeworks.tasks.label_loss import LabelLoss
from clozeworks.tasks.labels import check_names, number_of, published_labels, right_label
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.spans.windows import TokenWindow, Windows, judged_in, read_windows
from clozeworks.tasks.task import Target, Task
from clozeworks.text.tokenizer.tokenizer import Tokenizer

Problem = Literal["one", "several", "number"]
PUBLISHED_PROBLEMS: dict[Problem, str] = {
    "one": "single_label_classification",
    "several": "multi_label_classification",
    "number": "regression",
}
POOLER = "pooler"
FAMILY_HEAD, OWN_HEAD = "classes", "text_classes"


@dataclass(frozen=True)
class Classified:
    """What a model says of a text, or of two.

    Attributes:
        label: The label; all labels that hold; or a number.
        score: The probability of the label; of several the least sure one; None for a number.
        scores: The probability of every label; empty for a number.
        windows: Through how many windows it was read.
    """

    label: Label
    score: float | None
    scores: dict[str, float]
    windows: int = 1


@spec
class Classify(Task[Any, Classified]):
    """Says what a text is about, or how much of something it is."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    labels: tuple[str, ...]
    """The labels in the order of the head; for a number its name."""
    problem: Problem = "one"
    """one label, several, or a number."""
    pooling: str = POOLER
    """The family's own pooler, or first, mean, max, attention."""
    over_windows: Literal["mean", "max"] = "mean"
    """How the windows of a long text agree: by their mean, or by the surest one."""
    threshold: float = 0.5
    """Of several labels those at least this probable hold."""
    metric: str | None = None
    """What it is measured by first; the usual one of the problem if not given."""
    windows: Windows = Windows()
    label_loss: LabelLoss = LabelLoss()
    """How much each label counts, and how sure a model should be of it; for one label."""

    def __post_init__(self) -> None:
        check_names(self.labels)
        if self.problem == "one" and len(self.labels) < 2:
            raise SettingError(
                f"labels is {', '.join(self.labels)}; to choose one there must be at least two; "
                'give more, or set problem to "several" or "number".'
            )
        if self.problem == "number" and len(self.labels) != 1:
            raise SettingError(
                f"labels are {len(self.labels)} and problem is 'number'; a number has one name; "
                "give one."
            )
        if self.problem == "number" and self.over_windows != "mean":
            raise SettingError(
                f"over_windows is {self.over_windows!r} and problem is 'number'; of numbers only "
                "the mean is taken; leave it out."
            )
        if self.pooling not in (POOLER, *TEXT_POOLINGS):
            raise UnknownName("pooling", self.pooling, (POOLER, *TEXT_POOLINGS))
        if not 0 < self.threshold < 1:
            raise SettingError(f"threshold is {self.threshold}; it must be between 0 and 1.")
        if self.problem != "one":
            self.label_loss.refuse_unless_plain(f"problem is {self.problem!r}")

    @property
    def head(self) -> str:
        """The head that is asked."""
        return FAMILY_HEAD if self.pooling == POOLER else OWN_HEAD

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """The family's classifier, and the pooler it reads if the family has one."""
        if self.head == OWN_HEAD:
            return frozenset()
        return frozenset({FAMILY_HEAD, *({POOLER} & set(available))})

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """A head of our own where the pooling is not the family's."""
        if self.head == FAMILY_HEAD:
            return {}
        dropout = blueprint.embeddings.dropout
        return {
            OWN_HEAD: TextClasses(count=len(self.labels), pooling=self.pooling, dropout=dropout)
        }

    def windows_of(
        self, items: Sequence[Any], tokenizer: Tokenizer, most: int | None
    ) -> list[TokenWindow]:
        """The tokens of texts."""
        return read_windows(
            tokenizer,
            [item.text for item in items],
            windows=self.windows,
            most=most,
            places=ItemLocations(items, "text"),
        )

    def targets(self, item: TextItem | PairItem, windows: Sequence[TokenWindow]) -> list[Target]:
        """What is right for the item is right for each of its windows."""
        return [Target(label=self.right(item))] * len(windows)

    def right(self, item: TextItem | PairItem) -> NDArray[Any]:
        """The label's number; a row of zeros and ones; or the number itself."""
        if self.problem == "number":
            return np.asarray(number_of(item.label, item.place), np.float32)
        if self.problem == "one":
            return np.asarray(right_label(item.label, self.labels, item.place))
        row = np.zeros(len(self.labels), np.float32)
        given = (item.label,) if isinstance(item.label, str) else item.label
        for label in given if isinstance(given, tuple) else (None,):
            row[right_label(label, self.labels, item.place)] = 1
        return row

    def settled(self, items: Sequence[Any]) -> Self:
        """The same task with what depends on the training items as numbers."""
        if self.problem != "one":
            return self
        given = (self.labels[int(self.right(item))] for item in items)
        return replace(self, label_loss=self.label_loss.settled(self.labels, given))

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Asks for the labels."""
        assert builder.clean.labels is not None
        builder.targets[self.name] = {ANSWERS: builder.clean.labels}

    def losses(self, model: Model, hidden: Tensor, tensors: BatchTensors) -> dict[str, LossTerm]:
        """What naming the labels costs."""
        scores = self.scores(model, hidden, tensors.layout)
        answers = tensors.targets[self.name][ANSWERS]
        if self.problem == "one":
            return {self.name: self.label_loss.cost(scores, answers, self.labels)}
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        answers = answers.to(scores.dtype)
        if self.problem == "number":
            errors = (scores[:, 0] - answers).square()
            return {self.name: LossTerm(errors.sum(), len(answers), errors.new_zeros(()))}
        total = F.binary_cross_entropy_with_logits(scores, answers, reduction="sum")
        right = ((scores > 0) == (answers > 0.5)).all(dim=1).sum()
        return {self.name: LossTerm(total / len(self.labels), len(answers), right)}

    @property
    def chooses(self) -> bool:
        """Whether an answer is a choice between labels."""
        return self.problem != "number"

    def choices(self, model: Model, hidden: Tensor, tensors: BatchTensors) -> Tensor:
        """The scores of each choice, (B, C); of several labels yes and no of each, (B C, 2)."""
        scores = self.scores(model, hidden, tensors.layout)
        if self.problem == "one":
            return scores
        return torch.stack([scores, torch.zeros_like(scores)], dim=-1).flatten(0, 1)

    def scores(
        self, model: Model, hidden: Tensor, layout: Layout, asked: Tensor | None = None
    ) -> Tensor:
        """A score for each label, (B, C)."""
        return model.head(self.head).logits(hidden, layout)

    def decode(
        self,
        item: TextItem | PairItem,
        windows: Sequence[TokenWindow],
        scores: Sequence[Float32Array],
    ) -> Classified:
        """The label of a text from what its windows say."""
        each = np.stack(scores).astype(np.float64)
        if self.problem == "number":
            value = float(_weights(windows) @ each[:, 0])
            return Classified(value, None, {}, len(windows))
        shares = softmax(each) if self.problem == "one" else 1 / (1 + np.exp(-each))
        if len(windows) > 1:
            shares = _weights(windows) @ shares if self.over_windows == "mean" else shares.max(0)
            shares = shares / shares.sum() if self.problem == "one" else shares
        else:
            shares = shares[0]
        named = dict(zip(self.labels, shares.tolist(), strict=True))
        if self.problem == "one":
            best = int(shares.argmax())
            return Classified(self.labels[best], named[self.labels[best]], named, len(windows))
        held = tuple(label for label, share in named.items() if share >= self.threshold)
        surest = min((named[label] for label in held), default=1 - float(shares.max()))
        return Classified(held, surest, named, len(windows))

    def measure(
        self, items: Sequence[Any], answers: Sequence[Classified], *, intervals: bool = False
    ) -> Measured:
        """Accuracy and F1 of labels, or correlations of numbers."""
        from clozeworks.tasks.metrics.classification import one_label, several_labels
        from clozeworks.tasks.metrics.glue import with_primary
        from clozeworks.tasks.metrics.numbers import numbers

        if self.problem == "number":
            said = [number_of(answer.label, "the answer") for answer in answers]
            gold = [number_of(item.label, item.place) for item in items]
            measured = numbers(gold, said, intervals=intervals)
        else:
            right = np.array([self.right(item) for item in items])
            shares = np.array([[a.scores[label] for label in self.labels] for a in answers])
            if self.problem == "one":
                found = [self.labels.index(str(answer.label)) for answer in answers]
                measured = one_label(right, found, self.labels, shares=shares, intervals=intervals)
            else:
                measured = several_labels(
                    right > 0.5, shares >= self.threshold, self.labels, intervals=intervals
                )
        return measured if self.metric is None else with_primary(measured, self.metric)

    @property
    def cost_value(self) -> str | None:
        """The logarithmic loss of one label, the squared error of a number."""
        return {"one": "log_loss", "number": "mean_squared_error"}.get(self.problem)

    def settings(self) -> Mapping[str, Any]:
        """Labels and kind of problem as published configs state them."""
        return {**published_labels(self.labels), "problem_type": PUBLISHED_PROBLEMS[self.problem]}


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Scores to probabilities, row by row."""
    raised = np.exp(scores - scores.max(axis=-1, keepdims=True))
    shares: NDArray[np.float64] = raised / raised.sum(axis=-1, keepdims=True)
    return shares


def _weights(windows: Sequence[TokenWindow]) -> NDArray[np.float64]:
    """How much each window counts: by the tokens it judges, so that each token counts once."""
    if len(windows) == 1:
        return np.ones(1)
    counts = np.bincount(judged_in(windows), minlength=len(windows))
    weights: NDArray[np.float64] = counts / counts.sum()
    return weights
