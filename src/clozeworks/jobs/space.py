"""Looks at the space of a model's vectors, and judges what a repair would make of it.

A repair is measured on texts it was not computed from, and on scored pairs if there are any: a
space may look better and compare texts worse.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Unpack

import numpy as np

from clozeworks.arrays import Float32Array, Float64Array
from clozeworks.errors import InputError
from clozeworks.inference.space.measures import Space, measure_space, unit_vectors
from clozeworks.inference.space.repair import Repair, fit_repair
from clozeworks.inference.space.report import SpaceReport
from clozeworks.language_model.embedding_methods import EmbedKeywords
from clozeworks.language_model.model import LanguageModel
from clozeworks.language_model.space_methods import LEAST_TEXTS, too_few_texts
from clozeworks.rng import RandomStream
from clozeworks.tasks.metrics.difference import difference
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.metrics.sts import sts
from clozeworks.text.valid import location_of
from clozeworks.wording import counted

# The most texts whose pairs are compared, and the fraction of all that a repair is measured on.
MOST_TEXTS, HELD_OUT = 5_000, 0.2
# Of scored pairs those in the upper fifth of the scores mean the same: 4 to 5 of STS-B's 0 to 5.
_SAME = 0.8
AnyVectors = Float32Array | Float64Array


@dataclass(frozen=True)
class ScoredPair:
    """Two texts, and how similar they are; without a score they mean the same."""

    first: str
    second: str
    score: float | None = None
    source_location: str = ""


def look(
    model: LanguageModel,
    texts: Sequence[str],
    *,
    pairs: Sequence[ScoredPair] = (),
    limit: int = MOST_TEXTS,
    seed: int = 0,
    source_locations: Sequence[str] | None = None,
    **options: Unpack[EmbedKeywords],
) -> SpaceReport:
    """Measures the space of a model's vectors.

    Args:
        model: The model.
        texts: The texts; each counts once.
        pairs: Pairs of texts, for alignment, and with scores for Spearman.
        limit: The most texts that are measured, drawn at random.
        seed: Decides which.
        source_locations: Where each text came from, for messages.
        options: As for `LanguageModel.embed`.

    Raises:
        InputError: If there are fewer than three different texts, or pairs of one score.
    """
    shuffled = _shuffled(texts, seed, source_locations)
    chosen = dict(islice(shuffled.items(), limit))
    notes = _left_out(len(texts) - len(shuffled))
    if len(chosen) < len(shuffled):
        notes.append(f"{len(chosen):,} of {len(shuffled):,} texts were drawn at random.")
    raw: EmbedKeywords = {**options, "normalize": False}
    sample = _Sample(model, chosen, pairs, raw)
    space, scored = sample.measured(sample.vectors, sample.sides)
    return _report(model, space, scored, notes)


def try_repair(
    model: LanguageModel,
    texts: Sequence[str],
    *,
    method: str = "whiten",
    dimensions: int | None = None,
    pairs: Sequence[ScoredPair] = (),
    limit: int = MOST_TEXTS,
    seed: int = 0,
    source_locations: Sequence[str] | None = None,
    **options: Unpack[EmbedKeywords],
) -> tuple[SpaceReport, Repair]:
    """Measures what a repair makes of the space of a model's vectors.

    Args:
        model: The model; it is left as it is.
        texts: The texts the repair is computed from; each counts once.
        method: As for `LanguageModel.whiten`.
        dimensions: As for `LanguageModel.whiten`.
        pairs: Pairs of texts; with scores they decide whether the repair is worth it.
        limit: The most texts that are measured.
        seed: Decides which of the texts are held out.
        source_locations: Where each text came from, for messages.
        options: As for `LanguageModel.embed`.

    Returns:
        What was measured on a fifth of the texts, with a repair computed from the others; and the
        repair computed from all of them.

    Raises:
        InputError: If there are too few texts, or pairs of one score.
        SettingError: If there is no such method, or not as many dimensions.
    """
    shuffled = _shuffled(texts, seed, source_locations)
    notes = _left_out(len(texts) - len(shuffled))
    raw: EmbedKeywords = {**options, "normalize": False}
    sample = _Sample(model, shuffled, pairs, raw)
    final = fit_repair(sample.vectors, method, dimensions)
    held = min(max(LEAST_TEXTS, round(HELD_OUT * len(shuffled))), limit)
    others = sample.vectors[held:]
    if len(others) > (1 if method == "centre" else max(final.matrix.shape)):
        fitted = fit_repair(others, method, final.dimensions if dimensions else None)
        notes.append(
            f"Measured on {held:,} texts, after a repair computed from the {len(others):,} others."
        )
    else:
        held, fitted = min(len(shuffled), limit), final
        notes.append(
            f"{len(shuffled):,} texts are too few to hold some out: measured on texts that the "
            "repair was computed from."
        )
    before, scored = sample.measured(sample.vectors[:held], sample.sides)
    sides = tuple(fitted.apply(side) for side in sample.sides)
    after, repaired = sample.measured(fitted.apply(sample.vectors[:held]), sides)
    report = dataclasses.replace(
        _report(model, before, scored, notes), after=after, repair=str(final)
    )
    if scored is not None and repaired is not None:
        report = dataclasses.replace(report, pairs=difference(scored, repaired))
    return report, final


class _Sample:
    """Different texts and the pairs beside them, with their vectors."""

    def __init__(
        self,
        model: LanguageModel,
        texts: Mapping[str, str],
        pairs: Sequence[ScoredPair],
        options: EmbedKeywords,
    ) -> None:
        if len(texts) < LEAST_TEXTS:
            raise InputError(too_few_texts(len(texts)))
        self.scores = [pair.score for pair in pairs if pair.score is not None]
        if self.scores and min(self.scores) == max(self.scores):
            raise InputError(
                f"all {counted(len(pairs), 'pair')} have the score {self.scores[0]:g}; pairs are "
                "put in order by different ones; give such pairs, or leave the scores out."
            )
        firsts, seconds = [pair.first for pair in pairs], [pair.second for pair in pairs]
        locations = [*texts.values(), *[pair.source_location for pair in pairs] * 2]
        vectors = model.embed([*texts, *firsts, *seconds], source_locations=locations, **options)
        self.vectors, *sides = np.split(vectors, [len(texts), len(texts) + len(pairs)])
        self.sides = tuple(sides) if pairs else ()
        self.facts = model.text_facts(list(texts), options)

    def measured(
        self, vectors: AnyVectors, sides: Sequence[AnyVectors]
    ) -> tuple[Space, Measured | None]:
        """The measures of the first vectors, and how well scored pairs are put in order."""
        facts = self.facts.first(len(vectors))
        if not sides:
            return measure_space(vectors, facts), None
        first, second = sides
        if not self.scores:
            return measure_space(vectors, facts, (first, second)), None
        low, high = min(self.scores), max(self.scores)
        same = np.array(self.scores) >= low + _SAME * (high - low)
        one, other = (unit_vectors(side.astype(np.float64)) for side in sides)
        scored = sts(self.scores, (one * other).sum(axis=1), intervals=True)
        return measure_space(vectors, facts, (first[same], second[same])), scored


def _report(
    model: LanguageModel, space: Space, scored: Measured | None, notes: Sequence[str]
) -> SpaceReport:
    return SpaceReport(
        model.name,
        str(model.pooling),
        space,
        spearman=None if scored is None else scored.value,
        trained=model.pooling.stated,
        scaled=model.pooling.normalize,
        notes=tuple(notes),
    )


def _shuffled(texts: Sequence[str], seed: int, locations: Sequence[str] | None) -> dict[str, str]:
    """Different texts in random order, with where each came from."""
    found: dict[str, str] = {}
    for number, text in enumerate(texts):
        found.setdefault(text, location_of(number, locations))
    keys = RandomStream(seed, "space").words(0, range(len(found)), 1)[:, 0]
    distinct = list(found.items())
    return dict(distinct[number] for number in np.argsort(keys, kind="stable"))


def _left_out(count: int) -> list[str]:
    if not count:
        return []
    return [f"{counted(count, 'repeated text was', 'repeated texts were')} left out."]
