"""The page of fine-tuning gives the answer first, is safe to open, and never costs a run."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

import clozeworks as cw
from clozeworks.engine.param_groups import Freezing
from clozeworks.engine.settings import Training
from clozeworks.jobs.finetune.baseline import GuessingBaseline
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.finetune.recipe import read_finetune_recipe
from clozeworks.reports import finetune_page as finetune_report
from clozeworks.reports.finetune_charts import MOST_POINTS, scatter_chart
from clozeworks.reports.finetune_page import frozen, page, tell
from clozeworks.reports.summary import RunSummary
from clozeworks.reports.svg import Chart, cells, round_steps
from clozeworks.tasks.classify import Classified
from clozeworks.tasks.metrics.measured import Measured

EVIL = "<script>alert(1)</script> & <img src=x>"


def review(number):
    word, label = ("good", "yes") if number % 2 else ("bad", "no")
    return f"the {('cat', 'dog', 'house')[number % 3]} is {word} {number}", label


def tagged(number):
    words = [("the", "O"), (("Anna", "Carl")[number % 2], "B-PER"), ("saw", "O")]
    words += [("New", "B-LOC"), ("York", "I-LOC")] if number % 3 else [("London", "B-LOC")]
    return "".join(f"{word} {tag}\n" for word, tag in [*words, (str(number), "O")]) + "\n"


def question(number):
    place = ("London", "York")[number % 2]
    before = f"{number} the cat is <b>in</b> "
    answer = {"text": place, "answer_start": len(before)}
    return json.dumps(
        {
            "question": "where is the cat",
            "context": f"{before}{place} and the house is good " * (1 + 3 * (number % 5 == 0)),
            "answers": [answer] if number % 4 else [],
        }
    )


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    from clozeworks.text.training.train import train_from_iterator

    texts = [review(number)[0] for number in range(40)] + [tagged(number) for number in range(9)]
    texts += [question(number) for number in range(9)]
    tokenizer = train_from_iterator(texts, kind="wordpiece", size=200)
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"initializer_range": 0.3, "hidden_dropout_prob": 0.0}
    folder = tmp_path_factory.mktemp("start") / "model"
    cw.new("bert-tiny", tokenizer, max_position_embeddings=40, **sizes).save(folder)
    return folder


def recipe_of(kind, start, folder):
    """A run of a task on a file that is made for it."""
    folder.mkdir(exist_ok=True)
    if kind == "tag":
        place, text = folder / "train.conll", "".join(map(tagged, range(24)))
    elif kind == "answer":
        place, text = folder / "train.jsonl", "\n".join(map(question, range(24)))
    elif kind == "compare":
        place = folder / "train.csv"
        rows = [f"cat {n},dog {n} is good,{n % 5}.5" for n in range(24)]
        text = "\n".join(["first,second,score", *rows])
    else:
        place = folder / "train.csv"
        rows = [",".join(review(n)) for n in range(40)]
        rows += [f'"{EVIL} good {n}",no' for n in range(8)]
        text = "\n".join(["text,label", *rows])
    place.write_text(text + "\n", encoding="utf-8")
    return {
        "run": str(folder / "run"),
        "model": str(start),
        "task": {"kind": kind},
        "data": {"train": [str(place)], "dev_fraction": 0.25},
        "training": {"epochs": 2, "batch_size": 8, "learning_rate": 0.01},
        "seeds": [0, 1] if kind == "classify" else [0],
    }


@pytest.fixture(scope="module")
def runs(start, tmp_path_factory):
    """A finished run of each task."""
    made = {}
    for kind in ("classify", "compare", "tag", "answer"):
        recipe = recipe_of(kind, start, tmp_path_factory.mktemp(kind))
        made[kind] = (recipe, finetune(recipe))
    return made


class Checker(HTMLParser):
    """Every element is closed; elements that could do harm and addresses are noted."""

    def __init__(self):
        super().__init__()
        self.open, self.fetched, self.seen = [], [], set()

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag not in ("meta", "wbr", "br"):
            self.open.append(tag)
        self.fetched += [value for name, value in attrs if name in ("src", "href")]

    def handle_startendtag(self, tag, attrs):
        self.seen.add(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def words(text):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def told(runs, kind="classify", **changes):
    recipe, done = runs[kind]
    known = RunSummary(
        done.folder, read_finetune_recipe(recipe), done.data, done.results, done.best
    )
    return replace(known, **changes)


def measured(value, *, ends=None, higher=True, name="accuracy"):
    return Measured({name: value}, name, higher, 10, {name: ends} if ends else {})


@pytest.mark.parametrize("kind", ["classify", "compare", "tag", "answer"])
def test_a_page_for_every_task(runs, kind):
    _, done = runs[kind]
    assert done.report == done.folder / "report.html"
    assert done.summary()[-1] == f"Curves, mistakes and everything else: {done.report}"
    text = done.report.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    assert checker.open == [] and checker.fetched == []
    assert not checker.seen & {"script", "img", "b>", "link", "iframe"}
    assert "@import" not in text and "url(" not in text
    said = words(text)
    order = ["On the dev set", "Seeds", "Curves", "In detail", "Mistakes", "Data", "Sessions"]
    places = [said.index(f" {title} ") for title in [*order, "Recipe"]]
    assert places == sorted(places)
    assert "could not be" not in (done.folder / "notes.jsonl").read_text(encoding="utf-8")
    charts = {"classify": 4, "compare": 3, "tag": 2, "answer": 2}[kind]
    assert text.count("<svg") == charts
    value = f"{done.best.measured.value:.3f}"
    assert (
        f"<b>{value}</b>" in text
        and f"value guessing 95 % interval {done.best.measured.primary} {value}" in said
    )
    for row in (
        json.loads((done.folder / "seed-0" / "sessions.jsonl").read_text())["torch"],
        "Every parameter was trained.",
    ):
        assert row in said


@pytest.mark.parametrize("kind", ["classify", "compare", "tag", "answer"])
def test_predictions_are_what_was_measured(runs, kind):
    _, done = runs[kind]
    place = done.folder / "predictions.jsonl"
    lines = [json.loads(line) for line in place.read_text(encoding="utf-8").splitlines()]
    assert len(lines) == len(done.data.dev) == done.best.measured.count
    assert all(set(line) == {"item", "gold", "answer"} for line in lines)
    assert [line["item"]["place"] for line in lines] == [item.place for item in done.data.dev]
    values = done.best.measured.values
    if kind == "classify":
        right = sum(line["gold"] == line["answer"]["label"] for line in lines)
        assert right / len(lines) == pytest.approx(values["accuracy"])
    elif kind == "compare":
        off = [abs(line["gold"] - line["answer"]["label"]) for line in lines]
        assert sum(off) / len(off) == pytest.approx(values["mean_absolute_error"], abs=1e-5)
    elif kind == "tag":
        both = [zip(line["gold"], line["answer"]["tags"], strict=True) for line in lines]
        same = [right == said for each in both for right, said in each]
        assert sum(same) / len(same) == pytest.approx(values["token_accuracy"])
    else:
        right = [line["answer"]["text"] in [a["text"] for a in line["gold"]] or
                 not (line["gold"] or line["answer"]["text"]) for line in lines]  # fmt: skip
        assert sum(right) / len(right) == pytest.approx(values["exact_match"])


def test_texts_stay_texts(runs, listener):
    _, done = runs["classify"]
    answers = [
        replace(_wrong(item), windows=1 + (number == 0))
        for number, item in enumerate(done.data.dev)
    ]
    text = page(told(runs, answers=answers), listener)
    assert listener.notes == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;img src=x&gt;" in text
    assert "<script" not in text and "<img" not in text
    assert (
        f"1 of {len(answers)} items of the dev set were read through more than one window, 2 at"
        in words(text)
    )


def _wrong(item):
    label = "no" if item.label == "yes" else "yes"
    return Classified(label, 0.9, {label: 0.9, item.label: 0.1})


def test_no_better_than_guessing_is_said_loudly(runs, listener):
    best = runs["classify"][1].best
    bad = replace(best, measured=measured(0.4))
    known = told(
        runs, results=[bad], best=bad, guess=GuessingBaseline("always saying 'no'", measured(0.6))
    )
    (sentence, *_) = known.warnings()
    assert sentence == (
        "The model is no better than guessing: accuracy is 0.400, and always saying 'no' has "
        "0.600. It has not learned the task, or lost what it knew: look at the curve of the "
        "training loss, and try a lower training.learning_rate, more epochs or more data."
    )
    assert 'class="ended failed loud"' in page(known, listener)
    assert known.compared() == []
    same = replace(known, guess=GuessingBaseline("x", measured(0.4)))
    assert same.warnings()[0].startswith("The model is no better than guessing")
    better = replace(known, guess=GuessingBaseline("x", measured(0.3)))
    assert not any("no better" in each for each in better.warnings())


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ((0.7, 0.9), "The model is clearly better."),
        ((0.5, 0.9), "The interval holds that value: the model may be no better than guessing."),
    ],
)
def test_how_it_compares(runs, ends, sentence):
    best = replace(runs["classify"][1].best, measured=measured(0.8, ends=ends))
    known = told(runs, best=best, guess=GuessingBaseline("always saying 'no'", measured(0.6)))
    assert known.compared() == [f"Always saying 'no' has 0.600 on the same items. {sentence}"]


def test_numbers_in_order_but_far_off(runs):
    values = {"spearman": 0.5, "mean_squared_error": 4.0}
    best = replace(runs["compare"][1].best, measured=Measured(values, "spearman", True, 9))
    there = Measured({"spearman": 0.0, "mean_squared_error": 1.5}, "spearman", True, 9)
    (said,) = told(runs, "compare", best=best, guess=GuessingBaseline("x", there)).compared()
    assert said.endswith(
        "But its squared error is larger, 4.000 against 1.500: the order of its numbers means "
        "something, their size does not."
    )


def test_texts_in_both_sets_are_said_loudly(start, tmp_path, listener):
    recipe = recipe_of("classify", start, tmp_path)
    recipe["data"]["dev"] = recipe["data"]["train"]
    done = finetune(recipe, "training.epochs=0.2", "seeds=[0]", callback=listener)
    text = done.report.read_text(encoding="utf-8")
    loud = text[text.index('class="ended failed loud"') :].split("</div>")[0]
    assert "Texts of the dev set that also stand in the training data: 48 of 48." in loud
    assert any("training data: 48 of 48." in note for note in listener.notes)


def test_seeds(runs, listener):
    known = told(runs)
    text = words(page(known, listener))
    assert f"{known.best.seed} (kept) {known.best.measured.value:.3f}" in text
    assert text.count("(kept)") == 1
    values = [result.measured.value for result in known.results]
    assert known.spread().startswith(f"Over 2 seeds: mean {sum(values) / 2:.4f}, spread ")
    assert told(runs, "tag").spread() == "There was one seed; how much others differ is not known."


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ("curves", "The part 'Curves' of the report could not be made"),
        ("guess", "Guessing could not be measured"),
        ("answers", "The best model could not be asked about the dev set"),
        ("finetuning_card", "The model's card could not be written"),
        ("whole_page", "The report could not be written"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_a_note(runs, listener, monkeypatch, tmp_path, broken, sentence):
    def fail(*_, **__):
        raise RuntimeError("no ink")

    _, done = runs["tag"]
    shutil.copytree(done.folder, tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    monkeypatch.setattr(finetune_report, broken, fail)
    known = replace(told(runs, "tag"), folder=tmp_path / "run")
    monkeypatch.setattr(RunSummary, "warnings", lambda _: ["beware"])
    place = tell(known, torch.device("cpu"), listener)
    notes = [note for note in listener.notes if note not in known.warnings()]
    assert notes == [f"{sentence} (no ink); the run itself is not touched."]
    assert (place is None) == (broken == "whole_page")
    if place is not None:
        text = place.read_text(encoding="utf-8")
        assert ("<svg" in text) == (broken != "curves")
        assert ("<h2>Mistakes</h2>" in text) == (broken != "answers")


def test_what_was_frozen():
    assert frozen(Training(), "") == "Every parameter was trained."
    assert frozen(
        Training(freezing=Freezing(layers=2), layer_decay=0.9), "1 of 2 parameters change."
    ) == (
        "1 of 2 parameters change. The embeddings and the lowest 2 layers stayed as they were. "
        "Each layer has 0.9 times the rate of the one above it."
    )
    assert "Only the heads and the pooler were trained." in frozen(
        Training(freezing=Freezing(heads_only=True)), "x"
    )


@pytest.mark.parametrize(
    ("ends", "steps"),
    [((0, 1), [0, 0.2, 0.4, 0.6, 0.8, 1]), ((3, 47), [10, 20, 30, 40]), ((2, 2), [2]),
     ((-0.3, 0.3), [-0.2, 0, 0.2]), ((0, 1e-6), [0, 2e-7, 4e-7, 6e-7, 8e-7, 1e-6])],
)  # fmt: skip
def test_axes_have_round_numbers(ends, steps):
    assert round_steps(*ends) == pytest.approx(steps)


def test_charts_of_little_or_much():
    flat = Chart("t", (1, 1), (5, 5))
    flat.line([(1, 5)], "red")
    assert "nan" not in flat.svg() and 'r="2.6"' in flat.svg()
    many = scatter_chart(range(9000), range(9000))
    assert many.count("<circle") == MOST_POINTS
    drawn = cells("t", ["<a>", "b"], [[3, 1], [0, 0]], ("r", "g"))
    assert "&lt;a&gt; → b: 1 (25.0%)" in drawn and "<a>" not in drawn
    assert 'class="right" x=' in drawn and 'fill-opacity="0.750"' in drawn
