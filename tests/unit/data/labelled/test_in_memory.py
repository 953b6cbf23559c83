"""Labelled data that a program holds is read as files are, whatever library holds it."""

import sys
from decimal import Decimal
from enum import Enum

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from clozeworks.data.labelled.in_memory import data_sources, plain_value, split_data
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.errors import InputError, MissingExtra, SettingError
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.text_to_text.items import SourceItem, WritingItem

TEXTS = ["a good day", "a bad day", "a day"]
LABELS = ["yes", "no", "no"]


def read(data, item=TextItem, **reading):
    return read_items(data_sources(data, "data"), item, Reading(**reading))


def labels(data, **reading):
    return [each.label for each in read(data, **reading).items]


class Stream:
    """What only says that it can be read as a stream of Arrow."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


COLUMNS = {"number": [1, 2, 3], "text": TEXTS, "label": LABELS}
FRAME = pandas.DataFrame(COLUMNS)
FORMS = {
    "pandas": FRAME,
    "pandas with a category": FRAME.astype({"label": "category"}),
    "pandas with another index": FRAME.set_index(pandas.Index([7, 8, 9])),
    "polars": polars.DataFrame(COLUMNS),
    "polars lazy": polars.LazyFrame(COLUMNS),
    "polars with a category": polars.DataFrame(COLUMNS).cast({"label": polars.Categorical}),
    "pyarrow": pyarrow.table(COLUMNS),
    "pyarrow batch": pyarrow.RecordBatch.from_pydict(COLUMNS),
    "pyarrow reader": pyarrow.table(COLUMNS).to_reader(),
    "pyarrow dictionary": pyarrow.table(
        {"text": TEXTS, "label": pyarrow.array(LABELS).dictionary_encode()}
    ),
    "a stream": Stream(pyarrow.table(COLUMNS)),
    "columns": COLUMNS,
    "columns of numpy": {name: np.array(values) for name, values in COLUMNS.items()},
    "dicts": FRAME.to_dict("records"),
    "an iterator of dicts": iter(FRAME.to_dict("records")),
    "tuples": list(zip(TEXTS, LABELS, strict=True)),
    "lists": [list(pair) for pair in zip(TEXTS, LABELS, strict=True)],
    "items": [TextItem(*pair) for pair in zip(TEXTS, LABELS, strict=True)],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_read(form):
    found = read(FORMS[form])
    assert [(item.text, item.label) for item in found.items] == list(
        zip(TEXTS, LABELS, strict=True)
    )
    assert found.kind == "one" and found.files == ("data",)
    unit = "item" if form == "items" else "row"
    assert found.items[1].source_location == f"data, {unit} 2"


def test_several_sets_are_read_one_after_the_other(tmp_path):
    (tmp_path / "more.csv").write_text("text,label\nan evil day,no\n")
    found = read([FRAME, tmp_path / "more.csv", pyarrow.table(COLUMNS)])
    assert len(found.items) == 7
    assert found.files == ("data 1", str(tmp_path / "more.csv"), "data 2")


def test_columns_are_named_by_name_before_they_are_by_number():
    frame = pandas.DataFrame({1: LABELS, 2: ["x", "y", "y"], 0: TEXTS})
    assert labels(frame, columns={"text": "0", "label": "1"}) == LABELS
    named = FRAME.rename(columns={"text": "review", "label": "stars"})
    assert labels(named, columns={"text": "review", "label": "stars"}) == LABELS
    assert labels(FORMS["tuples"], columns={"text": "1", "label": "2"}) == LABELS


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (np.array([0, 1, 1]), ["0", "1", "1"]),
        ([np.int64(3), np.int8(2), np.int64(2)], ["3", "2", "2"]),
        (pandas.array([1, 2, 2], dtype="Int64"), ["1", "2", "2"]),
        (np.array([0.5, 1.0, 2.0], np.float32), [0.5, 1.0, 2.0]),
        ([np.bool_(True), np.bool_(False), np.bool_(False)], ["true", "false", "false"]),
        (pandas.Categorical(["a", "b", "b"], categories=["b", "a"]), ["a", "b", "b"]),
        ([np.str_("a"), "b", "b"], ["a", "b", "b"]),
    ],
)
def test_labels_of_other_libraries_are_plain(values, wanted):
    assert labels(pandas.DataFrame({"text": TEXTS, "label": values})) == wanted


def test_lists_in_cells_are_plain():
    several = read(pandas.DataFrame({"text": TEXTS, "label": [np.array(["a", "b"]), ["b"], []]}))
    assert [item.label for item in several.items] == [("a", "b"), ("b",), ()]
    words = {"tokens": [["New", "York"], ["a"]], "ner_tags": [["B-LOC", "I-LOC"], ["O"]]}
    for form in (pandas.DataFrame(words), polars.DataFrame(words), pyarrow.table(words)):
        found = read(form, WordsItem).items
        assert [item.tags for item in found] == [("B-LOC", "I-LOC"), ("O",)]


@pytest.mark.parametrize(
    "missing", [None, np.nan, pandas.NA, pandas.NaT, float("nan"), np.float32("nan")]
)
def test_what_is_missing_is_a_bad_row_and_not_a_label(missing):
    frame = pandas.DataFrame({"text": TEXTS, "label": pandas.Series([1, missing, 2], dtype=object)})
    with pytest.raises(InputError, match=r"data, row 2: the label is empty; give it one of: 1, 2"):
        read(frame)


@pytest.mark.parametrize("missing", [None, np.nan, pandas.NA])
def test_a_missing_text_is_named(missing):
    frame = pandas.DataFrame({"text": ["a", missing, "b"], "label": LABELS})
    with pytest.raises(InputError, match=r"data, row 2: the text is empty; give it one"):
        read(frame)


def test_an_integer_column_with_gaps_keeps_its_whole_numbers():
    frame = polars.DataFrame({"text": TEXTS, "label": [1, 2, 2]}).to_pandas()
    frame["label"] = frame["label"].astype(float)
    assert labels(frame) == ["1", "2", "2"]


def test_tuples_stand_in_the_order_of_the_roles():
    pair = read([("a", "b", "same"), ("c", "d", "other")], PairItem).items[0]
    assert (pair.first, pair.second, pair.label) == ("a", "b", "same")
    question = read([("who?", "Ann ran", "Ann")], QuestionItem).items[0]
    assert question.gold_texts == ("Ann",)
    source = read([("one", "eins")], WritingItem).items[0]
    assert (source.source, source.target) == ("one", "eins")
    words = read([(["New", "York"], ["B-LOC", "I-LOC"])], WordsItem).items[0]
    assert words.words == ("New", "York") and words.tags == ("B-LOC", "I-LOC")
    found = read(FORMS["tuples"])
    assert "text=1 (by its place), label=2 (by its place)" in found.description


def test_plain_values():
    class Colour(Enum):
        RED = "red"

    assert plain_value({"a": (np.int32(1), pandas.NA)}) == {"a": [1, None]}
    assert plain_value(Colour.RED) == "red"
    assert plain_value(Decimal("2.50")) == 2.5 and plain_value(Decimal("2")) == 2
    assert plain_value(pyarrow.scalar("a")) == "a"
    assert type(plain_value(np.float64(1.5))) is float


def test_splits_are_told_from_columns():
    assert split_data({"train": FRAME, "validation": FRAME})
    assert split_data({"a": FRAME}) and split_data({"train": TEXTS})
    assert split_data(COLUMNS) is None and split_data(FRAME) is None and split_data([]) is None


FORMS_TOLD = (
    "give a file or a list of files, a frame of pandas, polars or pyarrow, a dataset, a dict of "
    "columns, or a list of rows (dicts, tuples or items)."
)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (None, f"data is None; {FORMS_TOLD}"),
        (3, f"data is the number 3; {FORMS_TOLD}"),
        (b"text,label", f"data is bytes; {FORMS_TOLD}"),
        (object(), f"data is a value of type object; {FORMS_TOLD}"),
        (TextItem, f"data is the class TextItem; {FORMS_TOLD}"),
        ([], "data is empty; there must be at least one row; give some."),
        ({}, "data is empty; there must be at least one row; give some."),
        (FRAME[:0], "data has no rows; there must be at least one; give others."),
        (polars.DataFrame(), "data has no rows; there must be at least one; give others."),
        (
            [1, 2],
            "data, row 1 is the number 1; a row is a dict, a tuple or an item; give such rows.",
        ),
        (
            [("a", "b"), None],
            "data, row 2 is None; a row is a dict, a tuple or an item; give such rows.",
        ),
        (
            [("a", "b"), ("c",)],
            "data, row 2 has 1 values, and the first has 2; all rows need as many; make them "
            "equal.",
        ),
        (
            [{"text": "a"}, ("b", "yes")],
            "data, row 2 is a tuple, and another is a dict; all rows must be of one kind; make "
            "them alike.",
        ),
        (
            [TextItem("a", "yes"), "b"],
            "data, row 2 is a text, and another is an item; all rows must be of one kind; make "
            "them alike.",
        ),
        (
            {"text": "a", "label": "yes"},
            "data is a dict, and 'text' in it is a text; a dict holds columns, a list for each; "
            "give lists, or a list of such dicts.",
        ),
        (
            {"text": ["a", "b"], "label": ["yes"]},
            "data: the columns have unequal numbers of rows (text 2, label 1); each row needs a "
            "cell of each; make them equal.",
        ),
        (
            [("a", "b", "c")],
            "data has rows of 3 values; a row of classify is text, label; leave the others out, or "
            "give dicts.",
        ),
        (
            [PairItem("a", "b", "yes")],
            "data, item 1 is a PairItem; classify takes a TextItem; give such items, or another "
            "task.",
        ),
    ],
)
def test_wrong_data_gets_a_sentence(data, sentence):
    with pytest.raises(InputError) as caught:
        read(data)
    assert str(caught.value) == sentence


def test_a_frame_without_the_column():
    with pytest.raises(InputError, match=r"data has no column 'revue'; its columns: number, text"):
        read(FRAME, columns={"text": "revue"})
    with pytest.raises(InputError, match=r"data has no column that looks like the text; its colum"):
        read(FRAME[["number"]])


def test_texts_that_are_no_texts():
    with pytest.raises(InputError, match=r"data, row 1: the text is a value of type bytes"):
        read([{"text": b"a", "label": 1}, {"text": "b", "label": 2}])


def test_settings_of_files_have_no_effect():
    with pytest.raises(SettingError, match=r"header is True; data is not a file of csv or tsv"):
        read(FRAME, header=True)
    with pytest.raises(SettingError, match="data holds items, and there are no columns"):
        read(FORMS["items"], columns={"text": "1"})


def test_items_keep_where_they_came_from():
    found = read([TextItem("a", "yes", "a.csv, row 2"), TextItem("b", "no")])
    assert [item.source_location for item in found.items] == ["a.csv, row 2", "data, item 2"]
    assert isinstance(read([SourceItem("a", "b")], WritingItem).items[0], SourceItem)


def test_without_pyarrow_a_stream_is_refused_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"Reading a Stream needs the library 'pyarrow'"):
        read(FORMS["a stream"])


class ClassLabel:
    """As `datasets` has it."""

    names = ("bad", "good")

    def int2str(self, number):
        return self.names[number]


class List:
    feature = ClassLabel()


class Dataset:
    """The part of a dataset that is used."""

    def __init__(self, rows, formatted=True):
        self._rows, self._formatted = rows, formatted
        self.features = {"text": None, "label": ClassLabel(), "tags": List()}
        self.column_names = list(self.features)

    def with_format(self, kind):
        assert kind is None
        return Dataset(self._rows, False)

    def __iter__(self):
        assert not self._formatted, "cells may be tensors"
        yield from self._rows


def test_class_labels_are_names():
    rows = [{"text": "a", "label": 1, "tags": [0, 1]}, {"text": "b", "label": 0, "tags": [1]}]
    assert labels(Dataset(rows)) == ["good", "bad"]
    several = read(Dataset(rows), columns={"label": "tags"})
    assert [item.label for item in several.items] == [("bad", "good"), ("good",)]


def test_a_class_label_below_0_is_missing():
    rows = [{"text": "a", "label": 1, "tags": []}, {"text": "b", "label": -1, "tags": []}]
    with pytest.raises(InputError, match="data, row 2: the label is empty"):
        read(Dataset(rows))


@pytest.mark.parity
def test_real_datasets(tmp_path):
    import datasets

    features = datasets.Features(
        {
            "text": datasets.Value("string"),
            "label": datasets.ClassLabel(names=["bad", "good"]),
            "tokens": datasets.List(datasets.Value("string")),
            "ner_tags": datasets.List(datasets.ClassLabel(names=["O", "B-X"])),
        }
    )
    rows = {
        "text": ["a", "b"],
        "label": [1, 0],
        "tokens": [["a", "b"], ["c"]],
        "ner_tags": [[0, 1], [0]],
    }
    dataset = datasets.Dataset.from_dict(rows, features=features)
    for form in (dataset, dataset.with_format("numpy"), dataset.to_iterable_dataset()):
        assert labels(form) == ["good", "bad"]
        assert [item.tags for item in read(form, WordsItem).items] == [("O", "B-X"), ("O",)]
    splits = datasets.DatasetDict({"train": dataset, "validation": dataset})
    assert set(split_data(splits)) == {"train", "validation"}
