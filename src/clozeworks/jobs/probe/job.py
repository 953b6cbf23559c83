"""What the vectors of a frozen model are worth for a task: linear models on chosen layers.

Paper: Devlin et al. 2019, section 5.3 (the feature-based approach).
The encoder runs once and is not changed. On standardised vectors stands a logistic regression, one
for each label where several may hold, or a ridge regression for numbers. How strictly its weights
are kept small is chosen on a fifth of the training items, by their loss; the development items
only measure. Standardisation is folded in, so a regression can become the head of a model.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from clozeworks.checkpoints.tasks import AnyTask
from clozeworks.data.labelled.items import Item, ItemLocations
from clozeworks.data.labelled.labels import check_labels
from clozeworks.data.labelled.reading import Labelled
from clozeworks.data.labelled.splitting import split
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.embed import Vectors
from clozeworks.inference.features import (
    MIX,
    LinearModel,
    Mix,
    check_layers,
    features,
    fitted,
    learned_mix,
    usual_layers,
)
from clozeworks.inference.loop import BatchOptions
from clozeworks.language_model import LanguageModel
from clozeworks.rng import RandomStream
from clozeworks.runtime.progress import Progress
from clozeworks.tasks.classify import Classify, Problem, softmax
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.spans.windows import TokenWindow, by_item
from clozeworks.tasks.tag import Tag

STRENGTHS = (0.0001, 0.001, 0.01, 0.1, 1.0, 10.0)
"""What is tried, in order, until the loss rises; the larger, the less weights are kept small."""
HELD_OUT = 0.2
"""The share of items that development data is made of, and that a strength is chosen on."""
KINDS = ("classify", "compare", "tag")
_PROBLEMS: dict[str, Problem] = {"one": "one", "several": "several", "numbers": "number"}
_TINY = 1e-30  # keeps the logarithm of nothing finite


@dataclass(frozen=True)
class ProbeRow:
    """What one choice of layers came to.

    Attributes:
        layers: Which layers were read.
        measured: On the development items.
        linear: The regression.
        strength: The strength that was chosen; None for the baseline.
        shares: For a mix how much each layer counts, the embeddings first.
        seconds: What the regressions took.
    """

    layers: str
    measured: Measured
    linear: LinearModel
    strength: float | None = None
    shares: tuple[float, ...] = ()
    seconds: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        plain = {name: getattr(self, name) for name in ("layers", "strength", "shares", "seconds")}
        return {**plain, "measured": self.measured.to_dict()}


@dataclass(frozen=True)
class Probed:
    """What a probe found.

    Attributes:
        task: The task.
        baseline: What knowing the labels' frequencies alone is worth, or the mean of the numbers.
        rows: A row for each choice of layers, as asked.
        train: How many items were learned from.
        dev: How many it was measured on.
        long: How many items were read through several windows.
        seconds: What the encoder took.
        notes: What a reader must know, in sentences.
    """

    task: AnyTask
    baseline: ProbeRow
    rows: tuple[ProbeRow, ...]
    train: int
    dev: int
    long: int
    seconds: float
    notes: tuple[str, ...]

    @property
    def best(self) -> ProbeRow:
        """The best row on the development items; of equal ones the first."""
        best = self.rows[0]
        for row in self.rows[1:]:
            best = row if row.measured.better_than(best.measured) else best
        return best

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        plain = {name: getattr(self, name) for name in ("train", "dev", "long", "seconds")}
        return {
            "task": self.task.name,
            "pooling": getattr(self.task, "pooling", None),
            **plain,
            "baseline": self.baseline.to_dict(),
            "rows": [row.to_dict() for row in self.rows],
            "best": self.best.layers,
            "notes": list(self.notes),
        }


def probe(
    model: LanguageModel,
    train: Labelled,
    dev: Labelled | None = None,
    *,
    layers: Sequence[str] | None = None,
    pooling: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Probed:
    """Measures what a frozen model's vectors are worth for a task.

    Args:
        model: The model. It is not changed.
        train: What is learned from; its task decides what is probed.
        dev: What is measured on; a fifth of `train` that is then not learned from, if not given.
        layers: Which layers are read, as `features` takes them; all named ones if not given.
        pooling: How texts become vectors: first, mean, max; mean if not given. Not for words.
        limit: The most items of each part, drawn at random.
        seed: Decides what is drawn.
        progress: Called with tokens done and tokens in all.

    Raises:
        SettingError: A setting does not fit the model or the task.
        InputError: There is nothing to learn.
    """
    if train.task not in KINDS:
        raise SettingError(f"task is {train.task!r}; a probe is for {', '.join(KINDS)}.")
    if limit is not None and limit < 2:
        raise SettingError(f"limit is {limit}; it must be at least 2.")
    learnable = check_labels(train, dev)
    if train.task == "tag" and pooling is not None:
        raise SettingError(f"pooling is {pooling!r}; words are not pooled; leave it out.")
    pooling = None if train.task == "tag" else pooling or "mean"
    depth = len(model.blueprint.encoder.running_order())
    chosen = usual_layers(depth, pooling) if layers is None else tuple(layers)
    check_layers(chosen, depth, pooling)
    task = _task(train, learnable.labels, pooling)
    learned, measured, notes = _items(train, dev, limit, seed)
    items = [*learned, *measured]
    begin = time.monotonic()
    windows = task.windows_of(items, model.tokenizer, model.max_length)
    places = ItemLocations(items)
    vectors = features(
        model.model,
        windows,
        chosen,
        pooling=pooling,
        places=places,
        options=BatchOptions(progress=progress),
    )
    seconds = time.monotonic() - begin
    data = _Data(task, learned, measured, by_item(windows))
    held = data.held(seed)
    with _one_thread():
        rows = tuple(_row(name, vectors.pop(name), data, held, depth + 1) for name in chosen)
    notes += [
        f"The regression on {row.layers} did not settle." for row in rows if not row.linear.settled
    ]
    return Probed(
        task=task,
        baseline=data.baseline(),
        rows=rows,
        train=len(learned),
        dev=len(measured),
        long=sum(len(own) > 1 for own in data.windows),
        seconds=seconds,
        notes=(*learnable.warnings, *notes),
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    # The steps of a fit are so short that threads only wait for each other.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(limits=1):
            yield
    finally:
        torch.set_num_threads(threads)


def _task(train: Labelled, labels: Sequence[str], pooling: str | None) -> AnyTask:
    if train.task == "tag":
        return Tag(labels=tuple(labels))
    assert pooling is not None
    problem = _PROBLEMS[train.kind]
    if problem == "number":
        named = next((column.name for column in train.columns if column.role == "label"), "")
        labels = (named or "number",)
    made = Compare if train.task == "compare" else Classify
    return made(labels=tuple(labels), problem=problem, pooling=pooling)


def _items(
    train: Labelled, dev: Labelled | None, limit: int | None, seed: int
) -> tuple[list[Item], list[Item], list[str]]:
    """What is learned from, what is measured on, and how they came about."""
    notes = []
    if dev is None:
        learned, measured = split(train.items, HELD_OUT, seed)
        notes.append(
            f"No development file was named; taken out of {', '.join(train.files)} (seed {seed}): "
            f"{len(measured):,} of {len(train.items):,} items."
        )
    else:
        learned, measured = list(train.items), list(dev.items)
    parts = []
    for name, part in (("train", learned), ("dev", measured)):
        if limit is not None and len(part) > limit:
            notes.append(f"Drawn with seed {seed}: {limit:,} of {len(part):,} {name} items.")
            drawn = RandomStream(seed, f"probe/{name}").permutation(0, len(part))[:limit]
            part = [part[number] for number in sorted(drawn.tolist())]
        parts.append(part)
    return parts[0], parts[1], notes


class _Data:
    """Items with their windows; rows of vectors stand for texts or for words."""

    def __init__(
        self,
        task: AnyTask,
        learned: Sequence[Item],
        measured: Sequence[Item],
        windows: Sequence[list[TokenWindow]],
    ) -> None:
        self.task = task
        self.learned, self.measured = learned, measured
        self.windows = windows
        self.problem: Problem = task.problem if isinstance(task, Classify) else "one"
        self.labels = len(task.labels)  # type: ignore[attr-defined]
        sizes = [
            sum(len(window.wanted) for window in own) if task.per_token else 1 for own in windows
        ]
        self.item = np.repeat(np.arange(len(windows)), sizes)
        self.rows = sum(sizes[: len(learned)])
        self.answers = self._answers()

    def _answers(self) -> NDArray[Any]:
        found = []
        for item, own in zip(self.learned, self.windows, strict=False):
            targets = self.task.targets(item, own)
            if not self.task.per_token:
                found.append(targets[0].label)
                continue
            for window, target in zip(own, targets, strict=True):
                assert target.tokens is not None
                found += target.tokens[window.wanted].tolist()
        answers = np.array(found)
        if not len(answers) or (answers == answers[0]).all():
            raise InputError(
                f"all {len(self.learned):,} items to learn from have the same label; there must be "
                "two; add rows with others, or raise the limit."
            )
        return answers

    def held(self, seed: int) -> NDArray[np.bool_]:
        """Which rows of those that are learned from a strength is chosen on."""
        try:
            taken = {id(item) for item in split(list(self.learned), HELD_OUT, seed)[1]}
        except InputError as error:
            raise InputError(
                f"{len(self.learned):,} items are too few to learn from; there must be two of one "
                "label; add rows."
            ) from error
        held = np.array([id(item) in taken for item in self.learned])
        return held[self.item[: self.rows]]

    def measure(self, scores: Vectors) -> Measured:
        """How good scores of the development items' rows are."""
        answers, begin = [], 0
        for item, own in zip(self.measured, self.windows[len(self.learned) :], strict=True):
            # A text of several windows has one vector, so it is answered as one window is.
            own = own if self.task.per_token else own[:1]
            each = []
            for window in own:
                end = begin + (len(window.wanted) if self.task.per_token else 1)
                each.append(scores[begin:end] if self.task.per_token else scores[begin])
                begin = end
            answers.append(self.task.decode(item, own, each))
        return self.task.measure(self.measured, answers, intervals=True)

    def baseline(self) -> ProbeRow:
        """What needs no vectors: the most frequent label, or the mean."""
        name = "mean" if self.problem == "number" else "most frequent"
        bias = _frequencies(self.answers, self.problem, self.labels).astype(np.float32)
        linear = LinearModel(np.zeros((self.labels, 0), np.float32), bias)
        nothing = np.zeros((len(self.item) - self.rows, 0), np.float32)
        return ProbeRow(name, self.measure(linear.scores(nothing)), linear)


def _row(
    name: str, vectors: Vectors, data: _Data, held: NDArray[np.bool_], layers: int
) -> ProbeRow:
    begin = time.monotonic()
    known, asked = vectors[: data.rows], vectors[data.rows :]
    answers, problem, labels = data.answers, data.problem, data.labels

    def mixed(rows: NDArray[np.bool_]) -> Mix | None:
        if name != MIX:
            return None
        return learned_mix(known[rows], answers[rows], problem, labels, layers)

    # The mix, too, must not have seen what a strength is chosen on.
    part = mixed(~held)
    tried = known if part is None else part(known)
    strength, least = STRENGTHS[0], np.inf
    fits = fitted(tried[~held], answers[~held], problem, labels, STRENGTHS)
    for number, fit in zip(STRENGTHS, fits, strict=True):
        cost = _cost(fit.scores(tried[held]), answers[held], problem)
        if cost >= least:
            break  # from here on it learns the items by heart, and takes ever longer
        strength, least = number, cost
    whole = mixed(np.ones(data.rows, bool))
    if whole is not None:
        known, asked = whole(known), whole(asked)
    linear = next(fitted(known, answers, problem, labels, [strength]))
    measured = data.measure(linear.scores(asked))
    shares = () if whole is None else whole.shares
    return ProbeRow(name, measured, linear, strength, shares, time.monotonic() - begin)


def _cost(scores: Vectors, right: NDArray[Any], problem: Problem) -> float:
    """The mean loss of scores."""
    exact = scores.astype(np.float64)
    if problem == "number":
        return float(np.square(exact[:, 0] - right).mean())
    if problem == "several":
        return float((np.logaddexp(0, exact) - right * exact).mean())
    return float(-np.log(softmax(exact)[np.arange(len(right)), right] + _TINY).mean())


def _frequencies(answers: NDArray[Any], problem: Problem, labels: int) -> NDArray[np.float64]:
    """The scores that the answers alone suggest, (C,)."""
    if problem == "number":
        return np.array([answers.mean(dtype=np.float64)])
    if problem == "several":
        held = answers.sum(axis=0, dtype=np.float64)
        odds: NDArray[np.float64] = (held + 0.5) / (len(answers) - held + 0.5)
        return np.log(odds)
    return np.log(np.bincount(answers, minlength=labels) / len(answers) + _TINY)
