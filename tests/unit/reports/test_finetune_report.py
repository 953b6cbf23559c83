"""The page of fine-tuning gives the answer first, is safe to open, and never costs a run."""

import json
import re
import shutil
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch

import clozeworks as cw
from clozeworks import config
from clozeworks.engine.param_groups import Freezing
from clozeworks.engine.settings import Training
from clozeworks.jobs.finetune import report as finetune_report
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.finetune.recipe import read_finetune_recipe
from clozeworks.jobs.finetune.report import about_freezing, seed_summary, write_report
from clozeworks.reports import finetune_page
from clozeworks.reports.finetune_page import finetuning_page as page
from clozeworks.reports.summary import FinetuneSummary
from clozeworks.tasks.classify import Classified
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.results.details import worst_mistakes
from clozeworks.tasks.tag import Tag


def mistakes(task, items, answers, **options):
    return worst_mistakes(task.mistakes(items, answers), **options)


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
        links = [value for name, value in attrs if name in ("src", "href", "xlink:href")]
        self.fetched += [link for link in links if not link.startswith("#")]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def words(text):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def told(runs, /, kind="classify", **changes):
    recipe, done = runs[kind]
    seeds = [seed_summary(result) for result in done.results]
    return replace(
        FinetuneSummary(
            name=done.folder.name,
            task=kind,
            task_title="Task",
            loss_name=done.data.task.name,
            recipe=config.plain(read_finetune_recipe(recipe)),
            data=done.data.report,
            dev_size=len(done.data.dev),
            runs=seeds,
            best=seeds[list(done.results).index(done.best)],
        ),
        **changes,
    )


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
    assert "@import" not in text and not re.search(r"url\((?!#)", text)
    said = words(text)
    order = ["Results on the dev set", "Seeds", "Curves", "Details", "Mistakes", "Data", "Sessions"]
    places = [said.index(f" {title} ") for title in [*order, "Recipe"]]
    assert places == sorted(places)
    assert "could not be" not in (done.folder / "notes.jsonl").read_text(encoding="utf-8")
    charts = {"classify": 4, "compare": 3, "tag": 2, "answer": 2}[kind]
    assert text.count("<svg") == charts
    value = f"{done.best.measured.value:.3f}"
    assert (
        f"<b>{value}</b>" in text
        and f"value guessing 95% interval {done.best.measured.primary} {value}" in said
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
    assert all({"gold", "windows"} <= set(line) for line in lines)
    assert [line["source_location"] for line in lines] == [
        item.source_location for item in done.data.dev
    ]
    values = done.best.measured.values
    if kind == "classify":
        right = sum(line["gold"] == line["label"] for line in lines)
        assert right / len(lines) == pytest.approx(values["accuracy"])
    elif kind == "compare":
        off = [abs(line["gold"] - line["label"]) for line in lines]
        assert sum(off) / len(off) == pytest.approx(values["mean_absolute_error"], abs=1e-5)
    elif kind == "tag":
        both = [zip(line["gold"], line["tags"], strict=True) for line in lines]
        same = [right == said for each in both for right, said in each]
        assert sum(same) / len(same) == pytest.approx(values["token_accuracy"])
    else:
        right = [line["answer"] in [a["text"] for a in line["gold"]] or
                 not (line["gold"] or line["answer"]) for line in lines]  # fmt: skip
        assert sum(right) / len(right) == pytest.approx(values["exact_match"])


def test_texts_stay_texts(runs, listener):
    _, done = runs["classify"]
    answers = [
        replace(_wrong(item), windows=1 + (number == 0))
        for number, item in enumerate(done.data.dev)
    ]
    task = done.data.task
    sentences = task.reading_notes(answers)
    known = told(runs, mistakes=mistakes(task, done.data.dev, answers), training=sentences)
    text = page(known, listener.on_message)
    assert listener.notes == []
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;img src=x&gt;" in text
    assert "<script" not in text and "<img" not in text
    assert (
        f"1 of {len(answers)} items of the dev set were read through more than one window, "
        "through 2 at most." in words(text)
    )


def _wrong(item):
    label = "no" if item.label == "yes" else "yes"
    return Classified(label, 0.9, {label: 0.9, item.label: 0.1})


def test_no_better_than_guessing_is_said_loudly(runs, listener):
    bad = replace(told(runs).best, measured=measured(0.4))
    known = told(runs, runs=[bad], best=bad, guess=measured(0.6), guessed="always saying 'no'")
    (sentence, *_) = known.warnings()
    assert sentence == (
        "The model is no better than guessing: accuracy is 0.400, and always saying 'no' scores "
        "0.600. It has not learned the task, or has forgotten what it knew: look at the curve of "
        "the training loss, and try a lower learning rate, more epochs or more data."
    )
    assert 'class="banner failed loud"' in page(known, listener.on_message)
    assert known.compared() == []
    same = replace(known, guess=measured(0.4))
    assert same.warnings()[0].startswith("The model is no better than guessing")
    better = replace(known, guess=measured(0.3))
    assert not any("no better" in each for each in better.warnings())


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ((0.7, 0.9), "The model is clearly better."),
        ((0.5, 0.9), "The interval includes that value: the model may be no better than guessing."),
    ],
)
def test_how_it_compares(runs, ends, sentence):
    best = replace(told(runs).best, measured=measured(0.8, ends=ends))
    known = told(runs, best=best, guess=measured(0.6), guessed="always saying 'no'")
    assert known.compared() == [f"Always saying 'no' scores 0.600 on the same items. {sentence}"]


def test_numbers_in_order_but_far_off(runs):
    values = {"spearman": 0.5, "mean_squared_error": 4.0}
    best = replace(told(runs).best, measured=Measured(values, "spearman", True, 9))
    there = Measured({"spearman": 0.0, "mean_squared_error": 1.5}, "spearman", True, 9)
    (said,) = told(runs, "compare", best=best, guess=there, guessed="x").compared()
    assert said.endswith(
        "But its squared error is larger, 4.000 versus 1.500: the order of its numbers is "
        "meaningful, their scale is not."
    )


def test_texts_in_both_sets_are_said_loudly(start, tmp_path, listener):
    recipe = recipe_of("classify", start, tmp_path)
    recipe["data"]["dev"] = recipe["data"]["train"]
    done = finetune(recipe, "training.epochs=0.2", "seeds=[0]", callback=listener)
    text = done.report.read_text(encoding="utf-8")
    loud = text[text.index('class="banner failed loud"') :].split("</div>")[0]
    assert "48 of 48 texts of the dev set also appear in the training data" in loud
    assert any("48 of 48 texts of the dev set" in note for note in listener.notes)


def test_seeds(runs, listener):
    known = told(runs)
    text = words(page(known, listener.on_message))
    assert f"{known.best.seed} (kept) {known.best.measured.value:.3f}" in text
    assert text.count("(kept)") == 1
    values = [result.measured.value for result in known.runs]
    assert known.spread().startswith(f"Over 2 seeds: mean {sum(values) / 2:.4f}, standard ")
    assert told(runs, "tag").spread() == (
        "Only one seed was trained, so the variation between seeds is unknown."
    )


@pytest.mark.parametrize(
    ("broken", "sentence"),
    [
        ("draw_svg", "The part 'Curves' of the report could not be written"),
        ("baseline", "Guessing could not be measured"),
        ("predict", "The best model could not be asked about the dev set"),
        ("finetuning_card", "The model's card could not be written"),
        ("details", "Details of the predictions could not be worked out"),
        ("render_page", "The report could not be written"),
    ],
)  # fmt: skip
def test_what_goes_wrong_is_a_note(runs, listener, monkeypatch, tmp_path, broken, sentence):
    def fail(*_, **__):
        raise RuntimeError("no ink")

    recipe, done = runs["tag"]
    shutil.copytree(done.folder, tmp_path / "run")
    (tmp_path / "run" / "report.html").unlink()
    module = finetune_report if hasattr(finetune_report, broken) else finetune_page
    monkeypatch.setattr(Tag if broken in ("details", "baseline") else module, broken, fail)
    monkeypatch.setattr(FinetuneSummary, "warnings", lambda _: ["beware"])
    place = write_report(
        tmp_path / "run",
        read_finetune_recipe(recipe),
        done.data,
        done.results,
        done.best,
        device=torch.device("cpu"),
        callback=listener,
    )
    notes = [note for note in listener.notes if note != "beware"]
    assert notes == [f"{sentence} (no ink); the run itself is not affected."]
    assert (place is None) == (broken == "render_page")
    if place is not None:
        text = place.read_text(encoding="utf-8")
        assert ("<svg" in text) == (broken != "draw_svg")
        assert ("<h2>Mistakes</h2>" in text) == (broken not in ("predict", "details"))


def test_what_was_frozen():
    assert about_freezing(Training(), "") == "Every parameter was trained."
    assert about_freezing(
        Training(freezing=Freezing(layers=2), layer_decay=0.9), "1 of 2 parameters change."
    ) == (
        "1 of 2 parameters change. The embeddings and the lowest 2 layers were frozen. "
        "Each layer has 0.9 times the learning rate of the layer above it."
    )
    assert "Only the heads and the pooler were trained." in about_freezing(
        Training(freezing=Freezing(heads_only=True)), "x"
    )
