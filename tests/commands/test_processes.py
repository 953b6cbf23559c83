"""What only shows in a process of its own: signals, pipes, and what is imported."""

import ast
import json
import os
import select
import signal
import time
from pathlib import Path

import numpy as np
import pytest

import clozeworks as cw

SOURCE = Path(__file__).resolve().parents[2] / "src"

# The real command, with a line of progress at every batch rather than every few seconds.
EMBED = """
import sys
from clozeworks.cli import main
from clozeworks.display import progress
progress.ProgressBar.__init__.__kwdefaults__["every"] = 0.0
main.main(["embed", *sys.argv[1:]])
"""


@pytest.mark.parametrize("budget", [pytest.param(20_000, marks=pytest.mark.slow), 1024])
def test_an_interrupted_command_leaves_everything_as_it_was(start, tiny_models, tmp_path, budget):
    source = tmp_path / "a.txt"
    source.write_text("the cat sat on the mat\n" * 150_000, encoding="utf-8")
    codes, said = {}, {}
    for number in (signal.SIGINT, signal.SIGTERM):
        out = tmp_path / f"{number}.npy"
        out.write_bytes(b"old")
        arguments = [
            tiny_models["bert"],
            source,
            "--out",
            out,
            "--overwrite",
            "--batch-tokens",
            budget,
        ]
        # One after the other: the second would be done while the first is waited for.
        process = start(["-c", EMBED, *arguments])
        try:
            assert " tokens, " in process.stderr.readline()
            for _ in range(3):  # whoever is impatient sees no traceback
                process.send_signal(number)
                time.sleep(0.005)
            # Not communicate: it would miss what reading a line has already buffered.
            codes[number] = process.wait(timeout=20)
            said[number] = process.stderr.read()
        finally:
            process.kill()
    assert codes == {signal.SIGINT: 130, signal.SIGTERM: 143}
    assert not any("Traceback" in text for text in said.values())
    left = {path.name for path in tmp_path.iterdir()}
    for number, text in said.items():
        assert (tmp_path / f"{number}.npy").read_bytes() == b"old"
        partial = tmp_path / f"{number}.partial.npy"
        if "\nStopped. Nothing was left half-written.\n" in text:  # in the first chunk
            assert not partial.exists()
        else:
            count = len(np.load(partial))
            assert f"\nStopped. {count:,} of 150,000 texts in " in text
            assert f" s until then; vectors in {partial}; " in text
    kept = {path.name for path in tmp_path.glob("*.partial.npy")}
    assert left == {"15.npy", "2.npy", "a.txt", *kept}


# For each line of the entry point that a command comes to, a process with a signal at this line.
AT_EVERY_LINE = """
import os, signal, sys
import clozeworks.errors
from clozeworks.cli import main
def interrupt(at):
    passed = [0]
    def trace(frame, event, argument):
        if frame.f_code.co_filename == main.__file__ and event == "line":
            passed[0] += passed[0] > 0 or frame.f_code.co_name == "_prepare_output"
            if passed[0] == at:
                os.write(1, b"!")
                signal.raise_signal(signal.SIGINT)
        return trace
    sys.settrace(trace)
at, said = 0, "!"
while "!" in said:
    at += 1
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(writing, 1)
        os.dup2(writing, 2)
        interrupt(at)
        main.main(["--version"])
    os.close(writing)
    with os.fdopen(reading) as file:
        said = file.read()
    print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said])
"""


def test_a_signal_may_come_at_every_line_of_the_entry_point(start):
    out, err = start(["-c", AT_EVERY_LINE]).communicate(timeout=300)
    ends = [ast.literal_eval(line) for line in out.splitlines()]
    assert err == "" and len(ends) > 20
    stopped = "!\nStopped. Nothing was left half-written.\n"
    version = f"clozeworks {cw.__version__}\n"
    assert {(code, said.replace(version, "")) for code, said in ends[:-1]} == {
        (130, stopped),
        (0, "!"),
    }
    assert ends[-1] == [0, version]


# An import that a signal comes into, and a command that would never end.
IN_AN_IMPORT = """
import signal, sys, time
from clozeworks.cli import main
def answer(arguments):
    import interrupted
    print(interrupted.whole, flush=True)
    while True:
        time.sleep(0.01)
main._answer = answer
main.main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_waits_for_the_end_of_an_import(start, tmp_path, number, code):
    module = f"import signal, time\nsignal.raise_signal({number})\ntime.sleep(0.1)\nwhole = True\n"
    (tmp_path / "interrupted.py").write_text(module)
    path = os.pathsep.join([str(tmp_path), str(SOURCE)])
    process = start(["-c", IN_AN_IMPORT], PYTHONPATH=path)
    assert process.communicate(timeout=60) == (
        "True\n",
        "\nStopped. Nothing was left half-written.\n",
    )
    assert process.returncode == code


IN_A_FINALIZER = """
import signal, time
from clozeworks.cli import main
class Finalized:
    def __del__(self):
        signal.raise_signal({number})
def answer(arguments):
    Finalized()
    print("ignored", flush=True)
    while True:
        time.sleep(0.01)
main._answer = answer
main.main()
"""


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_that_python_ignored_comes_again(start, number, code):
    """What a finalizer raises is only printed, and the command would go on."""
    process = start(["-c", IN_A_FINALIZER.format(number=int(number))])
    assert process.communicate(timeout=60) == (
        "ignored\n",
        "\nStopped. Nothing was left half-written.\n",
    )
    assert process.returncode == code


REPLACED = """
import signal, sys
from clozeworks.cli import main
from clozeworks.errors import InputError
def answer(arguments):
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        raise {error}
main._answer = answer
main.main()
"""


@pytest.mark.parametrize("error", ["ValueError('no shape')", "InputError('a is damaged.')"])
def test_what_a_signal_raised_may_be_replaced_by_another_error(start, error):
    """As by libraries written in C, which tell of any failure of what they called in one way."""
    process = start(["-c", REPLACED.format(error=error)])
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (130, "\nStopped. Nothing was left half-written.\n")


TWICE = """
import signal
from clozeworks.cli import main
def answer(arguments):
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        signal.raise_signal(signal.SIGTERM)
        print("tidied", flush=True)
main._answer = answer
main.main()
"""


def test_a_second_signal_does_not_disturb_the_way_out(start):
    process = start(["-c", TWICE])
    stopped = "\nStopped. Nothing was left half-written.\n"
    assert process.communicate(timeout=60) == ("tidied\n", stopped)
    assert process.returncode == 130


def test_a_reader_that_leaves_early(start, tiny_models, tmp_path):
    source = tmp_path / "a.txt"
    source.write_text("the cat sat on the mat\n" * 2000, encoding="utf-8")
    process = start(["-m", "clozeworks", "embed", tiny_models["bert"], source])
    assert process.stdout.readline().startswith('{"text": "the cat')
    process.stdout.close()
    err = process.stderr.read()
    process.wait(timeout=30)
    assert process.returncode == 0 and err == ""


def test_an_output_that_is_held_up(start, tiny_models, tmp_path):
    """As by Ctrl-Z: a line that no pipe takes at once is then written in parts."""
    text = "the cat sat on the mat " * 10_000
    (tmp_path / "a.txt").write_text(text + "\nthe dog\n", encoding="utf-8")
    process = start(
        ["-m", "clozeworks", "embed", tiny_models["bert"], tmp_path / "a.txt", "--truncate"],
        PYTHONUNBUFFERED="1",
    )
    assert select.select([process.stdout], [], [], 30)[0]
    for number in (signal.SIGSTOP, signal.SIGCONT):
        time.sleep(0.2)  # first until the pipe is full
        process.send_signal(number)
    time.sleep(0.2)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert [json.loads(line)["text"] for line in out.splitlines()] == [text, "the dog"]


FULL = """
import os, sys
os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
from clozeworks.cli.main import main
main(["fill", sys.argv[1], "the [MASK]"])
"""


def test_an_output_that_takes_nothing_or_not_everything(start, tiny_models):
    """A full disk behind standard output, and a terminal without the text's characters."""
    bert = tiny_models["bert"]
    full = start(["-c", FULL, bert])
    fill = ["-m", "clozeworks", "fill", bert, "北京的[MASK]", "-k", "1"]
    ascii_only = start(fill, PYTHONIOENCODING="ascii")
    out, err = ascii_only.communicate(timeout=30)
    assert (ascii_only.returncode, err) == (0, "")
    assert out.startswith("\\u5317\\u4eac\\u7684")
    _, err = full.communicate(timeout=30)
    assert full.returncode == 2
    assert err == (
        "clozeworks: The output cannot be used (No space left on device); fix this first.\n"
    )


def test_help_imports_nothing_heavy(start):
    script = (
        "import sys; from clozeworks.cli.main import run\n"
        "for arguments in ([], ['--help'], ['--version'], ['fill', '--help'], ['nonsense']):\n"
        "    run(arguments)\n"
        "heavy = ('torch', 'numpy', 'tokenizers', 'safetensors', 'huggingface_hub')\n"
        "sys.exit(str([name for name in heavy if name in sys.modules]))"
    )
    _, err = start(["-c", script]).communicate(timeout=30)
    assert err.splitlines()[-1] == "[]"


NOWHERE = """
import os, sys
os.chdir(sys.argv[1])
os.rmdir(sys.argv[1])
from clozeworks.cli.main import main
main(sys.argv[2:])
"""


def test_a_working_directory_that_is_gone(start, tiny_models, tmp_path):
    """A library that torch needs would end the process without it."""
    (tmp_path / "gone").mkdir()
    process = start(["-c", NOWHERE, tmp_path / "gone", "show", tiny_models["bert"]])
    _, err = process.communicate(timeout=30)
    assert process.returncode == 2
    assert err == (
        "clozeworks: The folder you are in was removed; change to another one first (cd).\n"
    )
