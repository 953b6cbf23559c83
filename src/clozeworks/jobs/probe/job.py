"""Linear probes: what the vectors of a frozen model are worth for a task, layer by layer.

Paper: Devlin et al. 2019, section 5.3 (the feature-based approach).
The encoder runs once and is not changed. A probe is a logistic regression on standardised vectors,
one for each label where several may hold, or a ridge regression for numbers. Its regularization is
chosen on a fifth of the training items, by their loss; the development items only measure.
Standardisation is folded in, so a probe can become the head of a model.
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
"""Inverse regularization strengths, tried in order until the loss rises."""
HELD_OUT = 0.2
"""The fraction of items that development data is made of, and that a strength is chosen on."""
KINDS = ("classify", "compare", "tag")
_PROBLEMS: dict[str, Problem] = {"one": "one", "several": "several", "numbers": "number"}
_TINY = 1e-30  # keeps the logarithm of nothing finite


@dataclass(frozen=True)
class ProbeRow:
    """The result for one choice of layers."""

    layers: str
    """Which layers were read."""
    measured: Measured
    """The metrics on the development items."""
    linear: LinearModel
    """The probe."""
    strength: float | None = None
    """The inverse regularization strength that was chosen; None for the baseline."""
    layer_weights: tuple[float, ...] = ()
    """For a mix how much each layer counts, the embeddings first."""
    seconds: float = 0.0
    """How long fitting took."""

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
        names = ("layers", "strength", "layer_weights", "seconds")
        plain = {name: getattr(self, name) for name in names}
        return {**plain, "measured": self.measured.to_dict()}


@dataclass(frozen=True)
class Probed:
    """The results of probing a model."""

    task: AnyTask
    """The task."""
    baseline: ProbeRow
    """What the frequencies of the labels alone are worth, or the mean of the numbers."""
    rows: tuple[ProbeRow, ...]
    """A row for each choice of layers, in the order given."""
    train: int
    """How many items the probes were trained on."""
    dev: int
    """How many items they were measured on."""
    long: int
    """How many items were read through several windows."""
    seconds: float
    """How long the encoder took."""
    notes: tuple[str, ...]
    """What a reader should know, in sentences."""

    @property
    def best(self) -> ProbeRow:
        """The best row on the development items; of equal ones the first."""
        best = self.rows[0]
        for row in self.rows[1:]:
            best = row if row.measured.better_than(best.measured) else best
        return best

    def to_dict(self) -> dict[str, Any]:
        """The JSON form."""
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
        train: The training items; their task decides what is probed.
        dev: The items to measure on; a fifth of `train`, which is then not trained on, if not
            given.
        layers: Which layers are read, as `features` takes them; all named ones if not given.
        pooling: How tokens are pooled: first, mean, max; mean if not given. Not for words.
        limit: The maximum number of items of each part, drawn at random.
        seed: Decides what is drawn.
        progress: Called with tokens done and tokens in all.

    Raises:
        SettingError: If a setting does not fit the model or the task.
        InputError: If all items have the same label, or if there are too few of them.
    """
    if train.task not in KINDS:
        raise SettingError("task", train.task, f"only {', '.join(KINDS)} can be probed")
    if limit is not None and limit < 2:
        raise SettingError("limit", limit, "it must be at least 2")
    learnable = check_labels(train, dev)
    if train.task == "tag" and pooling is not None:
        raise SettingError("pooling", pooling, "words are not pooled", "leave it out")
    pooling = None if train.task == "tag" else pooling or "mean"
    depth = len(model.blueprint.encoder.running_order())
    chosen = usual_layers(depth, pooling) if layers is None else tuple(layers)
    check_layers(chosen, depth, pooling)
    task = _task(train, learnable.labels, pooling)
    learned, measured, notes = _items(train, dev, limit, seed)
    items = [*learned, *measured]
    begin = time.monotonic()
    windows = task.windows_of(items, model.tokenizer, model.max_length)
    vectors = features(
        model.model,
        windows,
        chosen,
        pooling=pooling,
        source_locations=ItemLocations(items),
        options=BatchOptions(progress=progress),
    )
    seconds = time.monotonic() - begin
    data = _Data(task, learned, measured, by_item(windows))
    held = data.held(seed)
    with _one_thread():
        rows = tuple(_row(name, vectors.pop(name), data, held, depth + 1) for name in chosen)
    notes += [
        f"The probe on {row.layers} did not converge." for row in rows if not row.linear.converged
    ]
    return Probed(
        task=task,
        baseline=data.baseline(),
        rows=rows,
        train=len(learned),
        dev=len(measured),
        long=sum(len(several) > 1 for several in data.windows),
        seconds=seconds,
        notes=(*learnable.warnings, *notes),
    )


@contextmanager
def _one_thread() -> Iterator[None]:
    # The steps of a fit are so short that threads would only wait for each other.
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
    """The items to train on, the items to measure on, and how they were chosen."""
    notes = []
    if dev is None:
        learned, measured = split(train.items, HELD_OUT, seed)
        notes.append(
            f"No development file was given; held out of {', '.join(train.files)} (seed {seed}): "
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
    """Items with their windows; a row of vectors belongs to a text or to a word."""

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
            sum(len(window.wanted) for window in several) if task.per_token else 1
            for several in windows
        ]
        self.item = np.repeat(np.arange(len(windows)), sizes)
        self.rows = sum(sizes[: len(learned)])
        self.targets = self._targets()

    def _targets(self) -> NDArray[Any]:
        every = []
        for item, several in zip(self.learned, self.windows, strict=False):
            of_windows = self.task.targets(item, several)
            if not self.task.per_token:
                every.append(of_windows[0].label)
                continue
            for window, target in zip(several, of_windows, strict=True):
                assert target.tokens is not None
                every += target.tokens[window.wanted].tolist()
        targets = np.array(every)
        if not len(targets) or (targets == targets[0]).all():
            raise InputError(
                f"all {len(self.learned):,} training items have the same label; there must be at "
                "least two labels; add rows with others, or raise the limit."
            )
        return targets

    def held(self, seed: int) -> NDArray[np.bool_]:
        """Which of the training rows the strength is chosen on."""
        try:
            taken = {id(item) for item in split(list(self.learned), HELD_OUT, seed)[1]}
        except InputError as error:
            raise InputError(
                f"{len(self.learned):,} items are too few to train on; there must be two with the "
                "same label; add rows."
            ) from error
        held = np.array([id(item) in taken for item in self.learned])
        return held[self.item[: self.rows]]

    def measure(self, logits: Vectors) -> Measured:
        """Metrics for the logits of the development items' rows."""
        predictions, begin = [], 0
        for item, windows in zip(self.measured, self.windows[len(self.learned) :], strict=True):
            # A text of several windows has one vector, so it is decoded as one window is.
            windows = windows if self.task.per_token else windows[:1]
            each = []
            for window in windows:
                end = begin + (len(window.wanted) if self.task.per_token else 1)
                each.append(logits[begin:end] if self.task.per_token else logits[begin])
                begin = end
            predictions.append(self.task.decode(item, windows, each))
        return self.task.measure(self.measured, predictions, intervals=True)

    def baseline(self) -> ProbeRow:
        """What needs no vectors: the most frequent label, or the mean."""
        name = "mean" if self.problem == "number" else "most frequent"
        bias = _frequencies(self.targets, self.problem, self.labels).astype(np.float32)
        linear = LinearModel(np.zeros((self.labels, 0), np.float32), bias)
        nothing = np.zeros((len(self.item) - self.rows, 0), np.float32)
        return ProbeRow(name, self.measure(linear.logits(nothing)), linear)


def _row(
    name: str, vectors: Vectors, data: _Data, held: NDArray[np.bool_], layers: int
) -> ProbeRow:
    begin = time.monotonic()
    known, new = vectors[: data.rows], vectors[data.rows :]
    targets, problem, labels = data.targets, data.problem, data.labels

    def mixed(rows: NDArray[np.bool_]) -> Mix | None:
        if name != MIX:
            return None
        return learned_mix(known[rows], targets[rows], problem, labels, layers)

    # The mix, too, must not have seen the rows that the strength is chosen on.
    part = mixed(~held)
    tried = known if part is None else part(known)
    strength, lowest = STRENGTHS[0], np.inf
    fits = fitted(tried[~held], targets[~held], problem, labels, STRENGTHS)
    for number, fit in zip(STRENGTHS, fits, strict=True):
        loss = _loss(fit.logits(tried[held]), targets[held], problem)
        if loss >= lowest:
            break  # from here on it overfits, and takes ever longer
        strength, lowest = number, loss
    whole = mixed(np.ones(data.rows, bool))
    if whole is not None:
        known, new = whole(known), whole(new)
    linear = next(fitted(known, targets, problem, labels, [strength]))
    measured = data.measure(linear.logits(new))
    weights = () if whole is None else whole.weights
    return ProbeRow(name, measured, linear, strength, weights, time.monotonic() - begin)


def _loss(logits: Vectors, targets: NDArray[Any], problem: Problem) -> float:
    """The mean loss."""
    exact = logits.astype(np.float64)
    if problem == "number":
        return float(np.square(exact[:, 0] - targets).mean())
    if problem == "several":
        return float((np.logaddexp(0, exact) - targets * exact).mean())
    return float(-np.log(softmax(exact)[np.arange(len(targets)), targets] + _TINY).mean())


def _frequencies(targets: NDArray[Any], problem: Problem, labels: int) -> NDArray[np.float64]:
    """The logits that the targets' frequencies alone suggest, (C,)."""
    if problem == "number":
        return np.array([targets.mean(dtype=np.float64)])
    if problem == "several":
        held = targets.sum(axis=0, dtype=np.float64)
        odds: NDArray[np.float64] = (held + 0.5) / (len(targets) - held + 0.5)
        return np.log(odds)
    return np.log(np.bincount(targets, minlength=labels) / len(targets) + _TINY)
