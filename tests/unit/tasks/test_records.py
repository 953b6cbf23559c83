"""A record has the same fields whatever the texts are."""

import pytest

from clozeworks.tasks.classify import Classified, TextItem
from clozeworks.tasks.results.records import record_of
from clozeworks.tasks.text_to_text.task import Composed


@pytest.mark.parametrize("written", ["the cat", "another text"])
def test_what_was_read_and_what_was_written_stand_apart(written):
    record = record_of(
        TextItem("the cat", "yes", "a.csv, row 2"), Composed(written, 0.5), gold=True
    )
    assert (record["source"], record["text"], record["gold"]) == ("the cat", written, "yes")
    assert record["source_location"] == "a.csv, row 2"


def test_a_label_leaves_the_text_where_it_is():
    record = record_of(TextItem("the cat"), Classified("a", 0.9, {"a": 0.9, "b": 0.1}), top=1)
    assert record == {
        "text": "the cat",
        "label": "a",
        "score": 0.9,
        "scores": {"a": 0.9},
        "windows": 1,
    }
