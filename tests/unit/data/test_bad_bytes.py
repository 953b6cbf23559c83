"""Bytes that are not text: refused with a guess that helps or none, replaced, or left out."""

import json
import os
import random
from pathlib import Path

import pytest

from clozeworks.data.files.documents import read_documents
from clozeworks.data.files.encoding_guess import likely_encoding, likely_utf16
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import FileNotes, read_lines, read_text
from clozeworks.data.files.tables import read_table
from clozeworks.data.files.texts import read_texts
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.errors import InputError
from clozeworks.inference.cloze import GapItem
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.tagging.items import WordsItem

pytestmark = pytest.mark.usefixtures("folder")

# One's own sentences, of the length of a short review.
SENTENCES = {
    "gb18030": "这家店的菜很好吃，服务也不错，我们下次还会再来。不过等的时间有点长，要早一点去。",
    "big5": "這家店的菜很好吃，服務也不錯，我們下次還會再來。不過等的時間有點長，要早一點去。",
    "shift_jis": "この店の料理はとても美味しかったです。サービスも良かったので、また行きたい。",
    "euc_jp": "この店の料理はとても美味しかったです。サービスも良かったので、また行きたい。",
    "cp949": "이 식당은 음식이 아주 맛있고 서비스도 좋았다. 다음에 가족과 함께 다시 가고 싶다.",
    "cp1251": "Еда в этом ресторане была очень вкусной, и мы обязательно придём сюда ещё раз.",
    "koi8-r": "Еда в этом ресторане была очень вкусной, и мы обязательно придём сюда ещё раз.",
    "cp1250": "Jedzenie było bardzo smaczne, a obsługa miła; na pewno wrócimy tu z rodziną.",
    "cp1252": "Le repas était très bon et le café à la crème délicieux; nous reviendrons l’été.",
}
ENGLISH = (
    "The waiter brought the soup before we had ordered it, and nobody seemed to mind. "
    "We stayed until the lamps were lit, talked about the harvest, and walked home slowly. "
) * 20


def guess(data, tried="utf-8"):
    try:
        data.decode(tried)
    except UnicodeDecodeError as error:
        return likely_encoding(data, error.start, tried)
    return "valid"


@pytest.mark.parametrize("encoding", SENTENCES)
def test_language_is_recognised(encoding):
    assert guess(SENTENCES[encoding].encode(encoding)) == encoding
    table = "text,label\n" + f'"{SENTENCES[encoding]}",good\n' * 3
    assert guess(table.encode(encoding)) == encoding


def test_english_with_curly_marks_is_recognised():
    text = "He said “it’s fine” – and left. " * 3
    assert guess(text.encode("cp1252")) == "cp1252"
    assert guess("Die Suppe war schön heiß, das Brot genügte.".encode("latin-1")) == "cp1252"


@pytest.mark.parametrize("order", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [ENGLISH, *SENTENCES.values()])
def test_utf_16_is_recognised(order, text):
    assert likely_utf16(text.encode(order)) == order


@pytest.mark.parametrize("text", [ENGLISH, SENTENCES["gb18030"] * 40, SENTENCES["cp1252"] * 20])
@pytest.mark.parametrize("count", [1, 3, 20])
def test_damage_is_not_taken_for_an_encoding(text, count):
    rng = random.Random(count)
    guesses, zeros = [], []
    for _ in range(40):
        data = bytearray(text.encode())
        for _ in range(count):
            data[rng.randrange(len(data))] = rng.randrange(0x80, 0x100)
        guesses.append(guess(bytes(data)))
        data = bytearray(text.encode())
        data[rng.randrange(len(data))] = 0
        zeros.append(likely_utf16(bytes(data)))
    assert {*guesses} <= {None, "valid"} and {*zeros} == {None}


@pytest.mark.parametrize(
    "content", [bytes(range(256)) * 8, random.Random(0).randbytes(4_000), b"\x89PNG\r\n\x1a\n"]
)
def test_binary_files_are_no_language(content):
    assert guess(content) is None and likely_utf16(content) is None


def test_what_is_utf_8_is_said_to_be():
    text = SENTENCES["gb18030"]
    assert likely_encoding(text.encode(), 0, "ascii") == "utf-8"


BROKEN = b"one\ntw\xffo\nthr\0ee\nfour \xe4\xba\x94\n"


def lines(content, **options):
    Path("a.txt").write_bytes(content)
    notes = FileNotes()
    return list(read_lines(Path("a.txt"), FileFormat(**options), notes=notes)), notes


def test_bad_bytes_are_replaced_and_counted():
    found, notes = lines(BROKEN, bad_bytes="replace")
    assert found == ["one", "tw\ufffdo", "thr\ufffdee", "four 五"]
    assert notes.sentences() == ("U+FFFD stands for 2 bad bytes, the first in a.txt, line 2.",)
    found, notes = lines("a \ufffd b\n".encode(), bad_bytes="replace")
    assert found == ["a \ufffd b"] and notes.sentences() == ()


@pytest.mark.parametrize("encoding", ["utf-8", "gb18030", "utf-16-le", "utf-16", "utf-32", "ascii"])
def test_every_encoding_goes_on_after_bad_bytes(encoding):
    whole = "one\ntwo\nthree\n".encode(encoding)
    data = whole[:-2] + b"\xff"  # the last character is cut or wrong
    found, notes = lines(data, encoding=encoding, bad_bytes="replace")
    assert found[:2] == ["one", "two"] and notes.bad_bytes


def test_rows_are_left_out_and_counted():
    Path("a.csv").write_bytes(b'text,label\n"a\nb\xff",x\nc,y\nd\0,x\n"e",y\n')
    notes = FileNotes()
    table = read_table(Path("a.csv"), FileFormat(bad_bytes="skip-row"), notes=notes)
    assert [(number, *cells) for number, cells in table.rows] == [(3, "c", "y"), (5, "e", "y")]
    assert notes.skipped == ["a.csv, row 2", "a.csv, row 4"]
    assert notes.sentences() == (
        "2 rows were left out because of 2 bad bytes, the first in a.csv, line 3.",
    )


FILES = {
    "a.csv": (b"text,label\na,x\nb\xff,y\nc,y\n", TextItem, ["a", "c"]),
    "a.tsv": (b"text\tlabel\na\tx\nb\xff\ty\nc\ty\n", TextItem, ["a", "c"]),
    "a.jsonl": (b'{"text": "a"}\n{"text": "b\xff"}\n{"text": "c"}\n', TextItem, ["a", "c"]),
    "a.json": (b'[{"text": "a"},\n{"text": "b\xff"},\n{"text": "c"}]', TextItem, ["a", "c"]),
    "a.txt": (b"a [MASK]\nb\xff\nc\n", GapItem, ["a [MASK]", "c"]),
    "a.bio": (b"a O\n\nb\xff O\nx O\n\nc O\n", WordsItem, ["a", "c"]),
    "b.json": (
        json.dumps(
            {
                "data": [
                    {
                        "paragraphs": [
                            {"context": "c", "qas": [{"question": q} for q in ("a", "bX", "c")]}
                        ]
                    }
                ]
            }
        )
        .encode()
        .replace(b"bX", b"b\xff"),
        QuestionItem,
        ["a", "c"],
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_every_labelled_file_can_do_without_its_bad_rows(name):
    content, item, expected = FILES[name]
    Path(name).write_bytes(content)
    with pytest.raises(InputError, match="byte 0xFF is not valid UTF-8"):
        read_items(name, item)
    bad = BadRows()
    read = read_items(name, item, Reading(bad_bytes="skip-row"), bad=bad)
    assert [each.texts[0] for each in read.items] == expected
    assert read.notes == (f"1 row was left out because of 1 bad byte, the first in {first(name)}.",)
    assert read.description.endswith(read.notes[0])
    read = read_items(name, item, Reading(bad_bytes="replace"), bad=bad)
    assert "b\ufffd" in read.items[1].texts[0]
    assert read.notes == (f"U+FFFD stands for 1 bad byte, the first in {first(name)}.",)


def first(name):
    before = FILES[name][0].partition(b"\xff")[0]
    return f"{name}, line {before.count(chr(10).encode()) + 1}"


def test_texts_and_documents_without_bad_rows():
    Path("a.txt").write_bytes(BROKEN)
    skipping = FileFormat(bad_bytes="skip-row")
    texts = read_texts(Path("a.txt"), file_format=skipping)
    assert texts.texts == ["one", "four 五"] and texts.source_locations[1] == "a.txt, line 4"
    assert "2 rows were left out" in texts.notes[0]
    found = read_documents("a.txt", documents="line", file_format=skipping)
    assert [document.text for document in found] == ["one", "four 五"]
    assert read_text(Path("a.txt"), skipping) == "one\nfour 五\n"


def test_pipes_and_devices_are_no_files(complaint):
    os.mkfifo("a.csv")
    message = "is a pipe, not a file; files may be read more than once; write what it gives into a "
    assert complaint(read_table, Path("a.csv")) == f"a.csv {message}file."
    Path("b.txt").symlink_to("/dev/zero")
    assert complaint(list, read_lines(Path("b.txt"))).startswith("b.txt is a device, not a file; ")
    Path("c.txt").mkdir()
    assert complaint(list, read_lines(Path("c.txt"))) == (
        "c.txt is a folder; name one of the files in it."
    )
