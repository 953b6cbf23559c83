"""`clozeworks evaluate` of sentence vectors: the columns of the rows decide what is measured."""

import json

import numpy as np
import pytest
from scipy.stats import spearmanr

import clozeworks as cw
from clozeworks.tasks.metrics.pairs import similar_pairs
from clozeworks.tasks.metrics.triplets import triplets

WORDS = ["cat", "dog", "house", "garden", "mat", "new", "old", "on", "sat", "lay", "its", "my"]
TEXTS = [f"the {WORDS[n]} {WORDS[(5 * n + 2) % 12]}" for n in range(12)]


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def pairs(label="score", values=None):
    values = values or [n % 5 + 0.5 for n in range(11)]
    rows = zip(TEXTS, TEXTS[1:], values, strict=False)
    return [{"sentence1": a, "sentence2": b, label: value} for a, b, value in rows]


def cosines(folder, first, second, **options):
    model = cw.load(folder)
    a, b = (
        model.embed(texts, normalize=True, **options).astype(np.float64)
        for texts in (first, second)
    )
    return (a * b).sum(axis=1)


@pytest.fixture(scope="module")
def sentence_model(tiny_models, tmp_path_factory):
    """A folder that says how vectors are made: the first token, scaled."""
    from clozeworks.checkpoints.sentence import Pooling

    model = cw.load(tiny_models["bert"])
    model.pooling = Pooling(("first",))
    return model.save(tmp_path_factory.mktemp("sentences") / "model")


def found(outcome):
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_pairs_with_a_number_and_the_pooling_of_the_folder(
    command, sentence_model, tiny_models, tmp_path
):
    path = write(tmp_path / "a.jsonl", pairs())
    outcome = command("evaluate", sentence_model, path, "--json")
    measured = found(outcome)
    gold = [row["score"] for row in pairs()]
    wanted = spearmanr(cosines(sentence_model, TEXTS[:-1], TEXTS[1:]), gold).statistic
    other = spearmanr(cosines(tiny_models["bert"], TEXTS[:-1], TEXTS[1:]), gold).statistic
    assert (measured["task"], measured["primary"], measured["count"]) == ("embed", "spearman", 11)
    assert measured["values"]["spearman"] == pytest.approx(wanted)
    assert abs(wanted - other) > 1e-6
    assert "The model folder is that of a sentence model, so its vectors are" in outcome.err


def test_a_plain_encoder_is_measured_by_its_vectors_where_columns_are_pairs(
    command, tiny_models, tmp_path
):
    path = write(tmp_path / "a.jsonl", pairs())
    outcome = command("evaluate", tiny_models["bert"], path, "--json")
    gold = [row["score"] for row in pairs()]
    wanted = spearmanr(cosines(tiny_models["bert"], TEXTS[:-1], TEXTS[1:]), gold).statistic
    assert found(outcome)["values"]["spearman"] == pytest.approx(wanted)
    assert "a.jsonl has the columns sentence1, sentence2, score, so its vectors are" in outcome.err
    masked = write(tmp_path / "gaps.jsonl", [{"text": "the [MASK] sat", "label": "cat"}])
    assert found(command("evaluate", tiny_models["bert"], masked, "--json"))["task"] == "fill"


def test_triplets(command, sentence_model, tmp_path):
    rows = [
        {"anchor": a, "positive": b, "negative": c}
        for a, b, c in zip(TEXTS, TEXTS[1:], TEXTS[2:], strict=False)
    ]
    outcome = command("evaluate", sentence_model, write(tmp_path / "a.jsonl", rows), "--json")
    near, far = (
        cosines(sentence_model, [r["anchor"] for r in rows], [r[name] for r in rows])
        for name in ("positive", "negative")
    )
    wanted = triplets(near, far, intervals=True)
    assert found(outcome)["values"] == pytest.approx(wanted.values, abs=1e-6)


def test_pairs_with_0_or_1_and_a_threshold_from_elsewhere(command, sentence_model, tmp_path):
    labels = [n % 3 == 0 for n in range(11)]
    path = write(tmp_path / "a.jsonl", pairs("label", [int(each) for each in labels]))
    scores = cosines(sentence_model, TEXTS[:-1], TEXTS[1:])
    wanted = similar_pairs(labels, scores)
    outcome = command("evaluate", sentence_model, path)
    assert "their thresholds were chosen by these pairs. On others, measure with" in outcome.out
    measured = found(command("evaluate", sentence_model, path, "--json"))
    assert measured["values"] == pytest.approx(wanted.values, abs=1e-6)
    middle = float(np.median(scores)) + 1e-4
    measured = found(command("evaluate", sentence_model, path, "--json", "--threshold", middle))
    right = np.mean((scores >= middle) == labels)
    assert measured["values"]["accuracy"] == pytest.approx(right)


def test_several_rows_of_an_anchor_are_candidates(command, sentence_model, tmp_path):
    rows = [
        {"query": f"the {query}", "document": text, "label": int(query in text)}
        for query in WORDS[:3]
        for text in TEXTS
    ]
    path = write(tmp_path / "a.jsonl", rows)
    measured = found(command("evaluate", sentence_model, path, "--json"))
    assert (measured["primary"], measured["count"]) == ("map", 3)
    assert measured["notes"][0] == (
        "the 36 rows are candidates of 3 anchors; those of each are ranked."
    )
    outcome = command("evaluate", sentence_model, path)
    assert outcome.out.splitlines()[0].endswith("a.jsonl: 36 rows")


def test_prompts_stand_before_queries_and_documents_only(command, sentence_model, tmp_path):
    import shutil

    folder = shutil.copytree(sentence_model, tmp_path / "prompted")
    prompts = {"query": "old new ", "document": "my mat "}
    (folder / "config_sentence_transformers.json").write_text(json.dumps({"prompts": prompts}))
    for names, before in (
        (("query", "document"), prompts.values()),
        (("sentence1", "sentence2"), ("", "")),
    ):
        rows = [
            {names[0]: row["sentence1"], names[1]: row["sentence2"], "score": row["score"]}
            for row in pairs()
        ]
        outcome = command("evaluate", folder, write(tmp_path / "a.jsonl", rows), "--json")
        texts = (
            [prompt + text for text in several]
            for prompt, several in zip(before, (TEXTS[:-1], TEXTS[1:]), strict=True)
        )
        gold = [row["score"] for row in pairs()]
        wanted = spearmanr(cosines(sentence_model, *texts), gold).statistic
        assert found(outcome)["values"]["spearman"] == pytest.approx(wanted)
        assert ("Before the texts of query stands the prompt query" in outcome.err) == (
            names[0] == "query"
        )


def test_two_models_are_compared(command, sentence_model, tiny_models, tmp_path):
    path = write(tmp_path / "a.jsonl", pairs())
    outcome = command("evaluate", sentence_model, tiny_models["bert"], path)
    assert outcome.code == 0, outcome.err
    assert "spearman differs by" in outcome.out


def test_texts_that_are_too_long_are_counted(command, sentence_model, tmp_path):
    rows = [*pairs(), {"sentence1": "cat " * 3000, "sentence2": "dog", "score": 1}]
    outcome = command("evaluate", sentence_model, write(tmp_path / "a.jsonl", rows))
    assert "1 of 14 different texts have more than" in outcome.err


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": "the cat"}], (), "a text alone says nothing about its vector; measure on pairs"),
        (
            [{"premise": "a", "hypothesis": "b", "label": "neutral"}] * 2,
            (),
            "classes of pairs say nothing about how near two vectors should be; measure on",
        ),
        (pairs(), ("--threshold", "0.5"), "only pairs with 0 or 1 have a threshold; leave it out"),
        (pairs(), ("--metric", "accuracy"), "'accuracy'"),
    ],
)
def test_what_cannot_be_measured_is_a_sentence(
    command, sentence_model, tmp_path, rows, options, message
):
    outcome = command("evaluate", sentence_model, write(tmp_path / "a.jsonl", rows), *options)
    assert outcome.code == 2 and message in outcome.err


def test_the_first_dimensions_alone(command, sentence_model, tmp_path):
    path = write(tmp_path / "a.jsonl", pairs())
    gold = [row["score"] for row in pairs()]
    measured = found(command("evaluate", sentence_model, path, "--truncate-dim", 4, "--json"))
    wanted = spearmanr(
        cosines(sentence_model, TEXTS[:-1], TEXTS[1:], truncate_dim=4), gold
    ).statistic
    whole = found(command("evaluate", sentence_model, path, "--json"))
    assert measured["values"]["spearman"] == pytest.approx(wanted, abs=1e-6)
    assert measured["values"]["spearman"] != whole["values"]["spearman"]
    refused = command("evaluate", sentence_model, path, "--truncate-dim", 0)
    assert refused.code == 2 and "it must be at least 1" in refused.err


def test_data_check_ends_with_training(command, tmp_path):
    path = write(tmp_path / "a.jsonl", pairs())
    outcome = command("data", "check", path, "--task", "embed")
    assert outcome.out.endswith(f"Train on it: clozeworks finetune embed MODEL {path}\n")
