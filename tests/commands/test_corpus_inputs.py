"""Input that is missing, tiny, damaged or no text, and what `corpus build` says of it."""

import os
import sqlite3

import pytest

from clozeworks.data.corpus import build as building
from clozeworks.data.corpus import duplicates
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.data.files import documents

OBJECTIVES = ("bert", "roberta", "albert", "spanbert", "electra", "simcse")
KNOWN = ".csv, .jsonl, .parquet, .tsv, .txt, all but .parquet also with .gz, .bz2, .xz, .zst"


@pytest.fixture
def options(tokenizer_folder, tmp_path):
    return ["--tokenizer", tokenizer_folder, "--out", tmp_path / "out", "--validation", "0"]


@pytest.fixture
def unreadable(command, options, tmp_path):
    """Checks that a build ends in one sentence and leaves nothing that counts as a corpus."""

    def check(sentence, *arguments):
        outcome = command("corpus", "build", *arguments, *options)
        assert outcome.err == f"clozeworks: {sentence}\n"
        assert (outcome.code, outcome.out) == (2, "")
        assert not list(tmp_path.glob("out/*.safetensors"))
        unfinished = command("corpus", "show", tmp_path / "out")
        assert unfinished.err == (
            f"clozeworks: {tmp_path / 'out'} is not finished; its build was interrupted or is "
            "still running; run the same `clozeworks corpus build` again to go on.\n"
        )

    return check


def test_nothing_to_read(refused, unreadable, options, tmp_path):
    refused("INPUTS is missing. See: clozeworks corpus build --help", "corpus", "build", *options)
    missing = tmp_path / "a.txt"
    refused(
        f"{missing} does not exist; check the name and the folder.",
        *("corpus", "build", missing, *options),
    )
    folder = tmp_path / "empty"
    folder.mkdir()
    refused(
        f"{folder} holds no file of a known kind; known: {KNOWN}; name a folder with such files, "
        "or rename them.",
        *("corpus", "build", folder, *options),
    )
    refused(
        f"{folder}/*.txt matches no file; a pattern must match at least one; check it.",
        *("corpus", "build", f"{folder}/*.txt", *options),
    )
    missing.write_bytes(b"")
    unreadable(
        "the input holds no text that gives a token; check the files, and which column or field "
        "holds the text (--column).",
        missing,
    )


def test_links_that_lead_nowhere_and_pipes(refused, options, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    link = folder / "a.txt"
    link.symlink_to(folder / "gone.txt")
    refused(
        f"{link} is a link that leads nowhere; fix it, or remove it.",
        *("corpus", "build", folder, *options),
    )
    link.unlink()
    os.mkfifo(link)
    refused(
        f"{link} is a pipe, not a file; files may be read more than once; write what it gives "
        "into a file.",
        *("corpus", "build", folder, *options),
    )


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("The cat sat. A dog lay. The mat.", (1, 3)),
        ("The cat sat.", (1, 1)),
        ("cat", (1, 1)),
        ("cat\n\ndog\n\nmat", (3, 3)),
        ("x" * 30_000, (1, 3)),
        ("\U0001f600", (1, 1)),
    ],
    ids=["one document", "one sentence", "one word", "one-word documents", "no spaces", "unknown"],
)
def test_very_little_text(command, options, tmp_path, text, counts):
    source = tmp_path / "a.txt"
    source.write_text(text, encoding="utf-8")
    assert command("corpus", "build", source, *options).code == 0
    split = Corpus.open(tmp_path / "out").split()
    assert (split.documents, split.sentences) == counts
    assert command("corpus", "show", tmp_path / "out").code == 0
    for objective in OBJECTIVES:
        outcome = command("corpus", "batch", tmp_path / "out", "--objective", objective)
        assert (outcome.code, outcome.err) == (0, "")
        assert " 1 tokens" not in outcome.out and " 1 spans" not in outcome.out
        assert "between \n" not in outcome.out


def test_a_line_that_does_not_fit(unreadable, command, options, tmp_path, monkeypatch):
    source = tmp_path / "a.txt"
    source.write_text("The cat.\n" + "mat " * 300)
    unreadable(
        f"{source}, line 2 has more than 1,000 characters; a line must fit in memory; fold it into "
        "several (fold -s), or raise --max-row-length.",
        *(source, "--max-row-length", 1000),
    )
    monkeypatch.setattr(documents, "LONGEST_DOCUMENT", 100)
    source.write_text("The cat.\n\n" + "mat\n" * 300)
    unreadable(
        f"{source}, line 3: the document that begins here has more than 100 characters; a document "
        "must fit in memory; put blank lines between documents, or make each line one with "
        "--documents line.",
        source,
    )
    assert command("corpus", "build", source, *options, "--documents", "line").code == 0


@pytest.mark.slow
def test_a_line_of_two_hundred_million_characters(unreadable, tmp_path):
    source = tmp_path / "a.txt"
    with source.open("wb") as file:
        for _ in range(200):
            file.write(b"the cat " * 125_000)
    unreadable(
        f"{source}, line 1 has more than 10,000,000 characters; a line must fit in memory; fold it "
        "into several (fold -s), or raise --max-row-length.",
        source,
    )


NO_GUESS = (
    "name its encoding with --encoding, or, if it is damaged, replace such bytes with --bad-bytes "
    "replace, or skip such rows with --bad-bytes skip-row."
)
ENCODED = {
    "zero bytes": (
        b"The cat.\nA \0 dog.",
        ", line 2: byte 0x00 does not occur in text; this is a binary file, or damaged; "
        + NO_GUESS,
    ),
    "binary": (
        b"\x7fELF\x02\x01\x01\0\0\0" + bytes(range(256)),
        ", line 1: byte 0x00 does not occur in text; this is a binary file, or damaged; "
        + NO_GUESS,
    ),
    "latin-1": (
        "The cat.\n\nThe café.".encode("latin-1"),
        ", line 3: byte 0xE9 is not valid UTF-8; convert the file, or say what it is with "
        "--encoding cp1252.",
    ),
    "utf-16 without a mark": (
        "The cat.".encode("utf-16-le"),
        ", line 1: byte 0x00 does not occur in text; this is UTF-16; convert the file, or say "
        "what it is with --encoding utf-16-le.",
    ),
    "packed": (
        b"\x1f\x8b\x08\0some",
        " is compressed with gzip; end its name in .gz, or decompress it with gzip -dc.",
    ),
}


@pytest.mark.parametrize("name", ENCODED)
def test_bytes_that_are_not_this_text(unreadable, tmp_path, name):
    source = tmp_path / "a.txt"
    data, sentence = ENCODED[name]
    source.write_bytes(data)
    unreadable(f"{source}{sentence}", source)


def test_encodings(command, unreadable, refused, options, tmp_path):
    source = tmp_path / "a.txt"
    for encoding in ("utf-16", "utf-16-le", "gb18030", "latin-1"):
        source.write_text("The cat sat.", encoding=encoding)
        more = ["--encoding", encoding, "--overwrite"]
        assert command("corpus", "build", source, *options, *more).code == 0
        assert Corpus.open(tmp_path / "out").split().tokens == 4
    source.write_text("The cat sat.", encoding="utf-16")  # its mark is enough
    assert command("corpus", "build", source, *options, "--overwrite").code == 0
    source.write_bytes("The cat sat.".encode("utf-16-be"))
    unreadable(
        f"{source} has no byte order mark, so UTF-16 does not say which byte comes first; say it "
        "with --encoding utf-16-le or --encoding utf-16-be.",
        *(source, "--encoding", "utf-16", "--overwrite"),
    )
    source.write_bytes(b"the +2AA- cat")
    unreadable(
        f"{source}, read as UTF-7, holds the lone surrogate \\ud800; that is half a character; "
        "write the whole character.",
        *(source, "--encoding", "utf-7"),
    )
    source.write_bytes(b"the cat.\n\nA dog lay.\n")
    unreadable(
        f"{source} is not valid PUNYCODE (Invalid extended code point ' '); convert the file, or "
        "say what it is with --encoding.",
        *(source, "--encoding", "punycode"),
    )
    refused(
        "--encoding is 'utf-9'; it must be a text encoding that Python knows; use for example "
        "utf-8, latin-1, cp1252 or utf-16.",
        *("corpus", "build", source, *options, "--encoding", "utf-9"),
    )


def test_a_file_that_disappears(unreadable, tmp_path, monkeypatch):
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    for path in (first, second):
        path.write_text("The cat sat.")
    real = building.read_documents

    def read(path, **settings):
        yield from real(path, **settings)
        second.unlink(missing_ok=True)

    monkeypatch.setattr(building, "read_documents", read)
    sentence = f"{second} does not exist; check the name and the folder."
    unreadable(f"{sentence} Did you mean {str(first)!r}?", first, second)


def test_a_name_that_is_no_text(command, options, tmp_path):
    source = tmp_path / "texts"
    source.mkdir()
    with open(os.fsencode(source) + b"/\xff.txt", "wb") as file:  # noqa: PTH123
        file.write(b"The cat sat.")
    assert command("corpus", "build", source, *options).code == 0
    manifest = Corpus.open(tmp_path / "out").manifest
    assert manifest["made"]["files"] == [[f"{source}/\\udcff.txt", 12]]


def test_columns_that_are_not_there(unreadable, tmp_path):
    source = tmp_path / "a.csv"
    source.write_text("id,body,title\n1,the cat,a mat\n")
    unreadable(
        f"{source}, row 1 has no column 'text'; its columns: id, body, title; choose one with "
        "--column.",
        source,
    )
    plain = tmp_path / "a.txt"
    plain.write_text("The cat.")
    unreadable(
        f"{plain} has no columns, and --column is 'body'; a .txt file is nothing but text; leave "
        "out --column.",
        *(plain, "--column", "body"),
    )


def test_bad_files_are_skipped_and_named(command, options, tmp_path):
    good, bad, worse = (tmp_path / name for name in ("a.txt", "b.jsonl", "c.txt"))
    good.write_text("The cat sat.")
    bad.write_text('{"text": "A dog lay."}\n{"text": 3}\n{"text": "The mat."}\n')
    worse.write_bytes(b"\xff")
    outcome = command("corpus", "build", good, bad, worse, *options, "--skip-bad-files")
    assert outcome.code == 0
    wrong = f"byte 0xFF is not valid UTF-8; {NO_GUESS}"
    assert outcome.err == (
        f"Skipped: {bad}, line 2: the field 'text' is a number; it must be a string; choose "
        "another field with --column, or put quotation marks around it. 1 document of this file "
        "came before it.\n"
        f"Skipped: {worse}, line 1: {wrong} 0 documents of this file came before it.\n"
    )
    assert Corpus.open(tmp_path / "out").split().documents == 2
    outcome = command("corpus", "build", worse, *options, "--skip-bad-files", "--overwrite")
    assert outcome.err == (
        "clozeworks: the input holds no text that gives a token; check the files, and which column "
        f"or field holds the text (--column). Left out was: {worse}, line 1: {wrong} 0 "
        "documents of this file came before it.\n"
    )


def test_the_folder_for_temporary_files_is_full(unreadable, tmp_path, monkeypatch):
    source = tmp_path / "a.txt"
    source.write_text("\n\n".join(f"The cat sat {number}." for number in range(2000)))
    real = sqlite3.connect

    def small(*arguments, **options):
        database = real(*arguments, **options)
        database.execute("PRAGMA max_page_count = 4")
        return database

    monkeypatch.setattr(duplicates.sqlite3, "connect", small)
    monkeypatch.setattr(duplicates, "MOST_IN_MEMORY", 100)
    unreadable(
        "the list of documents that came before could not be written (database or disk is full); "
        "it is kept in the folder for temporary files; make room there, or name another folder in "
        "SQLITE_TMPDIR, and run the same command again to go on.",
        source,
    )


def test_a_large_vocabulary(command, tmp_path):
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"w{i}" for i in range(70_000))]
    (tmp_path / "tokenizer").mkdir()
    (tmp_path / "tokenizer" / "vocab.txt").write_text("\n".join(vocabulary))
    source, out = tmp_path / "a.txt", tmp_path / "out"
    source.write_text("w69999 w1 w65531 w65530")
    wanted = ["--tokenizer", tmp_path / "tokenizer", "--out", out, "--validation", "0"]
    assert command("corpus", "build", source, *wanted).code == 0
    shown = command("corpus", "show", out).out
    assert "wordpiece, 70,005 entries" in shown and ": w69999 w1 w65531 w65530\n" in shown
    assert "w69999" in command("corpus", "batch", out, "--objective", "simcse").out
