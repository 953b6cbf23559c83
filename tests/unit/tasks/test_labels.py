"""Label names: sentences for what cannot be."""

import pytest

from clozeworks.errors import CheckpointError, InputError, SettingError
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.labels.names import check_names, labels_of, number_of, right_label
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem


def test_labels_of_a_published_config():
    assert labels_of({"id2label": {"1": "b", "0": "a"}}, 2, "m") == ("a", "b")
    assert labels_of({}, 2, "m") == ("LABEL_0", "LABEL_1")
    with pytest.raises(CheckpointError, match="m: id2label names 'a' twice; labels must differ"):
        labels_of({"id2label": {0: "a", 1: "a"}}, 2, "m")
    with pytest.raises(CheckpointError, match="m: id2label names 1 labels; the head has 2, and"):
        labels_of({"id2label": {0: "a"}}, 2, "m")
    with pytest.raises(CheckpointError, match="numbered from 0 to 1"):
        labels_of({"id2label": {"x": "a", "y": "b"}}, 2, "m")


def test_labels_of_items():
    assert right_label("b", ("a", "b"), "x.csv, row 3") == 1
    with pytest.raises(InputError, match=r"^x\.csv, row 3 has no label; give it one of: a, b\.$"):
        right_label(None, ("a", "b"), "x.csv, row 3")
    with pytest.raises(InputError, match=r"the label is 'positiv'.*Did you mean 'positive'\?"):
        right_label("positiv", ("negative", "positive"), "")
    assert number_of("2.5", "") == 2.5
    for wrong in ("two", None, float("nan")):
        with pytest.raises(InputError, match=r"x, row 1: the label is .*; it must be a number"):
            number_of(wrong, "x, row 1")


@pytest.mark.parametrize("labels", [(), ("a", " "), ("a", "a")])
def test_names_that_cannot_be_told_apart(labels):
    with pytest.raises(SettingError, match=r"^labels"):
        check_names(labels)


def test_settings_without_effect_are_refused():
    with pytest.raises(SettingError, match="of numbers only the mean is taken; leave it out"):
        Classify(labels=("n",), problem="number", over_windows="max")


def test_as_many_tags_as_words():
    task = Tag(labels=("O", "B-X"))
    item = WordsItem("a b", ((0, 1), (2, 3)), ("O",), "x.conll, line 4")
    with pytest.raises(InputError, match=r"^x\.conll, line 4 has 2 words and 1 tags; each word"):
        task.targets(item, [])
