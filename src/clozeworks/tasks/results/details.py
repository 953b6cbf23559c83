"""What a task has to show of its predictions, as plain data: tables, curves, points, marked texts.

A task's `details` and `mistakes` return these; a report draws them, a server sends them as JSON.
Nothing here knows HTML, and nothing that draws knows a task.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from clozeworks.data.labelled.items import Item
from clozeworks.tasks.metrics.calibration import Bin
from clozeworks.tasks.metrics.labels import KnownLabels

# Mistakes that are kept to look at.
MOST_MISTAKES = 50
# Labels that a table shows.
MOST_ROWS = 200
GOLD, PREDICTED = "gold", "predicted"


@dataclass(frozen=True)
class DetailTable:
    """Rows of cells."""

    columns: tuple[str, ...]
    """What each column is called."""
    rows: tuple[tuple[str, ...], ...]
    """The cells, as a person reads them."""
    numbers: bool = True
    """Whether all but the first column hold numbers."""


@dataclass(frozen=True)
class DetailText:
    """A sentence or more about the predictions."""

    text: str


@dataclass(frozen=True)
class ConfusionMatrix:
    """How often each label was taken for each other one."""

    labels: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    """A row for each gold label, a column for each predicted one."""


@dataclass(frozen=True)
class CalibrationCurve:
    """How often predictions are right, by how confident the model was."""

    bins: tuple[Bin, ...]


@dataclass(frozen=True)
class ScatterPlot:
    """Gold numbers against predicted ones."""

    gold: tuple[float, ...]
    predicted: tuple[float, ...]


Detail = DetailTable | DetailText | ConfusionMatrix | CalibrationCurve | ScatterPlot


def label_details(known: KnownLabels) -> list[Detail]:
    """A confusion matrix where it can be read, and a table of the labels' scores."""
    details: list[Detail] = []
    if known.confusion:
        names = tuple(each.label for each in known.labels)
        details.append(ConfusionMatrix(names, known.confusion))
    rows = tuple(
        (
            each.label,
            f"{each.precision:.3f}",
            f"{each.recall:.3f}",
            f"{each.f1:.3f}",
            f"{each.support:,}",
        )
        for each in known.labels[:MOST_ROWS]
    )
    details.append(DetailTable((known.what, "precision", "recall", "F1", "count"), rows))
    if len(known.labels) > MOST_ROWS:
        details.append(DetailText(f"And {len(known.labels) - MOST_ROWS:,} more."))
    return details


@dataclass(frozen=True, slots=True)
class Mark:
    """A stretch of a text that is shown as something."""

    begin: int
    """Its first character."""
    end: int
    """The character after its last."""
    kind: str
    """What it is: `GOLD` or `PREDICTED`."""
    name: str = ""
    """A word that is put after it, such as the type of an entity."""


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A text and what is marked in it."""

    text: str
    marks: tuple[Mark, ...] = ()
    """What is marked, in any order; stretches may overlap."""


def marked(text: str, marks: Iterable[Mark] = ()) -> MarkedText:
    """A text with marks; those without characters are left out."""
    return MarkedText(text, tuple(mark for mark in marks if mark.begin < mark.end))


@dataclass(frozen=True)
class Mistake:
    """A prediction that is wrong."""

    source_location: str
    kind: str
    gold: str
    predicted: str
    weight: float
    """What mistakes are ordered by: how confident the model was, or how far off."""
    shown_weight: str
    """The same for people: `97.2% confident`, `off by 0.4`."""
    texts: tuple[MarkedText, ...]
    """What was asked about."""

    @classmethod
    def of(
        cls,
        item: Item,
        kind: str,
        gold: str,
        predicted: str,
        weight: float,
        shown: str = "",
        texts: tuple[MarkedText, ...] = (),
    ) -> "Mistake":
        """A mistake about an item: by default its texts without marks, weighed by confidence."""
        shown = shown or f"{weight:.1%} confident"
        texts = texts or tuple(map(marked, item.texts))
        return cls(item.source_location, kind, gold, predicted, weight, shown, texts)


@dataclass(frozen=True)
class Mistakes:
    """All mistakes of an evaluation."""

    kinds: dict[str, int]
    """How many there are of each kind, the most frequent first."""
    worst: tuple[Mistake, ...]
    """Those with the largest weight, kinds taking turns."""

    @property
    def total(self) -> int:
        """How many there are."""
        return sum(self.kinds.values())


def worst_mistakes(mistakes: Sequence[Mistake], limit: int = MOST_MISTAKES) -> Mistakes:
    """Counts mistakes by kind and keeps the worst; a frequent kind does not hide the others."""
    seen: Counter[str] = Counter()
    turns = []
    for mistake in sorted(mistakes, key=lambda each: -each.weight):
        turns.append((seen[mistake.kind], mistake))
        seen[mistake.kind] += 1
    worst = [mistake for _, mistake in sorted(turns, key=lambda each: each[0])[:limit]]
    worst.sort(key=lambda each: -each.weight)
    return Mistakes(dict(seen.most_common()), tuple(worst))
