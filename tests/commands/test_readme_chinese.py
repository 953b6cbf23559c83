"""The Chinese README is true, and says the same as the English one."""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from clozeworks.cli import main

ROOT = Path(__file__).resolve().parents[2]
ENGLISH = (ROOT / "README.md").read_text(encoding="utf-8")
CHINESE = (ROOT / "README.zh.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
# A command, with the lines of its text if it is given one; behind \ it goes on in the next line.
COMMAND = re.compile(
    r"^\$ ([^\n]*<<'END'\n.*?^END|(?:[^\n]*\\\n)*[^\n]*)\n", re.DOTALL | re.MULTILINE
)
NUMBER = re.compile(r"\d(?:[\d.,]*\d)?")


def blocks(text, kind):
    return [block for found, block in BLOCK.findall(text) if found == kind]


def typed_along():
    """Commands and what is printed under them, of the block that is typed along."""
    block = next(block for block in blocks(CHINESE, "console") if "<<'END'" in block)
    pieces = COMMAND.split(block)[1:]
    return list(zip(pieces[::2], pieces[1::2], strict=True))


def steady(text):
    """Lines of an output, without what differs from machine to machine."""
    text = re.sub(r"in [\d,.]+ s\b", "in … s", text)
    text = re.sub(r"\([\d,]+ a second\)", "(… a second)", text)
    lines = [line.rstrip() for line in text.strip().splitlines()]
    return [line for line in lines if line and line != "…"]


def shape(line):
    """A line without its numbers, which rounding may change elsewhere."""
    return NUMBER.sub("#", line)


def run_one(command):
    """Runs a command as it stands; what it printed to standard output and beside it."""
    words = [] if "<<" in command else shlex.split(command.replace("\\\n", " "))
    if words[:1] == ["clozeworks"]:
        out, beside = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(beside):
            code = main.run(words[1:])
        assert code == 0, f"{command}\n{beside.getvalue()}"
        return out.getvalue(), beside.getvalue()
    folder = Path("bin").absolute()
    folder.mkdir(exist_ok=True)
    if not (folder / "python").exists():
        (folder / "python").symlink_to(sys.executable)
    environment = {**os.environ, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(command, shell=True, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder in which the commands have been run, with their output."""
    folder = tmp_path_factory.mktemp("readme")
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # a model this small only loses by sharing its work
    with contextlib.chdir(folder):
        outputs = [run_one(command) for command, _ in typed_along()]
    torch.set_num_threads(threads)
    return folder, outputs


@pytest.mark.slow
def test_commands_print_what_the_readme_says(place):
    _, outputs = place
    for (command, expected), (out, beside) in zip(typed_along(), outputs, strict=True):
        printed = steady(out) + steady(beside)
        for line in steady(expected):
            if "pretrain recipe.toml" in command and not command.startswith("clozeworks init"):
                assert shape(line) in map(shape, printed), command
            elif " fill " in command:
                continue
            else:
                assert line in printed, command


@pytest.mark.slow
def test_what_the_readme_leaves_out_it_marks(place):
    _, outputs = place
    for (command, expected), (out, _) in zip(typed_along(), outputs, strict=True):
        if "…" not in expected.splitlines():
            assert len(steady(expected)) >= len(steady(out)), command


@pytest.mark.slow
def test_the_model_learned_its_text(place):
    """What is shown to be filled in is; rounding of another machine changes the scores."""
    _, outputs = place
    for (command, expected), (out, _) in zip(typed_along(), outputs, strict=True):
        if " fill " in command:
            said, shown = steady(out), steady(expected)
            assert said[0] == shown[0] and len(said) == len(shown)
            assert float(said[1].split()[0]) > 0.4


@pytest.mark.slow
def test_python_runs(place, monkeypatch):
    folder, _ = place
    monkeypatch.chdir(folder)
    rows = ["text,label", *["学生很喜欢图书馆,好评", "图书馆太冷了,差评"] * 10]
    Path("reviews.csv").write_text("\n".join(rows), encoding="utf-8")
    names: dict[str, object] = {}
    for code in blocks(CHINESE, "python"):
        exec(compile(code, "README.zh.md", "exec"), names)
    assert names["vectors"].shape == (2, 128)
    assert {guess.word for guess in names["filled"].gaps[0]} == {"学", "教"}
    assert names["filled"].best == "学生在图书馆学习。"
    assert len(names["tokens"].tokens) == len(names["tokens"].vectors)
    assert set(names["reviewer"].task.labels) == {"差评", "好评"}
    assert (folder / "copy" / "1_Pooling" / "config.json").exists()


def test_python_is_that_of_the_english_one():
    """The same calls; only texts, names of folders and comments differ."""

    def calls(text):
        code = "".join(blocks(text, "python"))
        return re.findall(r"[\w.]+\(", re.sub(r"#.*|\"[^\"]*\"", "", code))

    assert calls(CHINESE) == calls(ENGLISH)


def test_what_was_measured_is_the_same():
    def fast(text, name):
        return re.search(rf"^- \*\*{name}\*\*.*?(?=^\S|^$)", text, re.DOTALL | re.MULTILINE).group()

    english, chinese = fast(ENGLISH, "Fast"), fast(CHINESE, "快")
    assert len(NUMBER.findall(english)) > 10
    assert sorted(NUMBER.findall(chinese)) == sorted(NUMBER.findall(english))


def test_the_quick_start_prints_the_same():
    def shown(text):
        return next(
            block for block in blocks(text, "console") if "$ clozeworks quickstart" in block
        )

    assert set(NUMBER.findall(shown(CHINESE))) == set(NUMBER.findall(shown(ENGLISH)))
    assert shown(CHINESE) == shown(ENGLISH)


def test_the_table_has_the_same_commands():
    def commands(text):
        rows = re.findall(r"^\| (`clozeworks.*?) \| ", text, re.MULTILINE)
        return [re.findall(r"`[^`]+`", row) for row in rows]

    assert len(commands(ENGLISH)) > 10
    assert commands(CHINESE) == commands(ENGLISH)


def test_it_has_the_same_parts():
    def parts(text):
        heads = len(re.findall(r"^## ", text, re.MULTILINE))
        promises = len(re.findall(r"^- \*\*", text, re.MULTILINE))
        folders = re.findall(r"^  (\w+/) ", text, re.MULTILINE)
        return heads, promises, folders

    assert parts(CHINESE) == parts(ENGLISH)


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)#]+)\)", CHINESE):
        assert (ROOT / target).exists(), target
    assert "](README.md)" in "\n".join(CHINESE.splitlines()[:5])


def test_it_can_be_read_in_one_sitting():
    lines = re.sub(r"\]\([^)]*\)", "]", CHINESE).splitlines()  # where links lead is not read
    assert len(lines) <= 200
    assert all(len(line) <= 120 for line in lines if not line.startswith("| "))


def test_lines_end_where_a_space_does_no_harm():
    """A page shows the end of a line as a space; between two characters of a sentence it jars."""
    prose = BLOCK.sub("", CHINESE)
    assert not re.search(r"[\u4e00-\u9fff]\n *[\u4e00-\u9fff]", prose)
