"""Lines of standard input: as they arrive, whatever they hold, and when a person stops."""

import gzip
import io
import json
import os
import selectors
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import clozeworks as cw
from clozeworks.data.files import lines as stdin_lines
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import read_text, stream_lines
from clozeworks.errors import InputError
from clozeworks.tasks.classify import Classify

SOURCE = Path(cw.__file__).parents[1]
NO_GUESS = (
    "name its encoding with --encoding, or, if it is damaged, replace such bytes with --bad-bytes "
    "replace, or skip such rows with --bad-bytes skip-row."
)
# The real command, with a line of progress at every batch rather than every few seconds.
CLASSIFY = """
import sys
from clozeworks.cli import main
from clozeworks.display import progress
progress.ProgressBar.__init__.__kwdefaults__["every"] = 0.0
main.main(["classify", *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def folder(tiny_models, tmp_path_factory):
    task = Classify(labels=("bad", "good"))
    return cw.load(tiny_models["bert"]).for_task(task).save(tmp_path_factory.mktemp("c") / "model")


@pytest.fixture
def given(monkeypatch):
    """Puts bytes into standard input, which come a few at a time."""

    def put(content, block=3):
        monkeypatch.setattr(stdin_lines, "_STREAM_BLOCK", block)
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))

    return put


def test_an_answer_comes_before_the_input_ends(folder):
    process = subprocess.Popen(
        [sys.executable, "-m", "clozeworks", "classify", folder, "-"],
        # Unbuffered, even a command that forgets to send its answers would send them.
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONUNBUFFERED": ""},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    try:
        for text in ("the cat", "我爱北京", "the dog"):
            process.stdin.write(f"{text}\n")
            process.stdin.flush()
            with selectors.DefaultSelector() as waiting:
                waiting.register(process.stdout, selectors.EVENT_READ)
                assert waiting.select(60), "nothing came"
            assert json.loads(process.stdout.readline())["text"] == text
        out, err = process.communicate("without an end", timeout=30)
    finally:
        process.kill()
    assert json.loads(out)["text"] == "without an end"
    assert process.returncode == 0 and err.startswith("4 texts in ")


def test_an_interrupted_command_leaves_no_part_of_a_file(start, folder, tmp_path):
    source, out = tmp_path / "a.txt", tmp_path / "o.jsonl"
    source.write_text("the cat sat on the mat\n" * 100_000, encoding="utf-8")
    out.write_bytes(b"old")
    process = start(["-c", CLASSIFY, folder, source, "--out", out, "--overwrite"])
    try:
        assert " tokens, " in process.stderr.readline()
        process.send_signal(signal.SIGINT)
        process.wait(timeout=20)
        said = process.stderr.read()
    finally:
        process.kill()
    assert process.returncode == 130
    assert said.endswith("\nStopped. Nothing was left half-written.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.txt", "o.jsonl"]
    assert out.read_bytes() == b"old"


@pytest.mark.parametrize("block", [1, 2, 3, 7, 100])
def test_lines_are_whole_wherever_blocks_end(given, block):
    text = "the cat\r\n\n北京🙂\tx\u2028y\x85z\x0c\nlast"
    given("\ufeff".encode() + text.encode(), block)
    pieces = list(stream_lines(sys.stdin.buffer))
    assert [line for lines in pieces for line in lines] == text.replace("\r\n", "\n").split("\n")
    assert len(pieces) == {7: 3, 100: 2}.get(block, 4)
    given(text.encode(), block)
    assert read_text(sys.stdin.buffer) == text
    given("ä\nö\n".encode("utf-16"), block)
    assert [
        line
        for lines in stream_lines(sys.stdin.buffer, FileFormat(encoding="utf-16"))
        for line in lines
    ] == ["ä", "ö"]
    given(b"", block)
    assert list(stream_lines(sys.stdin.buffer)) == []


@pytest.mark.parametrize("block", [1, 3, 100])
@pytest.mark.parametrize(
    ("content", "before", "sentence"),
    [
        (
            b"one\ntwo\xff\nthree\n",
            ["one"],
            "standard input, line 2: byte 0xFF is not valid UTF-8; " + NO_GUESS,
        ),
        (
            b"one\ntw\0",
            ["one"],
            "standard input, line 2: byte 0x00 does not occur in text; this is a binary file, or "
            "damaged; " + NO_GUESS,
        ),
        (
            "one\ntwo 京".encode()[:-1],
            ["one"],
            "standard input, line 2: byte 0xE4 is not valid UTF-8; " + NO_GUESS,
        ),
    ],
    ids=["not utf-8", "zero", "half a character"],
)
def test_what_stands_before_a_wrong_byte_is_given_first(given, block, content, before, sentence):
    given(content, block)
    found = []
    with pytest.raises(InputError) as wrong:
        for lines in stream_lines(sys.stdin.buffer):
            found += lines
    assert str(wrong.value) == sentence and found == before


def test_what_is_no_text(given):
    given(gzip.compress(b"text"), 100)
    with pytest.raises(InputError) as wrong:
        list(stream_lines(sys.stdin.buffer))
    assert str(wrong.value) == (
        "standard input is compressed with gzip; end its name in .gz, or decompress it with "
        "gzip -dc."
    )
    given(b"one\nmore than ten characters\n", 5)
    with pytest.raises(InputError) as wrong:
        list(stream_lines(sys.stdin.buffer, FileFormat(max_row_length=10)))
    assert str(wrong.value) == (
        "standard input, line 2 has more than 10 characters; a line must fit in memory; fold it "
        "into several (fold -s), or raise --max-row-length."
    )
