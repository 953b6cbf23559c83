"""`clozeworks evaluate`: the values of Python's evaluate, tables, labels by number, sentences."""

import csv
import json

import pytest

import clozeworks as cw
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.display.evaluation_page import page
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.metrics.labels import KnownLabels, LabelScores
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.task import read_labelled

TEXTS = ["the cat sat", "the dog lay", "我爱北京", "the house", "on the mat", "a garden"]
LABELS = ["good", "bad", "good", "so-so", "bad", "good"]
TASKS = {
    "classify": Classify(labels=("bad", "so-so", "good")),
    "several": Classify(labels=("a", "b"), problem="several"),
    "number": Classify(labels=("stars",), problem="number"),
    "compare": Compare(labels=("other", "same")),
    "tag": Tag(labels=("O", "B-PER", "I-PER", "B-LOC", "I-LOC")),
    "pos": Tag(labels=("DET", "NOUN", "VERB")),
    "answer": Answer(),
}


@pytest.fixture(scope="module")
def folders(tiny_models, tmp_path_factory):
    made = tmp_path_factory.mktemp("e")
    for name, task in TASKS.items():
        cw.load(tiny_models["bert"]).for_task(task).save(made / name)
    for name, labels in (("nameless", ("LABEL_0", "LABEL_1", "LABEL_2")), ("plain", ("no", "yes"))):
        folder = cw.load(tiny_models["bert"]).for_task(Classify(labels=labels)).save(made / name)
        (folder / "clozeworks.json").unlink()
    return made


def table(path, rows, *names):
    with path.open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([names, *rows])
    return path


def value(outcome):
    return json.loads(outcome.out)


def test_values_are_those_of_python(command, folders, tmp_path):
    path = table(tmp_path / "a.csv", zip(TEXTS, LABELS, strict=True), "text", "label")
    model = cw.load(folders / "classify")
    wanted = model.evaluate(read_labelled(path, "classify").items)
    outcome = command("evaluate", folders / "classify", path, "--json")
    found = value(outcome)
    assert (found["task"], found["count"], found["primary"]) == ("classify", 6, "accuracy")
    assert found["values"] == pytest.approx(wanted.values)
    assert found["intervals"]["accuracy"] == pytest.approx(list(wanted.intervals["accuracy"]))
    assert outcome.err.splitlines()[-1].startswith("6 texts in ")
    counts = {each["label"]: each["support"] for each in found["by_label"]}
    assert counts == {"bad": 2, "so-so": 1, "good": 3}
    assert [sum(row) for row in found["confusion"]] == [2, 1, 3]
    right = sum(row[place] for place, row in enumerate(found["confusion"]))
    assert right / 6 == pytest.approx(found["values"]["accuracy"])


def test_unknown_tokens_are_stated(command, folders, tmp_path):
    rows = [("ꙮ ☃ ꙮ", "good"), ("the cat", "bad")]
    path = table(tmp_path / "a.csv", rows, "text", "label")
    outcome = command("evaluate", folders / "classify", path)
    assert "60.0% of the tokens of these texts are unknown (3): the vocabulary" in outcome.err


def test_the_page(command, folders, tmp_path):
    path = table(tmp_path / "a.csv", zip(TEXTS, LABELS, strict=True), "text", "label")
    arguments = ("evaluate", folders / "classify", path, "--metric", "macro_f1")
    lines = command(*arguments).out.splitlines()
    found = value(command(*arguments, "--json"))
    assert lines[0] == f"classify, {folders / 'classify'} on {path}: 6 texts"
    assert lines[2].split() == ["value", "95", "%", "interval"]
    low, high = found["intervals"]["macro_f1"]
    macro = f"{found['values']['macro_f1']:.3f}"
    assert lines[3].split() == ["macro_f1", macro, f"{low:.3f}", "to", f"{high:.3f}"]
    assert [line.split()[0] for line in lines[3:10]][1] == "accuracy"
    begin = lines.index("right (down) and given (across)")
    assert lines[begin + 1].split() == ["bad", "so-so", "good"]
    rows = [list(map(int, line.split()[1:])) for line in lines[begin + 2 : begin + 5]]
    assert rows == found["confusion"]


def test_a_page_of_everything():
    measured = Measured(
        {"f1": 0.5, "f1 PER": 1.0, "log_loss": 0.00012}, "f1", True, 3, {"f1": (0.25, 1.0)}, ("x.",)
    )
    assert page("title", measured, KnownLabels()).splitlines() == [
        "title",
        "",
        "             value   95 % interval",
        "f1           0.500  0.250 to 1.000",
        "log_loss  1.20e-04",
        "",
        "note: x.",
    ]


def test_wide_labels_stand_in_their_columns():
    labels = ("好", "不好不坏", "这个标签实在是太长了所以要缩短")
    scores = tuple(LabelScores(label, 1.0, 1.0, 1.0, 1) for label in labels)
    measured = Measured({"accuracy": 1.0}, "accuracy", True, 3)
    shown = page("title", measured, KnownLabels("label", scores, ((1, 0, 0), (0, 1, 0), (0, 0, 1))))
    assert shown.splitlines()[-5:] == [
        "right (down) and given (across)",
        "                         好  不好不坏  这个标签实在是太长了所…",
        "好                        1         0                        0",
        "不好不坏                  0         1                        0",
        "这个标签实在是太长了所…   0         0                        1",
    ]


@pytest.mark.parametrize(
    ("name", "content", "values"),
    [
        (
            "several",
            '{"text": "the cat", "label": ["a"]}\n{"text": "b", "label": []}\n',
            "micro_f1",
        ),
        ("number", '{"text": "the cat", "label": 3}\n{"text": "b", "label": 4}\n', "spearman"),
        ("compare", '{"s1": "a", "s2": "b", "label": "same"}\n', "accuracy"),
        ("tag", '{"words": ["the", "cat"], "tags": ["O", "B-PER"]}\n', "f1"),
        ("pos", '{"words": ["the", "cat"], "tags": ["DET", "NOUN"]}\n', "token_accuracy"),
        ("answer", '{"question": "x", "context": "the cat", "answers": ["cat"]}\n', "f1"),
    ],
)
def test_every_task_is_measured_and_its_predictions_written(
    command, folders, tmp_path, name, content, values
):
    path, out = tmp_path / "a.jsonl", tmp_path / "o.jsonl"
    path.write_text(content, encoding="utf-8")
    task = "tag" if name == "pos" else "classify" if name in ("several", "number") else name
    items = read_labelled(path, task, bad=BadRows()).items
    wanted = cw.load(folders / name).evaluate(items)
    outcome = command("evaluate", folders / name, path, "--predictions", out, "--json")
    assert outcome.code == 0, outcome.err
    found = value(outcome)
    assert found["primary"] == values and found["count"] == len(items)
    for key, measured in wanted.values.items():
        assert found["values"][key] == pytest.approx(measured, nan_ok=True)
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert len(records) == len(items)
    gold = {
        "several": ["a"],
        "number": 3.0,
        "compare": "same",
        "tag": ["O", "B-PER"],
        "pos": ["DET", "NOUN"],
        "answer": [{"text": "cat", "answer_start": 4}],
    }
    assert records[0]["gold"] == gold[name]
    assert {"label", "tags", "answer"} & set(records[0]) and records[0]["source_location"]
    assert outcome.err.endswith(f"; answers in {out}\n")
    assert command("evaluate", folders / name, path).code == 0


def test_each_of_several_labels_is_scored(command, folders, tmp_path):
    gold = [["a"], [], ["a", "b"], ["b"], [], ["a"]]
    rows = [{"text": text, "label": due} for text, due in zip(TEXTS, gold, strict=True)]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    said = [answer.label for answer in cw.load(folders / "several").classify(TEXTS)]
    found = value(command("evaluate", folders / "several", path, "--json"))
    assert "confusion" not in found and [each["label"] for each in found["by_label"]] == ["a", "b"]
    for each in found["by_label"]:
        due = [each["label"] in labels for labels in gold]
        given = [each["label"] in labels for labels in said]
        right = sum(a and b for a, b in zip(due, given, strict=True))
        assert each["support"] == sum(due) and each["recall"] == pytest.approx(right / sum(due))
        assert each["precision"] == pytest.approx(right / max(1, sum(given)))


def test_entities_are_scored_by_type(command, folders, tmp_path):
    words = ["[", "the", "cat", "in", "Paris", "]", *"北京是中国的首都。"]
    tags = cw.load(folders / "tag").tag([words])[0].tags
    assert set(tags) > {"O"}
    other = ["B-LOC", "B-PER", "O"] * 5
    for gold, wanted in ((tags, 1.0), (other, None)):
        path = tmp_path / "a.jsonl"
        path.write_text(json.dumps({"words": words, "tags": gold}), encoding="utf-8")
        found = value(command("evaluate", folders / "tag", path, "--json"))
        assert found["values"]["token_accuracy"] == pytest.approx(
            sum(a == b for a, b in zip(tags, gold, strict=True)) / 15
        )
        for each in found["by_type"]:
            assert each["f1"] == found["values"][f"f1 {each['label']}"]
            assert wanted is None or each["f1"] == wanted
    assert {each["label"]: each["support"] for each in found["by_type"]} == {"LOC": 5, "PER": 5}


def test_numbers_stand_for_labels_where_there_is_no_doubt(command, refused, folders, tmp_path):
    path = table(tmp_path / "a.csv", [("the cat", 2), ("the dog", 0), ("a", 1)], "text", "label")
    outcome = command("evaluate", folders / "classify", path, "--json")
    assert "\nLabels by number: 0 is bad, 1 is so-so, 2 is good.\n" in outcome.err
    named = [("the cat", "good"), ("the dog", "bad"), ("a", "so-so")]
    same = table(tmp_path / "b.csv", named, "text", "label")
    wanted = command("evaluate", folders / "classify", same, "--json")
    assert value(outcome)["values"] == value(wanted)["values"]
    few = table(tmp_path / "c.csv", [("the cat", 2), ("the dog", 0)], "text", "label")
    outcome = command("evaluate", folders / "nameless", few, "--task", "classify", "--json")
    assert "\nLabels by number: 0 is LABEL_0, 2 is LABEL_2.\n" in outcome.err
    outcome = command("evaluate", folders / "classify", few)
    assert outcome.code == 2
    assert outcome.err.endswith(
        f"clozeworks: {few}, row 2: the label is '2' (also 0); the model knows: bad, so-so, good; "
        "correct the labels, or evaluate a model that knows them.\n"
    )
    words = tmp_path / "a.jsonl"
    words.write_text('{"words": ["a", "b", "c"], "tags": [2, 0, 1]}\n', encoding="utf-8")
    outcome = command("evaluate", folders / "pos", words, "--json")
    assert "\nLabels by number: 0 is DET, 1 is NOUN, 2 is VERB.\n" in outcome.err
    assert sum(each["support"] for each in value(outcome)["by_tag"]) == 3


def test_unknown_labels_are_named_with_the_nearest(command, folders, tmp_path):
    rows = [("the cat", "good"), ("the dog", "god"), ("a", "baad"), ("b", "zzz")]
    path = table(tmp_path / "a.csv", rows, "text", "label")
    outcome = command("evaluate", folders / "classify", path)
    assert outcome.code == 2
    assert outcome.err.endswith(
        f"clozeworks: {path}, row 3: the label is 'god' (also baad, zzz); the model knows: bad, "
        "so-so, good; correct the labels, or evaluate a model that knows them. 'baad' may be "
        "'bad', 'god' may be 'good'.\n"
    )


def test_texts_or_pairs_are_guessed_and_said(command, folders, tmp_path):
    pairs = table(tmp_path / "p.csv", [("a", "b", "yes")], "premise", "hypothesis", "label")
    texts = table(tmp_path / "t.csv", [("a cat", "yes"), ("b", "no")], "text", "label")
    odd = table(tmp_path / "o.csv", [("a cat", "the dog", "yes")] * 2, "alpha", "beta", "label")
    begin = "The model folder does not say whether it is for texts or for pairs; "
    for path, columns, said, task in (
        (pairs, [], f"{pairs} has the columns premise and hypothesis", "compare"),
        (texts, [], f"{texts} has no columns of pairs", "classify"),
        (odd, [], f"{odd} has no columns with the usual names of pairs", "classify"),
        (
            pairs,
            ["--columns", "text=premise,label=label"],
            "--columns is text=premise,label=label",
            "classify",
        ),
        (
            pairs,
            ["--columns", "first=1,second=2,label=3"],
            "--columns is first=1,second=2,label=3",
            "compare",
        ),
    ):
        outcome = command("evaluate", folders / "plain", path, *columns, "--json")
        assert outcome.code == 0, outcome.err
        first = outcome.err.splitlines()[0]
        assert first == f"{begin}{said}, so it is measured with --task {task}."
        assert value(outcome)["task"] == task
    outcome = command("evaluate", folders / "plain", pairs, "--task", "compare", "--json")
    assert value(outcome)["task"] == "compare" and begin not in outcome.err


def test_thresholds_are_found_and_can_be_used(command, folders, tmp_path):
    rows = [
        {"question": "where", "context": "the cat sat on the mat", "answers": ["mat"]},
        {"question": "who", "context": "the dog lay in the garden", "answers": []},
    ]
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    always = command("evaluate", folders / "answer", path).out
    assert always.endswith(
        "\n1 of the questions has no answer, and the model always gives one; measure with "
        "--threshold 0 to let it give none, and to find the best threshold.\n"
    )
    outcome = command("evaluate", folders / "answer", path, "--threshold", "0")
    best = float(outcome.out.split("--threshold ")[-1])
    said = outcome.out.splitlines()[-2:]
    assert said[0].startswith("The best F1, ") and said[0].endswith(
        "; it was chosen by these questions, so this F1 is a little too good: measure it on others."
    )
    assert said[1] == f"Use it: clozeworks answer {folders / 'answer'} … --threshold {best}"
    assert len(str(best).replace("-", "").replace("0.", "").replace(".", "").lstrip("0")) <= 4
    again = value(command("evaluate", folders / "answer", path, "--threshold", best, "--json"))[
        "values"
    ]
    assert again["f1"] == pytest.approx(again["best_f1"])
    assert again["best_f1_threshold"] == pytest.approx(best, rel=1e-3)


def test_gaps_of_a_model_without_a_task(command, refused, tiny_models, folders, tmp_path):
    bert = cw.load(tiny_models["bert"])
    texts = ["the [MASK] sat", "the [MASK] and the [MASK]", "a [MASK]"]
    best = [" ".join(gap[0].token for gap in each.gaps) for each in bert.fill(texts)]
    rows = [*zip(texts, best, strict=True), ("the [MASK]", "hippopotamus")]
    path, out = table(tmp_path / "a.csv", rows, "text", "label"), tmp_path / "o.jsonl"
    outcome = command("evaluate", tiny_models["bert"], path, "--json", "--predictions", out)
    found = value(outcome)
    assert found["task"] == "fill" and found["values"]["accuracy"] == pytest.approx(4 / 5)
    assert found["notes"][0].startswith("1 of 5 words is not one token of this model")
    records = [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]
    assert records[1]["gold"] == best[1] and len(records[1]["gaps"]) == 2
    lines = command("evaluate", tiny_models["bert"], path, "--task", "fill").out.splitlines()
    assert lines[3].split()[:2] == ["accuracy", "0.800"]
    refused(
        f"{folders / 'tag'} has no vocabulary head, so it cannot fill gaps; use a checkpoint saved "
        "with its masked-language-model head.",
        *("evaluate", folders / "tag", path, "--task", "fill"),
    )


def test_what_cannot_be_measured(command, refused, folders, tmp_path):
    bare = table(tmp_path / "a.csv", [(text,) for text in TEXTS], "text")
    outcome = command("evaluate", folders / "classify", bare)
    assert outcome.err.endswith(
        f"clozeworks: {bare} has no labels, and there is nothing to measure without them; name "
        "their column with --columns label=NAME.\n"
    )
    refused(
        f"{folders / 'classify'} cannot tag words: it can classify texts; use a checkpoint with "
        "such a head (…ForTokenClassification), or train one with clozeworks finetune.",
        *("evaluate", folders / "classify", bare, "--task", "tag"),
    )
    refused(
        "--threshold is 1.0; classify has no threshold, only questions have one; leave it out.",
        *("evaluate", folders / "classify", bare, "--threshold", "1"),
    )
    refused(
        f"{tmp_path}/o.csv has the suffix '.csv'; known: .jsonl; the suffix chooses the format, so "
        "end the name in one of them.",
        *("evaluate", folders / "classify", bare, "--predictions", tmp_path / "o.csv"),
    )
    half = tmp_path / "q.jsonl"
    rows = [
        {"question": "x", "context": "the cat", "answers": answers} for answers in (["cat"], None)
    ]
    half.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    outcome = command("evaluate", folders / "answer", half)
    assert outcome.err.endswith(
        f"clozeworks: {half}, line 2 has no answer; give one, or mark it as impossible.\n"
    )
    path = table(tmp_path / "b.csv", zip(TEXTS, LABELS, strict=True), "text", "label")
    outcome = command("evaluate", folders / "classify", path, "--metric", "acuracy")
    assert outcome.err.endswith(" Did you mean 'accuracy'?\n") and outcome.code == 2
    worse = table(
        tmp_path / "c.csv", [*zip(TEXTS, LABELS, strict=True), ("", "bad")], "text", "label"
    )
    outcome = command("evaluate", folders / "classify", worse, "--skip-bad-rows")
    assert outcome.err.splitlines()[-1].endswith(
        f"; 1 bad row dropped, the first: {worse}, row 8: the text is empty; give it one"
    )
