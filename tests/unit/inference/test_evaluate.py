"""`LanguageModel.evaluate` takes labelled data of any form, and says all about it."""

import pandas
import pytest

import clozeworks as cw
from clozeworks.errors import InputError, SettingError, UnknownName, UnsupportedError
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.tag import Tag
from clozeworks.text.training.train import train_from_iterator

TOKENIZER = train_from_iterator(["the fox ran from London"] * 3, kind="wordpiece", size=60)
TEXTS, LABELS = ["the fox", "from London", "ran", "the"], ["good", "bad", "bad", "good"]
FRAME = pandas.DataFrame({"text": TEXTS, "label": LABELS})


@pytest.fixture(scope="module")
def encoder():
    return cw.new("bert-tiny", TOKENIZER, hidden_size=32, num_attention_heads=2)


@pytest.fixture(scope="module")
def classifier(encoder):
    return encoder.for_task(Classify(labels=("bad", "good")))


def test_every_form_is_measured_alike(classifier, tmp_path):
    path = tmp_path / "dev.csv"
    FRAME.to_csv(path, index=False)
    items = [TextItem(*pair) for pair in zip(TEXTS, LABELS, strict=True)]
    wanted = classifier.evaluate(items)
    assert wanted.count == 4 and wanted.primary == "accuracy"
    assert wanted.value == wanted.values["accuracy"] and "accuracy" in wanted.intervals
    assert [p.label == gold for p, gold in zip(wanted.predictions, LABELS, strict=True)].count(
        True
    ) == round(wanted.value * 4)
    assert wanted.records[1]["gold"] == "bad" and wanted.records[1]["text"] == "from London"
    assert str(wanted).splitlines()[0].startswith("accuracy ")
    forms = [path, str(path), [path], FRAME, FRAME.to_dict("records"), FRAME.to_dict("list")]
    for form in forms:
        assert classifier.evaluate(form).measured == wanted.measured
    assert classifier.evaluate([path, FRAME]).count == 8


def test_numbers_are_taken_for_the_labels_of_a_model(classifier):
    numbered = FRAME.assign(label=[1, 0, 0, 1])
    assert classifier.evaluate(numbered).values == classifier.evaluate(FRAME).values


def test_a_metric_of_ones_own_decides(classifier):
    def half_wrong(gold, predicted):
        assert gold == LABELS and set(predicted) <= {"bad", "good"}
        return 0.5

    result = classifier.evaluate(FRAME, metric=half_wrong)
    assert (result.primary, result.value) == ("half_wrong", 0.5)
    assert "accuracy" in result.values
    assert classifier.evaluate(FRAME, metric="log_loss").primary == "log_loss"
    with pytest.raises(SettingError) as caught:
        classifier.evaluate(FRAME, metric=lambda gold, predicted: "much")
    assert str(caught.value) == (
        "metric is the function metric; it returned 'much', and must return a number."
    )


def test_what_metrics_of_other_tasks_are_given(encoder):
    seen = []

    def metric(gold, predicted):
        seen.append((gold, predicted))
        return 1.0

    words = pandas.DataFrame({"tokens": [["the", "fox"]], "ner_tags": [["O", "B-A"]]})
    encoder.for_task(Tag(labels=("O", "B-A", "I-A"))).evaluate(words, metric=metric)
    asked = {"question": ["the?"], "context": ["fox ran"], "answers": ["fox"]}
    encoder.for_task(Answer()).evaluate(asked, metric=metric)
    assert seen[0][0] == [("O", "B-A")] and len(seen[0][1][0]) == 2
    assert seen[1][0] == [("fox",)] and isinstance(seen[1][1][0], str)


def test_gaps_are_measured(encoder):
    gaps = [{"text": "the [MASK]", "label": "fox"}, {"text": "[MASK] London", "label": "from"}]
    assert encoder.evaluate(gaps, task="fill").count == 2


def test_pairs_are_measured(encoder):
    pairs = pandas.DataFrame({"premise": TEXTS, "hypothesis": TEXTS, "label": LABELS})
    assert encoder.for_task(Compare(labels=("bad", "good"))).evaluate(pairs).count == 4


@pytest.mark.parametrize(
    ("data", "options", "error", "sentence"),
    [
        (None, {}, InputError, "data is None; give a file or a list of files"),
        ({"train": FRAME, "test": FRAME}, {}, InputError,
         "data has the splits train, test; one of them is measured; name it, such as data['test']"),
        (FRAME[["text"]], {}, InputError, "data has no labels, and there is nothing to measure"),
        (FRAME[:0], {}, InputError, "data has no rows; there must be at least one"),
        (FRAME, {"task": "tag"}, UnsupportedError, "cannot tag words"),
        (FRAME, {"task": "clasify"}, UnknownName, "Did you mean 'classify'"),
        (FRAME, {"task": 3}, SettingError, "task is 3; it must be a task, or the name of one"),
        (FRAME, {"columns": {"text": "revue"}}, InputError, "data has no column 'revue'"),
        (FRAME, {"columns": 3}, SettingError, "columns is 3; it must say which column is what"),
        (FRAME, {"metric": "acuracy"}, UnknownName, "Did you mean 'accuracy'"),
        (FRAME.assign(label="ugly"), {}, InputError, "the model knows: bad, good"),
    ],
)  # fmt: skip
def test_mistakes_get_a_sentence(classifier, data, options, error, sentence):
    with pytest.raises(error) as caught:
        classifier.evaluate(data, **options)
    assert sentence in str(caught.value)


def test_a_model_without_a_task(encoder):
    bare = cw.new("bert-tiny", TOKENIZER, heads=[], hidden_size=32, num_attention_heads=2)
    with pytest.raises(UnsupportedError, match="it has no head for a task"):
        bare.evaluate(FRAME)
