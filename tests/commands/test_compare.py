"""`clozeworks compare`: two texts, files of pairs, lines with a tab."""

import io
import json
import sys

import pytest

import clozeworks as cw
from clozeworks.tasks.compare import Compare

PAIRS = [("the cat sat", "the dog lay"), ("北京的天气 🙂", "我爱北京"), ("the cat", "the cat")]


@pytest.fixture(scope="module")
def folder(tiny_models, tmp_path_factory):
    task = Compare(labels=("other", "same"))
    return cw.load(tiny_models["bert"]).for_task(task).save(tmp_path_factory.mktemp("p") / "model")


def objects(outcome):
    return [json.loads(line) for line in outcome.out.splitlines()]


def test_two_texts_and_files_of_pairs(command, folder, tmp_path, monkeypatch):
    wanted = cw.load(folder).compare(PAIRS)
    contents = {
        "a.tsv": "premise\thypothesis\n" + "".join(f"{a}\t{b}\n" for a, b in PAIRS),
        "a.csv": "n,s2,s1\n" + "".join(f"1,{b},{a}\n" for a, b in PAIRS),
        "a.jsonl": "".join(json.dumps({"first": a, "second": b}) + "\n" for a, b in PAIRS),
    }
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8")
    lines = "".join(f"{a}\t{b}\n" for a, b in PAIRS).encode()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(lines)))
    for source in [*(tmp_path / name for name in contents), "-"]:
        outcome = command("compare", folder, source)
        assert outcome.code == 0, outcome.err
        assert outcome.err.splitlines()[-1].startswith("3 pairs in ")
        found = objects(outcome)
        assert [(each["first"], each["second"]) for each in found] == PAIRS
        for each, answer in zip(found, wanted, strict=True):
            assert each["scores"] == pytest.approx(answer.scores, abs=1e-5)
    for pair, answer in zip(PAIRS, wanted, strict=True):
        outcome = command("compare", folder, *pair)
        assert outcome.err == ""
        assert objects(outcome)[0]["score"] == pytest.approx(answer.score, abs=1e-5)


def test_a_file_name_beside_a_second_text_is_a_text(command, folder, tmp_path):
    (tmp_path / "a.tsv").write_text("first\tsecond\na\tb\n", encoding="utf-8")
    [found] = objects(command("compare", folder, tmp_path / "a.tsv", "the cat"))
    assert found["first"] == str(tmp_path / "a.tsv")


def test_a_folder_that_only_says_labels_compares_too(command, folder, tmp_path, tiny_models):
    """As published folders do: without clozeworks.json nobody knows for how many texts it is."""
    task = Compare(labels=("other", "same"))
    plain = cw.load(tiny_models["bert"]).for_task(task).save(tmp_path / "plain")
    (plain / "clozeworks.json").unlink()
    wanted = objects(command("compare", folder, "the cat", "the dog"))
    assert objects(command("compare", plain, "the cat", "the dog")) == wanted


def test_both_texts_are_shown(command, folder, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    outcome = command("compare", folder, "the cat " * 30, "北京" * 40, "--no-json")
    label, score, texts = outcome.out.rstrip("\n").split("  ", 2)
    first, second = texts.split(" | ")
    assert label in ("other", "same") and 0.5 <= float(score) <= 1
    assert first.startswith("the cat the") and first.endswith("…")
    assert second.startswith("北京北京") and second.endswith("…")
    assert len(first) <= 25 and len(second) <= 13


def test_what_cannot_be_compared(refused, command, folder, tmp_path, monkeypatch):
    refused(
        "there is one text; compare needs a first text and a second text; give both, or name a "
        "file that exists.",
        *("compare", folder, "the cat"),
    )
    refused(
        "the command line: the second text is empty; give it one.",
        *("compare", folder, "the cat", " "),
    )
    refused(
        "--columns is 'first=1'; the input is a text, not a file; leave it out.",
        *("compare", folder, "the cat", "the dog", "--columns", "first=1"),
    )
    refused(
        "--skip-bad-rows is set; the input is a text, not a file; leave it out.",
        *("compare", folder, "the cat", "the dog", "--skip-bad-rows"),
    )
    for content, sentence in (
        ("one\n", "there is no tab; put one between first text and second text"),
        ("a\tb\tc\n", "there are 2 tabs; put one between first text and second text"),
        ("a\t \n", "the second text is empty; give it one"),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
        refused(
            f"standard input, line 1: {sentence}, or drop the row with --skip-bad-rows.",
            *("compare", folder, "-"),
        )
    refused(
        f"{folder} cannot classify texts: it can compare texts; use a checkpoint with such a head "
        "(…ForSequenceClassification), or train one with clozeworks finetune.",
        *("classify", folder, "the cat"),
    )
    (tmp_path / "a.txt").write_text("a\n", encoding="utf-8")
    refused(
        f"{tmp_path}/a.txt has the suffix '.txt'; compare reads .csv, .tsv, .jsonl, .json, "
        ".parquet, all but .parquet also with .gz, .bz2, .xz, .zst; say what it is with --format, "
        "such as --format csv, pipe its lines in with -, or convert it.",
        *("compare", folder, tmp_path / "a.txt"),
    )
