"""`clozeworks generate`: prompts from the command line, files and pipes; texts kept on the way."""

import json
import signal
import time

import pytest

import clozeworks as cw
from clozeworks.text.style import GPT2_STYLE
from clozeworks.text.train import train_from_iterator

SENTENCES = ["The cat sat on the mat and the dog lay on the rug.", "Paris lies on the Seine."] * 4


@pytest.fixture(scope="module")
def gpt(tmp_path_factory):
    tokenizer = train_from_iterator(SENTENCES, kind="bpe", size=330, style=GPT2_STYLE)
    model = cw.new("gpt2", tokenizer, n_embd=32, n_layer=2, n_head=2, n_positions=4096)
    return model.save(tmp_path_factory.mktemp("gpt") / "model")


def test_one_prompt(gpt, command):
    found = command("generate", str(gpt), "The cat", "--tokens", "7")
    assert found.code == 0
    assert found.out == cw.load(gpt).generate("The cat", tokens=7).text + "\n"
    assert "1 text, 7 tokens in" in found.err
    assert "1 text ended at the limit, without the model's end; raise --tokens" in found.err


def test_a_stop_string_never_met_is_told(gpt, command):
    found = command("generate", str(gpt), "The", "--tokens", "3", "--stop", "zzz")
    assert found.code == 0 and "without the model's end or 'zzz'; raise" in found.err


def test_several_prompts_are_json_lines(gpt, command, tmp_path):
    settings = ["--tokens", "5", "--top-p", "0.9", "--seed", "2", "-n", "2", "--others", "2"]
    found = command("generate", str(gpt), "The", "on", *settings)
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert [line["prompt"] for line in lines] == ["The", "The", "on", "on"]
    expected = cw.load(gpt).generate(["The", "on"], tokens=5, top_p=0.9, seed=2, texts=2)
    assert [line["text"] for line in lines] == [one.text for many in expected for one in many]
    assert len(lines[0]["tokens"][0]["others"]) == 2
    (tmp_path / "prompts.csv").write_text("prompt,label\nThe,a\non,b\n")
    out = tmp_path / "texts.jsonl"
    again = command(
        "generate", str(gpt), str(tmp_path / "prompts.csv"), *settings, "--out", str(out)
    )
    assert again.code == 0 and not again.out
    assert "Columns: text=prompt" in again.err and f"texts in {out}" in again.err
    assert out.read_text() == found.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--beams", "4", "--groups", "2", "--sample"], "one excludes the other"),
        (["--beams", "9999"], "beams is 9,999; the vocabulary has 294 entries"),
        (["--budget", "9"], "--budget has no effect on generate"),
        (["--temperature", "-1"], "temperature is -1.0; it must be above 0."),
        (["--early", "perhaps"], "early"),
    ],
    ids=str,
)
def test_refusals(gpt, command, arguments, said):
    found = command("generate", str(gpt), "The", *arguments)
    assert (found.code, found.out) == (2, "") and said in found.err


def test_a_chat(gpt, command):
    found = command("generate", gpt, "The cat", "--chat", "--tokens", 4)
    assert found.code == 0
    assert "The tokenizer says nothing of chats; a plain template is used." in found.err
    assert found.out == cw.load(gpt).generate("The cat", chat=True, tokens=4).text + "\n"


def test_a_model_that_cannot_write(command, tiny_models):
    found = command("generate", str(tiny_models["bert"]), "The")
    assert found.code == 2 and "cannot write texts" in found.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_writing(gpt, start, number):
    process = start(["-m", "clozeworks", "generate", gpt, "The", "--tokens", 4000])
    seen = process.stdout.read(1)
    process.send_signal(number)
    rest, told = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 143)
    assert seen + rest, "what was written stands there"
    assert "Stopped." in told and "until then" in told and "Traceback" not in told


def test_stopped_with_a_file_keeps_finished_texts(gpt, start, tmp_path):
    prompts, out = tmp_path / "prompts.txt", tmp_path / "texts.jsonl"
    prompts.write_text("The cat\n" * 200)
    arguments = ["generate", gpt, prompts, "--tokens", 300, "--out", out]
    process = start(["-m", "clozeworks", *arguments])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        kept = list(tmp_path.glob(".texts.jsonl*"))
        if kept and kept[0].stat().st_size:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    ended = [line for line in lines if line["ended"]]
    assert 0 < len(ended) < 200 and lines[: len(ended)] == ended
    assert all(line["prompt"] == "The cat" for line in lines)
    assert process.returncode == 130 and f"until then; texts in {out}" in told


class Interrupted:
    """A model that is stopped while the third of its texts comes."""

    def __init__(self, model):
        self.model = model
        self.encode = model.writer().encode

    def writer(self, *, chat):
        return self

    def stream(self, prompts, settings):
        ends = 0
        for fresh in self.model.stream(prompts, settings=settings):
            yield fresh
            ends += fresh.whole is not None
            if ends == 2:
                raise KeyboardInterrupt


def test_what_was_written_out_of_order_is_kept(gpt, command, tmp_path, monkeypatch):
    import clozeworks.language_model
    from clozeworks.tasks import write

    model = cw.load(gpt)
    monkeypatch.setattr(clozeworks.language_model, "load", lambda name: Interrupted(model))
    monkeypatch.setattr(write, "ROWS", 2)  # the longest prompts come first
    out = tmp_path / "texts.jsonl"
    prompts = ["The", "The cat sat on the mat", "The cat sat on the rug and the dog"]
    found = command("generate", str(gpt), *prompts, "--tokens", "3", "--out", str(out))
    assert found.code == 130 and "2 texts, 6 tokens in" in found.err
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    assert [line["prompt"] for line in lines] == prompts[1:]
    assert [line["ended"] for line in lines] == ["length", "length"]


def test_a_text_that_was_only_begun_is_kept(gpt, command, tmp_path, monkeypatch):
    import clozeworks.language_model

    class Stopped(Interrupted):
        def stream(self, prompts, settings):
            for number, fresh in enumerate(self.model.stream(prompts, settings=settings)):
                yield fresh
                if number == 5:
                    raise KeyboardInterrupt

    model = cw.load(gpt)
    monkeypatch.setattr(clozeworks.language_model, "load", lambda name: Stopped(model))
    out = tmp_path / "texts.jsonl"
    found = command("generate", str(gpt), "Paris", "Paris", "--tokens", "40", "--out", str(out))
    assert found.code == 130 and "0 texts and 2 unfinished" in found.err
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    whole = model.generate("Paris", tokens=40).text
    assert len(lines) == 2
    for line in lines:
        assert line["ended"] is None and line["text"] and whole.startswith(line["text"])


def test_a_late_bad_prompt_is_known_before_the_first_answer(gpt, command, tmp_path):
    prompts, out = tmp_path / "prompts.txt", tmp_path / "texts.jsonl"
    prompts.write_text("The\n" * 300 + "The cat sat " * 3000 + "\n")
    found = command("generate", str(gpt), str(prompts), "--tokens", "1", "--out", str(out))
    assert (found.code, out.exists()) == (2, False)
    assert "prompt 301 has " in found.err and " a second" not in found.err


def test_nothing_to_answer_and_dropped_rows(gpt, command, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("")
    found = command("generate", str(gpt), str(prompts))
    assert found.code == 2 and "holds nothing to ask about" in found.err
    prompts.write_text("The\n\nThe cat\n")
    found = command("generate", str(gpt), str(prompts), "--tokens", "1", "--skip-bad-rows")
    assert found.code == 0 and "1 bad row dropped, the first: " in found.err


def test_a_full_model_is_not_told_to_write_more(gpt, command):
    prompt = "The cat " * 1364
    found = command("generate", str(gpt), prompt, "--tokens", "9999")
    assert found.code == 0
    assert "1 of them filled the places the model has; shorten their prompts." in found.err
