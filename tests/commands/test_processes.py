"""What only shows in a process of its own: signals, pipes, and what is imported."""

import json
import select
import signal
import time

import pytest

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
    assert said[signal.SIGINT].endswith("\nStopped. Nothing was left half-written.\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["15.npy", "2.npy", "a.txt"]
    assert {path.read_bytes() for path in tmp_path.glob("*.npy")} == {b"old"}


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
