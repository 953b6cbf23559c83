"""One word in many contexts: how far its vectors differ, and what they are near.

Paper: Ethayarajh 2019 (anisotropy first); Loureiro et al. 2021 (senses by the nearest centroid).
The idea: a word's vector depends on its context, the more the higher the layer. But vectors of a
layer lie in a narrow cone, so a cosine means nothing by itself: beside the self-similarity of the
word stands the mean cosine of other words of these texts, each from another text.
Where papers and code differ: the baseline here is measured on the texts that are given, not on a
corpus of its own; with few of them it is rough.

Shapes: n occurrences, L layers with the embeddings, W width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from clozeworks.arrays import Float32Array, Float64Array, Int64Array
from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.features import features
from clozeworks.inference.loop import BatchOptions
from clozeworks.inference.space.measures import mean_cosine, principal_directions, unit_vectors
from clozeworks.look.pieces import rounded
from clozeworks.look.senses import KnownSenses, known_senses
from clozeworks.rng import RandomStream, below
from clozeworks.spec import PositiveInt, check
from clozeworks.tasks.spans.windows import (
    TokenWindow,
    Windows,
    asking,
    by_item,
    offsets_of,
    read_windows,
)
from clozeworks.text.characters import is_chinese, words_of
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

Correction = Literal["raw", "centred", "whitened"]
CORRECTIONS: tuple[Correction, ...] = get_args(Correction)
LAST_FOUR = "sum_last_four"
# Occurrences at most, other words for the baseline at most, and the fewest that say something.
_MOST, _OTHERS, _FEW = 2_000, 1_000, 20
# Clusters that are tried at most; a picture of more says nothing.
_CLUSTERS = 8
# Characters of a context that are shown on each side.
_SHOWN = 60
CAUTION = (
    "Vectors are near for many reasons: the same sense, the same topic, the same place in the "
    "sentence. The map shows two directions of many."
)


@dataclass(frozen=True, slots=True)
class WordOccurrence:
    """A place where the word stands."""

    text: int
    """The number of its text, from 0."""
    begin: int
    end: int
    before: str
    """What stands before it, and"""
    word: str
    after: str
    """after it; both may be cut."""
    label: str | None
    """Its sense, where that is known."""
    x: float
    """Where it is on the map."""
    y: float
    cluster: int
    """Its cluster, from 0, the largest first."""
    nearest: tuple[tuple[int, float], ...]
    """The nearest other occurrences with their cosines."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        names = WordOccurrence.__dataclass_fields__
        return {name: rounded(getattr(self, name)) for name in names}


@dataclass(frozen=True, slots=True)
class LayerSimilarity:
    """How alike the vectors of the word are in a layer."""

    layer: int
    """0 for the embeddings."""
    self_similarity: float
    """The mean cosine of its occurrences."""
    baseline: float | None
    """The mean cosine of other words from different texts; None without enough texts."""

    @property
    def adjusted(self) -> float | None:
        """The self-similarity minus the baseline."""
        return None if self.baseline is None else self.self_similarity - self.baseline

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "layer": self.layer,
            "self_similarity": rounded(self.self_similarity),
            "baseline": rounded(self.baseline),
            "adjusted": rounded(self.adjusted),
        }


@dataclass(frozen=True)
class ContextsView:
    """A word in its contexts."""

    word: str
    layer: str
    """Whose vectors the map, the clusters and the nearest contexts are of."""
    correction: str
    """raw, centred or whitened."""
    occurrences: tuple[WordOccurrence, ...]
    layers: tuple[LayerSimilarity, ...]
    clusters: int
    """How many clusters were found; 1 if none stand out."""
    explained: float
    """The fraction of the variance that the map shows."""
    others: int
    """How many other words the baseline is of."""
    senses: KnownSenses | None
    """How well senses are told apart, where they are known."""
    left_out: int
    """Occurrences beyond those that were read."""

    def notes(self) -> list[str]:
        """What this view does not show, in sentences."""
        found = [CAUTION, f"The map shows {self.explained:.0%} of the variance."]
        if self.left_out:
            found.append(f"{self.left_out:,} further occurrences were not read.")
        if self.others < _FEW:
            found.append(
                f"The baseline is of {counted(self.others, 'word')} only; give more texts, without "
                "the word too, before you read a cosine."
            )
        if self.senses is not None:
            found += self.senses.notes()
        return found

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        return {
            "view": "contexts",
            "word": self.word,
            "layer": self.layer,
            "correction": self.correction,
            "occurrences": [each.to_dict() for each in self.occurrences],
            "layers": [each.to_dict() for each in self.layers],
            "clusters": self.clusters,
            "explained": rounded(self.explained),
            "others": self.others,
            "senses": None if self.senses is None else self.senses.to_dict(),
            "left_out": self.left_out,
            "notes": self.notes(),
        }


@dataclass(frozen=True, slots=True)
class WordSpan:
    """Where a word stands."""

    text: int
    begin: int
    end: int


def find_word(word: str, texts: Sequence[str], forms: Sequence[str] = ()) -> list[WordSpan]:
    """All places where a word, or one of its forms, stands; small and capital letters are alike.

    Words are those of the text; Chinese ones are found wherever their characters stand.

    Args:
        word: The word.
        texts: The texts.
        forms: Further forms of it, such as its plural.
    """
    wanted = [form for each in (word, *forms) if (form := each.strip().lower())]
    found: list[WordSpan] = []
    for number, text in enumerate(texts):
        lowered = text.lower() if len(text.lower()) == len(text) else text
        words = words_of(text)
        starts, ends = {begin for begin, _ in words}, {end for _, end in words}
        own: set[tuple[int, int]] = set()
        for form in wanted:
            at = lowered.find(form)
            while at >= 0:
                stop = at + len(form)
                if is_chinese(form) or (at in starts and stop in ends):
                    own.add((at, stop))
                at = lowered.find(form, at + 1)
        found += [WordSpan(number, *span) for span in sorted(own)]
    return found


def span_vectors(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    spans: Sequence[WordSpan],
    layers: Sequence[str],
    *,
    max_length: int | None,
    options: BatchOptions | None = None,
) -> tuple[dict[str, Float32Array], list[int]]:
    """The vector of each span, the mean of its pieces, from several layers; long texts in windows.

    Args:
        model: The encoder.
        tokenizer: Its tokenizer.
        texts: The texts.
        spans: Words in them, in the order of the texts.
        layers: Numbers of layers, or sum_last_four.
        max_length: The most tokens the model takes.
        options: Progress and cancellation.

    Returns:
        For each layer the vectors, (n, W); and the numbers of the spans that have one: those of
        which the tokenizer kept a character.
    """
    by_text: dict[int, list[int]] = {}
    for number, span in enumerate(spans):
        by_text.setdefault(span.text, []).append(number)
    read = [*by_text]
    windows = read_windows(
        tokenizer, [texts[each] for each in read], windows=Windows(), max_length=max_length,
        offsets=True,
    )  # fmt: skip
    asked: list[TokenWindow] = []
    owners: list[int] = []
    for several in by_item(windows):
        offsets = offsets_of(several)
        own = by_text[read[several[0].item]]
        tokens, spans_of = _tokens_of([spans[each] for each in own], offsets)
        for window in asking(several, tokens):
            if window.about is not None and len(window.about):
                asked.append(window)
                owners += [own[spans_of[each]] for each in window.about]
    if not asked:
        return {name: np.zeros((0, model.blueprint.width), np.float32) for name in layers}, []
    vectors = features(model, asked, layers, pooling=None, options=options)
    there = sorted(set(owners))
    rows = np.searchsorted(there, owners)
    counts = np.bincount(rows, minlength=len(there))[:, None]
    means = {}
    for name, each in vectors.items():
        total = np.zeros((len(there), each.shape[1]), np.float64)
        np.add.at(total, rows, each)
        means[name] = (total / counts).astype(np.float32)
    return means, there


def _tokens_of(spans: Sequence[WordSpan], offsets: Int64Array) -> tuple[Int64Array, list[int]]:
    """The tokens of each span, and which span each of them is of."""
    tokens: list[int] = []
    owners: list[int] = []
    for number, span in enumerate(spans):
        touched = np.flatnonzero((offsets[:, 0] < span.end) & (offsets[:, 1] > span.begin))
        tokens += touched.tolist()
        owners += [number] * len(touched)
    return np.array(tokens, dtype=np.int64), owners


def look_at_contexts(
    model: Model,
    tokenizer: Tokenizer,
    word: str,
    texts: Sequence[str],
    *,
    forms: Sequence[str] = (),
    labels: Sequence[str | None] | None = None,
    layer: str | None = None,
    correction: str = "centred",
    neighbours: int = 5,
    seed: int = 0,
    max_length: int | None = None,
    options: BatchOptions | None = None,
) -> ContextsView:
    """Compares the vectors of a word in many contexts.

    Args:
        model: The encoder.
        tokenizer: Its tokenizer.
        word: The word.
        texts: Texts with it, and others for the baseline.
        forms: Further forms of the word, such as its plural.
        labels: The sense of the word in each text, None where it is not known.
        layer: The layer that the map is of: a number, or sum_last_four; the last if not given.
        correction: raw; centred, minus the mean of other words; or whitened by them.
        neighbours: How many nearest contexts each has.
        seed: Decides which other words are drawn, and where clusters begin.
        max_length: The most tokens of a text; longer ones are read through windows.
        options: Progress and cancellation.

    Raises:
        InputError: If the word stands in fewer than two places.
        SettingError: If there is no such layer or correction.
    """
    check("neighbours", neighbours, PositiveInt)
    if correction not in CORRECTIONS:
        raise SettingError("correction", correction, f"it must be one of {', '.join(CORRECTIONS)}")
    if labels is not None and len(labels) != len(texts):
        raise InputError(
            f"labels has {len(labels):,} entries and texts {len(texts):,}; give one for each text."
        )
    depth = len(model.blueprint.encoder.running_order())
    chosen = str(depth) if layer is None else str(layer)
    spans = find_word(word, texts, forms)
    left_out, spans = max(0, len(spans) - _MOST), spans[:_MOST]
    names = [str(each) for each in range(depth + 1)]
    names += [chosen] if chosen not in names else []
    random = _random_words(texts, seed)
    vectors, there = span_vectors(
        model, tokenizer, texts, spans, names, max_length=max_length, options=options
    )
    spans = [spans[each] for each in there]
    if len(spans) < 2:
        raise InputError(
            f"the word {word!r} stands in {counted(len(spans), 'place')} of the texts; there is "
            "nothing to compare; give texts with at least two, or further forms of it."
        )
    others, drawn = span_vectors(
        model, tokenizer, texts, random, names, max_length=max_length, options=options
    )
    layers = tuple(
        LayerSimilarity(
            number,
            mean_cosine(vectors[str(number)].astype(np.float64)),
            mean_cosine(others[str(number)].astype(np.float64)) if len(drawn) > 1 else None,
        )
        for number in range(depth + 1)
    )
    own = corrected(vectors[chosen], others[chosen], correction)
    senses = None if labels is None else [labels[span.text] for span in spans]
    places, explained = _map(own)
    clusters = _clusters(own, seed)
    nearest = _nearest(own, neighbours)
    occurrences = tuple(
        WordOccurrence(
            span.text, span.begin, span.end,
            *_context(texts[span.text], span),
            None if senses is None else senses[number],
            float(places[number, 0]), float(places[number, 1]), int(clusters[number]),
            nearest[number],
        )
        for number, span in enumerate(spans)
    )  # fmt: skip
    return ContextsView(
        word, chosen, correction, occurrences, layers, int(clusters.max()) + 1, explained,
        len(drawn), None if senses is None else known_senses(own, senses), left_out,
    )  # fmt: skip


def _random_words(texts: Sequence[str], seed: int) -> list[WordSpan]:
    """A word of each text, drawn; no two from one text, so that none shares a context."""
    stream = RandomStream(seed, "other words")
    order = stream.permutation(0, len(texts))[:_OTHERS].tolist()
    found = []
    for number in sorted(order):
        words = [(a, b) for a, b in words_of(texts[number]) if texts[number][a:b].isalnum()]
        if words:
            pick = int(below(stream.words(1, number, 1), len(words))[0, 0])
            found.append(WordSpan(number, *words[pick]))
    return found


def corrected(vectors: Float32Array, others: Float32Array, correction: str) -> Float64Array:
    """Vectors as they are, minus the mean of others, or whitened by these too."""
    exact = vectors.astype(np.float64)
    if correction == "raw":
        return exact
    known = others if len(others) > 1 else vectors
    exact -= known.mean(axis=0, dtype=np.float64)
    if correction == "whitened":
        variances, directions = principal_directions(known)
        kept = min(len(known) - 1, len(variances))
        # Directions in which few words differ would be blown up.
        scale = np.sqrt(variances[:kept] + variances.mean())
        exact = exact @ directions[:, :kept] / scale
    return exact


def _map(vectors: Float64Array) -> tuple[Float64Array, float]:
    """Two principal components, and the fraction of the variance in them."""
    variances, directions = principal_directions(vectors)
    total = float(variances.sum())
    places = (vectors - vectors.mean(axis=0)) @ directions[:, :2]
    return places, float(variances[:2].sum()) / total if total > 0 else 1.0


def _clusters(vectors: Float64Array, seed: int) -> Int64Array:
    """k-means on directions, k by the best silhouette; one cluster where none stand out."""
    from sklearn.cluster import KMeans  # type: ignore[import-untyped]
    from sklearn.metrics import silhouette_score  # type: ignore[import-untyped]

    unit, count = unit_vectors(vectors), len(vectors)
    best, labels = 0.05, np.zeros(count, dtype=np.int64)
    if len(np.unique(unit.round(6), axis=0)) < 3:
        return labels
    for k in range(2, min(_CLUSTERS, count - 1) + 1):
        found = KMeans(k, n_init=4, random_state=seed).fit_predict(unit)
        if len(np.unique(found)) < k:
            break
        if (value := float(silhouette_score(unit, found))) > best:
            best, labels = value, found.astype(np.int64)
    order = np.argsort(-np.bincount(labels), kind="stable")
    return np.argsort(order)[labels]


def _nearest(vectors: Float64Array, count: int) -> list[tuple[tuple[int, float], ...]]:
    unit = unit_vectors(vectors)
    found = []
    for number in range(len(unit)):
        cosines = unit @ unit[number]
        cosines[number] = -np.inf
        order = np.argsort(-cosines, kind="stable")[: min(count, len(unit) - 1)]
        found.append(tuple((int(each), float(cosines[each])) for each in order))
    return found


def _context(text: str, span: WordSpan) -> tuple[str, str, str]:
    """What is shown of a text: before the word, the word, after it."""
    first, last = max(0, span.begin - _SHOWN), min(len(text), span.end + _SHOWN)
    before = ("…" if first else "") + text[first : span.begin]
    after = text[span.end : last] + ("…" if last < len(text) else "")
    return before, text[span.begin : span.end], after
