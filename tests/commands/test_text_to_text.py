"""`clozeworks text-to-text`: answers come steadily, and who stops it keeps them."""

import json
import re
import signal
import time

import pytest

import clozeworks as cw
from clozeworks.language_model.model import LanguageModel
from clozeworks.tasks.text_to_text.items import SourceItem
from clozeworks.tasks.text_to_text.task import TextToText


@pytest.fixture
def many(tmp_path):
    path = tmp_path / "many.txt"
    path.write_text("".join(f"The cat sat {number}\n" for number in range(3000)))
    return path


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_with_a_file_keeps_the_answers(gpt, start, many, tmp_path, number):
    out = tmp_path / "o.jsonl"
    process = start(["-m", "clozeworks", "text-to-text", gpt, many, "--out", out])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        if any(kept.stat().st_size for kept in tmp_path.glob(".o.jsonl*")):
            break
        time.sleep(0.02)
    process.send_signal(number)
    _, told = process.communicate(timeout=60)
    partial = tmp_path / "o.partial.jsonl"
    lines = [json.loads(line) for line in partial.read_text().splitlines()]
    assert 0 < len(lines) < 3000 and not out.exists()
    assert [line["source"] for line in lines] == [f"The cat sat {n}" for n in range(len(lines))]
    assert process.returncode == (130 if number == signal.SIGINT else 143)
    assert f"\nStopped. {len(lines):,} of about 3," in told and "Traceback" not in told
    assert told.endswith(
        f" a second until then; answers in {partial}; the same command with --resume goes on "
        "there.\n"
    )
    assert not list(tmp_path.glob(".o.jsonl*"))


def test_stopped_without_a_file_has_printed_the_answers(gpt, start, many):
    process = start(["-m", "clozeworks", "text-to-text", gpt, many])
    first = "".join(process.stdout.readline() for _ in range(TextToText.chunk_items + 1))
    process.send_signal(signal.SIGINT)
    # Trap: communicate does not give what readline has read ahead.
    lines = [json.loads(line) for line in (first + process.stdout.read()).splitlines()]
    told = process.stderr.read()
    assert TextToText.chunk_items < len(lines) < 3000 and process.wait(timeout=60) == 130
    assert re.search(
        r"\nStopped. [1-9][0-9,]* of about 3,\d+ texts in .* a second until then.\n$", told
    )


def test_a_slip_names_the_command_as_it_is_typed(gpt, command):
    outcome = command("text-to-text", gpt, "a", "--bogus")
    assert outcome.code == 2 and outcome.err.endswith("See: clozeworks text-to-text --help\n")


@pytest.mark.parametrize("suffix", [".txt", ".jsonl"])
def test_chunks_are_small_and_change_nothing(gpt, command, tmp_path, monkeypatch, suffix):
    texts = [f"The cat {number}" for number in range(7)]
    path = tmp_path / f"a{suffix}"
    as_line = str if suffix == ".txt" else lambda text: json.dumps({"source": text})
    path.write_text("".join(f"{as_line(text)}\n" for text in texts))
    asked, shares = [], []

    def noted(self, items, *arguments, **options):
        asked.append(len(items))
        return ask(self, items, *arguments, **options)

    def told(self, done, total):
        shares.append(done / total)

    ask = LanguageModel.predict
    monkeypatch.setattr(LanguageModel, "predict", noted)
    monkeypatch.setattr("clozeworks.display.progress.ProgressBar.__call__", told)
    monkeypatch.setattr(TextToText, "chunk_items", 3)
    found = command("text-to-text", gpt, path)
    assert found.code == 0 and asked == [3, 3, 1]
    assert shares[0] < 0.5 and shares[-1] == pytest.approx(1)
    answers = cw.load(gpt).text_to_text([SourceItem(text) for text in texts])
    assert [json.loads(line)["text"] for line in found.out.splitlines()] == [
        answer.text for answer in answers
    ]
