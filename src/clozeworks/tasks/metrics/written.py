"""How good written texts are: BLEU, chrF, ROUGE, exact match, and the labels a format reads.

Papers: Papineni et al. 2002 (BLEU); Post 2018 (sacreBLEU); Popović 2015 (chrF); Lin 2004 (ROUGE).
The idea: each value follows from counts of what a text has in common with its target, so intervals
come from the same resampling as everywhere.
Where codes differ: BLEU and chrF are those of sacreBLEU and of whole corpora, divided by 100. ROUGE
is that of Google's library without stemming, the mean of F1 over texts; its tokenizer knows small
Latin letters and digits only, so texts of other scripts are cut here into words, and Chinese into
characters. All three look at the first target; exact match and SQuAD's values at all of them.

Shapes: n texts, D draws.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from statistics import fmean

import numpy as np

from clozeworks.arrays import Float64Array
from clozeworks.tasks.labels.names import number_of
from clozeworks.tasks.metrics.answers import squad
from clozeworks.tasks.metrics.bootstrap import Values, check_lengths, measured_from_sums, ratio
from clozeworks.tasks.metrics.classification import one_label
from clozeworks.tasks.metrics.measured import Measured, with_primary
from clozeworks.tasks.metrics.numbers import numbers
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.text_to_text.formats import NO_LABEL, Format
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem
from clozeworks.text.characters import is_chinese, words_of

USUAL = "chrf"
MEAN = "mean"
# Compat: what T5's code takes for a text that is not a number.
_NO_NUMBER = -1.0
_ORDERS = 4  # of BLEU
_CHARACTERS, _BETA = 6, 2  # of chrF


def measure_tasks(
    items: Sequence[SourceItem | ChatItem],
    texts: Sequence[str],
    formats: Sequence[Format | None],
    *,
    metric: str | None = None,
    intervals: bool = False,
) -> Measured:
    """How good what was written is, task by task.

    Args:
        items: Items with targets: `SourceItem` or `ChatItem`.
        texts: What was written for each.
        formats: The format of each; None for plain text.
        metric: The value that decides; that of the format, or chrf, if not given.
        intervals: Whether intervals are wanted.

    Returns:
        The values of the task; of several tasks the mean of their deciding values, and each value
        under the task's name.
    """
    check_lengths(len(items), len(texts))
    order = sorted(range(len(items)), key=lambda index: items[index].task)
    by_task: dict[str, Measured] = {}
    for name, group in groupby(order, key=lambda index: items[index].task):
        positions = list(group)
        by_task[name] = measure_written(
            [_right(items[index]) for index in positions],
            [texts[index] for index in positions],
            formats[positions[0]],
            metric=metric,
            intervals=intervals,
        )
    return next(iter(by_task.values())) if len(by_task) == 1 else _together(by_task)


def _right(item: SourceItem | ChatItem) -> tuple[str, ...]:
    assert item.target is not None
    return (item.target,) if isinstance(item, ChatItem) else (item.target, *item.others)


def _together(by_task: dict[str, Measured]) -> Measured:
    values = {MEAN: fmean(each.value for each in by_task.values())}
    intervals: dict[str, tuple[float, float]] = {}
    notes = [f"{MEAN} is the mean over tasks of what decides in each; it has no interval."]
    for name, each in by_task.items():
        shown = name or "(no task)"
        for value in (each.primary, *(other for other in each.values if other != each.primary)):
            values[f"{shown} {value}"] = each.values[value]
            if value in each.intervals:
                intervals[f"{shown} {value}"] = each.intervals[value]
        notes += [f"{shown}: {note}" for note in each.notes]
    count = sum(each.count for each in by_task.values())
    return Measured(values, MEAN, True, count, intervals, tuple(notes))


def measure_written(
    gold: Sequence[Sequence[str]],
    texts: Sequence[str],
    form: Format | None = None,
    *,
    metric: str | None = None,
    intervals: bool = False,
) -> Measured:
    """How good texts of one task are; the first right text of each item is its target."""
    chosen = metric or (form.metric if form else USUAL)
    if form is not None and form.words:
        measured = _words(gold, texts, form, intervals)
    elif form is not None and form.number:
        measured = _numbers(gold, texts, form, intervals)
    elif form is not None and form.item_type is QuestionItem:
        measured = squad(gold, texts, intervals=intervals)
    else:
        measured = plain_texts(gold, texts, intervals=intervals)
    return with_primary(measured, chosen, "task.metric")


def _words(
    gold: Sequence[Sequence[str]], texts: Sequence[str], form: Format, intervals: bool
) -> Measured:
    """Labels by their words; any other text is a wrong one, to Matthews one more.

    Compat: as T5's code has it in F1 and in Matthews correlation.
    """
    targets, predicted, unnamed = [], [], []
    for right, text in zip(gold, texts, strict=True):
        if right[0] not in form.words:
            continue
        target, label = form.words.index(right[0]), form.read(text)
        targets.append(target)
        unnamed.append(label is None)
        wrong = (target + 1) % len(form.words)
        predicted.append(wrong if label is None else form.words.index(str(label)))
    measured = one_label(
        targets, predicted, form.words, unnamed=np.array(unnamed), intervals=intervals
    )
    notes = list(measured.notes)
    if unknown := sum(unnamed):
        notes.append(
            f"written texts that are not a word of {form.name}: {unknown:,} of {len(targets):,}; "
            "each counts as a wrong word, in Matthews correlation as a word of its own."
        )
    if left_out := len(gold) - len(targets):
        notes.append(f"targets that are {NO_LABEL}: {left_out:,}; they are left out.")
    return replace(measured, notes=tuple(notes))


def _numbers(
    gold: Sequence[Sequence[str]], texts: Sequence[str], form: Format, intervals: bool
) -> Measured:
    values = [form.read(text) for text in texts]
    targets = [number_of(right[0], "the target") for right in gold]
    predicted = [_NO_NUMBER if value is None else number_of(value, "the text") for value in values]
    measured = numbers(targets, predicted, intervals=intervals)
    unknown = values.count(None)
    if not unknown:
        return measured
    note = f"written texts that are not numbers: {unknown:,} of {len(texts):,}; each counts as -1."
    return replace(measured, notes=(*measured.notes, note))


def plain_texts(
    gold: Sequence[Sequence[str]], texts: Sequence[str], *, intervals: bool = False
) -> Measured:
    """BLEU, chrF, ROUGE and exact match; the first right text of each item is its target.

    Raises:
        InputError: If they are not as many, or there are none.
    """
    check_lengths(len(gold), len(texts))
    targets = [right[0] for right in gold]
    chinese = mostly_chinese(targets)
    latin = mostly_latin(targets)
    exact = [
        any(text.strip() == each.strip() for each in right)
        for right, text in zip(gold, texts, strict=True)
    ]
    parts = {
        "bleu": bleu_counts(targets, texts, chinese=chinese),
        "chrf": np.array([chrf_counts(t, s) for t, s in zip(targets, texts, strict=True)]),
        "rouge": rouge_scores(targets, texts, latin=latin),
        "exact": np.array(exact, np.float64)[:, None],
    }
    ends = np.cumsum([part.shape[1] for part in parts.values()])[:-1]
    count = len(texts)

    def values(sums: Float64Array) -> Values:
        bleu, chrf, rouge, right = np.split(sums, ends, axis=1)
        rouge_1, rouge_2, rouge_l = rouge.T / count
        return {
            "bleu": bleu_from(bleu),
            "chrf": chrf_from(chrf),
            "rouge_1": rouge_1,
            "rouge_2": rouge_2,
            "rouge_l": rouge_l,
            "exact_match": right[:, 0] / count,
        }

    statistics = np.concatenate(list(parts.values()), axis=1)
    notes = _notes(chinese=chinese, latin=latin)
    return measured_from_sums(statistics, values, USUAL, intervals=intervals, notes=notes)


def _notes(*, chinese: bool, latin: bool) -> tuple[str, ...]:
    import sacrebleu

    cut = "zh" if chinese else "13a"
    notes = [f"bleu and chrf are those of sacrebleu {sacrebleu.__version__}, bleu with {cut}."]
    if not latin:
        unit = "Chinese characters" if chinese else "words of any script"
        notes.append(f"rouge counts {unit}: its own tokenizer knows Latin letters only.")
    return tuple(notes)


def mostly_chinese(texts: Sequence[str]) -> bool:
    """Whether more than half of the letters are Chinese characters."""
    letters = [each for text in texts for each in text if each.isalpha()]
    return 2 * sum(map(is_chinese, letters)) > len(letters)


def mostly_latin(texts: Sequence[str]) -> bool:
    """Whether at least half of the letters and digits are those ROUGE's tokenizer knows."""
    signs = [each for text in texts for each in text.lower() if each.isalnum()]
    return 2 * sum(each.isascii() for each in signs) >= len(signs)


def bleu_counts(targets: Sequence[str], texts: Sequence[str], *, chinese: bool) -> Float64Array:
    """What BLEU is made of for each text: matches and n-grams of each order, lengths, (n, 10)."""
    from sacrebleu.metrics.bleu import BLEU

    counting = BLEU(tokenize="zh" if chinese else "13a")
    pairs = zip(targets, texts, strict=True)
    scores = (counting.corpus_score([text], [[target]]) for target, text in pairs)
    rows = [[*each.counts, *each.totals, each.sys_len, each.ref_len] for each in scores]
    return np.array(rows, np.float64)


def bleu_from(sums: Float64Array) -> Float64Array:
    """BLEU of sums (D, 10), smoothed as sacreBLEU does: each order without a match halves."""
    right, total = sums[:, :_ORDERS], sums[:, _ORDERS : 2 * _ORDERS]
    length, target_length = sums[:, -2], sums[:, -1]
    none = (right == 0) & (total > 0)
    halved = 0.5 ** np.cumsum(none, axis=1)
    fractions = np.where(none, ratio(halved, total), ratio(right, total))
    known = (total > 0).all(axis=1) & (right.sum(axis=1) > 0)
    logs = np.log(np.where(fractions > 0, fractions, 1.0)).mean(axis=1)
    penalty = np.exp(1 - ratio(target_length, np.maximum(length, 1e-9)))
    short = np.where(length < target_length, penalty, 1.0)
    bleu: Float64Array = np.where(known, short * np.exp(logs), 0.0)
    return bleu


def chrf_counts(target: str, text: str) -> list[float]:
    """N-grams of the text, of the target and shared, for each order, without white space."""
    signs = "".join(text.split()), "".join(target.split())
    counts: list[float] = []
    for order in range(1, _CHARACTERS + 1):
        written, gold = (
            Counter(each[index : index + order] for index in range(len(each) - order + 1))
            for each in signs
        )
        # Compat: n-grams longer than the target do not count against a text.
        counts += [written.total() if gold else 0, gold.total(), (written & gold).total()]
    return counts


def chrf_from(sums: Float64Array) -> Float64Array:
    """The chrF of sums, (D, 18); orders that one of the two does not have are left out."""
    written, gold, shared = sums[:, 0::3], sums[:, 1::3], sums[:, 2::3]
    both = (written > 0) & (gold > 0)
    orders = both.sum(axis=1)
    precision = ratio((ratio(shared, written) * both).sum(axis=1), orders)
    recall = ratio((ratio(shared, gold) * both).sum(axis=1), orders)
    factor = _BETA**2
    return ratio((1 + factor) * precision * recall, factor * precision + recall)


def likeness(target: str, text: str) -> float:
    """The chrF of one text, from 0 to 1."""
    return float(chrf_from(np.array([chrf_counts(target, text)], np.float64))[0])


class _Words:
    """Cuts texts of any script for ROUGE."""

    def tokenize(self, text: str) -> list[str]:
        """Words in small letters, Chinese characters one by one, no punctuation."""
        small = text.lower()
        words = (small[begin:end] for begin, end in words_of(small))
        return [word for word in words if any(map(str.isalnum, word))]


def rouge_scores(targets: Sequence[str], texts: Sequence[str], *, latin: bool) -> Float64Array:
    """ROUGE-1, 2 and L of each text: F1, (n, 3)."""
    from rouge_score.rouge_scorer import RougeScorer

    names = ["rouge1", "rouge2", "rougeL"]
    scorer = RougeScorer(names, tokenizer=None if latin else _Words())
    scores = map(scorer.score, targets, texts)
    return np.array([[each[name].fmeasure for name in names] for each in scores], np.float64)
