"""`clozeworks space` and `clozeworks whiten`."""

import json
import random

import numpy as np
import pytest

import clozeworks as cw

WORDS = ["the", "cat", "sat", "on", "mat", "and", "dog", "lay", "in", "garden", "Paris", "house"]


@pytest.fixture
def texts(tmp_path):
    rng = random.Random(0)
    lines = [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in range(120)]
    path = tmp_path / "texts.txt"
    path.write_text("\n".join(dict.fromkeys(lines)) + "\n", encoding="utf-8")
    return path


@pytest.fixture
def pairs(tmp_path):
    rng = random.Random(1)
    lines = ["sentence1\tsentence2\tscore"]
    lines += [f"{rng.choice(WORDS)} {n}\t{rng.choice(WORDS)}\t{n % 6}.5" for n in range(30)]
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_the_measures_and_the_page(command, bert_model, texts, pairs, tmp_path):
    page = tmp_path / "space.html"
    outcome = command(
        "space", bert_model, texts, "--pairs", pairs, "--repair", "whiten", "--dimensions", "8",
        "--out", page,
    )  # fmt: skip
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[1] == "mean pooling (the default)"
    assert lines[2] == "repair: whitened, 8 dimensions"
    assert any(line.startswith("Spearman on pairs") for line in lines)
    assert lines[-1] == f"{page}: the same with pictures."
    assert page.read_text(encoding="utf-8").count("<svg") == 6
    assert command("space", bert_model, texts).out.splitlines()[-1] == (
        "Pictures: add --out space.html"
    )


def test_json(command, bert_model, texts, pairs):
    outcome = command("space", bert_model, texts, "--pairs", pairs, "--json", "--limit", "20")
    record = json.loads(outcome.out)
    assert record["before"]["texts"] == 20 and record["after"] is record["repair"] is None
    assert -1 <= record["spearman"] <= 1 and record["before"]["alignment"] >= 0


def test_a_folder_that_is_mended(command, bert_model, texts, tmp_path):
    outcome = command(
        "whiten", bert_model, texts, "--dimensions", "8", "--out", tmp_path / "repaired",
        "--page", tmp_path / "page.html",
    )  # fmt: skip
    assert outcome.code == 0
    assert outcome.out.splitlines()[-2:] == [
        f"{tmp_path / 'repaired'}: mean pooling, then dense to 8 (as the model folder says)",
        f"Use it: clozeworks embed {tmp_path / 'repaired'} …",
    ]
    assert (tmp_path / "page.html").exists()
    expected = cw.load(bert_model)
    expected.whiten(texts.read_text().splitlines(), dimensions=8)
    found = cw.load(tmp_path / "repaired").embed("the cat sat")
    # The order of the texts is another, so sums differ in the last digits.
    np.testing.assert_allclose(found, expected.embed("the cat sat"), atol=2e-3)
    record = json.loads(
        command(
            "whiten", bert_model, texts, "--method", "centre", "--out", tmp_path / "repaired",
            "--overwrite", "--json",
        ).out
    )  # fmt: skip
    assert record["folder"] == str(tmp_path / "repaired") and record["after"]["dimensions"] == 32


def test_refusals(refused, bert_model, texts, tmp_path):
    refused(
        "--dimensions is 5; --repair is missing; name a repair, too.",
        *("space", bert_model, texts, "--dimensions", "5"),
    )
    refused("--limit is 2; it must be at least 3.", *("space", bert_model, texts, "--limit", "2"))
    few = tmp_path / "few.txt"
    few.write_text("the cat\nthe dog\nParis\n")
    refused(
        "there are 3 texts for 32 dimensions; a direction without texts in it has no variance to "
        "be scaled by; give more than 32 texts, ten times as many at best, or lower --dimensions "
        "(dimensions in Python).",
        *("whiten", bert_model, few, "--out", tmp_path / "new"),
    )
    labels = tmp_path / "labels.tsv"
    labels.write_text("sentence1\tsentence2\tlabel\nthe cat\tthe dog\tsame\na\tb\tother\n")
    refused(
        f"{labels}, row 2: the label is 'same'; pairs need numbers that say how similar their "
        "texts are, or no labels if all mean the same; correct the file.",
        *("space", bert_model, texts, "--pairs", labels),
    )
    page = tmp_path / "page.html"
    page.touch()
    refused(
        f"{page} exists; choose another name, or replace it with --overwrite.",
        *("space", bert_model, texts, "--out", page),
    )


@pytest.mark.parametrize("repair", [(), ("--repair", "centre")])
def test_refusals_name_the_text(refused, bert_model, texts, tmp_path, repair):
    """Although texts are shuffled, and embedded together with pairs."""
    long = tmp_path / "long.txt"
    long.write_text(texts.read_text() + "cat " * 600 + "\n")
    line = len(long.read_text().splitlines())
    advice = "shorten it, or have it cut with --truncate (truncate=True in Python)"
    said = f"has 602 tokens; at most 512 are allowed; {advice}."
    refused(f"{long}, line {line} {said}", *("space", bert_model, long, *repair))
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("sentence1\tsentence2\tscore\na\tb\t1\nc\t" + "cat " * 600 + "\t2\n")
    refused(f"{pairs}, row 3 {said}", *("space", bert_model, texts, "--pairs", pairs, *repair))
    pairs.write_text("sentence1\tsentence2\tscore\na\tb\t1.5\nc\td\t1.5\n")
    refused(
        "all 2 pairs have the score 1.5; pairs are put in order by different ones; give such "
        "pairs, or leave the scores out.",
        *("space", bert_model, texts, "--pairs", pairs, *repair),
    )
