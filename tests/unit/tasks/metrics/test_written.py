"""Written texts: the values of sacreBLEU and Google's ROUGE, strict words, tasks, their mean."""

import numpy as np
import pytest
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, CHRF

from clozeworks.errors import InputError, UnknownName
from clozeworks.tasks.metrics.written import (
    measure_tasks,
    measure_written,
    mostly_chinese,
    mostly_latin,
    plain_texts,
    rouge_scores,
)
from clozeworks.tasks.text_to_text.formats import format_of
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, Turn

WORDS = [
    "the",
    "a",
    "fox",
    "dog",
    "cat",
    "ran",
    "slept",
    "quickly",
    "over",
    "under",
    "lazy",
    "big",
    ",",
    ".",
    "London",
    "'s",
    "3.5",
]
CHINESE = list("我爱学习你好世界中国人民。，天地")


def texts(rng, count, words=WORDS, join=" "):
    return [join.join(rng.choice(words, size=rng.integers(1, 14))) for _ in range(count)]


def pairs(seed, count=40, words=WORDS, join=" "):
    """Texts, some of them equal to their targets, some near, some far, one empty."""
    rng = np.random.default_rng(seed)
    targets = texts(rng, count, words, join)
    said = texts(rng, count, words, join)
    for place in range(0, count, 3):
        said[place] = targets[place]
    for place in range(1, count, 3):
        said[place] = targets[place][: len(targets[place]) // 2] + said[place][:6]
    said[-1] = ""
    return targets, said


@pytest.mark.parametrize("seed", range(5))
def test_values_are_those_of_the_published_libraries(seed):
    targets, said = pairs(seed)
    values = plain_texts([[t] for t in targets], said).values
    assert values["bleu"] == pytest.approx(BLEU().corpus_score(said, [targets]).score / 100)
    assert values["chrf"] == pytest.approx(CHRF().corpus_score(said, [targets]).score / 100)
    scorer = RougeScorer(["rouge1", "rouge2", "rougeL"])
    each = [scorer.score(t, s) for t, s in zip(targets, said, strict=True)]
    for ours, theirs in (("rouge_1", "rouge1"), ("rouge_2", "rouge2"), ("rouge_l", "rougeL")):
        assert values[ours] == pytest.approx(np.mean([scores[theirs].fmeasure for scores in each]))
    right = np.mean([t == s for t, s in zip(targets, said, strict=True)])
    assert values["exact_match"] == pytest.approx(right)


@pytest.mark.parametrize("said", [["zzz"], ["the"], ["the fox"], ["fox the dog"], [""]])
def test_short_and_foreign_texts_are_smoothed_as_published(said):
    targets = ["the fox ran over London"]
    values = plain_texts([targets], said).values
    assert values["bleu"] == pytest.approx(BLEU().corpus_score(said, [targets]).score / 100)
    assert values["chrf"] == pytest.approx(CHRF().corpus_score(said, [targets]).score / 100)


def test_chinese_is_cut_into_characters_and_that_is_said():
    targets, said = pairs(1, words=CHINESE, join="")
    measured = plain_texts([[t] for t in targets], said)
    bleu = BLEU(tokenize="zh").corpus_score(said, [targets]).score / 100
    assert measured.values["bleu"] == pytest.approx(bleu)
    assert measured.values["rouge_1"] > 0.3  # the published tokenizer would see nothing
    assert RougeScorer(["rouge1"]).score(targets[0], targets[0])["rouge1"].fmeasure == 0
    assert any("bleu with zh" in note for note in measured.notes)
    assert any("rouge counts Chinese characters" in note for note in measured.notes)
    assert rouge_scores(["我爱你"], ["我你"], latin=False)[0, 0] == pytest.approx(2 * 2 / 5)


def test_scripts_are_told_apart():
    assert mostly_chinese(["我爱 GPT"]) is False
    assert mostly_chinese(["我爱学习 AI"])
    assert mostly_latin(["a text", "été"])
    assert not mostly_latin(["Это текст"])
    russian = plain_texts([["это большой текст"]], ["это большой текст"])
    assert russian.values["rouge_2"] == 1
    assert any("rouge counts words of any script" in note for note in russian.notes)


def test_intervals_hold_the_values_and_shrink_with_more_texts():
    wide = []
    for count in (30, 300):
        targets, said = pairs(2, count)
        measured = plain_texts([[t] for t in targets], said, intervals=True)
        for name, (low, high) in measured.intervals.items():
            assert low <= measured.values[name] <= high, name
        wide.append(measured.intervals["chrf"][1] - measured.intervals["chrf"][0])
    assert wide[1] < wide[0]


def test_another_target_is_as_right():
    values = plain_texts([["a", "b"]], ["b"]).values
    assert values["exact_match"] == 1


def test_what_is_no_word_is_wrong_never_the_nearest():
    gold = [["acceptable"], ["unacceptable"], ["acceptable"], ["unacceptable"]]
    said = ["acceptable", "unacceptable", "Acceptable", "maybe"]
    measured = measure_written(gold, said, format_of("cola"))
    assert measured.primary == "matthews"
    assert measured.values["accuracy"] == 0.5
    assert any(note.startswith("written texts that are not a word of cola: 2 of 4") for note in
               measured.notes)  # fmt: skip
    right = measure_written(gold, ["acceptable", "unacceptable"] * 2, format_of("cola"))
    assert right.value == pytest.approx(1)


@pytest.mark.parametrize("said", [
    ["x", "y", "z", "z", "Acceptable", ""],
    ["x", "unacceptable", "acceptable", "unacceptable", "unacceptable", "x"],
    ["x", "unacceptable", "x", "unacceptable", "acceptable", "unacceptable"],
])  # fmt: skip
def test_what_is_no_word_is_a_label_of_its_own_to_matthews(said):
    peer = pytest.importorskip("sklearn.metrics")
    gold = ["acceptable", "unacceptable"] * 3
    form = format_of("cola")
    measured = measure_written([[word] for word in gold], said, form, intervals=True)
    read = [form.read(text) or "none" for text in said]
    assert measured.value == pytest.approx(peer.matthews_corrcoef(gold, read))
    assert measured.values["accuracy"] == peer.accuracy_score(gold, read)
    low, high = measured.intervals["matthews"]
    assert low <= measured.value <= high
    constant = "all predicted labels are the same, so Matthews is 0." in measured.notes
    assert constant == (len(set(read)) == 1)
    assert any("in Matthews correlation as a word of its own." in each for each in measured.notes)


def test_unknown_targets_are_left_out_and_counted():
    measured = measure_written(
        [["positive"], ["<unk>"]], ["positive", "negative"], format_of("sst2")
    )
    assert measured.value == 1
    assert "targets that are <unk>: 1; they are left out." in measured.notes


@pytest.mark.parametrize(
    ("name", "gold", "said", "primary"),
    [
        ("mrpc", ["equivalent", "not_equivalent"], ["equivalent", "x"], "accuracy_and_f1"),
        ("stsb", ["1.0", "3.8", "2.0"], ["1.2", "3.6", "none"], "pearson_and_spearman"),
        ("squad", ["the cat", "a dog"], ["cat", "dogs"], "f1"),
        ("summarize", ["a b"], ["a b"], "rouge_l"),
        ("translate_en_de", ["a b c d"], ["a b c d"], "bleu"),
    ],
)
def test_each_format_has_the_value_that_decides(name, gold, said, primary):
    measured = measure_written([[text] for text in gold], said, format_of(name), intervals=True)
    assert measured.primary == primary
    assert primary in measured.intervals
    if name == "stsb":
        assert "written texts that are not numbers: 1 of 3; each counts as -1." in measured.notes


def test_the_value_that_decides_can_be_chosen():
    assert measure_written([["a"]], ["a"], metric="bleu").primary == "bleu"
    with pytest.raises(UnknownName, match="metric is 'blue'"):
        measure_written([["a"]], ["a"], metric="blue")
    with pytest.raises(InputError, match="there are no items to measure"):
        plain_texts([], [])


def test_several_tasks_have_their_own_values_and_a_mean():
    items = [
        SourceItem("x", "acceptable", "cola"),
        SourceItem("y", "unacceptable", "cola"),
        SourceItem("z", "a long text", "other"),
        ChatItem((Turn("user", "q"), Turn("assistant", "b")), "other"),
    ]
    forms = [format_of("cola"), format_of("cola"), None, None]
    measured = measure_tasks(
        items, ["acceptable", "unacceptable", "a long text", "c"], forms, intervals=True
    )
    own = measured.values
    assert own["mean"] == pytest.approx((own["cola matthews"] + own["other chrf"]) / 2)
    assert measured.primary == "mean"
    assert own["cola matthews"] == pytest.approx(1)
    assert 0 < own["other chrf"] < 1
    assert measured.count == 4
    assert "other chrf" in measured.intervals
    assert "mean" not in measured.intervals
