"""Rows are written as they stood: what is read from some of them is what was read before."""

import csv
import io
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.reading import Reading
from clozeworks.data.labelled.written_rows import written_rows
from clozeworks.errors import InputError
from clozeworks.tasks.task import read_labelled

quick = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
characters = st.characters(exclude_categories=["Cs"], exclude_characters="\0\r")
text = st.text(characters, min_size=1).filter(lambda text: text.strip())


@pytest.fixture
def halves(save):
    """Writes files, and gives every second row of them and the rest, checked by reading again."""

    def make(*files, task="classify", skip=False, **options):
        paths = [save(name, content) for name, content in files]
        data = read_labelled(paths, task, Reading(**options), bad=BadRows(skip=skip))
        rows = written_rows(data, paths)
        written = []
        for items in (data.items[::2], data.items[1::2]):
            content = rows.some({item.source_location for item in items})
            assert content == rows.some({item.source_location for item in items})
            path = save(f"part{rows.suffix}", content)
            again = read_labelled(
                path, task, Reading(columns={} if rows.header else data.reading.columns)
            )
            assert [replace(i, source_location="") for i in again.items] == [
                replace(i, source_location="") for i in items
            ]
            written.append(content if rows.suffix == ".parquet" else content.decode())
        return rows, *written

    return make


def test_csv_with_all_its_cells(folder, halves):
    first = 'id,text,label,note\n1,"a, ""b""\n\nc",x,\n\n2,d,y,"n,m"\n'
    rows, one, two = halves(("a.csv", first + "3,e,x,\n"), ("b.csv", first.replace("2,d", "2,f")))
    assert one == 'id,text,label,note\n1,"a, ""b""\n\nc",x,\n3,e,x,\n2,f,y,"n,m"\n'
    assert two == 'id,text,label,note\n2,d,y,"n,m"\n1,"a, ""b""\n\nc",x,\n'
    assert (rows.suffix, rows.header) == (".csv", ())


def test_packed_and_in_another_encoding(folder, halves):
    content = "text\tlabel\r\n猫很好\tx\r\n狗很好\ty\r\n".encode("gb18030")
    _, one, two = halves(("a.tsv.gz", content), encoding="gb18030")
    assert (one, two) == ("text\tlabel\n猫很好\tx\n", "text\tlabel\n狗很好\ty\n")


def test_a_header_where_there_was_none(folder, halves):
    content = "1,good one,z\n0,bad one,z\n1,fine,z\n0,poor,z\n"
    rows, one, _ = halves(("a.csv", content), columns={"label": "1", "text": "2"}, header=False)
    assert rows.header == ("label", "text", "column_3")
    assert one == "label,text,column_3\n1,good one,z\n1,fine,z\n"


def test_bad_rows_are_left_out_and_a_bad_first_row_is_no_header(folder, halves):
    named = {"text": "1", "label": "2"}
    content = ",y\na,x\nb\nb,y\nc,x\n"
    _, one, two = halves(("a.csv", content), skip=True, columns=named, header=False)
    assert (one, two) == ("text,label\na,x\nc,x\n", "text,label\nb,y\n")


def test_json(folder, halves):
    lines = ['{"text": "a", "label": ["x"], "more": 1.50}', '{"label": [], "text":"\\u732b"}']
    for name in ("a.jsonl", "a.json"):
        rows, one, two = halves((name, "\n\n".join(lines) + "\n"))
        assert (rows.suffix, one, two) == (".jsonl", lines[0] + "\n", lines[1] + "\n")
    listed = '[{"text": "猫", "label": "x", "z": "\\ud800"}, {"text": "b", "label": "y"}]'
    rows, one, two = halves(("b.json", listed))
    assert rows.suffix == ".jsonl"
    assert one == '{"text": "\\u732b", "label": "x", "z": "\\ud800"}\n'
    assert two == '{"text": "b", "label": "y"}\n'
    assert halves(("c.json", f'{{"version": 1, "data": {listed}}}'))[1:] == (one, two)


def test_sentences_with_their_lines(folder, halves):
    content = "-DOCSTART- O\n\nAnn B-PER\nran O\n\nHe O\n \n\nBo B-PER"
    rows, one, two = halves(("a.bio", content), ("b.conll", "It O\n"), task="tag")
    assert rows.suffix == ".bio"
    assert one == "Ann B-PER\nran O\n\nBo B-PER\n\n"
    assert two == "He O\n\nIt O\n\n"


def test_conllu_with_comments_and_ranges(folder, halves):
    def word(number, form):
        return "\t".join([number, form, "_", "X", *"______"])

    block = ["# text = don't", word("1-2", "don't"), word("1", "do"), word("2", "n't")]
    content = "\n".join(["# newdoc", "", *block, "", "# two", word("1", "b"), ""])
    for name in ("a.conllu", "a.txt"):
        _, one, two = halves((name, content), task="tag")
        assert one == "\n".join(block) + "\n\n"
        assert two == f"# two\n{word('1', 'b')}\n\n"


def squad(*articles, **rest):
    def question(name):
        return {"id": name, "question": f"{name}?", "answers": [{"text": "c", "answer_start": 0}]}

    data = [
        {
            "title": title,
            "url": title.lower(),
            "paragraphs": [
                {"context": context, "qas": list(map(question, names))}
                for context, names in contexts.items()
            ],
        }
        for title, contexts in articles
    ]
    return json.dumps({**rest, "data": data}, ensure_ascii=False)


def test_squad_keeps_articles_and_paragraphs(folder, halves):
    content = squad(("A", {"c one": "pq", "c two": "r"}), ("猫", {"c three": "stu"}), version="2")
    rows, one, two = halves(("a.json", content), task="answer")
    expected = squad(("A", {"c one": "p", "c two": "r"}), ("猫", {"c three": "t"}), version="2")
    assert json.loads(one) == json.loads(expected)
    assert json.loads(two) == json.loads(
        squad(("A", {"c one": "q"}), ("猫", {"c three": "su"}), version="2")
    )
    assert list(rows.titles.values()) == ["A"] * 3 + ["猫"] * 3
    bare = json.dumps(json.loads(content)["data"])
    assert json.loads(halves(("a.json", bare), task="answer")[1]) == json.loads(expected)["data"]


def test_cmrc_keeps_its_layout(folder, halves):
    def cmrc(**contexts):
        return [
            {"context_id": name, "context_text": "c", "title": name, "qas": [
                {"query_id": each, "query_text": f"{each}?", "answers": ["c"]} for each in names]}
            for name, names in contexts.items()
        ]  # fmt: skip

    content = json.dumps(cmrc(A="pq", B="r", C="stu"))
    rows, one, two = halves(("a.json", content), task="answer")
    assert json.loads(one) == cmrc(A="p", B="r", C="t")
    assert json.loads(two) == cmrc(A="q", C="su")
    assert list(rows.titles.values()) == ["A"] * 2 + ["B"] + ["C"] * 3


def test_titles(folder, halves):
    flat = [{"question": "q", "context": "a", "answers": ["a"], "title": "T"} for _ in range(2)]
    lines = "".join(json.dumps(row) + "\n" for row in flat)
    rows, *_ = halves(("a.jsonl", lines), task="answer")
    assert list(rows.titles.values()) == ["T", "T"]
    rows, *_ = halves(("a.csv", "Title,question,context,answers\nT,q,a,a\n,r,b,b\n"), task="answer")
    assert rows.titles == {"a.csv, row 2": "T"}


def test_parquet(folder, halves):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    def table(*texts):
        columns = {"text": texts, "label": ["x"] * len(texts), "picture": [b"\0"] * len(texts)}
        written = io.BytesIO()
        parquet.write_table(pyarrow.table({k: list(v) for k, v in columns.items()}), written)
        return written.getvalue()

    rows, one, _ = halves(("a.parquet", table("a", "b", "c")), ("b.parquet", table("d")))
    assert rows.suffix == ".parquet"
    read = parquet.read_table(io.BytesIO(one))
    assert read.column("text").to_pylist() == ["a", "c"]
    assert read.column("picture").to_pylist() == [b"\0", b"\0"]


@quick
@given(st.lists(st.tuples(text, st.sampled_from("xy"), st.text(characters)), min_size=2))
def test_any_text_in_csv(folder, halves, rows):
    held = io.StringIO(newline="")
    writer = csv.writer(held, lineterminator="\n")
    writer.writerows([("text", "label", "note"), *rows])
    _, one, two = halves(("a.csv", held.getvalue()))
    for part, some in ((one, rows[::2]), (two, rows[1::2])):
        assert list(csv.reader(io.StringIO(part, newline="")))[1:] == [list(row) for row in some]


END = "; each part is one file; make them alike, or split them one by one."


@pytest.mark.parametrize(
    ("files", "task", "sentence"),
    [
        (
            {"a.csv": "text,label\na,x\n", "b.csv": "label,text\nx,a\n"},
            "classify",
            "b.csv has the columns label, text (text=text, label=label), and a.csv has the columns "
            f"text, label (text=text, label=label){END}",
        ),
        (
            {"a.csv": "text,label\na,x\n", "b.tsv": "text\tlabel\na\tx\n"},
            "classify",
            f"b.tsv is written as .tsv, and a.csv as .csv{END}",
        ),
        (
            {
                "a.jsonl": '{"text": "a", "label": "x"}',
                "b.jsonl": '{"review": "a", "label": "x"}',
            },
            "classify",
            "b.jsonl has one object per line (text=review, label=label), and a.jsonl has one "
            f"object per line (text=text, label=label){END}",
        ),
        (
            {"a.bio": "a O\n", "b.bio": "a X O\n"},
            "tag",
            "b.bio has 3 columns with spaces (words=1, tags=3), and a.bio has 2 columns with "
            f"spaces (words=1, tags=2){END}",
        ),
        (
            {
                "a.json": squad(("A", {"c": "p"}), version="1"),
                "b.json": squad(("A", {"c": "p"}), version="2"),
            },
            "answer",
            'b.json has the layout of SQuAD with {"version": "2"}, and a.json has the layout of '
            f'SQuAD with {{"version": "1"}}{END}',
        ),
    ],
)
def test_files_that_do_not_fit_into_one(folder, save, files, task, sentence):
    paths = [save(name, content) for name, content in files.items()]
    with pytest.raises(InputError) as caught:
        written_rows(read_labelled(paths, task), paths)
    assert str(caught.value) == sentence


def test_a_file_that_is_named_twice(folder, save):
    save("a.csv", "text,label\na,x\n")
    paths = [Path("a.csv"), Path("a.csv")]
    with pytest.raises(InputError) as caught:
        written_rows(read_labelled(paths, "classify"), paths)
    assert str(caught.value) == "a.csv is named twice; name it once."
