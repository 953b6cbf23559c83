"""Every format gives the same items; what cannot be read is refused with a sentence."""

import bz2
import gzip
import json
import lzma

import pyarrow
import pytest
import zstandard
from pyarrow import parquet

from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.reading import Reading
from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.inference.cloze import GapItem
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.task import read_labelled

TEXTS = [("Ein gutes, schönes Buch", "good"), ("房间太小 🙂", "bad"), ("so so", "bad")]
TABLES = {
    "a.csv": 'text,label\n"Ein gutes, schönes Buch",good\n房间太小 🙂,bad\nso so,bad\n',
    "a.tsv": "label\ttext\ngood\tEin gutes, schönes Buch\nbad\t房间太小 🙂\nbad\tso so\n",
    "a.jsonl": "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in TEXTS),
    "a.json": json.dumps([{"text": text, "label": label} for text, label in TEXTS]),
}
PACKED = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.ZstdCompressor().compress,
}


def pairs(read):
    return [(item.text, item.label) for item in read.items]


@pytest.mark.parametrize("name", TABLES)
def test_formats(labelled, name):
    read = labelled(name, TABLES[name])
    assert pairs(read) == TEXTS
    assert (read.kind, read.files, read.task) == ("one", (name,), "classify")
    assert read.description == (
        "Columns: text=text (by its name), label=label (by its name); the label is one name."
    )


def test_places_are_rows_of_a_spreadsheet_and_lines_of_json(labelled):
    places = {
        "a.csv": ("a.csv, row 2", "a.csv, row 4"),
        "a.tsv": ("a.tsv, row 2", "a.tsv, row 4"),
        "a.jsonl": ("a.jsonl, line 1", "a.jsonl, line 3"),
        "a.json": ("a.json, object 1", "a.json, object 3"),
    }
    for name, expected in places.items():
        items = labelled(name, TABLES[name]).items
        assert (items[0].source_location, items[-1].source_location) == expected
    items = labelled("a.csv", 'text,label\n"two\nlines",a\n\nthird,b\n').items
    assert [(item.text, item.source_location) for item in items] == [
        ("two\nlines", "a.csv, row 2"),
        ("third", "a.csv, row 4"),
    ]


def test_parquet(folder):
    columns = {"text": [t for t, _ in TEXTS], "label": [0, 1, 1], "picture": [b"\xff"] * 3}
    parquet.write_table(pyarrow.table(columns), "a.parquet")
    read = read_labelled("a.parquet", "classify")
    assert read.items[1] == TextItem("房间太小 🙂", "1", "a.parquet, row 2")
    parquet.write_table(
        pyarrow.table({"tokens": [["a", "b"]], "ner_tags": [["O", "B-X"]]}), "b.parquet"
    )
    assert read_labelled("b.parquet", "tag").items == [
        WordsItem.of_words(["a", "b"], ["O", "B-X"], "b.parquet, row 1")
    ]
    parquet.write_table(pyarrow.table({"text": pyarrow.array([], "string")}), "c.parquet")
    with pytest.raises(InputError, match=r"^c.parquet holds no rows; there must be at least one"):
        read_labelled("c.parquet", "classify")


def test_damaged_parquet(wrong):
    wrong(
        "a.parquet is damaged or not a parquet file (Parquet magic bytes not found in footer. "
        "Either the file is corrupted or this is not a parquet file); copy or download it again.",
        *("a.parquet", b"no parquet at all"),
    )


@pytest.mark.parametrize("suffix", PACKED)
@pytest.mark.parametrize("name", TABLES)
def test_packed(folder, name, suffix):
    path = folder / f"{name}{suffix}"
    path.write_bytes(PACKED[suffix](TABLES[name].encode()))
    assert pairs(read_labelled(path, "classify")) == TEXTS


@pytest.mark.parametrize("name", TABLES)
def test_marks_and_line_ends_of_windows(labelled, name):
    content = TABLES[name].replace("\n", "\r\n")
    assert pairs(labelled(name, b"\xef\xbb\xbf" + content.encode())) == TEXTS
    assert pairs(labelled(name, content.encode("utf-16"))) == TEXTS


def test_encodings(labelled, wrong):
    content = "text,label\nschön,a\nblau,b\n".encode("latin-1")
    assert labelled("a.csv", content, encoding="latin-1").items[0].text == "schön"
    wrong(
        "a.csv, line 2: byte 0xF6 is not valid UTF-8; convert the file, or say what it is with "
        "--encoding cp1252.",
        *("a.csv", content),
    )


def test_files_without_rows(wrong):
    for name in ("a.csv", "a.tsv", "a.jsonl", "a.json"):
        wrong(f"{name} holds no rows; there must be at least one; check the file.", name, "\n\n")
    wrong("a.json holds no rows; there must be at least one; check the file.", "a.json", "[]")
    for name in ("a.bio", "a.conllu"):
        sentence = f"{name} holds no rows; there must be at least one; check the file."
        wrong(sentence, name, "\n# text = a\n\n" if name == "a.conllu" else "\n", "tag")
    wrong("a.csv: there are no rows below the header; add some.", "a.csv", "text,label\n")


def test_one_row(labelled):
    assert labelled("a.csv", "text,label\nx,1\n").items == [TextItem("x", "1", "a.csv, row 2")]


def test_json_that_is_lines_or_wrapped_or_wrong(labelled, wrong):
    rows = [{"text": "a", "label": "x"}, {"text": "b", "label": "y"}]
    lines = "\n".join(map(json.dumps, rows))
    assert pairs(labelled("a.json", lines)) == [("a", "x"), ("b", "y")]
    assert pairs(labelled("a.json", json.dumps({"data": rows}))) == [("a", "x"), ("b", "y")]
    wrong(
        "a.json is a string; it must be a list of objects; write such a list, or one object per "
        "line and call the file .jsonl.",
        *("a.json", '"a"'),
    )
    wrong(
        "a.json, line 2, character 1: this is not valid JSON (Expecting value); write a list of "
        "objects; objects on lines of their own are a .jsonl file.",
        *("a.json", "[\n}"),
    )
    wrong(
        "a.json: a number is too long or the nesting too deep to read; write a list of objects; "
        "objects on lines of their own are a .jsonl file.",
        *("a.json", "[" * 100_000),
    )


def test_pairs(labelled):
    read = labelled("a.tsv", 'premise\thypothesis\tlabel\np\t"h\ty\nq\ti\tn\n', "compare")
    assert read.items[0] == PairItem("p", '"h', "y", "a.tsv, row 2")
    assert [column.role for column in read.columns] == ["first", "second", "label"]


def test_texts_to_fill(labelled, wrong):
    read = labelled("a.txt", "one\n\n two \n", "fill")
    assert read.items == [
        GapItem("one", None, "a.txt, line 1"),
        GapItem(" two ", None, "a.txt, line 3"),
    ]
    assert (read.kind, read.description) == ("none", "Each line is a text.")
    read = labelled("a.csv", "sentence,label\nx,1\n", "fill")
    assert read.items == [GapItem("x", None, "a.csv, row 2")]
    wrong(
        "--columns is 'text=1'; each line of a.txt is a text, and there are no columns; leave "
        "--columns out.",
        *("a.txt", "x\n", "fill", SettingError),
        columns={"text": "1"},
    )
    wrong("a.txt holds no rows; there must be at least one; check the file.", "a.txt", " ", "fill")


def test_unknown_suffixes_tasks_and_roles(wrong, folder):
    packings = (
        "all but .parquet also with .gz, .bz2, .xz, .zst; say what it is with --format, such "
    )
    packings += "as --format "
    known = f"classify reads .csv, .tsv, .jsonl, .json, .parquet, {packings}csv, or convert it."
    wrong(f"a.txt has the suffix '.txt'; {known}", "a.txt", "x")
    wrong(f"a has no suffix; {known}", "a", "x")
    wrong(f"a.parquet.gz has the suffix '.parquet.gz'; {known}", "a.parquet.gz", "x")
    wrong(
        "a.csv has the suffix '.csv'; tag reads .conll, .bio, .bioes, .bmes, .iob, "
        f".iob2, .tsv, .txt, .conllu, .jsonl, .json, .parquet, {packings}txt, or convert it.",
        *("a.csv", "x", "tag"),
    )
    with pytest.raises(InputError, match=r"^b.txt does not exist; check the name and the folder"):
        read_labelled("b.txt", "classify")
    with pytest.raises(InputError, match=r"^there are no files; name at least one\.$"):
        read_labelled([], "classify")
    with pytest.raises(UnknownName, match=r"^task is 'tags'; known: .* Did you mean 'tag'\?$"):
        read_labelled("a.csv", "tags")
    with pytest.raises(UnknownName, match=r"^columns for tag is 'text'; known: tags, words\.$"):
        read_labelled("a.csv", "tag", Reading(columns={"text": "1"}))
    for reading, said in (
        (Reading(labels="one"), "labels is 'one'"),
        (Reading(label_separator="|"), "label_separator is '|'"),
    ):
        with pytest.raises(SettingError) as caught:
            read_labelled("a.bio", "tag", reading)
        assert str(caught.value) == (
            f"{said}; only texts and pairs have labels of several kinds, and the task is tag; "
            "leave it out."
        )


def test_several_files_share_the_kind_of_labels(save, folder):
    save("a.csv", "text,score\nx,1\ny,2\n")
    save("b.csv", "score,text\n2.5,z\n")
    read = read_labelled(["a.csv", "b.csv"], "classify")
    assert [item.label for item in read.items] == [1.0, 2.0, 2.5]
    assert (read.kind, read.files) == ("numbers", ("a.csv", "b.csv"))
    assert read.description == (
        "Columns: text=text (by its name), label=score (by its name); the label is a number."
    )
    save("c.csv", "review,score\nx,1\n")
    assert read_labelled(["a.csv", "c.csv"], "classify").description == (
        "a.csv: Columns: text=text (by its name), label=score (by its name); the label is one "
        "name. c.csv: Columns: text=review (by its name), label=score (by its name); the label is "
        "one name."
    )
    assert read_labelled("a.csv", "classify").kind == "one"
    assert read_labelled("a.csv", "classify", read.reading).kind == "numbers"


def test_separators(labelled):
    content = "text,label\nx,a|b\ny,\nz,b\n"
    read = labelled("a.csv", content, label_separator="|")
    assert [item.label for item in read.items] == [("a", "b"), (), ("b",)]
    assert labelled("a.csv", content, skip=True).items[0].label == "a|b"
    with pytest.raises(SettingError, match=r"^label_separator is empty; it must be a character "):
        Reading(label_separator="")
    with pytest.raises(SettingError) as caught:
        Reading(label_separator="|", labels="one")
    assert str(caught.value) == (
        "label_separator is '|'; it stands between several labels, and `labels` is 'one'; leave "
        "one of them out."
    )


class TestBadRows:
    def test_empty_texts_and_labels(self, bad):
        content = "text,label\nx,a\n  ,b\ny,b\n"
        items = bad("a.csv, row 3", "the text is empty; give it one", "a.csv", content)
        assert [item.text for item in items] == ["x", "y"]
        bad(
            *("a.csv, row 3", "the label is empty; give it one of: a, b"),
            *("a.csv", "text,label\nx,b\ny, \nz,a\n"),
        )
        bad(
            *("a.csv, row 2", "the second text is empty; give it one"),
            *("a.csv", "first,second,label\nx,,1\ny,z,2\n", "compare"),
        )

    def test_cells(self, bad):
        bad(
            "a.csv, row 3",
            "there are 3 cells; the first row has 2; put quotation marks around a text with commas "
            "in it",
            *("a.csv", "text,label\nx,a\ny,z,b\n"),
        )
        bad(
            "a.tsv, row 3",
            "there is 1 cell; the first row has 2; take tabs and line ends out of the texts",
            *("a.tsv", "text\tlabel\nx\ta\ny\n"),
        )

    def test_json(self, bad):
        good = '{"text": "x", "label": "a"}\n'
        bad(
            "a.jsonl, line 2, character 10",
            "this is not valid JSON (Expecting value); write one whole JSON object per line",
            *("a.jsonl", good + '{"text": \n'),
        )
        bad(
            *("a.jsonl, line 1", "this is a list; it must be an object with a text; fix it"),
            *("a.jsonl", "[1]\n" + good),
        )
        bad(
            "a.jsonl, line 2",
            "a number is too long or the nesting too deep to read; write one whole JSON object per "
            "line",
            *("a.jsonl", good + "[" * 100_000),
        )
        bad(
            *("a.jsonl, line 2", "the text is a number; it must be a string; correct it"),
            *("a.jsonl", good + '{"text": 3, "label": "a"}'),
        )
        bad(
            "a.jsonl, line 2",
            "the text holds the lone surrogate \\ud83d, half a character; write the whole "
            "character",
            *("a.jsonl", good + '{"text": "\\ud83d", "label": "a"}'),
        )
        bad(
            *("a.jsonl, line 2", "the label is empty; give it one of: a"),
            *("a.jsonl", good + '{"text": "y"}'),
        )

    def test_several_are_listed_together(self, wrong, labelled):
        content = "text,label\n" + "x,\n" * 7 + "y,a\n"
        rows = "".join(
            f"  a.csv, row {number}: the label is empty; give it one of: a\n"
            for number in range(2, 7)
        )
        wrong(
            f"7 rows cannot be used:\n{rows}  and 2 more\nFix them, or drop them with "
            "--skip-bad-rows.",
            *("a.csv", content),
        )
        content = "text,label\n" + "x,\n" * 70 + "y,a\n"
        wrong(
            f"20 rows or more cannot be used:\n{rows}  and 15 more\nFix them, or drop them with "
            "--skip-bad-rows.",
            *("a.csv", content),
        )
        read = labelled("a.csv", content, skip=True)
        assert (len(read.items), len(read.bad.rows)) == (1, 70)

    def test_nothing_is_left(self, folder, save):
        save("a.csv", "text,label\n,a\n ,b\n")
        with pytest.raises(InputError) as caught:
            read_labelled("a.csv", "classify", bad=BadRows(skip=True))
        assert str(caught.value) == (
            "a.csv: no row is left, 2 were bad; the first: a.csv, row 2: the text is empty; give "
            "it one."
        )
        save("a.jsonl", "[1]\n")
        with pytest.raises(InputError, match=r"^a.jsonl: no row is left, 1 was bad; the first: "):
            read_labelled("a.jsonl", "classify", bad=BadRows(skip=True))

    def test_quotation_marks(self, wrong):
        wrong(
            "a.csv, row 2: the quotation marks do not match (unexpected end of data); close each "
            'one, and write "" for one inside a text, or say --quoting none if they are part of '
            "the texts.",
            *("a.csv", 'text,label\n"x,a\ny,b\n'),
        )


def test_a_message_quotes_only_the_beginning_of_a_long_cell():
    bad = BadRows()
    bad.add("a.csv, row 2", f"the label is {'x' * 9000!r}; fix it")
    with pytest.raises(InputError) as caught:
        bad.finish()
    assert len(str(caught.value)) < 700
    assert str(caught.value).endswith("xx…, or drop the row with --skip-bad-rows.")
