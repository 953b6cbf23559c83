"""What a model got wrong about rows of texts: where vectors say something else than the rows.

| rows | a mistake |
|---|---|
| pairs with a number | it is a quarter of all rows away from its place in their order |
| pairs with 0 or 1 | it is on the wrong side of the best threshold |
| pairs with hard negatives | a negative is at least as near as the positive |
| pairs | the positive of another row is nearer |
| texts with a class | the nearest other text has another class |

Shapes: n rows, W width.
"""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from clozeworks.arrays import Float32Array, Float64Array
from clozeworks.tasks.embed.items import EmbedItem
from clozeworks.tasks.embed.measures import first_cosines, unit_vectors
from clozeworks.tasks.metrics.pairs import similar_pairs
from clozeworks.tasks.results.details import Mistake

# How far a pair may be from its place, as a fraction of all rows.
_FAR = 0.25
# Rows that are compared with all others; of more, mistakes are looked for among the first.
_MOST = 5_000


def mistakes_about(
    items: Sequence[EmbedItem], vectors: Sequence[Float32Array]
) -> list[Mistake] | None:
    """The rows that vectors contradict; None if such rows cannot be contradicted.

    Args:
        items: Rows of one kind.
        vectors: The vectors of the texts of each, (texts, W).
    """
    kinds: dict[str, Callable[..., Iterator[Mistake]]] = {
        "scores": _out_of_order,
        "judged": _wrong_side,
        "tuples": _nearer_negatives,
        "pairs": _nearer_positives,
        "groups": _other_classes,
    }
    find = kinds.get(items[0].kind)
    return None if find is None else list(find(items[:_MOST], vectors[:_MOST]))


def _out_of_order(items: Sequence[EmbedItem], vectors: Sequence[Float32Array]) -> Iterator[Mistake]:
    cosines = first_cosines(vectors)
    right = _places(np.array([float(item.label) for item in items]))
    for item, cosine, off in zip(items, cosines, _places(cosines) - right, strict=True):
        if abs(off) > _FAR:
            kind = "too similar" if off > 0 else "too different"
            shown = f"{abs(off):.0%} of all rows away from its place"
            yield Mistake.of(item, kind, f"{item.label:g}", f"{cosine:.3f}", abs(off), shown)


def _places(values: Float64Array) -> Float64Array:
    """Where each value stands among all, from 0 to 1; equal ones stand at one place."""
    _, which, counts = np.unique(values, return_inverse=True, return_counts=True)
    places: Float64Array = ((np.cumsum(counts) - counts / 2) / len(values))[which]
    return places


def _wrong_side(items: Sequence[EmbedItem], vectors: Sequence[Float32Array]) -> Iterator[Mistake]:
    cosines = first_cosines(vectors)
    gold = [int(item.label) for item in items]
    threshold = similar_pairs(gold, cosines).values["best_accuracy_threshold"]
    for item, label, cosine in zip(items, gold, cosines, strict=True):
        if (cosine >= threshold) != bool(label):
            kind = "similar, and should not be" if cosine >= threshold else "should be similar"
            off = abs(float(cosine) - threshold)
            shown = f"{off:.3f} beyond the threshold, {threshold:.3f}"
            yield Mistake.of(item, kind, str(label), f"{cosine:.3f}", off, shown)


def _nearer_negatives(
    items: Sequence[EmbedItem], vectors: Sequence[Float32Array]
) -> Iterator[Mistake]:
    for item, own in zip(items, vectors, strict=True):
        unit = unit_vectors(own)
        near, *far = (unit[1:] @ unit[0]).tolist()
        if far and max(far) >= near:
            gap = max(far) - near
            said = f"{max(far):.3f} for a negative"
            yield Mistake.of(item, "negative is nearer", f"{near:.3f}", said, gap, f"by {gap:.3f}")


def _nearer_positives(
    items: Sequence[EmbedItem], vectors: Sequence[Float32Array]
) -> Iterator[Mistake]:
    positives = [item.others[0] for item in items]
    documents = unit_vectors(np.stack([own[1] for own in vectors]))
    queries = unit_vectors(np.stack([own[0] for own in vectors]))
    right: dict[str, set[str]] = {}
    for item in items:
        right.setdefault(item.group or item.anchor, set()).add(item.others[0])
    for number, item in enumerate(items):
        cosines = documents @ queries[number]
        fine = {*right[item.group or item.anchor], item.anchor}
        best = int(cosines.argmax())
        if positives[best] not in fine:
            gap = float(cosines[best] - cosines[number])
            said = f"{cosines[best]:.3f} for {positives[best]!r:.80}"
            own = f"{cosines[number]:.3f}"
            yield Mistake.of(item, "another is nearer", own, said, gap, f"by {gap:.3f}")


def _other_classes(
    items: Sequence[EmbedItem], vectors: Sequence[Float32Array]
) -> Iterator[Mistake]:
    unit = unit_vectors(np.stack([own[0] for own in vectors]))
    for number, item in enumerate(items):
        cosines = unit @ unit[number]
        cosines[number] = -np.inf
        nearest = items[int(cosines.argmax())]
        if str(nearest.label) != str(item.label):
            kind = f"{item.label} is near {nearest.label}"
            said = f"{nearest.label}: {nearest.anchor!r:.80}"
            cosine = float(cosines.max())
            yield Mistake.of(item, kind, str(item.label), said, cosine, f"cosine {cosine:.3f}")
