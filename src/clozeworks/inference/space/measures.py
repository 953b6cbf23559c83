"""How the vectors of texts fill their space: a narrow cone, a few directions, or all of it.

Paper: Ethayarajh 2019 (mean cosine); Roy & Vetterli 2007 (effective rank); Rudman et al. 2022
(IsoScore); Mu & Viswanath 2018 (partition score); Wang & Isola 2020 (uniformity, alignment);
Radovanović et al. 2010 (hubs); Timkey & van Schijndel 2021 (dimensions that decide the cosine).
The idea: no number says it all. The spectrum does not see the mean of the vectors, and the mean
cosine sees little else, so both are measured.
Where paper and code differ: the published code of the partition score walks over the rows of the
eigenvectors, which are columns, and never sums. Here it does, over both signs of each, since the
sign of an eigenvector is arbitrary, and of vectors of length 1, so that scale does not count.

Shapes: n texts, D dimensions, p pairs.
"""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from clozeworks.arrays import Float32Array, Float64Array, Int64Array

NEIGHBOURS = 10
# Bins of the histogram of cosines, from -1 to 1, and rows whose cosines are computed at once.
BINS, _ROWS = 80, 512
# Dimensions that are listed with their share of the mean cosine.
_LISTED = 5


@dataclass(frozen=True)
class TextFacts:
    """What is known of each text beside its vector."""

    lengths: Int64Array
    """Its tokens, (n,)."""
    log_frequencies: Float64Array
    """The mean of the logarithms of how often its tokens occur in all texts, (n,)."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> "TextFacts":
        """Counts token ids."""
        lengths = np.array([len(ids) for ids in texts], dtype=np.int64)
        joined = np.concatenate([np.asarray(ids, dtype=np.int64) for ids in texts])
        logarithms = np.log(np.maximum(np.bincount(joined), 1))
        means = [float(np.mean(logarithms[np.asarray(ids)])) for ids in texts]
        return cls(lengths, np.array(means))

    def first(self, count: int) -> "TextFacts":
        """Those of the first texts alone."""
        return TextFacts(self.lengths[:count], self.log_frequencies[:count])


@dataclass(frozen=True)
class Space:
    """The measures of a space, and what its pictures show."""

    texts: int
    dimensions: int
    mean_cosine: float
    """Of all pairs of different texts."""
    top_share: float
    """The fraction of the variance in the direction that has most of it."""
    effective_rank: float
    """exp(entropy) of the fractions of the variance: how many directions are in use."""
    participation_ratio: float
    """(sum of the variances)² / sum of their squares: the same, with less for small ones."""
    iso_score: float
    """(participation ratio - 1) / (dimensions - 1): 1 if all directions are alike, 0 if one is."""
    partition_score: float
    """The least of the sums of exp(c · x) over directions c, divided by the greatest; 1 at best."""
    uniformity: float
    """log of the mean of exp(-2 |x - y|²): the lower, the more evenly vectors are spread."""
    hub_skewness: float
    """How uneven it is how often a text is among the nearest of others; 0 is even."""
    never_near: float
    """The fraction of the texts that are never among the nearest of another."""
    neighbours: int
    """How many nearest texts are looked at."""
    norm_and_frequency: float
    """Spearman correlation of a vector's length with how frequent the tokens of its text are."""
    norm_and_length: float
    """The same with the number of tokens."""
    alignment: float | None = None
    """The mean of |x - y|² over pairs that mean the same; None without such pairs."""
    dimension_shares: tuple[tuple[int, float], ...] = ()
    """The dimensions that contribute most to the mean cosine, counted from 0, and their parts."""
    spectrum: Float64Array = field(default_factory=lambda: np.zeros(0), repr=False)
    """Variances, the greatest first, as fractions of their sum, (D,)."""
    cosines: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    """How many pairs have a cosine in each of equal parts of -1 to 1."""
    named: Int64Array = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    """How often each text is among the nearest of others, (n,)."""
    norms: Float64Array = field(default_factory=lambda: np.zeros(0), repr=False)
    """The length of each vector, (n,)."""
    log_frequencies: Float64Array = field(default_factory=lambda: np.zeros(0), repr=False)
    map: Float64Array = field(default_factory=lambda: np.zeros((0, 2)), repr=False)
    """Each vector in the two directions with most variance, (n, 2)."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it: the measures, the spectrum and the histogram of cosines."""
        left_out = ("named", "norms", "log_frequencies", "map")
        record = {name: value for name, value in asdict(self).items() if name not in left_out}
        record["dimension_shares"] = [list(each) for each in self.dimension_shares]
        record["spectrum"] = self.spectrum.tolist()
        record["cosines"] = self.cosines.tolist()
        return record


def measure_space(
    vectors: Float32Array | Float64Array,
    facts: TextFacts,
    pairs: tuple[Float32Array | Float64Array, Float32Array | Float64Array] | None = None,
) -> Space:
    """Measures a space.

    Args:
        vectors: Those of different texts, as they are before they are scaled to length 1, (n, D);
            at least 3.
        facts: What is known of the texts.
        pairs: The vectors of texts that mean the same, (p, D) twice.
    """
    x = vectors.astype(np.float64)
    unit = unit_vectors(x)
    variances, directions = principal_directions(x)
    fractions = variances / max(float(variances.sum()), np.finfo(float).tiny)
    count = min(NEIGHBOURS, len(x) - 1)
    named = neighbour_counts(unit, count)
    norms = np.linalg.norm(x, axis=1)
    return Space(
        texts=len(x),
        dimensions=x.shape[1],
        mean_cosine=mean_cosine(x),
        top_share=float(fractions[0]),
        effective_rank=effective_rank(variances),
        participation_ratio=participation_ratio(variances),
        iso_score=iso_score(variances),
        partition_score=partition_score(unit),
        uniformity=uniformity(unit),
        hub_skewness=skewness(named),
        never_near=float(np.mean(named == 0)),
        neighbours=count,
        norm_and_frequency=_correlation(norms, facts.log_frequencies),
        norm_and_length=_correlation(norms, facts.lengths),
        alignment=None if pairs is None else alignment(*pairs),
        dimension_shares=_largest(dimension_parts(x)),
        spectrum=fractions,
        cosines=cosine_histogram(unit),
        named=named,
        norms=norms,
        log_frequencies=facts.log_frequencies,
        map=(x - x.mean(axis=0)) @ directions[:, :2],
    )


def unit_vectors(x: Float64Array) -> Float64Array:
    """Vectors of length 1, (n, D)."""
    unit: Float64Array = x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-12)
    return unit


def principal_directions(x: Float32Array | Float64Array) -> tuple[Float64Array, Float64Array]:
    """Variances (D,), the greatest first, and their directions as columns (D, D).

    Of the two signs of a direction it has the one whose largest component is positive.
    """
    mean = x.mean(axis=0, dtype=np.float64)
    covariance = np.zeros((x.shape[1], x.shape[1]))
    for start in range(0, len(x), _ROWS):  # a second copy of all vectors may not fit
        centred = x[start : start + _ROWS] - mean
        covariance += centred.T @ centred
    variances, directions = np.linalg.eigh(covariance / len(x))
    variances, directions = np.maximum(variances[::-1], 0.0), directions[:, ::-1]
    largest = np.abs(directions).argmax(axis=0)
    signs = np.sign(directions[largest, np.arange(directions.shape[1])])
    return variances, directions * signs


def mean_cosine(x: Float64Array) -> float:
    """The mean cosine of all pairs of different vectors."""
    return float(dimension_parts(x).sum())


def dimension_parts(x: Float64Array) -> Float64Array:
    """What each dimension contributes to the mean cosine, (D,); the sum of all is the mean."""
    unit, n = unit_vectors(x), len(x)
    parts: Float64Array = (unit.sum(axis=0) ** 2 - (unit**2).sum(axis=0)) / (n * (n - 1))
    return parts


def participation_ratio(variances: Float64Array) -> float:
    """(sum λ)² / sum λ²; 1 if there is no variance at all."""
    squares = float((variances**2).sum())
    return float(variances.sum()) ** 2 / squares if squares else 1.0


def effective_rank(variances: Float64Array) -> float:
    """exp(H(p)), p = λ / sum λ; 1 if there is no variance at all."""
    used = variances[variances > 0]
    p = used / used.sum() if len(used) else np.ones(1)
    return float(np.exp(-(p * np.log(p)).sum()))


def iso_score(variances: Float64Array) -> float:
    """(participation ratio - 1) / (D - 1); k equal variances and no others give (k-1) / (D-1)."""
    return (participation_ratio(variances) - 1) / max(1, len(variances) - 1)


def partition_score(unit: Float64Array) -> float:
    """The ratio min Z(c) / max Z(c), Z(c) = sum of exp(c · x), c each eigenvector of x'x."""
    from scipy.special import logsumexp  # type: ignore[import-untyped]

    _, directions = np.linalg.eigh(unit.T @ unit)
    along = unit @ directions
    logarithms = np.concatenate([logsumexp(along, axis=0), logsumexp(-along, axis=0)])
    return float(np.exp(logarithms.min() - logarithms.max()))


def alignment(first: Float32Array | Float64Array, second: Float32Array | Float64Array) -> float:
    """The mean squared distance of pairs of vectors of length 1."""
    one, other = (unit_vectors(side.astype(np.float64)) for side in (first, second))
    return float(((one - other) ** 2).sum(axis=1).mean())


def cosine_histogram(unit: Float64Array) -> Int64Array:
    """How many pairs of different vectors have a cosine in each of `BINS` parts of -1 to 1."""
    counts = sum(
        (np.histogram(np.clip(each, -1, 1), BINS, (-1, 1))[0] for each in _cosines(unit)),
        start=np.zeros(BINS, dtype=np.int64),
    )
    return counts // 2  # each pair was met twice


def uniformity(unit: Float64Array) -> float:
    """Log of the mean of exp(-2 |x - y|²) over all pairs of different vectors of length 1."""
    # |x - y|² = 2 - 2 cos
    total = sum(float(np.exp(-2 * (2 - 2 * each)).sum()) for each in _cosines(unit))
    return float(np.log(total / (len(unit) * (len(unit) - 1))))


def _cosines(unit: Float64Array) -> Iterator[Float64Array]:
    """The cosines of some vectors with all others at a time, (rows, n - 1)."""
    n = len(unit)
    for start in range(0, n, _ROWS):
        block = unit[start : start + _ROWS] @ unit.T
        own = np.arange(len(block)) * (n + 1) + start
        yield np.delete(block.ravel(), own).reshape(len(block), n - 1)


def neighbour_counts(x: Float64Array, count: int) -> Int64Array:
    """How often each vector is among the nearest of others, (n,).

    Distances are Euclidean; between vectors of length 1 they have the order of cosines.
    """
    n, halved = len(x), (x**2).sum(axis=1) / 2
    named = np.zeros(n, dtype=np.int64)
    for start in range(0, n, _ROWS):
        # |x - y|² / 2 without |x|² / 2, which is the same for all y.
        far = halved - x[start : start + _ROWS] @ x.T
        rows = np.arange(len(far))
        far[rows, rows + start] = np.inf
        nearest = np.argpartition(far, count - 1, axis=1)[:, :count]
        named += np.bincount(nearest.ravel(), minlength=n)
    return named


def _largest(parts: Float64Array) -> tuple[tuple[int, float], ...]:
    order = np.argsort(-np.abs(parts), kind="stable")[:_LISTED]
    return tuple((int(number), float(parts[number])) for number in order)


def skewness(counts: Int64Array) -> float:
    """The third standardised moment; 0 if all are equal."""
    from scipy.stats import skew  # type: ignore[import-untyped]

    return float(skew(counts)) if np.ptp(counts) else 0.0


def _correlation(one: Float64Array, other: Float64Array | Int64Array) -> float:
    from scipy.stats import spearmanr

    if np.ptp(one) == 0 or np.ptp(other) == 0:  # then there is no order to compare
        return 0.0
    return float(spearmanr(one, other).statistic)
