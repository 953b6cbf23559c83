"""How good sentence vectors are, by what is known of the rows they are measured on.

| rows | measured by |
|---|---|
| pairs with a number | Spearman correlation of cosine and number |
| pairs with 0 or 1 | average precision |
| the same, several for each anchor | how far up those with 1 stand (MAP, MRR, nDCG) |
| pairs with hard negatives | how often the positive is nearer than the negative |
| pairs | the rank of the positive among the positives of all rows (MRR@10) |
| texts with a class | how often the nearest other text has the same class |
| texts alone | pairs of their halves |

Shapes: n rows, W width.
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from clozeworks.arrays import Float32Array, Float64Array
from clozeworks.errors import InputError
from clozeworks.tasks.embed.items import EmbedItem
from clozeworks.tasks.metrics.bootstrap import measured_from_sums
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.metrics.pairs import similar_pairs
from clozeworks.tasks.metrics.reranking import reranking
from clozeworks.tasks.metrics.sts import sts
from clozeworks.tasks.metrics.triplets import triplets

# Rows whose cosines with all others are computed at a time.
_BLOCK = 1024
_DEPTH = 10
# Rows of an anchor, on average, that make them candidates of a query.
_CANDIDATES = 3


def measure_vectors(
    items: Sequence[EmbedItem],
    vectors: Sequence[Float32Array],
    *,
    threshold: float | None = None,
    intervals: bool = False,
) -> Measured:
    """Measures vectors, a row for each text of an item, by what the items say of their texts.

    Args:
        items: The rows.
        vectors: The vectors of the texts of each, (texts, W).
        threshold: Of pairs with 0 or 1: those of at least this cosine count as similar; chosen on
            other pairs.
        intervals: Whether intervals are wanted.

    Raises:
        InputError: If nothing can be measured on such rows.
    """
    check_measurable(items)
    kind = items[0].kind
    if kind == "scores":
        gold = [float(item.label) for item in items]
        return sts(gold, first_cosines(vectors), intervals=intervals)
    if kind == "judged":
        labels, scores = [int(item.label) for item in items], first_cosines(vectors)
        if threshold is None and has_candidates(items):
            return _candidates(items, labels, scores, intervals=intervals)
        return similar_pairs(labels, scores, threshold=threshold, intervals=intervals)
    if kind in ("pairs", "tuples"):
        if all(len(item.others) > 1 for item in items):
            near = [float(_cosines(each)[0]) for each in vectors]
            far = [float(_cosines(each)[1:].max()) for each in vectors]
            return triplets(near, far, intervals=intervals)
        return _ranks(items, vectors, intervals=intervals)
    return _neighbours(items, vectors, intervals=intervals)


def check_measurable(items: Sequence[EmbedItem]) -> None:
    """Insists on rows that say something about how near vectors should be.

    Raises:
        InputError: If they say nothing.
    """
    if not items:
        raise InputError("there are no rows to measure; give at least one.")
    kind = items[0].kind
    if kind == "classes":
        raise InputError(
            f"{items[0].source_location}: classes of pairs say nothing about how near two vectors "
            "should be; measure on pairs with a score, with 0 or 1, or on triplets."
        )
    if kind not in ("scores", "judged", "pairs", "tuples", "groups"):
        raise InputError(
            f"{items[0].source_location}: a text alone says nothing about its vector; measure on "
            "pairs of texts, with a score, or on texts with a class."
        )


def has_candidates(items: Sequence[EmbedItem]) -> bool:
    """Whether rows with 0 or 1 are candidates of queries: anchors have several on average."""
    return len(items) >= _CANDIDATES * len({item.group or item.anchor for item in items})


def _candidates(
    items: Sequence[EmbedItem], labels: Sequence[int], scores: Float64Array, *, intervals: bool
) -> Measured:
    """How far up the right candidates of each anchor stand."""
    queries: dict[str, list[int]] = {}
    for number, item in enumerate(items):
        queries.setdefault(item.group or item.anchor, []).append(number)
    measured = reranking(
        [[labels[number] for number in numbers] for numbers in queries.values()],
        [scores[numbers] for numbers in queries.values()],
        intervals=intervals,
    )
    note = (
        f"the {len(items):,} rows are candidates of {len(queries):,} anchors; those of each are "
        "ranked."
    )
    return replace(measured, notes=(note, *measured.notes))


def _cosines(vectors: Float32Array) -> Float64Array:
    """The cosine of the first vector of a row with each of the others."""
    unit = unit_vectors(vectors)
    found: Float64Array = unit[1:] @ unit[0]
    return found


def first_cosines(vectors: Sequence[Float32Array]) -> Float64Array:
    """The cosine of the first two vectors of each row, (n,)."""
    return np.array([_cosines(each[:2])[0] for each in vectors])


def unit_vectors(vectors: Float32Array) -> Float64Array:
    """Vectors of length 1."""
    wide = vectors.astype(np.float64)
    unit: Float64Array = wide / np.maximum(np.linalg.norm(wide, axis=-1, keepdims=True), 1e-12)
    return unit


def _ranks(
    items: Sequence[EmbedItem], vectors: Sequence[Float32Array], *, intervals: bool
) -> Measured:
    """Where the positive of each anchor stands among the different positives of all rows."""
    texts = {item.others[0]: number for number, item in enumerate(items)}
    places = list(texts.values())
    documents = unit_vectors(np.stack([vectors[number][1] for number in places]))
    queries = unit_vectors(np.stack([each[0] for each in vectors]))
    column = {text: number for number, text in enumerate(texts)}
    right: dict[str, set[int]] = {}
    for item in items:
        right.setdefault(item.group or item.anchor, set()).add(column[item.others[0]])
    ranks = np.empty(len(items), np.int64)
    for begin in range(0, len(items), _BLOCK):
        block = queries[begin : begin + _BLOCK] @ documents.T
        for row, item in enumerate(items[begin : begin + _BLOCK]):
            own = column[item.others[0]]
            others = list(right[item.group or item.anchor] - {own})
            same = column.get(item.anchor)  # a query is no answer to itself
            block[row, others + ([same] if same is not None and same != own else [])] = -np.inf
            ranks[begin + row] = 1 + int((block[row] >= block[row, own]).sum()) - 1
    found = ranks[:, None]
    statistics = np.concatenate(
        [np.where(found <= _DEPTH, 1 / found, 0), found == 1, found <= _DEPTH], axis=1
    ).astype(np.float64)
    count = len(items)
    return measured_from_sums(
        statistics,
        lambda sums: {
            "mrr@10": sums[:, 0] / count,
            "accuracy": sums[:, 1] / count,
            "recall@10": sums[:, 2] / count,
        },
        "mrr@10",
        intervals=intervals,
        notes=(
            f"each anchor is compared with the {len(documents):,} different positives of these "
            "rows; more of them would be harder.",
        ),
    )


def _neighbours(
    items: Sequence[EmbedItem], vectors: Sequence[Float32Array], *, intervals: bool
) -> Measured:
    """Whether the nearest other text has the same class."""
    if len(items) < 2:
        raise InputError("there is one text to measure on; it has no neighbour; give more.")
    unit = unit_vectors(np.stack([each[0] for each in vectors]))
    labels = np.array([str(item.label) for item in items])
    right = np.empty(len(items), np.float64)
    for begin in range(0, len(items), _BLOCK):
        block = unit[begin : begin + _BLOCK] @ unit.T
        rows = np.arange(len(block))
        block[rows, begin + rows] = -np.inf
        right[begin : begin + _BLOCK] = labels[block.argmax(1)] == labels[begin + rows]
    return measured_from_sums(
        right[:, None],
        lambda sums: {"neighbour_accuracy": sums[:, 0] / len(items)},
        "neighbour_accuracy",
        intervals=intervals,
        notes=("a text counts if the nearest other one has its class.",),
    )
