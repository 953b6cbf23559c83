"""Files of several tasks: how each is read, and what its task is called."""

from pathlib import Path

import pytest

from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.reading import Reading
from clozeworks.errors import InputError
from clozeworks.tasks.text_to_text.data import dev_names, named_formats, read_texts, task_names
from clozeworks.tasks.text_to_text.task import TextToText


def test_tasks_are_called_as_their_files_or_as_the_folders_of_these():
    assert task_names(["a/cola.tsv.gz", "b/rte.csv"]) == ["cola", "rte"]
    assert task_names(["cola/train.tsv", "rte/train.tsv"]) == ["cola", "rte"]
    assert task_names(["train.tsv"]) == ["train"]


def test_dev_files_are_called_alike_or_stand_in_the_same_order():
    assert dev_names(["cola", "rte"], ["x/rte.tsv"]) == ["rte"]
    assert dev_names(["cola", "rte"], ["cola_dev.tsv", "rte_dev.tsv"]) == ["cola", "rte"]
    with pytest.raises(InputError) as caught:
        dev_names(["cola", "rte"], ["dev.tsv"])
    assert str(caught.value) == (
        "data.dev has the tasks dev, and data.train has cola, rte; give a dev file for each "
        "training file, in the same order, or call them alike."
    )


def test_each_file_is_read_as_its_format_asks_for(tmp_path):
    (tmp_path / "cola.tsv").write_text("sentence\tlabel\na b\t1\nc d\t0\n")
    (tmp_path / "stsb.csv").write_text("sentence1,sentence2,score\na,b,3\nc,d,5\n")
    (tmp_path / "own.jsonl").write_text('{"source": "x", "target": "y", "task": "mine"}\n')
    files = [tmp_path / name for name in ("cola.tsv", "stsb.csv", "own.jsonl")]
    task = TextToText(formats={"cola": "cola", "stsb": "stsb"})
    found = read_texts(files, task, Reading(), BadRows(), names=task_names(files))
    assert [item.task for item in found.items] == ["cola", "cola", "stsb", "stsb", "mine"]
    assert [item.target for item in found.items] == [
        "acceptable",
        "unacceptable",
        "3.0",
        "5.0",
        "y",
    ]
    assert found.items[2].source == "stsb sentence1: a sentence2: b"
    assert found.kind == "targets"
    assert "They are written as 'stsb' asks for." in found.description


def test_a_label_the_format_has_no_word_for_is_said_with_its_row(tmp_path):
    path = tmp_path / "rte.csv"
    path.write_text("sentence1,sentence2,label\na,b,maybe\nc,d,1\n")
    with pytest.raises(
        InputError, match=r"rte\.csv, row 2: the label is 'maybe'; the format 'rte'"
    ):
        read_texts([path], TextToText(format="rte"), Reading(), BadRows())


def test_a_file_finds_its_format_by_its_name_or_its_folder():
    task = TextToText(formats={"cola": "cola"})
    assert named_formats(task, [Path("x/cola.tsv")]) == ["cola"]
    assert named_formats(task, [Path("cola/dev.tsv")]) == ["cola"]
    assert named_formats(task, [Path("x/dev.tsv")]) is None
