"""Labels of texts: windows agree by what they judge, labels are checked, folders are read."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import clozeworks as cw
from clozeworks.errors import CheckpointError, InputError, SettingError, UnknownName
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.spans.windows import Windows
from clozeworks.text.training.train import train_from_iterator

TOKENIZER = train_from_iterator(["the fox ran from London 我 爱 🙂"] * 3, kind="wordpiece", size=90)
LABELS = ("bad", "good", "so so")
LONG = TextItem("the fox ran " * 20)  # 60 tokens


def windows_of(task, item):
    return task.windows_of([item], TOKENIZER, None)


def judged_by_hand(windows):
    """How many tokens have most context in each window; of equal windows in the first."""
    counts = [0] * len(windows)
    for token in range(max(window.first + window.count for window in windows)):
        rated = []
        for number, window in enumerate(windows):
            left = token - window.first
            right = window.first + window.count - 1 - token
            if min(left, right) >= 0:
                rated.append((min(left, right) + 0.01 * window.count, -number))
        counts[-max(rated)[1]] += 1
    return counts


def softmax(row):
    raised = np.exp(np.asarray(row, float) - np.max(row))
    return raised / raised.sum()


@settings(max_examples=40, deadline=None)
@given(
    words=st.integers(1, 60),
    length=st.integers(12, 30),
    step=st.integers(2, 12),
    pair=st.booleans(),
    seed=st.integers(0, 99),
)
def test_windows_count_by_the_tokens_they_judge(words, length, step, pair, seed):
    rng = np.random.default_rng(seed)
    windows = Windows(length=length, step=step)
    text = " ".join(rng.choice(["the", "fox", "我", "🙂"], words))
    kind, item = (Compare, PairItem("fox", text)) if pair else (Classify, TextItem(text))
    own = windows_of(kind(labels=LABELS, windows=windows), item)
    scores = [rng.normal(0, 2, 3).astype(np.float32) for _ in own]
    shares = np.array(judged_by_hand(own)) / sum(judged_by_hand(own))

    answer = kind(labels=LABELS, windows=windows).decode(item, own, scores)
    expected = sum(share * softmax(row) for share, row in zip(shares, scores, strict=True))
    assert list(answer.scores.values()) == pytest.approx(expected.tolist(), abs=1e-6)
    assert answer.label == LABELS[int(expected.argmax())]
    assert answer.score == max(answer.scores.values())
    assert (list(answer.scores), answer.windows) == (list(LABELS), len(own))

    several = kind(labels=LABELS, problem="several", windows=windows).decode(item, own, scores)
    expected = sum(share / (1 + np.exp(-row)) for share, row in zip(shares, scores, strict=True))
    assert list(several.scores.values()) == pytest.approx(expected.tolist(), abs=1e-6)

    number = kind(labels=("stars",), problem="number", windows=windows).decode(item, own, scores)
    expected = sum(share * float(row[0]) for share, row in zip(shares, scores, strict=True))
    assert number.label == pytest.approx(expected, abs=1e-6)
    assert (number.score, number.scores) == (None, {})


def test_the_surest_window_decides_if_asked_to():
    windows = Windows(length=32, step=30)
    scores = [np.log(np.array(row, np.float32)) for row in ([0.5, 0.4, 0.1], [0.3, 0.6, 0.1])]
    own = windows_of(Classify(labels=LABELS, windows=windows), LONG)
    assert [window.count for window in own] == [30, 30]
    mean = Classify(labels=LABELS, windows=windows).decode(LONG, own, scores)
    assert mean.scores == pytest.approx({"bad": 0.4, "good": 0.5, "so so": 0.1})
    most = Classify(labels=LABELS, windows=windows, over_windows="max").decode(LONG, own, scores)
    assert most.scores == pytest.approx({"bad": 5 / 12, "good": 6 / 12, "so so": 1 / 12})
    several = Classify(labels=LABELS, problem="several", windows=windows, over_windows="max")
    odds = [np.log(each) - np.log1p(-each) for each in map(np.exp, scores)]
    expected = {"bad": 0.5, "good": 0.6, "so so": 0.1}
    assert several.decode(LONG, own, odds).scores == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize(
    ("threshold", "label", "score"),
    [
        (0.5, ("bad", "good"), 0.6),
        (0.7, ("good",), 0.8),
        (0.1, ("bad", "good", "so so"), 0.1),
        (0.9, (), 0.2),  # how sure it is that none holds
    ],
)
def test_labels_that_are_probable_enough_hold(threshold, label, score):
    task = Classify(labels=LABELS, problem="several", threshold=threshold)
    item = TextItem("the fox")
    odds = np.array([0.6, 0.8, 0.10000001])
    rows = np.log(odds / (1 - odds))
    answer = task.decode(item, windows_of(task, item), [rows])
    assert answer.label == label
    assert answer.score == pytest.approx(score, abs=1e-6)


@pytest.mark.parametrize(
    ("label", "problem", "sentence"),
    [
        (
            "god",
            "one",
            "a.csv, row 7: the label is 'god'; the model knows: bad, good, so so; correct it, or "
            "train a model that knows it. Did you mean 'good'?",
        ),
        (
            "?",
            "one",
            "a.csv, row 7: the label is '?'; the model knows: bad, good, so so; correct it, or "
            "train a model that knows it.",
        ),
        (("good", "bat"), "several", "a.csv, row 7: the label is 'bat'; the model knows: bad, "
            "good, so so; correct it, or train a model that knows it. Did you mean 'bad'?"),
        (None, "one", "a.csv, row 7 has no label; give it one of: bad, good, so so."),
        (None, "several", "a.csv, row 7 has no label; give it one of: bad, good, so so."),
    ],
)  # fmt: skip
def test_a_label_the_model_does_not_know(label, problem, sentence):
    task = Classify(labels=LABELS, problem=problem)
    with pytest.raises(InputError) as caught:
        task.targets(TextItem("the fox", label, "a.csv, row 7"), [None])
    assert str(caught.value) == sentence


@pytest.mark.parametrize("label", ["many", None, float("nan"), "inf"])
def test_a_number_that_is_none(label):
    task = Classify(labels=("stars",), problem="number")
    with pytest.raises(InputError) as caught:
        task.right(TextItem("the fox", label, "a.csv, row 7"))
    assert str(caught.value) == (
        f"a.csv, row 7: the label is {label!r}; it must be a number; correct it."
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"labels": ()}, "labels is empty; a task needs at least one label; name them."),
        ({"labels": ("a", " ")}, "labels[1] is ' '; it needs a visible name; give one."),
        ({"labels": ("a", "a")}, "labels[1] is 'a'; it occurs twice; remove one."),
        (
            {"labels": ("a",)},
            "labels is ['a']; to choose one there must be at least two; give more, or set "
            '`problem` to "several" or "number".',
        ),
        (
            {"labels": LABELS, "problem": "number"},
            "labels is ['bad', 'good', 'so so']; `problem` is 'number', and a number has "
            "one name; give one.",
        ),
        (
            {"labels": LABELS, "problem": "severl"},
            "problem is 'severl'; it must be one of 'one', 'several', 'number'; did you mean "
            "'several'?",
        ),
        ({"labels": LABELS, "threshold": 1}, "threshold is 1; it must be above 0 and below 1."),
    ],
)
def test_settings_that_cannot_be(fields, sentence):
    with pytest.raises(SettingError) as caught:
        Classify(**fields)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {"pooling": "men"},
            "pooling is 'men'; known: attention, first, max, mean, pooler. Did you mean 'mean'?",
        ),
    ],
)
def test_names_that_are_not_known(fields, sentence):
    with pytest.raises(UnknownName) as caught:
        Classify(labels=LABELS, **fields)
    assert str(caught.value) == sentence


@pytest.fixture
def saved(tiny_models, tmp_path):
    """A folder of a classifier, with some entries of its config changed."""

    def save(task, notes=False, **changes):
        folder = tmp_path / "model"
        cw.load(tiny_models["bert"]).for_task(task).save(folder)
        if notes:
            return folder
        path = folder / "config.json"
        config = {**json.loads(path.read_text()), **changes}
        path.write_text(json.dumps({key: each for key, each in config.items() if each is not None}))
        (folder / "clozeworks.json").unlink()  # as if another library had written it
        return folder

    return save


@pytest.mark.parametrize(
    "id2label", [{"1": "a", "2": "b"}, {"0": "a", "2": "b"}, {"a": "0", "b": "1"}]
)
def test_labels_of_a_folder_that_are_not_numbered_from_0(id2label, saved):
    folder = saved(Classify(labels=("a", "b")), id2label=id2label)
    with pytest.raises(CheckpointError) as caught:
        cw.load(folder).task  # noqa: B018
    assert str(caught.value) == (
        f"{folder}: id2label names 2 labels; the head has 2, and they must be numbered from 0 to "
        "1; correct config.json."
    )


def test_labels_of_a_folder_that_are_more_than_its_head_has(saved):
    folder = saved(Classify(labels=("a", "b")), id2label={"0": "a", "1": "b", "2": "c"})
    with pytest.raises(CheckpointError, match=r"does not fit its config\.json"):
        cw.load(folder)


@pytest.mark.parametrize(
    ("task", "changes", "expected"),
    [
        (
            Classify(labels=("a", "b")),
            {"id2label": None, "label2id": None, "problem_type": None},
            Classify(labels=("LABEL_0", "LABEL_1")),
        ),
        (
            Classify(labels=("stars",), problem="number"),
            {"problem_type": None},
            Classify(labels=("stars",), problem="number"),
        ),
        (
            Classify(labels=("spam",), problem="several"),
            {},
            Classify(labels=("spam",), problem="several"),
        ),
        (
            Classify(labels=("a", "b")),
            {"id2label": {"1": "b", "0": "a"}},
            Classify(labels=("a", "b")),
        ),
    ],
)
def test_what_a_published_config_says(task, changes, expected, saved):
    assert cw.load(saved(task, **changes)).task == expected


def test_a_kind_of_problem_that_is_not_known(saved):
    folder = saved(Classify(labels=("a", "b")), problem_type="ranking")
    with pytest.raises(CheckpointError) as caught:
        cw.load(folder).task  # noqa: B018
    assert str(caught.value) == (
        f"{folder}: problem_type is 'ranking'; known: single_label_classification, "
        "multi_label_classification, regression; correct config.json."
    )


def test_what_a_config_cannot_say_stands_beside_it(saved):
    task = Compare(labels=("a", "b"), over_windows="max", windows=Windows(length=20, overlap=3))
    assert cw.load(saved(task, notes=True)).task == task
