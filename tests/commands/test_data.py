"""`clozeworks data check`: the page, the JSON, and the sentences that refuse."""

import json

import pytest

TRAIN = "text,label\ngood book,pos\nbad book,neg\nbad book,pos\n,neg\nfine <br>,pos\n"


@pytest.fixture
def train(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.csv").write_text(TRAIN, encoding="utf-8")
    (tmp_path / "dev.csv").write_text("text,label\ngood book,pos\nmy text,neg\n", encoding="utf-8")
    return "train.csv"


def test_page(command, train):
    outcome = command("data", "check", train, "--task", "classify", "--dev", "dev.csv")
    assert (outcome.code, outcome.err) == (0, "")
    assert outcome.out == (
        "train: 4 rows from train.csv\n"
        "  Columns: text=text (by its name), label=label (by its name); the label is one name.\n"
        "  labels\n"
        f"    neg  1   25.0%  {'█' * 10}\n"
        f"    pos  3   75.0%  {'█' * 30}\n"
        "  sizes\n"
        "                least  mean  median  90 %  99 %  most\n"
        "    characters      8   8.5       8     9     9     9\n"
        "    words           2   2.5       2     4     4     4\n"
        "  cannot be used: 1 row\n"
        "    train.csv, row 5: the text is empty; give it one\n"
        "\n"
        "dev: 2 rows from dev.csv\n"
        "  Columns: text=text (by its name), label=label (by its name); the label is one name.\n"
        "  labels\n"
        f"    neg  1   50.0%  {'█' * 30}\n"
        f"    pos  1   50.0%  {'█' * 30}\n"
        "  sizes\n"
        "                least  mean  median  90 %  99 %  most\n"
        "    characters      7   8.0       7     9     9     9\n"
        "    words           2   2.0       2     2     2     2\n"
        "\n"
        "worth a look\n"
        "  1 row: the text stood there before, with another label\n"
        "    train.csv, row 4: bad book (pos, in row 3 neg)\n"
        "  1 row: development text that also stands in the training data\n"
        "    dev.csv, row 2: good book (also in train.csv, row 2)\n"
        "  1 row: remains of HTML\n"
        "    train.csv, row 6: fine <br>\n"
        "The label 'neg' stands in one row of train.csv; that is too little to learn from.\n"
        "\n"
        "Train on it: clozeworks finetune classify MODEL train.csv --dev dev.csv\n"
    )


def test_json(command, train):
    outcome = command("data", "check", train, "--task", "classify", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    report = json.loads(outcome.out)
    assert report["train"]["labels"][1] == {"name": "pos", "count": 3, "fraction": 0.75}
    assert [each["name"] for each in report["findings"]] == ["contradictions", "html"]


def test_tokens(command, train, tokenizer_folder):
    options = ["--tokenizer", tokenizer_folder, "--window", 3]
    outcome = command("data", "check", train, "--task", "classify", *options)
    assert outcome.code == 0
    assert "\n    tokens " in outcome.out
    assert "\n  over 3 tokens: 4 (100.0%)\n  unknown tokens: " in outcome.out


def test_columns_are_named(command, train, tmp_path):
    (tmp_path / "a b.tsv").write_text(
        "1\tx y\tgood one\n0\tz\tbad one\n1\tq\tfine\n", encoding="utf-8"
    )
    named = ["--columns", "first=2,second=3,label=1"]
    outcome = command("data", "check", "a b.tsv", "--task", "compare", *named)
    assert outcome.code == 0
    assert "there is no header" in outcome.out
    assert "nothing looks odd\n" in outcome.out
    assert outcome.out.endswith(
        "Train on it: clozeworks finetune compare MODEL 'a b.tsv' --columns "
        "first=2,second=3,label=1\n"
    )
    named = ["--columns", "text=2,label=1", "--header"]
    outcome = command("data", "check", "a b.tsv", "--task", "classify", *named)
    assert outcome.out.startswith("train: 2 rows from a b.tsv\n")


def test_tags_and_answers(command, train, tmp_path):
    (tmp_path / "a.bio").write_text("Ann B-PER\nran O\n\nHe O\n", encoding="utf-8")
    outcome = command("data", "check", "a.bio", "--task", "tag")
    assert outcome.out.startswith("train: 2 sentences from a.bio\n")
    assert f"  entities\n    PER  1  100.0%  {'█' * 30}\n" in outcome.out
    rows = [
        {"question": "q", "context": "one two", "answers": ["two"]},
        {"question": "r", "context": "a\x1bb", "answers": []},
    ]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    outcome = command("data", "check", "a.jsonl", "--task", "answer")
    assert f"    answered           1   50.0%  {'█' * 30}\n" in outcome.out
    assert "a.jsonl, line 2: r | a\\x1bb\n" in outcome.out


def test_many_labels_and_bad_rows_are_cut(command, train, tmp_path):
    rows = "".join(f"text {number},l{number % 50}\n" for number in range(100)) + ",l1\n" * 30
    (tmp_path / "many.csv").write_text("text,label\n" + rows, encoding="utf-8")
    outcome = command("data", "check", "many.csv", "--task", "classify")
    assert "\n    and 10 more\n  sizes\n" in outcome.out
    assert "  cannot be used: 30 rows\n" in outcome.out
    assert outcome.out.count("the text is empty") == 20
    assert "\n    and 10 more\n\n" in outcome.out


def test_what_training_would_refuse(command, train, tmp_path):
    (tmp_path / "one.csv").write_text("text,label\nx,a\ny,a\n", encoding="utf-8")
    outcome = command("data", "check", "one.csv", "--task", "classify")
    assert outcome.code == 2
    assert outcome.out.startswith("train: 2 rows from one.csv\n")
    assert "Train on it" not in outcome.out
    assert outcome.err == (
        "clozeworks: one.csv: the only label is 'a'; there must be at least two to learn from; add "
        "rows with others.\n"
    )


def test_refusals(refused, train):
    refused(
        "FILES is missing. See: clozeworks data check --help", "data", "check", "--task", "classify"
    )
    refused(
        "trian.csv does not exist; check the name and the folder. Did you mean 'train.csv'?",
        *("data", "check", "trian.csv", "--task", "classify"),
    )
    refused(
        "train.csv has no column 'lable'; its columns: text, label; choose one with --columns. "
        "Did you mean 'label'?",
        *("data", "check", train, "--task", "classify", "--columns", "label=lable"),
    )
    refused(
        "--window is 5; nothing counts tokens; name a tokenizer or a model with --tokenizer.",
        *("data", "check", train, "--task", "classify", "--window", "5"),
    )


def test_texts_to_write_are_looked_at_and_split(command, tmp_path):
    rows = tmp_path / "rows.csv"
    lines = [f"a long text number {n},short {n},{'ab'[n % 2]}" for n in range(40)]
    rows.write_text("\n".join(["source,target,task", *lines]) + "\n")
    looked = command("data", "check", rows, "--task", "text-to-text")
    assert looked.code == 0, looked.err
    assert "target words" in looked.out
    assert "  tasks\n" in looked.out
    assert f"Train on it: clozeworks finetune text-to-text MODEL {rows}" in looked.out
    parted = command("data", "split", rows, "--task", "text-to-text", "--out", tmp_path / "parts")
    assert parted.code == 0, parted.err
    assert len((tmp_path / "parts" / "dev.csv").read_text().splitlines()) == 5
