"""What can be had without a model: guesses by what is frequent in the training items.

A number means little beside nothing. These are the answers somebody could give who saw the labels
of the training items and never reads a text; a model that is not better has learned nothing.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from clozeworks.data.labelled.items import WordsItem
from clozeworks.tasks.answer import Answered
from clozeworks.tasks.classify import Classified, Classify
from clozeworks.tasks.labels import number_of
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.tag import Tag, Tagged
from clozeworks.tasks.task import Task
from clozeworks.tasks.text_to_text.task import Composed, TextToText


@dataclass(frozen=True)
class GuessingBaseline:
    """What guessing comes to.

    Attributes:
        how: What is guessed, in a few words.
        measured: How good it is on the dev set.
    """

    how: str
    measured: Measured

    def beaten_by(self, measured: Measured) -> bool:
        """Whether a model is better by its primary value."""
        return measured.better_than(self.measured)

    def in_reach_of(self, measured: Measured) -> bool:
        """Whether the interval of a model's primary value holds that of guessing."""
        low, high = measured.intervals.get(measured.primary, (measured.value, measured.value))
        return low <= self.measured.value <= high


def guess(task: Task[Any, Any], train: Sequence[Any], dev: Sequence[Any]) -> GuessingBaseline:
    """Guesses items from the labels of others, and measures it.

    Args:
        task: What is asked.
        train: The items whose labels are known.
        dev: The items that are guessed.
    """
    if isinstance(task, Classify):
        how, answer = _label(task, train)
        said: list[Any] = [answer] * len(dev)
    elif isinstance(task, Tag):
        how = "giving each word the tag it has most often in the training data"
        said = _tags(train, dev)
    elif isinstance(task, TextToText):
        how = "always writing the most frequent target of the training data"
        said = _targets(train, dev)
    else:
        how = "never giving an answer"
        # The lead is larger than any threshold.
        said = [Answered("", None, None, 1.0, (), float("inf"))] * len(dev)
    return GuessingBaseline(how, task.measure(dev, said))


def _label(task: Classify, items: Sequence[Any]) -> tuple[str, Classified]:
    """The answer that suits most training items."""
    if task.problem == "number":
        mean = fmean(number_of(item.label, item.place) for item in items)
        return f"always saying the mean ({mean:.4g})", Classified(mean, None, {})
    counts = Counter(label for item in items for label in _given(item.label))
    shares = {label: counts[label] / len(items) for label in task.labels}
    first = max(shares, key=lambda label: shares[label])
    if task.problem == "one":
        total = sum(shares.values())
        shares = {label: share / total for label, share in shares.items()}
        return f"always saying {first!r}", Classified(first, shares[first], shares)
    held = tuple(label for label, share in shares.items() if share >= 0.5) or (first,)
    sure = {label: float(label in held) for label in task.labels}
    return f"always saying {' + '.join(map(repr, held))}", Classified(held, 1.0, sure)


def _targets(items: Sequence[Any], dev: Sequence[Any]) -> list[Composed]:
    """The most frequent target of each task; of a task that is not known, of all."""
    counts: dict[str, Counter[str]] = {}
    for item in items:
        counts.setdefault(item.task, Counter())[item.target] += 1
    every = sum(counts.values(), Counter[str]())
    usual = {task: own.most_common(1)[0][0] for task, own in counts.items()}
    rest = every.most_common(1)[0][0]
    return [Composed(usual.get(item.task, rest), 1.0) for item in dev]


def _given(label: Any) -> Sequence[str]:
    return label if isinstance(label, tuple) else (label,)


def _tags(items: Sequence[WordsItem], dev: Sequence[WordsItem]) -> list[Tagged]:
    """The most frequent tag of each word; for unknown words the most frequent of all."""
    by_word: dict[str, Counter[str]] = {}
    every: Counter[str] = Counter()
    for item in items:
        for word, tag in zip(item.words, item.tags or (), strict=False):
            by_word.setdefault(word, Counter())[tag] += 1
            every[tag] += 1
    usual = every.most_common(1)[0][0]
    best = {word: counts.most_common(1)[0][0] for word, counts in by_word.items()}
    return [
        Tagged(item.text, item.spans, tuple(best.get(word, usual) for word in item.words), (), ())
        for item in dev
    ]
