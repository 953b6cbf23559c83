"""Answers are judged as the official rules of SQuAD judge them."""

import gzip
import json
import os
import random
import re
from pathlib import Path

import numpy as np
import pytest

from clozeworks.errors import InputError, SettingError
from clozeworks.tasks.metrics.answers import (
    best_threshold,
    normalised,
    squad,
    squad_exact,
    squad_f1,
    squad_f1_or_none,
)

ARTICLES = {"a", "an", "the"}
PUNCTUATION = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
ENGLISH = ["The", "a", "an", "the", "cat", "Cat", "cat's", "on", "mat.", "“mat”", "42", "4,2", "é"]
ENGLISH += ["-", "...", "a.", "A-n", "—", "the–end", "İs", ""]


# The rules once more, plain and slow, to compare with.


def words(text):
    kept = "".join(letter for letter in text.lower() if letter not in PUNCTUATION)
    # An article is a whole run of word characters, also beside a sign that is not ASCII.
    parts = [" " if part in ARTICLES else part for part in re.findall(r"\w+|\W", kept)]
    return "".join(parts).split()


def overlap(right, given):
    left, shared = list(right), 0
    for word in given:
        if word in left:
            left.remove(word)
            shared += 1
    if shared == 0:
        return 0.0
    precision, recall = shared / len(given), shared / len(right)
    return 2 * precision * recall / (precision + recall)


def version_1(gold, said):
    """Mean exact match and F1; a missing prediction counts as 0."""
    exact = f1 = 0.0
    for texts, text in zip(gold, said, strict=True):
        if text is None:
            continue
        exact += max(words(right) == words(text) for right in texts)
        f1 += max(overlap(words(right), words(text)) for right in texts)
    return exact / len(gold), f1 / len(gold)


def one_of_version_2(texts, text):
    rights = [words(right) for right in texts if words(right)] or [[]]
    given = words(text)
    exact = max(float(right == given) for right in rights)
    if rights == [[]] or not given:
        return exact, exact
    return exact, max(overlap(right, given) for right in rights)


def version_2(gold, said, doubts, threshold):
    """The numbers of the official script by name; a missing prediction is left out."""
    rows = []
    for texts, text, doubt in zip(gold, said, doubts, strict=True):
        if text is not None:
            rows.append((bool(texts), text, doubt, *one_of_version_2(texts, text)))
    found = {}
    for place, name in ((3, "exact_match"), (4, "f1")):
        shown = [(row[0], row[place] if row[2] <= threshold else float(not row[0])) for row in rows]
        found[name] = sum(score for _, score in shown) / len(shown)
        for part, wanted in (("answerable", True), ("impossible", False)):
            some = [score for has, score in shown if has is wanted]
            found[f"{part}_{name}"] = sum(some) / len(some)
        score = best = sum(not row[0] for row in rows)
        where = None
        for row in sorted(rows, key=lambda row: row[2]):
            score += row[place] if row[0] else -bool(row[1])
            if score > best:
                best, where = score, row[2]
        found[f"best_{name}"], found[f"best_{name}_threshold"] = best / len(rows), where
    return found


def english(rng, most=5):
    return " ".join(rng.choices(ENGLISH, k=rng.randint(0, most)))


def similar(rng, texts):
    """One of the texts, often with a few words changed."""
    words = (rng.choice(texts) if texts else english(rng)).split()
    return " ".join(word if rng.random() < 0.7 else rng.choice(ENGLISH) for word in words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The cat", "cat"),
        ("a.", ""),  # the point goes first, and an article is left
        ("An  apple,\ta day!", "apple day"),
        ("theatre another", "theatre another"),
        ("the-end", "theend"),
        ("U.S.A.", "usa"),
        ("“The” café", "“ ” café"),  # signs that are not ASCII stay
        ("的 the", "的"),
        ("", ""),
    ],
)
def test_answers_lose_case_punctuation_and_articles(text, expected):
    assert normalised(text) == expected


@pytest.mark.parametrize(
    ("right", "given", "exact", "first", "second"),
    [
        ("the cat", "Cat!", 1, 1, 1),
        ("black cat", "cat", 0, 2 / 3, 2 / 3),
        ("cat cat dog", "cat cat cat", 0, 2 / 3, 2 / 3),
        ("cat", "dog", 0, 0, 0),
        ("", "", 1, 0, 1),  # version 1.1 gives no F1 for nothing
        ("the", "", 1, 0, 1),
        ("cat", "", 0, 0, 0),
        ("", "cat", 0, 0, 0),
    ],
)
def test_scores_of_one_answer(right, given, exact, first, second):
    assert squad_exact(right, given) == exact
    assert squad_f1(right, given) == pytest.approx(first)
    assert squad_f1_or_none(right, given) == pytest.approx(second)


@pytest.mark.parametrize("seed", range(4))
def test_version_1_equals_the_plain_rules(seed):
    rng = random.Random(seed)
    gold = [
        [f"{english(rng)} {rng.choice('xyz')}" for _ in range(rng.randint(1, 3))]
        for _ in range(200)
    ]
    said = [similar(rng, texts) if rng.random() < 0.95 else None for texts in gold]
    exact, f1 = version_1(gold, said)
    found = squad(gold, said)
    assert found.values == pytest.approx({"exact_match": exact, "f1": f1})
    assert 0.05 < exact < f1 < 0.95
    assert (found.primary, found.count, found.higher_is_better) == ("f1", 200, True)


def questions(seed, *, missing):
    rng = random.Random(seed)
    gold = [
        [english(rng) or "x" for _ in range(rng.randint(1, 3))] if rng.random() < 0.6 else []
        for _ in range(200)
    ]
    said = [similar(rng, texts) if rng.random() > missing else None for texts in gold]
    doubts = [rng.gauss(0 if texts else 1, 1) for texts in gold]
    return gold, said, doubts


@pytest.mark.parametrize("missing", [0, 0.1])
@pytest.mark.parametrize("seed", range(4))
def test_version_2_equals_the_plain_rules(seed, missing):
    gold, said, doubts = questions(seed, missing=missing)
    expected = version_2(gold, said, doubts, threshold=0.4)
    found = squad(gold, said, doubts=doubts, threshold=0.4)
    assert found.values == pytest.approx(expected)
    assert found.count == sum(text is not None for text in said)
    without = {name: value for name, value in expected.items() if "best" not in name}
    whole = version_2(gold, said, doubts, threshold=np.inf)
    assert squad(gold, said).values == pytest.approx({name: whole[name] for name in without})


def test_the_best_threshold_reaches_the_best_score():
    gold, said, doubts = (part[:60] for part in questions(0, missing=0))
    # The official search takes every answer that is not empty for one with words in it.
    said = [text if words(text) else "" for text in said]
    best = squad(gold, said, doubts=doubts).values
    reached = [squad(gold, said, doubts=doubts, threshold=t).values["f1"] for t in sorted(doubts)]
    assert best["best_f1"] == pytest.approx(max(reached))
    again = squad(gold, said, doubts=doubts, threshold=best["best_f1_threshold"])
    assert again.values["f1"] == pytest.approx(best["best_f1"])


def test_equal_doubts_are_taken_together():
    scores, answerable = np.array([1.0, 0.0, 0.0]), np.array([True, False, False])
    # Item by item the first question alone would be answered, which no threshold can do.
    score, threshold = best_threshold(scores, np.zeros(3), answerable, np.array([True] * 3))
    assert score == pytest.approx(2 / 3)
    assert threshold < 0
    # What gains nothing is not answered.
    score, threshold = best_threshold(scores[:2], np.zeros(2), answerable[:2], np.array([True] * 2))
    assert score == 1 / 2
    assert threshold < 0
    score, threshold = best_threshold(
        scores, np.array([0.1, 0.2, 0.2]), answerable, np.array([True] * 3)
    )
    assert (score, threshold) == (1, 0.1)


def test_questions_without_answer_are_right_when_nothing_is_said():
    found = squad([("cat",), (), ("",)], ["cat", "", "dog"])
    assert found.values == pytest.approx(
        {
            "exact_match": 2 / 3,
            "f1": 2 / 3,
            "answerable_exact_match": 1,
            "answerable_f1": 1,
            "impossible_exact_match": 1 / 2,
            "impossible_f1": 1 / 2,
        }
    )


def test_missing_predictions_are_noted():
    note = "without a prediction: 1 of 2 questions; they"
    first = squad([("cat",), ("dog",)], ["cat", None])
    assert (first.value, first.count, first.notes) == (0.5, 2, (f"{note} count as wrong.",))
    second = squad([("cat",), ()], ["cat", None])
    assert (second.value, second.count, second.notes) == (1, 1, (f"{note} are left out.",))


def test_intervals_of_answers(slow_interval):
    gold, said, _ = questions(0, missing=0)
    found = squad(gold, said, intervals=True)
    has = np.array([bool(texts) for texts in gold])
    f1 = np.array([one_of_version_2(*pair)[1] for pair in zip(gold, said, strict=True)])
    slow = slow_interval(lambda drawn: f1[drawn][has[drawn]].mean(), 200)
    assert found.intervals["answerable_f1"] == pytest.approx(slow)


@pytest.mark.parametrize(
    ("call", "error", "sentence"),
    [
        (
            lambda: squad([("a",)], ["a"], threshold=0.5),
            SettingError,
            "threshold is 0.5; it has no effect without doubts; give both or neither.",
        ),
        (
            lambda: squad([("a",), ()], [None, None]),
            InputError,
            "predicted is None for every question; give an answer for some.",
        ),
        (
            lambda: squad([("a",), ("b",)], ["a"]),
            InputError,
            "predicted holds 1 answers and gold 2; each item needs one of both; give them for the "
            "same items in the same order.",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call, error, sentence):
    with pytest.raises(error) as caught:
        call()
    assert str(caught.value) == sentence


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["squad_v1_dev", "squad_v1_train", "squad_v2_dev", "squad_v2_train"]
)
def test_real_questions(name):
    beside = Path(__file__).resolve().parents[4] / ".." / "shared" / "data"
    path = Path(os.environ.get("CLOZEWORKS_DATA", beside)) / "answer" / f"{name}.json.gz"
    if not path.is_file():
        pytest.skip(f"{path} is not there")
    rng = random.Random(0)
    gold, said = [], []
    for part in json.loads(gzip.decompress(path.read_bytes()))["data"]:
        for paragraph in part["paragraphs"]:
            words = paragraph["context"].split()
            for question in paragraph["qas"]:
                gold.append([answer["text"] for answer in question["answers"]])
                begin = rng.randrange(len(words))
                span = " ".join(words[begin : begin + rng.randint(1, 5)])
                said.append(rng.choice([*gold[-1], span, ""]))
    doubts = [rng.random() for _ in gold]
    perfect = squad(gold, [texts[0] if texts else "" for texts in gold])
    assert perfect.values["exact_match"] == 1
    if "v1" in name:
        exact, f1 = version_1(gold, said)
        assert squad(gold, said).values == pytest.approx({"exact_match": exact, "f1": f1})
    else:
        expected = version_2(gold, said, doubts, threshold=0.7)
        found = squad(gold, said, doubts=doubts, threshold=0.7)
        assert found.values == pytest.approx(expected)
