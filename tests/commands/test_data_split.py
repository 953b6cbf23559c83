"""`clozeworks data split`: the parts, the page, and the sentences that refuse."""

import csv
import json
import shlex

import pytest

ROWS = [(f"text {number}", "pos" if number % 4 else "neg") for number in range(80)]


def written(rows, header="text,label"):
    return "\n".join([header, *map(",".join, rows)]) + "\n"


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "all.csv").write_text(written(ROWS), encoding="utf-8")
    return tmp_path


def texts(path):
    with path.open(encoding="utf-8", newline="") as file:
        return {row["text"] for row in csv.DictReader(file)}


def test_parts_and_page(command, place):
    outcome = command("data", "split", "all.csv", "--task", "classify", "--out", "a b")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == (
        "Columns: text=text (by its name), label=label (by its name); the label is one name.\n"
        "\n"
        "          train  dev  test\n"
        "neg          16    2     2\n"
        "pos          48    6     6\n"
        "all rows     64    8     8\n"
        "\n"
        "Train on it: clozeworks finetune classify MODEL 'a b/train.csv' --dev 'a b/dev.csv'\n"
    )
    folder = place / "a b"
    assert sorted(path.name for path in folder.iterdir()) == ["dev.csv", "test.csv", "train.csv"]
    parts = {path.stem: texts(path) for path in folder.iterdir()}
    assert set.union(*parts.values()) == {text for text, _ in ROWS}
    assert sum(map(len, parts.values())) == 80
    assert all(path.read_text().startswith("text,label\n") for path in folder.iterdir())


def test_the_same_bytes_for_the_same_seed(command, place, hashes):
    for out, seed in (("one", 3), ("two", 3), ("three", 4)):
        options = ["--task", "classify", "--out", out, "--seed", seed]
        assert command("data", "split", "all.csv", *options).code == 0
    assert hashes(place / "one") == hashes(place / "two") != hashes(place / "three")


def test_what_is_said_beside_the_counts(command, place):
    rows = [*ROWS, ("text 1", "pos"), ("text 2 ", "neg"), ("", "neg"), ("once", "rare")]
    (place / "odd.csv").write_text(written(rows), encoding="utf-8")
    options = ["--task", "classify", "--out", "parts"]
    outcome = command("data", "split", "odd.csv", *options)
    assert (outcome.code, outcome.err) == (
        2,
        "clozeworks: odd.csv, row 84: the text is empty; give it one, or drop the row with "
        "--skip-bad-rows.\n",
    )
    assert not (place / "parts").exists()
    outcome = command("data", "split", "odd.csv", *options, "--skip-bad-rows")
    assert outcome.code == 0
    assert (
        "\n"
        "  1 row: the text stood there before, with the same label\n"
        "    odd.csv, row 82: text 1 (first in row 3)\n"
        "  1 row: the text stood there before, with another label\n"
        "    odd.csv, row 83: text 2  (neg, in row 4 pos)\n"
        "Equal texts are in one part.\n"
        "Left out: 1 bad row, the first: odd.csv, row 84: the text is empty; give it one.\n"
        "The label 'rare' stands in one row of odd.csv; that is too little to learn from.\n"
        "Train on it: "
    ) in outcome.out
    assert "once" in texts(place / "parts" / "train.csv")
    parts = [{text.strip() for text in texts(path)} for path in (place / "parts").iterdir()]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 81


def test_columns_that_only_the_whole_shows_are_named_for_the_parts(command, place):
    rows = [(f"{number}", f"a long text {number}", "xy"[number % 2]) for number in range(40)]
    (place / "a.csv").write_text(written(rows, "nr,what,so"), encoding="utf-8")
    outcome = command("data", "split", "a.csv", "--task", "classify", "--out", "p", "--test", 0)
    assert "Columns: text=what (by what it holds), label=so (by what it holds)" in outcome.out
    assert outcome.out.endswith("MODEL p/train.csv --dev p/dev.csv --columns text=what,label=so\n")
    named = shlex.split(outcome.out)[-1]
    for name in ("train", "dev"):
        again = command("data", "check", f"p/{name}.csv", "--task", "classify", "--columns", named)
        assert again.code == 0, again.err
    assert not (place / "p" / "test.csv").exists()


def test_a_table_without_a_header_gets_one(command, place):
    (place / "a.csv").write_text("".join(f"{text},{label}\n" for text, label in ROWS))
    options = ["--task", "classify", "--out", "p", "--columns", "text=1,label=2"]
    outcome = command("data", "split", "a.csv", *options)
    assert "\nThere was no header; the parts have one: text, label.\n" in outcome.out
    assert outcome.out.endswith("MODEL p/train.csv --dev p/dev.csv\n")
    again = command("data", "check", "p/train.csv", "--task", "classify", "--dev", "p/dev.csv")
    assert again.out.startswith("train: 64 rows") and "\ndev: 8 rows" in again.out


def test_numbers_and_several_labels_are_said_again(command, place):
    rows = [(f"text {number}", f"{number}.5") for number in range(40)]
    (place / "n.csv").write_text(written(rows), encoding="utf-8")
    outcome = command("data", "split", "n.csv", "--task", "classify", "--out", "n")
    assert "\n          train  dev  test\nall rows     32    4     4\n" in outcome.out
    assert outcome.out.endswith("--dev n/dev.csv data.labels=numbers\n")
    rows = [(f"text {number}", "x|y" if number % 2 else "y") for number in range(40)]
    (place / "s.csv").write_text(written(rows), encoding="utf-8")
    options = ["--task", "classify", "--out", "s", "--label-separator", "|"]
    outcome = command("data", "split", "s.csv", *options)
    assert outcome.out.endswith("--dev s/dev.csv data.labels=several 'data.label_separator=|'\n")


def test_tags(command, place):
    sentences = [f"Ann B-{'PER' if n % 2 else 'LOC'}\nran{n} O\n" for n in range(40)]
    (place / "a.bio").write_text("\n".join(sentences), encoding="utf-8")
    outcome = command("data", "split", "a.bio", "--task", "tag", "--out", "p")
    assert (
        "               train  dev  test\n"
        "LOC               16    2     2\n"
        "O                 32    4     4\n"
        "PER               16    2     2\n"
        "all sentences     32    4     4\n"
    ) in outcome.out
    assert outcome.out.endswith("finetune tag MODEL p/train.bio --dev p/dev.bio\n")


def test_answers(command, place):
    def paragraph(number):
        asked = [
            {"id": f"{number}-{n}", "question": "q", "answers": [{"text": "c", "answer_start": 0}]}
            for n in range(2)
        ]
        return {"context": f"context {number}", "qas": asked}

    def articles(count):
        return [
            {"title": f"t{a}", "paragraphs": [paragraph(10 * a + n) for n in range(20 // count)]}
            for a in range(count)
        ]

    for count, kept in ((20, "article"), (2, "context")):
        value = {"version": "1.1", "data": articles(count)}
        (place / "a.json").write_text(json.dumps(value), encoding="utf-8")
        options = ["--task", "answer", "--out", f"p{count}"]
        outcome = command("data", "split", "a.json", *options)
        assert outcome.code == 0, outcome.err
        assert outcome.out.startswith("The layout is SQuAD's.\n\n")
        assert "\nanswered          32    4     4\nall questions     32    4     4\n" in outcome.out
        assert f"\nThe questions about one {kept} are in one part.\n" in outcome.out
        train = json.loads((place / f"p{count}" / "train.json").read_text(encoding="utf-8"))
        assert train["version"] == "1.1"
        assert len(train["data"]) == {20: 16, 2: 2}[count]


def test_nothing_is_replaced_unasked(command, place):
    options = ["--task", "classify", "--out", "p"]
    assert command("data", "split", "all.csv", *options).code == 0
    (place / "p" / "train.csv").unlink()
    (place / "p" / "dev.csv").unlink()
    before = (place / "p" / "test.csv").read_bytes()
    for more in ([], ["--test", 0]):
        outcome = command("data", "split", "all.csv", *options, *more)
        assert (outcome.code, outcome.err) == (
            2,
            "clozeworks: p/test.csv exists; choose another folder, or replace the parts with "
            "--overwrite.\n",
        )
    assert [path.name for path in (place / "p").iterdir()] == ["test.csv"]
    assert (place / "p" / "test.csv").read_bytes() == before
    # An old part would hold rows that are now trained on.
    assert command("data", "split", "all.csv", *options, "--test", 0, "--overwrite").code == 0
    assert sorted(path.name for path in (place / "p").iterdir()) == ["dev.csv", "train.csv"]
    outcome = command("data", "split", "p/train.csv", *options, "--overwrite")
    assert outcome.err == (
        "clozeworks: p/train.csv would be replaced by a part of itself; choose another folder with "
        "--out.\n"
    )


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_a_part_that_cannot_be_written_leaves_none(command, place, monkeypatch, failing):
    import os

    real, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) == failing:
            raise OSError(28, "No space left on device")
        real(handle)

    monkeypatch.setattr(os, "fsync", full)
    outcome = command("data", "split", "all.csv", "--task", "classify", "--out", "p")
    name = ("train", "dev", "test")[failing - 1]
    assert (outcome.code, outcome.err) == (
        2,
        f"clozeworks: p/{name}.csv could not be written: No space left on device; nothing was "
        "changed; fix this, or choose another place.\n",
    )
    assert not (place / "p").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ([], "FILES is missing. See: clozeworks data split --help"),
        (["reviews.csv"], "reviews.csv does not exist; check the name and the folder."),
        (["all.csv", "--seed", "-1"], "--seed is -1; it must be at least 0."),
        (["all.csv", "--dev", "1.5"], "--dev is 1.5; it must be at least 0 and below 1."),
        (["all.csv", "all.csv"], "all.csv is named twice; name it once."),
        (
            ["all.csv", "--out", "all.csv"],
            "all.csv cannot be created: all.csv is a file; choose another folder.",
        ),
        (
            ["all.csv", "--columns", "text=2,label=1,words=3"],
            "--columns for classify is 'words'; known: label, text.",
        ),
        (
            ["bare.txt"],
            "bare.txt has the suffix '.txt'; classify reads .csv, .tsv, .jsonl, .json, "
            ".parquet, all but .parquet also with .gz, .bz2, .xz, .zst; say what it is with "
            "--format, such as --format csv, or convert it.",
        ),
        (
            ["few.csv"],
            "nothing is left for the part 'test': there are 2 items; for each part there must be "
            "another text with the same label, or another context; add some.",
        ),
        (
            ["one.csv"],
            "one.csv: the only label is 'x'; there must be at least two to learn from; add rows "
            "with others.",
        ),
    ],
)
def test_refusals(command, place, words, sentence):
    (place / "bare.txt").write_text("a text\n")
    (place / "few.csv").write_text("text,label\na,x\nb,y\n")
    (place / "one.csv").write_text("text,label\na,x\nb,x\n")
    out = [] if "--out" in words else ["--out", "p"]
    outcome = command("data", "split", *words, "--task", "classify", *out)
    assert (outcome.code, outcome.err) == (2, f"clozeworks: {sentence}\n")
    assert not (place / "p").exists()
