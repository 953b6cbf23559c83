"""`clozeworks score` and `clozeworks choose`: what they print and what they refuse."""

import json

import pytest

import clozeworks as cw
from clozeworks.text.tokenizer.styles import GPT2_STYLE
from clozeworks.text.training.train import train_from_iterator

GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 40}
TEXTS = ["The cat sat on the mat.", "A dog ran", "北京 is a city"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tokenizer = train_from_iterator(TEXTS * 3, kind="bpe", size=300, style=GPT2_STYLE)
    model = cw.new("gpt2", tokenizer, initializer_range=0.2, **GPT2)
    return model.save(tmp_path_factory.mktemp("gpt2") / "model")


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "train.csv"
    rows = [f"text {number},{'good' if number % 2 else 'bad'}" for number in range(12)]
    path.write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return path


def test_score_for_people(command, folder, texts):
    outcome = command("score", folder, texts)
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert len(lines) == 3 and lines[0].endswith("The cat sat on the mat.")
    found = cw.load(folder).score(TEXTS)
    assert lines[0].split()[:2] == [f"{found[0].perplexity:,.2f}", str(found[0].count)]
    count = sum(one.count for one in found)
    assert outcome.err.startswith(f"3 texts, {count} tokens: perplexity ")
    assert outcome.err.endswith(" nats a token.\n")


def test_score_as_json(command, folder):
    outcome = command("score", folder, TEXTS[0], "--json")
    record = json.loads(outcome.out)
    found = cw.load(folder).score(TEXTS[0])
    assert record["logprobs"] == pytest.approx(found.logprobs) and record["tokens"] == found.tokens
    assert record["total"] == pytest.approx(found.total)
    assert list(record) == ["text", "total", "count", "perplexity", "tokens", "logprobs", "windows"]


def test_continuations(command, folder, texts, tmp_path):
    behind = tmp_path / "behind.csv"
    behind.write_text("text,answer\na, one\nb, two\nc, three\n", encoding="utf-8")
    outcome = command(
        *("score", folder, texts, "--continuations", behind, "--continuation-column", "answer"),
        "--json",
    )
    records = list(map(json.loads, outcome.out.splitlines()))
    assert [record["continuation"] for record in records] == [" one", " two", " three"]
    expected = cw.load(folder).score(TEXTS[1], " two").total
    assert records[1]["total"] == pytest.approx(expected, abs=1e-5)
    outcome = command("score", folder, "The cat", "--continuations", " sat")
    assert outcome.out.endswith("The cat | sat\n")


def test_windows_are_told(command, folder):
    outcome = command("score", folder, "The cat sat on the mat. " * 20, "--overlap", "10")
    assert "; 1 text read through several windows.\n" in outcome.err


def test_what_is_not_read_of_a_prompt_is_said(command, folder):
    long = "The cat sat on the mat. " * 20
    outcome = command("score", folder, long, "--continuations", "A dog", "--json")
    unread = json.loads(outcome.out)["unread"]
    said = (
        f"The beginning of 1 prompt was not read, {unread} tokens at most: 40 are read with what "
        "follows.\n"
    )
    assert unread > 0 and outcome.err.startswith(said)
    outcome = command("choose", folder, long, "--labels", "good,bad", "--json")
    assert outcome.err.startswith("The beginning of 1 prompt was not read, ")
    assert json.loads(outcome.out)["unread"] > 0


def test_score_refuses(refused, folder, texts, tmp_path):
    refused(
        "--skip-blank is set; with --continuations, texts and continuations would no longer belong "
        "together; leave one of the two out.",
        *("score", folder, texts, "--skip-blank", "--continuations", texts),
    )
    refused(
        "--continuation-column is 'a'; --continuations is missing; name their file, too.",
        *("score", folder, texts, "--continuation-column", "a"),
    )
    short = tmp_path / "short.txt"
    short.write_text("one\n", encoding="utf-8")
    refused(
        f"{short} has 1 text and {texts} 3; each needs one continuation; give as many.",
        *("score", folder, texts, "--continuations", short),
    )


def test_choose_for_people(command, folder):
    outcome = command("choose", folder, "The cat", "--labels", "good, bad")
    found = cw.load(folder).choose("The cat", ["good", "bad"])
    assert outcome.out == f"{found.label}  {found.scores[found.label]:.3f}  The cat\n"
    assert outcome.err == ""


def test_choose_with_words_for_labels(command, folder, tmp_path):
    path = tmp_path / "dev.csv"
    path.write_text("text,label\nThe cat,0\nA dog ran,1\n", encoding="utf-8")
    outcome = command(
        *("choose", folder, path, "--labels", "0=bad,1=good", "--json", "--normalize", "none"),
        *("--template", "{text}\\nIt is {label}"),
    )
    records = list(map(json.loads, outcome.out.splitlines()))
    model = cw.load(folder)
    expected = model.score("A dog ran\nIt is ", "good").total
    assert records[1]["scores"]["1"] == pytest.approx(expected, abs=1e-5)
    assert [record["expected"] for record in records] == ["0", "1"]
    right = sum(record["label"] == record["expected"] for record in records) / 2
    assert f"Accuracy {right:.4f} on 2 texts.\n" in outcome.err


def test_demonstrations(command, folder, table):
    outcome = command(
        *("choose", folder, table, "--shots", "6", "--from", table, "--seeds", "3", "--json")
    )
    assert outcome.code == 0, outcome.err
    assert len(outcome.out.splitlines()) == 12
    assert " of 216 did not fit into 40 tokens.\n" in outcome.err
    assert "on 12 texts, the mean of seeds: " in outcome.err
    assert set(json.loads(outcome.out.splitlines()[0])["scores"]) == {"bad", "good"}
    assert "could not be given" not in outcome.err


def test_demonstrations_that_are_missing_are_said(command, folder, tmp_path):
    few = tmp_path / "few.csv"
    few.write_text("text,label\na,good\nb,bad\nc,good\nd,bad\n", encoding="utf-8")
    outcome = command("choose", folder, few, "--shots", "4", "--from", few, "--seeds", "2")
    assert outcome.code == 0, outcome.err
    assert (
        f"8 demonstrations of 32 could not be given: a text is never shown to itself, and {few} "
        "has too few others.\n"
    ) in outcome.err


def test_choose_refuses(refused, folder, table, tmp_path):
    plain = tmp_path / "plain.csv"
    plain.write_text("text\nThe cat\n", encoding="utf-8")
    refused(
        f"{plain} has no single label in each row; demonstrations need one; name their column with "
        "--columns label=NAME.",
        *("choose", folder, "cat", "--shots", "1", "--from", plain),
    )
    refused(
        "--shots is 3; demonstrations need examples; name --from FILE.",
        *("choose", folder, "cat", "--shots", "3"),
    )
    refused(
        "--seeds is 3; it has no effect without --shots; leave it out, or give --shots.",
        *("choose", folder, "cat", "--labels", "a,b", "--seeds", "3"),
    )
    refused(
        "--description is 'x'; it has no effect without --shots; leave it out, or give --shots.",
        *("choose", folder, "cat", "--labels", "a,b", "--description", "x"),
    )
    refused(
        "--seeds is 0; it must be at least 1.",
        *("choose", folder, "cat", "--shots", "1", "--from", table, "--seeds", "0"),
    )
    refused(
        "--labels is missing; name what to choose from, such as good,bad.",
        *("choose", folder, "cat"),
    )
    refused(
        "the label 'bad' of an example is not among --labels good,evil; add it.",
        *("choose", folder, "cat", "--labels", "good,evil", "--from", table, "--shots", "1"),
    )
    refused(
        "--columns is 'text=1'; the input is not a table; leave it out.",
        *("choose", folder, "cat", "--labels", "a,b", "--columns", "text=1"),
    )


def test_choose_reads_lines_in_other_encodings(command, folder, tmp_path):
    lines = tmp_path / "lines.txt"
    lines.write_bytes("The café\n".encode("latin-1"))
    outcome = command("choose", folder, lines, "--labels", "a,b", "--encoding", "latin-1")
    assert outcome.code == 0 and "The café" in outcome.out


def test_choose_wants_a_word_for_every_label_of_a_file(command, folder, table):
    outcome = command("choose", folder, table, "--labels", "good,evil")
    assert (outcome.code, outcome.out) == (2, "")
    assert (
        f"{table}, row 2: the label is 'bad'; it is not among good, evil, so nothing could be "
        "right; name it, or give it a word, as in --labels 0=negative,1=positive."
    ) in outcome.err
