"""Chinese answers are judged as the official rules of CMRC 2018 judge them."""

import random

import pytest

from clozeworks.errors import InputError
from clozeworks.tasks.metrics.answers import cmrc, cmrc_exact, cmrc_f1, cmrc_pieces

MARKS = "-:_*^/\\~`+=，。：？！“”；’《》·、「」（）－～『』"
CHINESE = ["我", "爱", "北京", "，", "《", "》", "BERT", "bert", "2018", " ", "-", "。", "…"]


# The rules once more, plain and slow, to compare with.


def chinese_pieces(text):
    pieces, word = [], ""
    for letter in text.lower().strip() + " ":
        if letter in MARKS:
            continue
        if letter.isascii() and letter.isalnum():
            word += letter
            continue
        if word:
            pieces.append(word)
            word = ""
        if not letter.isspace():
            pieces.append(letter)
    return pieces


def longest_run(first, second):
    return max(
        (
            size
            for begin in range(len(first))
            for size in range(1, len(first) - begin + 1)
            for other in range(len(second))
            if first[begin : begin + size] == second[other : other + size]
        ),
        default=0,
    )


def chinese(gold, said):
    """Mean exact match and F1 by the rules of CMRC."""
    exact = f1 = 0.0
    for texts, text in zip(gold, said, strict=True):
        if text is None:
            continue
        bare = ["".join(c for c in t.lower().strip() if c not in MARKS) for t in (*texts, text)]
        exact += bare[-1] in bare[:-1]
        given = chinese_pieces(text)
        scores = []
        for right in map(chinese_pieces, texts):
            run = longest_run(right, given)
            scores.append(2 * run / (len(right) + len(given)) if run else 0)
        f1 += max(scores)
    return exact / len(gold), f1 / len(gold)


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("北京2008年", ["北", "京", "2008", "年"]),
        ("《BERT》 模型", ["bert", "模", "型"]),
        ("3.5亿, 10,000人", ["3.5", "亿", ",", "10,000", "人"]),
        ("a-b", ["ab"]),  # a mark leaves no gap
        ("new york", ["new", "york"]),
        ("……", ["…", "…"]),
        ("", []),
    ],
)
def test_chinese_answers_are_cut_into_characters_and_words(text, pieces):
    assert cmrc_pieces(text) == pieces


def test_chinese_f1_takes_the_longest_run():
    assert cmrc_f1("北京大学", "北京的大学") == pytest.approx(2 * 2 / 9)  # a subsequence would be 4
    assert cmrc_f1("《北京》", "北京") == cmrc_exact("《北京》", "北京。") == 1
    assert cmrc_f1("", "") == 0
    assert cmrc_exact("北 京", "北京") == 0


@pytest.mark.parametrize("seed", range(3))
def test_chinese_scores_equal_the_plain_rules(seed):
    rng = random.Random(seed)

    def text():
        return "".join(rng.choices(CHINESE, k=rng.randint(0, 8)))

    gold = [[text() for _ in range(rng.randint(1, 3))] for _ in range(150)]
    said = [
        (rng.choice(texts)[rng.randint(0, 2) :] + rng.choice(CHINESE))
        if rng.random() < 0.9
        else None
        for texts in gold
    ]
    exact, f1 = chinese(gold, said)
    found = cmrc(gold, said, intervals=True)
    assert found.values == pytest.approx({"cmrc_exact_match": exact, "cmrc_f1": f1})
    assert 0.05 < exact < f1 < 0.95
    assert (found.primary, found.count) == ("cmrc_f1", 150)
    assert "f1" not in found.values  # never under the name of SQuAD's
    low, high = found.intervals["cmrc_f1"]
    assert low < f1 < high


def test_every_question_has_an_answer():
    with pytest.raises(InputError) as error:
        cmrc([("北",), ()], ["北", ""])
    assert str(error.value) == (
        "gold, question 2, has no answer; by the rules of CMRC each has one; leave the question "
        "out, or measure by the rules of SQuAD."
    )
