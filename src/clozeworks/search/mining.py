"""Hard negatives: texts that are near an anchor, and are not what it asks for.

Papers: Karpukhin et al. 2020 (hard negatives for retrieval); Moreira et al. 2024 (NV-Retriever: a
margin below the positive keeps false negatives out).
The idea: the nearest texts teach most, and the very nearest are often right answers that nobody
marked. So candidates are the nearest texts without the known positives of the anchor and without
the anchor itself; of these go, in this order, with g the **lowest** score of its positives,

    score > g - absolute_margin        score > g - |g| * relative_margin
    score > max_score                  score < min_score

then the first `range_min`; of what is left the first are taken, or some at random. A second model
that reads both texts together may score candidates and positives anew before the margins.
Where code differs: sentence-transformers keeps a text that equals its anchor.

Shapes: A anchors, N texts, W width.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from clozeworks.arrays import BoolArray, Float32Array, Float64Array, Int64Array
from clozeworks.errors import SettingError
from clozeworks.rng import RandomStream
from clozeworks.search.top_k import VectorBlock, longest, top_k
from clozeworks.spec import NonNegativeInt, PositiveInt, RandomSeed, spec

NegativeSampling = Literal["top", "random"]
# Texts whose scores are computed at a time; with 128 anchors, 8 MB.
_BLOCK = 16_384
# Anchors whose candidates are held at a time.
ANCHORS = 1_024
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
# Numbers of an anchor and of texts to their scores by a second model.
Rescore = Callable[[Sequence[tuple[int, int]]], Float64Array]


@spec
class MiningRules:
    """Which of the nearest texts are hard negatives."""

    negatives: PositiveInt = 3
    """How many are taken for each anchor."""
    range_min: NonNegativeInt = 0
    """How many of the nearest are skipped."""
    range_max: PositiveInt | None = None
    """How many of the nearest that are not known are looked at; if not given, as many as are
    needed, ten times as many where a margin or a score may drop some."""
    absolute_margin: float | None = None
    """Negatives are at least this much below the lowest positive of their anchor."""
    relative_margin: float | None = None
    """The same as a fraction of the positive's score: 0.05 keeps what is below 95 % of it."""
    max_score: float | None = None
    """Negatives have at most this score."""
    min_score: float | None = None
    """Negatives have at least this score."""
    sampling: NegativeSampling = "top"
    """Whether the nearest that are left are taken, or random ones."""
    seed: RandomSeed = 0
    """Decides which are taken at random."""

    def __post_init__(self) -> None:
        for name in ("absolute_margin", "relative_margin", "max_score", "min_score"):
            value = getattr(self, name)
            if value is not None and not math.isfinite(value):
                raise SettingError(name, value, "it must be a finite number")
        if self.range_max is not None and self.range_max < self.range_min + self.negatives:
            rule = f"range_min and negatives together are {self.range_min + self.negatives}"
            raise SettingError("range_max", self.range_max, rule, "raise it")
        highest, least = self.max_score, self.min_score
        if highest is not None and least is not None and highest < least:
            rule = f"min_score is {self.min_score}"
            raise SettingError("max_score", self.max_score, rule, "raise it, or lower min_score")

    @property
    def drops(self) -> bool:
        """Whether a rule looks at scores."""
        rules = (self.absolute_margin, self.relative_margin, self.max_score, self.min_score)
        return any(rule is not None for rule in rules)

    def depth(self, positives: int) -> int:
        """How many candidates are looked at for each anchor, if one has at most so many positives.

        Compat: a few more than are needed, as sentence-transformers has it.
        """
        wanted = self.negatives * (10 if self.drops else 1)
        return self.range_max or self.range_min + wanted + positives


@dataclass(frozen=True)
class MinedAnchor:
    """The hard negatives of an anchor."""

    anchor: int
    negatives: tuple[int, ...]
    """The numbers of the texts, the nearest first."""
    scores: tuple[float, ...]
    positive_scores: tuple[float, ...]


@dataclass
class MiningReport:
    """What was found, and what each rule dropped."""

    anchors: int = 0
    candidates: int = 0
    """How many texts were looked at, without positives and anchors themselves."""
    dropped: Counter[str] = field(default_factory=Counter)
    """How many of them each rule dropped, by its name."""
    taken: int = 0
    short: int = 0
    """Anchors with fewer negatives than wanted."""
    none: int = 0
    """Anchors without any."""
    positive_scores: list[float] = field(default_factory=list)
    negative_scores: list[float] = field(default_factory=list)

    def note(self, mined: MinedAnchor, wanted: int) -> None:
        """Counts what was found for an anchor."""
        self.anchors += 1
        self.taken += len(mined.negatives)
        self.short += 0 < len(mined.negatives) < wanted
        self.none += not mined.negatives
        self.positive_scores += mined.positive_scores
        self.negative_scores += mined.scores

    def quantiles(self) -> dict[str, dict[str, float]]:
        """How scores are spread, of positives, of negatives, and what lies between them."""
        return {
            name: {
                f"{share:.0%}": round(float(value), 4)
                for share, value in zip(_QUANTILES, np.quantile(scores, _QUANTILES), strict=True)
            }
            for name, scores in (
                ("positives", self.positive_scores),
                ("negatives", self.negative_scores),
            )
            if scores
        }


def mine(
    anchors: Float32Array,
    texts: Float32Array,
    positives: Sequence[Sequence[int]],
    same: Sequence[int | None],
    rules: MiningRules,
    report: MiningReport,
    *,
    rescore: Rescore | None = None,
) -> Iterator[MinedAnchor]:
    """Finds the hard negatives of anchors; memory does not grow with their number.

    Args:
        anchors: Their vectors, of length 1, (A, W); each text once.
        texts: The vectors of the texts to choose from, of length 1, (N, W); each text once.
        positives: The numbers of the texts that are right for each anchor; at least one.
        same: The number of the text that equals each anchor; None if there is none.
        rules: Which of the nearest are taken.
        report: Is filled.
        rescore: Scores pairs of an anchor and a text anew, before the margins.

    Yields:
        The hard negatives of each anchor, in their order.
    """
    blocks = [_block(texts, first) for first in range(0, len(texts), _BLOCK)]
    most = max(map(len, positives), default=0)
    # Positives and the anchor itself must not take the place of others.
    depth = rules.depth(most) + most + any(each is not None for each in same)
    for begin in range(0, len(anchors), ANCHORS):
        some = range(begin, min(begin + ANCHORS, len(anchors)))
        found = top_k(anchors[begin : begin + ANCHORS], blocks, depth, _by_number)
        for number, (near, scores) in zip(some, found, strict=True):
            right = np.array(positives[number], np.int64)
            known = np.isin(near, [*right, -1 if same[number] is None else same[number]])
            near, scores = near[~known], scores[~known]
            own: Float64Array = (texts[right] @ anchors[number]).astype(np.float64)
            wide = scores.astype(np.float64)
            if rescore is not None:
                again = rescore([(number, int(text)) for text in (*right, *near)])
                own, wide = again[: len(right)], again[len(right) :]
                order = np.lexsort((near, -wide))
                near, wide = near[order], wide[order]
            report.candidates += len(near)
            chosen = select(wide, float(own.min()), rules, report.dropped, anchor=number)
            mined = MinedAnchor(
                number,
                tuple(near[chosen].tolist()),
                tuple(wide[chosen].tolist()),
                tuple(own.tolist()),
            )
            report.note(mined, rules.negatives)
            yield mined


def select(
    scores: Float64Array, lowest: float, rules: MiningRules, dropped: Counter[str], *, anchor: int
) -> Int64Array:
    """The candidates of an anchor that are taken.

    Args:
        scores: The scores of its candidates, falling.
        lowest: The lowest score of its positives.
        rules: Which are taken.
        dropped: Counts what each rule drops of what the rules before it left.
        anchor: The number of the anchor, for random choices.

    Returns:
        Their places in `scores`, in order.
    """
    left: BoolArray = np.ones(len(scores), np.bool_)
    for name, wrong in _rules(scores, lowest, rules):
        dropped[name] += int((wrong & left).sum())
        left &= ~wrong
    places = np.flatnonzero(left)
    dropped["range_min"] += min(len(places), rules.range_min)
    places = places[rules.range_min : rules.range_max]
    if rules.sampling == "random" and len(places) > rules.negatives:
        order = RandomStream(rules.seed, "negatives").permutation(anchor, len(places))
        places = np.sort(places[order[: rules.negatives]])
    return places[: rules.negatives]


def _rules(
    scores: Float64Array, lowest: float, rules: MiningRules
) -> Iterator[tuple[str, BoolArray]]:
    """The name of each rule that looks at scores, and which candidates it drops."""
    if rules.absolute_margin is not None:
        yield "absolute_margin", scores > lowest - rules.absolute_margin
    if rules.relative_margin is not None:
        yield "relative_margin", scores > lowest - abs(lowest) * rules.relative_margin
    if rules.max_score is not None:
        yield "max_score", scores > rules.max_score
    if rules.min_score is not None:
        yield "min_score", scores < rules.min_score


def _by_number(positions: Int64Array) -> list[int]:
    """Of equal scores the text with the smaller number comes first."""
    numbers: list[int] = positions.tolist()
    return numbers


def _block(texts: Float32Array, first: int) -> VectorBlock:
    some = texts[first : first + _BLOCK]
    return VectorBlock(first, some, longest(some))
