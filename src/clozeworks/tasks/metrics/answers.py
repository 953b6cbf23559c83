"""How well questions are answered: exact match and F1 by the rules of SQuAD and of CMRC 2018.

Papers: Rajpurkar et al. 2016 and 2018 (SQuAD 1.1 and 2.0); Cui et al. 2019 (CMRC 2018).
The idea: an answer counts as right if it equals one of the right ones once case, punctuation and
articles are gone; F1 gives part of the point for words (in Chinese: characters) in common. The two
rules give different numbers for the same answers, so their values have different names.
Where papers and official code differ: CMRC's F1 takes the longest common run, without gaps, where
papers speak of a subsequence.

Shapes: n questions, D draws.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

import numpy as np
from numpy.typing import NDArray

from clozeworks.arrays import Float64Array
from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.metrics.bootstrap import Values, check_lengths, measured_from_sums, ratio
from clozeworks.tasks.metrics.measured import Measured

_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
# Compat: the marks the official script drops. It lists the ellipsis as two characters and so never
# meets it; it stays, as does ASCII punctuation that is not here.
_NO_MARKS = str.maketrans("", "", "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』")
_PIECES = re.compile(
    r"[\u4e00-\u9fa5]"
    r"|[^\W\u4e00-\u9fa5]+(?:\.[^\W\u4e00-\u9fa5]+|,\d+[^\W\u4e00-\u9fa5]*)*"
    r"|[^\w\s]"
)


def squad(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[str | None],
    *,
    doubts: Sequence[float] | None = None,
    threshold: float | None = None,
    intervals: bool = False,
) -> Measured:
    """Exact match and F1 of answers, by the official rules of SQuAD.

    The rules are those of version 2.0 if a question has no answer or if doubts are given, otherwise
    those of 1.1. They differ in three ways: in 2.0 right answers of nothing but articles and
    punctuation are dropped; an empty answer has an F1 of 1 where nothing is right; and a question
    without prediction is left out instead of counted as wrong.

    Args:
        gold: The right answers of each question; none, or only empty ones, if it has no answer.
        predicted: The predicted answers; empty for "no answer", None if there is no prediction.
        doubts: How sure it is that each question has no answer (the lead of the empty answer over
            the best other, or a probability), to find the best thresholds.
        threshold: Answers with a higher doubt count as empty.
        intervals: Whether intervals are wanted.

    Raises:
        InputError: If they are not as many, or there are none.
        SettingError: If there is a threshold without doubts.
    """
    check_lengths(len(gold), len(predicted))
    if threshold is not None and doubts is None:
        raise SettingError(
            "threshold", threshold, "it has no effect without doubts", "give both or neither"
        )
    answerable = np.array([any(texts) for texts in gold])
    answered = np.array([text is not None for text in predicted])
    if doubts is None and answerable.all():
        return _measured(
            _each(gold, predicted, squad_exact, squad_f1),
            {"": np.ones_like(answered)},
            notes=_missing(answered, "count as wrong"),
            intervals=intervals,
        )
    if not answered.any():
        raise InputError("predicted is None for every question; give an answer for some.")
    right = [[text for text in texts if normalised(text)] or [""] for texts in gold]
    scores = _each(right, predicted, squad_exact, squad_f1_or_none)
    scores, answerable = scores[answered], answerable[answered]
    best: dict[str, float] = {}
    if doubts is not None:
        check_lengths(len(gold), len(doubts))
        doubt = np.asarray(doubts, dtype=np.float64)[answered]
        spoken = np.array([bool(text) for text in predicted])[answered]
        for name, column in (("exact_match", scores[:, 0]), ("f1", scores[:, 1])):
            score, index = best_threshold(column, doubt, answerable, spoken)
            best |= {f"best_{name}": score, f"best_{name}_threshold": index}
        if threshold is not None:
            scores = np.where((doubt > threshold)[:, None], ~answerable[:, None], scores)
    measured = _measured(
        scores,
        {"": np.ones_like(answerable), "answerable_": answerable, "impossible_": ~answerable},
        notes=_missing(answered, "are left out"),
        intervals=intervals,
    )
    return replace(measured, values=measured.values | best)


def cmrc(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[str | None],
    *,
    intervals: bool = False,
) -> Measured:
    """Exact match and F1 of Chinese answers, by the official rules of CMRC 2018.

    F1 counts the longest run of characters (for Latin letters and digits: of words) in common.
    The official script cuts Latin words with NLTK; here they are cut at white space and
    punctuation, which differs in English contractions (`don't`) and abbreviations (`U.S.`) only.

    Args:
        gold: The right answers of each question, at least one.
        predicted: The predicted answers; None if there is no prediction, which counts as wrong.
        intervals: Whether intervals are wanted.

    Raises:
        InputError: If they are not as many, there are none, or a question has no right answer.
    """
    check_lengths(len(gold), len(predicted))
    for index, texts in enumerate(gold, start=1):
        if not texts:
            raise InputError(
                f"gold, question {index:,}, has no answer; by the rules of CMRC each has one; "
                "leave the question out, or measure by the rules of SQuAD."
            )
    answered = np.array([text is not None for text in predicted])
    return _measured(
        _each(gold, predicted, cmrc_exact, cmrc_f1),
        {"cmrc_": np.ones_like(answered)},
        notes=_missing(answered, "count as wrong"),
        intervals=intervals,
    )


def normalised(text: str) -> str:
    """An answer in lower case, without ASCII punctuation, articles and extra white space."""
    # The order matters: "a." loses its point first and is then an article.
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_NO_PUNCTUATION)).split())


def squad_exact(gold: str, predicted: str) -> float:
    """Whether two answers are the same once normalised."""
    return float(normalised(gold) == normalised(predicted))


def squad_f1(gold: str, predicted: str) -> float:
    """How many words two answers share, by the rules of SQuAD 1.1: 0 if one has no words."""
    right, answer = normalised(gold).split(), normalised(predicted).split()
    shared = (Counter(right) & Counter(answer)).total()
    return 2 * shared / (len(right) + len(answer)) if shared else 0.0


def squad_f1_or_none(gold: str, predicted: str) -> float:
    """How many words two answers share, by the rules of SQuAD 2.0: 1 if both have no words."""
    both = normalised(gold) and normalised(predicted)
    return squad_f1(gold, predicted) if both else squad_exact(gold, predicted)


def cmrc_exact(gold: str, predicted: str) -> float:
    """Whether two Chinese answers are the same but for case and marks."""
    right, answer = (text.lower().strip().translate(_NO_MARKS) for text in (gold, predicted))
    return float(right == answer)


def cmrc_f1(gold: str, predicted: str) -> float:
    """How long the longest run is that two Chinese answers share."""
    right, answer = cmrc_pieces(gold), cmrc_pieces(predicted)
    run = SequenceMatcher(None, right, answer, autojunk=False).find_longest_match().size
    return 2 * run / (len(right) + len(answer)) if run else 0.0


def cmrc_pieces(text: str) -> list[str]:
    """Chinese characters one by one, words of other scripts whole, without marks."""
    return _PIECES.findall(text.lower().strip().translate(_NO_MARKS))


def best_threshold(
    scores: Float64Array,
    doubts: Float64Array,
    answerable: NDArray[np.bool_],
    spoken: NDArray[np.bool_],
) -> tuple[float, float]:
    """Finds the threshold for doubts that gives the best mean score.

    It equals the official search while all doubts differ. Among equal doubts the official one stops
    where the score is best, which no threshold can do; this one takes all of them or none. And
    where it is best to answer nothing, this one gives a threshold that does so. In both an answer
    of nothing but articles and punctuation counts as spoken.

    Args:
        scores: The score of each answer as predicted, (n,).
        doubts: How sure it is that the question has no answer, (n,).
        answerable: Whether it has one, (n,).
        spoken: Whether the predicted answer is not empty, (n,).

    Returns:
        The best mean score and its threshold; answers with a higher doubt count as empty.
    """
    order = np.argsort(doubts, kind="stable")
    ordered = doubts[order]
    gains = np.where(answerable, scores, -spoken.astype(np.float64))[order]
    reached = np.cumsum(gains)
    ends = np.append(ordered[1:] != ordered[:-1], True)
    best = int(np.where(ends, reached, -np.inf).argmax())
    nothing = float((~answerable).sum())
    if reached[best] <= 0:
        return nothing / len(scores), float(np.nextafter(ordered[0], -np.inf))
    return (nothing + float(reached[best])) / len(scores), float(ordered[best])


def _each(
    gold: Sequence[Sequence[str]],
    predicted: Sequence[str | None],
    exact: Callable[[str, str], float],
    f1: Callable[[str, str], float],
) -> Float64Array:
    """Exact match and F1 of each question with the right answer that suits it best, (n, 2)."""
    return np.array(
        [
            (max(exact(text, answer) for text in texts), max(f1(text, answer) for text in texts))
            if answer is not None
            else (0.0, 0.0)
            for texts, answer in zip(gold, predicted, strict=True)
        ]
    )


def _missing(answered: NDArray[np.bool_], fate: str) -> tuple[str, ...]:
    if answered.all():
        return ()
    count = len(answered) - int(answered.sum())
    return (f"without a prediction: {count:,} of {len(answered):,} questions; they {fate}.",)


def _measured(
    scores: Float64Array,
    groups: dict[str, NDArray[np.bool_]],
    *,
    notes: tuple[str, ...],
    intervals: bool,
) -> Measured:
    """The mean scores (n, 2) of groups of questions, the first of which decides.

    The name of a group begins those of its values.
    """
    groups = {name: which for name, which in groups.items() if which.any()}
    parts = [np.column_stack([which, scores * which[:, None]]) for which in groups.values()]
    statistics = np.concatenate(parts, axis=1)  # (n, 3 for each group)

    def values(sums: Float64Array) -> Values:
        means = {}
        for index, name in enumerate(groups):
            count, exact, f1 = sums[:, 3 * index : 3 * index + 3].T
            means[f"{name}exact_match"] = ratio(exact, count)
            means[f"{name}f1"] = ratio(f1, count)
        return means

    primary = f"{next(iter(groups))}f1"
    return measured_from_sums(statistics, values, primary, intervals=intervals, notes=notes)
