"""`clozeworks generate`: prompts from the command line, files and pipes; texts kept on the way."""

import json
import re
import signal
import time

import pytest
import torch

import clozeworks as cw


def test_one_prompt(gpt, command):
    found = command("generate", str(gpt), "The cat", "--max-new-tokens", "7")
    assert found.code == 0
    assert found.out == cw.load(gpt).generate("The cat", max_new_tokens=7).text + "\n"
    assert "1 text, 7 tokens in" in found.err
    assert "1 text ended at the limit, without the model's end; raise --max-new-tokens" in found.err


def test_a_stop_string_never_met_is_told(gpt, command):
    found = command("generate", str(gpt), "The", "--max-new-tokens", "3", "--stop", "zzz")
    assert found.code == 0 and "without the model's end or 'zzz'; raise" in found.err


def test_several_prompts_are_json_lines(gpt, command, tmp_path):
    settings = [
        "--max-new-tokens",
        "5",
        "--top-p",
        "0.9",
        "--seed",
        "2",
        "-n",
        "2",
        "--top-logprobs",
        "2",
    ]
    found = command("generate", str(gpt), "The", "on", *settings)
    lines = [json.loads(line) for line in found.out.splitlines()]
    assert [line["prompt"] for line in lines] == ["The", "The", "on", "on"]
    expected = cw.load(gpt).generate(
        ["The", "on"], max_new_tokens=5, top_p=0.9, seed=2, num_return_sequences=2
    )
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


def test_alternatives_that_would_not_be_seen_are_refused(gpt, command):
    typed = ("generate", gpt, "The cat", "--max-new-tokens", 2, "--top-logprobs", 3)
    refused = command(*typed)
    assert refused.code == 2 and not refused.out
    assert " ".join(refused.err.split()).endswith(
        "--top-logprobs is 3; text for people shows no alternatives; add --json, or leave it out."
    )
    assert command(*typed, "--no-json", "--num-return-sequences", 2, "--sample").code == 2
    assert len(json.loads(command(*typed, "--json").out)["tokens"][0]["others"]) == 3


def test_the_help_is_as_wide_as_the_terminal(command):
    """Sentences are wrapped where they are shown, not where the source wraps them."""
    shown = command("generate", "--help").out
    about = [line for line in shown.split("(T5).")[1].split("╭")[0].split("\n") if line.strip()]
    assert len(about) == 2 and about[1].startswith("answered in order, each as if")
    assert "--empty-" not in shown and "default: ()" not in shown


def test_the_help_names_only_what_can_be_given(command):
    assert "--batch-tokens" not in command("generate", "--help").out
    assert "--batch-tokens" in command("text-to-text", "--help").out


def test_the_help_names_the_columns_and_the_form_that_hold(gpt, command):
    prompts, sources = (
        " ".join(command(name, "--help").out.replace("│", " ").split())
        for name in ("generate", "text-to-text")
    )
    assert "holds the prompts, by name or number: text=question. Detected if not given." in prompts
    assert "a terminal or one prompt is typed, JSON otherwise." in prompts
    assert (
        "such as source=2. Detected if not given. Roles: messages, source, input, prefix" in sources
    )
    assert "text=review" not in prompts + sources
    assert not command("generate", gpt, "The cat", "--max-new-tokens", 2).out.startswith("{")


@pytest.mark.parametrize(
    "arguments",
    [
        ["--num-beams", "9999"],
        ["--max-new-tokens", "2", "--required-word", "the dog lay on the rug"],
        ["on", "--max-new-tokens", "2", "--required-word", "the dog lay on the rug", "--json"],
    ],
    ids=str,
)
def test_what_was_never_begun_is_not_summed_up(gpt, command, arguments):
    found = command("generate", gpt, "The", *arguments)
    assert (found.code, found.out) == (2, "")
    assert found.err.startswith("clozeworks: ") and found.err.count("\n") == 1


def test_a_chat(gpt, command):
    found = command("generate", gpt, "The cat", "--chat", "--max-new-tokens", 4)
    assert found.code == 0
    assert "The tokenizer has no chat template; a plain one is used." in found.err
    assert found.out == cw.load(gpt).generate("The cat", chat=True, max_new_tokens=4).text + "\n"


def test_a_model_that_cannot_write(command, tiny_models):
    found = command("generate", str(tiny_models["bert"]), "The")
    assert found.code == 2 and "cannot write texts" in found.err


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped_while_writing(gpt, start, number):
    process = start(["-m", "clozeworks", "generate", gpt, "The", "--max-new-tokens", 4000])
    seen = process.stdout.read(1)
    process.send_signal(number)
    rest, told = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else 143)
    assert seen + rest, "what was written stands there"
    assert re.search(r"0 texts and 1 unfinished, [1-9][0-9,]* tokens? in", told)
    assert "Stopped." in told and "until then" in told and "Traceback" not in told


def test_stopped_with_a_file_keeps_finished_texts(gpt, start, tmp_path):
    prompts, out = tmp_path / "prompts.txt", tmp_path / "texts.jsonl"
    prompts.write_text("The cat\n" * 200)
    arguments = ["generate", gpt, prompts, "--max-new-tokens", 300, "--out", out]
    process = start(["-m", "clozeworks", *arguments])
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        kept = list(tmp_path.glob(".texts.jsonl*"))
        if kept and kept[0].stat().st_size:
            break
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=60)
    partial = tmp_path / "texts.partial.jsonl"
    lines = [json.loads(line) for line in partial.read_text().splitlines()]
    ended = [line for line in lines if line["finish_reason"]]
    assert 0 < len(ended) < 200 and lines[: len(ended)] == ended
    assert all(line["prompt"] == "The cat" for line in lines)
    assert process.returncode == 130 and f"until then; texts in {partial}" in told
    assert f"\nStopped. {len(ended):,} of 200 texts" in told and not out.exists()


def kept(out):
    """The lines that were kept of work that was stopped; the file itself is not there."""
    assert not out.exists()
    return out.with_name(f"{out.stem}.partial.jsonl").read_text().splitlines()


class Interrupted:
    """A model that is stopped while the third of its texts comes."""

    def __init__(self, model):
        self.model = model
        self.check = model.writer().check

    def writer(self, *, chat):
        return self

    def stream(self, prompts, settings, *, first=1):
        ends = 0
        for fresh in self.model.stream(prompts, settings=settings):
            yield fresh
            ends += fresh.whole is not None
            if ends == 2:
                raise KeyboardInterrupt


def test_what_was_written_out_of_order_is_kept(gpt, command, tmp_path, monkeypatch):
    import clozeworks.language_model
    from clozeworks.inference import prompts as write_batches

    model = cw.load(gpt)
    monkeypatch.setattr(
        clozeworks.language_model, "load", lambda name, **options: Interrupted(model)
    )
    monkeypatch.setattr(write_batches, "ROWS", 2)  # the longest prompts come first
    out = tmp_path / "texts.jsonl"
    prompts = ["The", "The cat sat on the mat", "The cat sat on the rug and the dog"]
    found = command("generate", str(gpt), *prompts, "--max-new-tokens", "3", "--out", str(out))
    assert found.code == 130 and "2 of 3 texts, 6 tokens in" in found.err
    lines = [json.loads(line) for line in kept(out)]
    assert [line["prompt"] for line in lines] == prompts[1:]
    assert [line["finish_reason"] for line in lines] == ["length", "length"]


class Stopped(Interrupted):
    """A model that is stopped behind six tokens."""

    def stream(self, prompts, settings, *, first=1):
        for number, fresh in enumerate(self.model.stream(prompts, settings=settings), start=1):
            yield fresh
            if number == 6:
                raise KeyboardInterrupt


@pytest.fixture
def stopped(gpt, monkeypatch):
    import clozeworks.language_model

    model = cw.load(gpt)
    monkeypatch.setattr(clozeworks.language_model, "load", lambda name, **options: Stopped(model))
    return model


def test_a_text_that_was_only_begun_is_kept(gpt, command, tmp_path, stopped):
    out = tmp_path / "texts.jsonl"
    found = command("generate", gpt, "Paris", "Paris", "--max-new-tokens", 40, "--out", out)
    assert found.code == 130 and "0 of 2 texts and 2 unfinished, 6 tokens in" in found.err
    lines = [json.loads(line) for line in kept(out)]
    whole = stopped.generate("Paris", max_new_tokens=40)
    assert len(lines) == 2
    for line in lines:
        assert (
            line["finish_reason"] is None and line["text"] and whole.text.startswith(line["text"])
        )
        assert [token["token"] for token in line["tokens"]] == [
            token.text for token in whole.tokens[:3]
        ]
        logs = [token.log for token in whole.tokens[:3]]
        assert [token["log"] for token in line["tokens"]] == pytest.approx(logs, abs=1e-5)
        assert line["score"] == pytest.approx(sum(logs), abs=1e-5)


def test_what_was_held_back_is_kept(gpt, command, tmp_path, stopped):
    whole = stopped.generate("Paris", max_new_tokens=6).text
    stop = ["--stop", whole + " and no further"]  # all that is written may be its beginning
    found = command("generate", gpt, "Paris", "--max-new-tokens", 40, *stop)
    assert (found.code, found.out) == (130, whole + "\n")
    assert "0 texts and 1 unfinished, 6 tokens in" in found.err
    out = tmp_path / "texts.jsonl"
    command("generate", gpt, "Paris", "--max-new-tokens", 40, *stop, "--out", out)
    assert [json.loads(line)["text"] for line in kept(out)] == [whole]


def test_a_search_has_nothing_to_keep_before_it_ends(gpt, command, tmp_path, monkeypatch):
    from clozeworks.inference.generate import _GenerationBatch

    whole = _GenerationBatch.search

    def interrupted(self, beams):
        if 0 not in self.numbers:
            raise KeyboardInterrupt
        yield from whole(self, beams)

    monkeypatch.setattr(_GenerationBatch, "search", interrupted)
    monkeypatch.setattr("clozeworks.inference.prompts.ROWS", 2)
    out = tmp_path / "texts.jsonl"
    options = ["--num-beams", 2, "--max-new-tokens", 3, "--out", out]
    lost = "a search keeps nothing of a text before it ends"
    found = command("generate", gpt, "The", "The cat sat on the mat", *options)
    assert (found.code, found.err) == (130, f"\nStopped. Nothing was kept: {lost}.\n")
    assert not list(tmp_path.iterdir())
    found = command("generate", gpt, "The cat sat on the mat", "The", *options)
    assert found.code == 130 and found.err.startswith("\nStopped. 1 of 2 texts, 3 tokens in ")
    partial = tmp_path / "texts.partial.jsonl"
    assert found.err.endswith(f" a second) until then; {lost}; texts in {partial}.\n")
    assert len(kept(out)) == 1


def test_an_error_on_the_way_keeps_what_was_written(gpt, command, tmp_path, monkeypatch):
    import clozeworks.language_model

    model = cw.load(gpt)
    with torch.no_grad():
        model.model.embeddings.positions.table.weight[20] = float("nan")
    monkeypatch.setattr(clozeworks.language_model, "load", lambda name, **options: model)
    monkeypatch.setattr("clozeworks.cli.commands.generate._CHUNK", 2)
    out = tmp_path / "texts.jsonl"
    prompts = ["The", "on", "The", "on", "The", "The cat sat " * 20]
    found = command("generate", gpt, *prompts, "--max-new-tokens", 3, "--out", out)
    first, second = found.err.splitlines()
    assert first.startswith("4 of 6 texts, 12 tokens in ")
    assert first.endswith(f" until then; texts in {tmp_path / 'texts.partial.jsonl'}.")
    assert found.code == 2
    assert second.startswith("clozeworks: a logit of text 6 is not finite; ")
    assert [json.loads(line)["prompt"] for line in kept(out)] == prompts[:4]


@pytest.mark.parametrize(
    ("last", "options", "said"),
    [
        ("The cat sat " * 3000, [], "prompt 300 has "),
        (
            "The cat " * 1364,
            ["--required-word", "the dog lay on the"],
            "after prompt 300; raise",
        ),
    ],
    ids=["positions", "required words"],
)
def test_a_late_bad_prompt_is_known_before_the_first_answer(
    gpt, command, tmp_path, last, options, said
):
    prompts, out = tmp_path / "prompts.txt", tmp_path / "texts.jsonl"
    prompts.write_text("The\n" * 299 + last + "\n")
    found = command("generate", gpt, prompts, "--max-new-tokens", 30, *options, "--out", out)
    assert (found.code, out.exists()) == (2, False)
    assert said in found.err and " a second" not in found.err


def test_a_prompt_the_memory_does_not_hold_is_numbered_among_all(gpt, command, monkeypatch):
    monkeypatch.setattr("clozeworks.cli.commands.generate._CHUNK", 1)
    much, little = 10**12, 1000
    left = iter([much, much, little])  # it shrinks behind the look at all of them
    monkeypatch.setattr("clozeworks.inference.prompts.available", lambda device: next(left))
    found = command("generate", gpt, "The", "on", "--max-new-tokens", 3, "--json")
    assert found.code == 2 and len(found.out.splitlines()) == 1
    assert "clozeworks: --max-new-tokens is 3; prompt 2 with 3 new tokens" in found.err


def test_nothing_to_answer_and_dropped_rows(gpt, command, tmp_path):
    prompts = tmp_path / "prompts.txt"
    prompts.write_text("")
    found = command("generate", str(gpt), str(prompts))
    assert found.code == 2 and "has no rows; there must be" in found.err
    prompts.write_text("The\n\nThe cat\n")
    found = command("generate", str(gpt), str(prompts), "--max-new-tokens", "1", "--skip-bad-rows")
    assert found.code == 0 and "1 bad row dropped, the first: " in found.err


def test_a_full_model_is_not_told_to_write_more(gpt, command):
    prompt = "The cat " * 1364
    found = command("generate", str(gpt), prompt, "--max-new-tokens", "9999")
    assert found.code == 0
    assert found.err.endswith(
        "; 1 of them filled the positions the model has; lower --max-new-tokens, or shorten their "
        "prompts.\n"
    )


def test_an_empty_prompt_is_told(gpt, command):
    outcome = command("generate", gpt, "", "--max-new-tokens", 3)
    assert outcome.code == 0
    assert "1 prompt is empty; its text may begin in any way." in outcome.err
    outcome = command("generate", gpt, "", "--chat", "--max-new-tokens", 3)
    assert outcome.code == 0 and "in any way" not in outcome.err


def test_a_file_that_appears_meanwhile_is_not_replaced(gpt, command, tmp_path, monkeypatch):
    from clozeworks.inference.generate import TextWriter

    out, stream = tmp_path / "out.jsonl", TextWriter.stream

    def slowly(self, *arguments, **options):
        out.write_text("somebody else's")
        return stream(self, *arguments, **options)

    monkeypatch.setattr(TextWriter, "stream", slowly)
    outcome = command("generate", gpt, "The cat", "--max-new-tokens", 3, "--out", out)
    assert outcome.code == 2 and out.read_text() == "somebody else's"
    (beside,) = set(tmp_path.glob("out*.jsonl")) - {out}
    assert beside.name in outcome.err and '"prompt": "The cat"' in beside.read_text()


def test_stopped_while_its_file_appears(gpt, command, tmp_path, stopped, monkeypatch):
    out, stream = tmp_path / "out.jsonl", Stopped.stream

    def slowly(self, *arguments, **options):
        out.write_text("somebody else's")
        return stream(self, *arguments, **options)

    monkeypatch.setattr(Stopped, "stream", slowly)
    found = command("generate", gpt, "Paris", "Paris", "--max-new-tokens", 40, "--out", out)
    assert found.code == 130 and out.read_text() == "somebody else's"
    assert found.err.startswith("\nStopped. 0 of 2 texts and 2 unfinished, 6 tokens in ")
    partial = tmp_path / "out.partial.jsonl"
    assert found.err.endswith(f" until then; texts in {partial}.\n")
    assert len(partial.read_text().splitlines()) == 2
