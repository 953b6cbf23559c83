"""`clozeworks mine`: hard negatives of pairs, triplets, judged pairs and test collections."""

import json

import pytest

import clozeworks as cw
from clozeworks.errors import OutputError, UnknownName
from clozeworks.tasks.compare import Compare

WORDS = ["cat", "dog", "house", "garden", "mat", "new", "old", "on"]
PAIRS = [(f"the {a}", f"a {a} {b}") for a, b in zip(WORDS, WORDS[3:] + WORDS[:3], strict=True)]


def write(path, rows):
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return path


@pytest.fixture
def pairs(tmp_path):
    rows = [{"anchor": a, "positive": p} for a, p in PAIRS]
    return write(tmp_path / "pairs.jsonl", [*rows, {"anchor": "the cat", "positive": "old cat"}])


def read(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def wanted(model, rows, texts, count):
    """The nearest texts of each anchor without its positives and itself, by hand."""
    right = {}
    for anchor, positive in rows:
        right.setdefault(anchor, []).append(positive)
    vectors = {text: model.embed(text, normalize=True) for text in {*right, *texts}}
    found = []
    for anchor, positives in right.items():
        others = [text for text in texts if text not in positives and text != anchor]
        others.sort(key=lambda text: -float(vectors[anchor] @ vectors[text]))
        found += [
            {"anchor": anchor, "positive": positive, "negative": negative}
            for positive in positives
            for negative in others[:count]
        ]
    return found


def test_triplets_are_the_nearest_texts_that_are_not_right(command, tiny_models, pairs, tmp_path):
    out = tmp_path / "o.jsonl"
    more = tmp_path / "more.txt"
    more.write_text("the cat\nnew mat on the house\n")
    outcome = command(
        "mine", pairs, "--model", tiny_models["bert"], "--out", out, "-k", 2, "--corpus", more
    )
    assert outcome.code == 0, outcome.err
    rows = [*PAIRS, ("the cat", "old cat")]
    texts = [*(p for _, p in rows), "the cat", "new mat on the house"]
    assert read(out) == wanted(cw.load(tiny_models["bert"]), rows, texts, 2)
    assert "8 anchors with 9 positives; 11 texts to choose from." in outcome.err
    assert outcome.out.startswith(f"18 rows in {out}: 16 negatives for 8 anchors.\n\n")


def test_what_each_rule_dropped_is_printed(command, tiny_models, pairs, tmp_path):
    out = tmp_path / "o.jsonl"
    arguments = (
        "mine",
        pairs,
        "--model",
        tiny_models["bert"],
        "--out",
        out,
        "--relative-margin",
        0.01,
    )
    outcome = command(*arguments, "--json")
    assert outcome.code == 0, outcome.err
    found = json.loads(outcome.out)
    assert found["candidates"] == 7 + 7 * 8
    assert found["dropped"]["relative_margin"] > 0
    assert found["rows"] == len(read(out)) and found["rules"]["relative_margin"] == 0.01
    assert {*found["quantiles"]} == {"positives", "negatives"}
    again = command(*arguments, "--overwrite").out
    dropped = found["dropped"]["relative_margin"]
    assert f"--relative-margin 0.01 dropped {dropped:,} ({dropped / 63:.1%})" in again


def test_tuples_have_a_column_for_each_negative(command, tiny_models, pairs, tmp_path):
    out = tmp_path / "o.tsv"
    outcome = command(
        "mine", pairs, "-m", tiny_models["bert"], "-o", out, "-k", 2, "--layout", "tuples"
    )
    assert outcome.code == 0, outcome.err
    lines = out.read_text().splitlines()
    assert lines[0] == "anchor\tpositive\tnegative_1\tnegative_2"
    assert len(lines) == 1 + 9 and all(len(line.split("\t")) == 4 for line in lines)


def test_a_second_model_scores_again(command, tiny_models, pairs, tmp_path):
    second = tmp_path / "second"
    cw.load(tiny_models["bert"]).for_task(Compare(labels=("similarity",), problem="number")).save(
        second
    )
    out = tmp_path / "o.jsonl"
    outcome = command(
        "mine", pairs, "-m", tiny_models["bert"], "-o", out, "--rerank", second, "-k", 1
    )
    assert outcome.code == 0, outcome.err
    model = cw.load(second)
    texts = [*(p for _, p in PAIRS), "old cat"]
    for row in read(out):
        right = [p for a, p in [*PAIRS, ("the cat", "old cat")] if a == row["anchor"]]
        near = sorted(texts, key=lambda text: -nearness(tiny_models, row["anchor"], text))
        # One is wanted; one anchor has two positives, and room for those is left twice.
        near = [text for text in near[:5] if text not in right]
        scores = {text: model.compare([(row["anchor"], text)])[0].label for text in near}
        assert row["negative"] == max(scores, key=scores.get)


def nearness(tiny_models, anchor, text):
    model = cw.load(tiny_models["bert"])
    return float(model.embed(anchor, normalize=True) @ model.embed(text, normalize=True))


def test_judged_pairs_and_collections(command, tiny_models, tmp_path):
    rows = [{"sentence1": a, "sentence2": p, "label": n % 2} for n, (a, p) in enumerate(PAIRS)]
    out = tmp_path / "o.jsonl"
    path = write(tmp_path / "judged.jsonl", rows)
    assert command("mine", path, "-m", tiny_models["bert"], "-o", out).code == 0
    assert {row["anchor"] for row in read(out)} == {a for a, _ in PAIRS[1::2]}
    assert {row["negative"] for row in read(out)} & {p for _, p in PAIRS[::2]}
    folder = tmp_path / "beir"
    (folder / "qrels").mkdir(parents=True)
    write(folder / "corpus.jsonl", [{"_id": str(n), "text": p} for n, (_, p) in enumerate(PAIRS)])
    write(folder / "queries.jsonl", [{"_id": str(n), "text": a} for n, (a, _) in enumerate(PAIRS)])
    for split, number in (("test", 0), ("train", 1)):
        (folder / "qrels" / f"{split}.tsv").write_text(f"{number}\t{number}\t1\n")
    outcome = command("mine", folder, "-m", tiny_models["bert"], "-o", out, "--overwrite")
    assert "the judgements are those of train." in outcome.err
    assert {row["anchor"] for row in read(out)} == {PAIRS[1][0]}


def test_python_takes_rows_and_models(command, tiny_models, pairs, tmp_path, capsys):
    out, same = tmp_path / "o.jsonl", tmp_path / "same.jsonl"
    assert command("mine", pairs, "-m", tiny_models["bert"], "-o", out, "-k", 2).code == 0
    rows = [(row["anchor"], row["positive"]) for row in read(pairs)]
    data = {"anchor": [a for a, _ in rows], "positive": [p for _, p in rows]}
    mined = cw.mine(data, cw.load(tiny_models["bert"]), same, negatives=2, quiet=True)
    assert read(same) == read(out) and mined.rows == len(read(out))
    with pytest.raises(OutputError, match="exists; choose another name, or replace it with overwr"):
        cw.mine(data, tiny_models["bert"], same)
    with pytest.raises(UnknownName, match="relative_margin"):
        cw.mine(data, tiny_models["bert"], same, relative_margins=0.1)


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"text": "a cat"}], (), "the rows hold texts alone; hard negatives are found for pairs"),
        ([{"anchor": "a", "positive": "b"}], (), "there is one text to choose from; negatives are"),
        (
            [{"sentence1": "a", "sentence2": "b", "label": 0}],
            (),
            "no row says that two texts belong together; there must be positives to find",
        ),
        (
            [{"anchor": a, "positive": p} for a, p in PAIRS],
            ("--max-score", "-1"),
            "no row can be made: of 56 candidates for 8 anchors were dropped: max_score 56; loosen",
        ),
        (
            [{"anchor": a, "positive": p} for a, p in PAIRS],
            ("--negatives", "0"),
            "it must be at least 1",
        ),
    ],
)
def test_what_cannot_be_mined_is_a_sentence(command, tiny_models, tmp_path, rows, options, message):
    out = tmp_path / "o.jsonl"
    path = write(tmp_path / "a.jsonl", rows)
    outcome = command("mine", path, "-m", tiny_models["bert"], "-o", out, *options)
    assert outcome.code == 2 and message in outcome.err
    assert not out.exists()


def test_a_file_is_not_replaced_unasked(command, tiny_models, pairs, tmp_path):
    out = tmp_path / "o.jsonl"
    out.write_text("mine")
    outcome = command("mine", pairs, "-m", tiny_models["bert"], "-o", out)
    assert outcome.code == 2 and "exists; choose another name, or replace it" in outcome.err
    assert out.read_text() == "mine"
    outcome = command("mine", pairs, "-m", tiny_models["bert"], "-o", tmp_path / "o.csv")
    assert "known: .jsonl, .tsv; the suffix chooses the format" in outcome.err
