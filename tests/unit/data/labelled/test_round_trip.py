"""What is written as csv, tsv, jsonl or CoNLL and read again is the same."""

import csv
import json

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.task import read_labelled

# The folder is made once for all examples; each writes its own file anew.
quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
# No file of text holds zero characters or half ones; ends of lines become one kind.
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
text = st.text(characters, min_size=1).filter(lambda text: text.strip())
label = st.text(st.characters(categories=["L"]), min_size=1, max_size=5)
word = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n\t \ufeff"), min_size=1
).filter(lambda word: word != "-DOCSTART-" and not word.isspace())


@quick
@given(st.lists(st.tuples(text, label), min_size=1))
def test_csv(tmp_path, rows):
    path = tmp_path / "a.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([("text", "label"), *rows])
    read = read_labelled(path, "classify").items
    assert read == [
        TextItem(*row, f"{path}, row {number:,}") for number, row in enumerate(rows, start=2)
    ]


@quick
@given(st.lists(st.tuples(text, text, st.lists(label, unique=True)), min_size=1))
def test_jsonl(tmp_path, rows):
    path = tmp_path / "a.jsonl"
    keys = ("premise", "hypothesis", "labels")
    lines = (json.dumps(dict(zip(keys, row, strict=True))) + "\n" for row in rows)
    path.write_text("".join(lines), encoding="utf-8")
    read = read_labelled(path, "compare").items
    assert read == [
        PairItem(first, second, tuple(labels), f"{path}, line {number:,}")
        for number, (first, second, labels) in enumerate(rows, start=1)
    ]


@quick
@given(st.lists(st.lists(st.tuples(word, label), min_size=1), min_size=1), st.sampled_from("\t "))
def test_conll(tmp_path, sentences, between):
    path = tmp_path / "a.bio"
    content = "\n".join(
        "".join(f"{word}{between}{tag}\n" for word, tag in sentence) for sentence in sentences
    )
    path.write_bytes(content.encode())
    read = read_labelled(path, "tag").items
    assert [list(zip(item.words, item.tags, strict=True)) for item in read] == sentences
    places = [item.source_location for item in read]
    begins = [1 + sum(len(s) + 1 for s in sentences[:n]) for n in range(len(sentences))]
    assert places == [f"{path}, line {begin:,}" for begin in begins]
    assert all(isinstance(item, WordsItem) for item in read)
