"""What repairs a space without training: one matrix and one shift for all vectors.

Paper: Su et al. 2021 (whitening); Mu & Viswanath 2018 (all but the top); Pearson 1901 (PCA).
The idea: vectors of a narrow cone are told apart better after their mean is subtracted, and
directions that all of them share are scaled down or taken out. (x - μ) W is a dense layer: weight
Wᵀ, bias -μW.
Where papers and code differ: the published whitening fits on the texts it is then measured on. Fit
it on texts of your own.
Trap: it helps vectors that nobody trained to be compared, and may hurt those that were.

Shapes: n texts, D dimensions, K kept ones.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from clozeworks.arrays import Float32Array, Float64Array
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.space.measures import principal_directions
from clozeworks.wording import counted

RepairMethod = Literal["centre", "whiten", "all-but-the-top", "pca"]
METHODS: tuple[RepairMethod, ...] = get_args(RepairMethod)
# Directions whose variance is this much below the greatest are noise of the computation.
NEGLIGIBLE = 1e-8


@dataclass(frozen=True)
class Repair:
    """(x - mean) matrix."""

    method: RepairMethod
    mean: Float64Array
    """(D,)."""
    matrix: Float64Array
    """(D, K)."""
    texts: int
    """How many texts it was fitted on."""

    @property
    def dimensions(self) -> int:
        """How many dimensions are left."""
        return int(self.matrix.shape[1])

    @property
    def bias(self) -> Float64Array:
        """-μW, (K,)."""
        bias: Float64Array = -self.mean @ self.matrix
        return bias

    def apply(self, vectors: Float32Array | Float64Array) -> Float64Array:
        """Repairs vectors, (n, D) to (n, K)."""
        repaired: Float64Array = (vectors.astype(np.float64) - self.mean) @ self.matrix
        return repaired

    def __str__(self) -> str:
        names = {
            "centre": "the mean subtracted",
            "whiten": "whitened",
            "all-but-the-top": f"the mean and {self._removed()} taken out",
            "pca": "principal components",
        }
        return f"{names[self.method]}, {counted(self.dimensions, 'dimension')}"

    def _removed(self) -> str:
        kept = round(float(np.trace(self.matrix)))
        return counted(self.dimensions - kept, "top direction")


def fit_repair(
    vectors: Float32Array | Float64Array, method: str = "whiten", dimensions: int | None = None
) -> Repair:
    """Computes what repairs a space from vectors of texts.

    Args:
        vectors: Those of different texts, not scaled to length 1, (n, D).
        method: centre, whiten, all-but-the-top or pca.
        dimensions: How many directions whitening and PCA keep, those with most variance; all that
            have any if not given.

    Raises:
        SettingError: If there is no such method, or it keeps all dimensions.
        InputError: If there are too few texts.
    """
    if method not in METHODS:
        raise SettingError("method", method, f"it must be one of: {', '.join(METHODS)}")
    texts, width = vectors.shape
    kept = width if dimensions is None else dimensions
    if dimensions is not None and method in ("centre", "all-but-the-top"):
        rule = f"`method` {method} keeps all dimensions"
        raise SettingError("dimensions", dimensions, rule, "leave it out, or whiten")
    if not 1 <= kept <= width:
        rule = f"vectors have {width:,} dimensions; it must be from 1 to {width:,}"
        raise SettingError("dimensions", kept, rule)
    if texts <= (1 if method == "centre" else kept):
        raise InputError(_too_few(method, texts, kept, width))
    mean = vectors.mean(axis=0, dtype=np.float64)
    if method == "centre":
        return Repair("centre", mean, np.eye(width), texts)
    variances, directions = principal_directions(vectors)
    if variances[0] <= np.finfo(np.float64).eps * float((mean**2).sum()):
        raise InputError("the vectors of all texts are the same; give texts that differ.")
    if method == "all-but-the-top":
        top = directions[:, : max(1, round(width / 100))]
        return Repair("all-but-the-top", mean, np.eye(width) - top @ top.T, texts)
    rank = int((variances >= NEGLIGIBLE * variances[0]).sum())
    if dimensions is not None and dimensions > rank:
        rule = f"only {counted(rank, 'direction has', 'directions have')} any variance here"
        raise SettingError("dimensions", dimensions, rule, f"set at most {rank:,}")
    kept = min(kept, rank)
    scale = variances[:kept] ** (-0.5 if method == "whiten" else 0.0)
    return Repair(
        "whiten" if method == "whiten" else "pca", mean, directions[:, :kept] * scale, texts
    )


def _too_few(method: str, texts: int, kept: int, width: int) -> str:
    if method == "centre":
        return f"there is {counted(texts, 'text')}; the mean of one says nothing; give more texts."
    what = f"{kept:,} of {width:,}" if kept < width else f"{width:,}"
    lower = ", or lower --dimensions (dimensions in Python)" if method in ("whiten", "pca") else ""
    number = f"there {'is' if texts == 1 else 'are'} {counted(texts, 'text')}"
    return (
        f"{number} for {what} dimensions; a direction without texts in it has no variance to be "
        f"scaled by; give more than {kept:,} texts, ten times as many at best{lower}."
    )
