"""Whether attributions deserve trust: other weights, and words taken out in their order.

Paper: Adebayo et al. 2018 (a map that does not depend on the weights explains nothing); Samek et
al. 2017 (deleting what counts most must hurt most).
The idea: with random weights the order of words must be another one. And taking out the words with
the highest shares must lower the target faster than taking out as many others.
"""

from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from clozeworks.core.initialize import initialize
from clozeworks.core.model import Model
from clozeworks.inference.loop import BatchOptions
from clozeworks.look.attributions import (
    AttributionView,
    TokenPath,
    attribute,
    baseline_vector,
    rank_correlation,
)
from clozeworks.look.pieces import rounded, words_in
from clozeworks.look.targets import AttributionTarget
from clozeworks.rng import RandomStream
from clozeworks.text.tokenizer.tokenizer import Tokenizer

_RANDOM_ORDERS = 20
_SPREAD = 0.2


@dataclass(frozen=True)
class AttributionControls:
    """What two controls say about an attribution."""

    random_weights: float | None
    """Rank correlation with the attribution by a model of the same shape with random weights; None
    with fewer than 3 words."""
    deletion: tuple[float, ...]
    """The target after the first k words are out, the highest share first; k from 0."""
    random_deletion: tuple[float, ...]
    """The same in random orders, their mean."""
    faster: float
    """The fraction of random orders in which the target falls more slowly."""

    def notes(self) -> list[str]:
        """What they say, in sentences."""
        found = [
            f"Taking out words in this order lowers the target faster than {self.faster:.0%} of "
            "random orders."
        ]
        if self.random_weights is not None:
            found.append(
                f"With random weights the order agrees by {self.random_weights:.2f} (near 0 is "
                "good)."
            )
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "random_weights": rounded(self.random_weights),
            "deletion": rounded(self.deletion),
            "random_deletion": rounded(self.random_deletion),
            "faster": rounded(self.faster),
            "notes": self.notes(),
        }


def control(
    model: Model,
    tokenizer: Tokenizer,
    target: AttributionTarget,
    view: AttributionView,
    *,
    seed: int = 0,
    options: BatchOptions | None = None,
) -> AttributionControls:
    """Runs both controls; the first takes a second model in memory.

    Args:
        model: The model.
        tokenizer: Its tokenizer.
        target: What was attributed.
        view: The attribution.
        seed: Decides random weights and orders.
        options: Progress and cancellation.
    """
    words = words_in(target.pieces, target.texts)
    moved = [n for n, w in enumerate(words) if any(target.moves[each] for each in w.pieces)]
    shares = [view.words[n].integrated for n in moved]
    pieces = [words[n].pieces for n in moved]
    best = np.argsort([-each for each in shares], kind="stable").tolist()
    stream = RandomStream(seed, "deletion")
    orders = [best, *(stream.permutation(n, len(moved)).tolist() for n in range(_RANDOM_ORDERS))]
    vector = baseline_vector(model, tokenizer, view.baseline)
    path = TokenPath(model, target, vector)
    taken = [
        [token for word in order[:k] for token in pieces[word]]
        for order in orders
        for k in range(len(moved) + 1)
    ]
    curves = np.array(path.without(taken, options)).reshape(len(orders), -1)
    areas = curves.mean(axis=1)
    return AttributionControls(
        random_weights=_with_random_weights(model, tokenizer, target, view, seed, options),
        deletion=tuple(map(float, curves[0])),
        random_deletion=tuple(map(float, curves[1:].mean(axis=0))),
        faster=float(np.mean(areas[1:] > areas[0])),
    )


def _with_random_weights(
    model: Model,
    tokenizer: Tokenizer,
    target: AttributionTarget,
    view: AttributionView,
    seed: int,
    options: BatchOptions | None,
) -> float | None:
    other = deepcopy(model)
    other.tie()
    initialize(other, seed=seed, std=_SPREAD)
    theirs = attribute(
        other, tokenizer, target, baseline=view.baseline, leave_out=False, options=options
    )
    pairs = [
        (own.integrated, another.integrated)
        for own, another in zip(view.words, theirs.words, strict=True)
        if not own.special
    ]
    return _correlated(*zip(*pairs, strict=True)) if len(pairs) > 2 else None


def _correlated(one: Sequence[float], other: Sequence[float]) -> float | None:
    if np.ptp(one) == 0 or np.ptp(other) == 0:
        return None
    return rank_correlation(one, other)
