"""Standard streams that are closed, and what a terminal must not be told."""

import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
# It clears the screen, sets the title, goes back to the line's start, and turns the text around.
HOSTILE = "a\x1b[2J\x1b]0;title\x07b\rc\x9bd\u202ee"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


@pytest.mark.skipif(sys.platform == "win32", reason="shells there cannot close streams")
@pytest.mark.parametrize(
    ("words", "closed", "code", "sentence"),
    [
        ("--version", ">&-", 2, "The output cannot be used (it is closed); fix this first."),
        ("--version", "2>&-", 0, None),
        ("--version", "<&- >&- 2>&-", 2, None),
        ("tokenizer inspect MODEL", "<&- 2>&-", 0, None),
        ("nonsense", "2>&-", 2, None),
        (
            *("tokenizer train - --out made", "<&- >&-", 2),
            "- does not exist; check the name and the folder.",
        ),
        (
            *("data check - --task classify", "<&-", 2),
            "- does not exist; check the name and the folder.",
        ),
        ("runs", "<&- >&-", 2, "The output cannot be used (it is closed); fix this first."),
    ],
)
def test_closed_streams(words, closed, code, sentence, tiny_models, tmp_path):
    words = words.replace("MODEL", str(tiny_models["bert"]))
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "{sys.executable}" -m clozeworks {words} {closed}'],
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        cwd=tmp_path,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
    )
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr
    if sentence is not None:
        assert done.stderr == f"clozeworks: {sentence}\n"
    assert list(tmp_path.iterdir()) == []


CLOSED_AND_WRITING = """
import os, sys
from clozeworks.cli import main
os.close(1)
sys.stdout = None  # as Python has it where standard output is closed
def answer(words):
    with open("file.txt", "w") as file:  # it would be number 1, and printed into
        os.write(1, b"printed") if file.fileno() == 1 else file.write("written")
    return 0
main._answer = answer
main.main([])
"""


def test_no_file_takes_the_number_of_a_closed_stream(start, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    process = start(["-c", CLOSED_AND_WRITING])
    _, err = process.communicate(timeout=30)
    assert (process.returncode, err) == (0, "")
    assert (tmp_path / "file.txt").read_text() == "written"


# Several commands in one process, because each process has to import torch.
COMMANDS = """
import json, sys
from clozeworks.cli import main
main._prepare_output()
for words in json.loads(sys.argv[1]):
    main.run(words)
    print("END OF COMMAND", flush=True)
"""


def on_terminal(commands, cwd):
    """What each of some commands sends to a terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", COMMANDS, json.dumps(commands)],
        env={**os.environ, "PYTHONPATH": str(SOURCE), "NO_COLOR": "1", "TERM": "dumb"},
        stdin=subprocess.DEVNULL,
        stdout=theirs,
        stderr=theirs,
        cwd=cwd,
    )
    os.close(theirs)
    sent = b""
    while True:
        try:
            part = os.read(ours, 65536)
        except OSError:  # Linux says so where others return nothing
            break
        if not part:
            break
        sent += part
    os.close(ours)
    process.wait(timeout=60)
    lines = sent.decode().replace("\r\n", "\n")  # as a terminal is told to end lines
    return lines.split("END OF COMMAND\n")


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such terminals")
def test_a_terminal_is_told_nothing_it_would_obey(bert_model, tmp_path):
    rows = tmp_path / f"{HOSTILE}.jsonl"
    lines = [{"text": f"the cat {HOSTILE} {n}", "label": f"{HOSTILE}{n % 2}"} for n in range(8)]
    rows.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    other = tmp_path / "columns.csv"
    other.write_text(f"{HOSTILE.replace(chr(13), '')},x\n1,2\n", encoding="utf-8")
    model = Path(shutil.move(bert_model, tmp_path / f"{HOSTILE}-model"))
    commands = [
        ["data", "check", rows.name, "--task", "classify"],
        ["data", "check", other.name, "--task", "classify"],
        ["data", "check", rows.name, "--task", "classify", "--json"],
        ["fill", model.name, f"the [MASK] {HOSTILE}"],
        ["fill", model.name, f"the [MASK] {HOSTILE}", "--json"],
        ["tokenizer", "inspect", model.name, HOSTILE],
        ["show", model.name],
        ["show", f"{HOSTILE}.nothing"],
        [HOSTILE],
        ["embed", model.name, HOSTILE],
    ]
    *every, rest = on_terminal(commands, cwd=tmp_path)
    assert rest == ""
    for words, sent in zip(commands, every, strict=True):
        found = OBEYED.search(sent)
        assert found is None, (words, sent[max(0, found.start() - 80) : found.end() + 20])
        assert "Traceback" not in sent and sent, words


def test_json_says_the_same_without_control_characters(command, tiny_models):
    said = command("fill", tiny_models["bert"], f"the [MASK] {HOSTILE}", "--json", "-k", "1")
    assert OBEYED.search(said.out) is None
    assert json.loads(said.out)["text"] == f"the [MASK] {HOSTILE}"


def test_generated_texts_are_exact_in_files_and_visible_on_terminals(monkeypatch, capsys):
    from clozeworks.cli.outputs import open_output
    from clozeworks.runtime.terminal import visible_outputs

    for terminal, shown in ((False, HOSTILE), (True, "a\\x1b[2J\\x1b]0;title\\x07b\\rc")):
        monkeypatch.setattr(sys.stdout, "isatty", lambda terminal=terminal: terminal)
        with visible_outputs(), open_output(None, "texts", lambda: "") as file:
            print(HOSTILE, file=file)
        assert capsys.readouterr().out.startswith(shown)
