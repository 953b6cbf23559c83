"""A space in words: before a repair and after it, and whether the repair is worth it."""

from dataclasses import dataclass
from typing import Any

from clozeworks.inference.space.measures import Space
from clozeworks.tasks.metrics.difference import Difference
from clozeworks.tasks.metrics.measured import number_text
from clozeworks.wording import counted

# An IsoScore that falls by more than this is worse.
_WORSE = 0.02
# A mean cosine above the first is a narrow cone; below the second there is little to repair.
CONE, EVEN = 0.5, 0.2
# How much of the variance one direction may have, and of the mean cosine one dimension.
_TOP, _PART = 0.2, 0.2
_SKEWED, _RELATED = 2.0, 0.3


@dataclass(frozen=True)
class SpaceReport:
    """What was measured, and how."""

    model: str
    pooling: str
    """How texts become vectors, in words."""
    before: Space
    after: Space | None = None
    repair: str = ""
    """What was done, in words; empty without a repair."""
    pairs: Difference | None = None
    """How well pairs are put in order, before and after."""
    spearman: float | None = None
    """The same without a repair."""
    trained: bool = False
    """Whether the folder says that it is a sentence model."""
    scaled: bool = False
    """Whether the model scales vectors to length 1, which is not done to measure them."""
    notes: tuple[str, ...] = ()

    def rows(self) -> list[tuple[str, str, str, str]]:
        """A row for each measure: its name, before, after, and what it means."""
        return [
            (name, _shown(one), _shown(other), meaning)
            for name, key, meaning in MEASURES
            if (one := getattr(self.before, key)) is not None
            for other in [getattr(self.after, key, None)]
        ]

    def findings(self) -> list[str]:
        """What is wrong with the space, in sentences."""
        return findings(self.before, scaled=self.scaled)

    def verdict(self) -> str:
        """Whether the repair is worth it, in a sentence; empty without one."""
        return "" if self.after is None else verdict(self)

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "model": self.model,
            "pooling": self.pooling,
            "before": self.before.to_dict(),
            "after": self.after.to_dict() if self.after else None,
            "repair": self.repair or None,
            "pairs": self.pairs.to_dict() if self.pairs else None,
            "spearman": self.spearman,
            "findings": self.findings(),
            "verdict": self.verdict() or None,
            "notes": list(self.notes),
        }


MEASURES = (
    ("mean cosine", "mean_cosine", "of two random texts; 0 is best"),
    ("top direction", "top_share", "its fraction of the variance"),
    ("effective rank", "effective_rank", "directions in use"),
    ("participation ratio", "participation_ratio", "the same, small ones count less"),
    ("IsoScore", "iso_score", "1: all directions alike; 0: one alone"),
    ("partition score", "partition_score", "1: all directions alike"),
    ("uniformity", "uniformity", "the lower, the more evenly spread"),
    ("alignment", "alignment", "distance of texts that mean the same; low is good"),
    ("hub skewness", "hub_skewness", "above 2: a few texts are near everything"),
    ("never near", "never_near", "the fraction of texts that are near no other"),
    ("length and frequency", "norm_and_frequency", "Spearman; near 0 is best"),
    ("length and tokens", "norm_and_length", "Spearman; near 0 is best"),
)


def findings(space: Space, *, scaled: bool = False) -> list[str]:
    """What is wrong with a space, in sentences; lengths do not count if vectors are scaled."""
    cosine, found = space.mean_cosine, []
    if cosine > CONE:
        found.append(
            f"Two random texts have a cosine of {cosine:.2f}: all vectors lie in a narrow cone, "
            "and a high cosine says little."
        )
    elif cosine > EVEN:
        found.append(
            f"Two random texts have a cosine of {cosine:.2f}: vectors share a direction, though "
            "not a narrow cone."
        )
    number, part = space.dimension_shares[0]
    if cosine > EVEN and part > _PART * cosine:
        found.append(
            f"Dimension {number} alone makes {part / cosine:.0%} of that; a few large dimensions "
            "decide the cosine."
        )
    if space.top_share > _TOP:
        found.append(
            f"One direction has {space.top_share:.0%} of the variance; the vectors use "
            f"{space.effective_rank:,.0f} of {space.dimensions:,} dimensions."
        )
    if space.hub_skewness > _SKEWED:
        found.append(
            f"There are hubs: a few texts are among the {space.neighbours} nearest of very many, "
            f"and {space.never_near:.0%} are so of none."
        )
    for value, what in (
        (space.norm_and_frequency, "how frequent the words of a text are"),
        (space.norm_and_length, "how long a text is"),
    ):
        if abs(value) > _RELATED and not scaled:
            found.append(
                f"The length of a vector follows {what} (Spearman {value:.2f}); compare by cosine, "
                "not by dot product."
            )
    return found or ["Nothing stands out: texts are spread over many directions."]


def verdict(report: SpaceReport) -> str:
    """Whether a repair is worth it, as far as it was measured."""
    before, after, pairs = report.before, report.after, report.pairs
    assert after is not None, "without a repair there is nothing to judge"
    if pairs is not None:
        interval = f"{number_text(pairs.low)} to {number_text(pairs.high)}, 95 %"
        change = (
            f"{pairs.name.capitalize()} on {counted(pairs.count, 'pair')} is "
            f"{number_text(pairs.second)} after it and {number_text(pairs.first)} before "
            f"(difference {interval})"
        )
        if not pairs.is_real:
            return f"The repair makes no difference that could be measured: {change}."
        if pairs.value < 0:
            return f"The repair hurts: {change}; keep the model as it is."
        return f"The repair helps: {change}."
    cosines = [round(space.mean_cosine, 2) + 0.0 for space in (before, after)]  # not -0.00
    moved = (
        f"the mean cosine goes from {cosines[0]:.2f} to {cosines[1]:.2f}, IsoScore from "
        f"{before.iso_score:.2f} to {after.iso_score:.2f}"
    )
    if after.iso_score < before.iso_score - _WORSE:
        return (
            f"The space is less even than before: {moved}. The repair was computed from too few "
            f"texts for {before.dimensions:,} dimensions; give ten times as many, or keep fewer "
            "dimensions (--dimensions)."
        )
    if report.trained:
        return (
            f"This is a sentence model, trained to compare texts, and a repair may well make it "
            f"worse, although {moved}; measure it with scored pairs: --pairs FILE."
        )
    if before.mean_cosine < EVEN and after.iso_score - before.iso_score < 0.1:
        return f"There was little to repair: {moved}."
    return (
        f"The space is more even: {moved}. Whether texts are compared better only scored pairs can "
        "tell: --pairs FILE."
    )


def _shown(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value:,.1f}" if abs(value) >= 10 else f"{value:.3f}"
