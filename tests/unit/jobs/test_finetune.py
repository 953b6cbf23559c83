"""Fine-tuning: learns, can be stopped anywhere, and goes on to the bit."""

import hashlib
import json
import shutil
from pathlib import Path

import pytest

import clozeworks as cw
from clozeworks.engine.trainer import Trainer
from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.jobs.finetune.data import labelled_task
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.finetune.plan import usual_epochs, usual_learning_rate
from clozeworks.jobs.finetune.recipe import read_finetune_recipe

ANIMALS = ("cat", "dog", "house")


def rows(count):
    found = ["text,label"]
    for number in range(count):
        word, label = ("good", "yes") if number % 2 else ("bad", "no")
        found.append(f"the {ANIMALS[number % 3]} is {word} {number % 7},{label}")
    return "\n".join(found) + "\n"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    folder = tmp_path_factory.mktemp("start")
    from clozeworks.text.training.train import train_from_iterator

    tokenizer = train_from_iterator(
        [rows(40), "London New York in"] * 3, kind="wordpiece", size=150
    )
    sizes = {"hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 32}
    sizes |= {"initializer_range": 0.3, "hidden_dropout_prob": 0.0}
    cw.new("bert-tiny", tokenizer, max_position_embeddings=40, **sizes).save(folder / "model")
    return folder / "model"


@pytest.fixture
def recipe(start, tmp_path):
    (tmp_path / "train.csv").write_text(rows(48), encoding="utf-8")
    return {
        "run": str(tmp_path / "run"),
        "model": str(start),
        "task": {"kind": "classify"},
        "data": {"train": [str(tmp_path / "train.csv")], "dev_fraction": 0.25},
        "training": {"epochs": 6, "batch_size": 8, "learning_rate": 0.01},
        "checkpointing": {"every_steps": 3},
    }


def digest(folder):
    return hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()


def test_it_learns_and_leaves_a_model_that_answers(recipe, tmp_path, listener):
    done = finetune(recipe, callback=listener)
    assert done.best.measured.value == 1.0
    assert done.model == tmp_path / "run" / "model"
    model = cw.load(done.model)
    assert [found.label for found in model.classify(["the dog is good 3", "the cat is bad 1"])] == [
        "yes",
        "no",
    ]
    numbers = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert numbers["primary"] == "accuracy"
    assert numbers["seeds"]["0"]["values"]["accuracy"] == 1.0
    assert any("There is no dev file: 12 of 48 items" in note for note in listener.notes)
    assert not (tmp_path / "run" / "seed-0" / "snapshots").exists()
    again = finetune(recipe)
    assert again.outcome is None
    assert again.best == done.best


class Killed(Exception):  # noqa: N818
    pass


@pytest.mark.parametrize("moments", [[1], [4, 9], [2, 3, 5, 20]])
def test_killed_anywhere_it_ends_with_the_same_bytes(recipe, tmp_path, monkeypatch, moments):
    recipe["seeds"] = [0, 1]
    recipe["augment"] = {"kind": "delete", "fraction": 0.2}
    recipe["evaluation"] = {"every_steps": 4}
    whole = finetune({**recipe, "run": str(tmp_path / "whole")})
    update, left, steps = Trainer._update, list(moments), [0]

    def dying(self, measured):
        update(self, measured)
        steps[0] += 1
        if left and steps[0] == left[0]:
            left.pop(0)
            steps[0] = 0
            self.builtin[-1].snapshots.wait()
            raise Killed

    monkeypatch.setattr(Trainer, "_update", dying)
    for _ in moments:
        with pytest.raises(Killed):
            finetune(recipe)
    monkeypatch.setattr(Trainer, "_update", update)
    done = finetune(recipe)
    assert digest(done.model) == digest(whole.model)
    for seed in (0, 1):
        assert digest(tmp_path / f"run/seed-{seed}/model") == digest(
            tmp_path / f"whole/seed-{seed}/model"
        )
    assert [r.measured for r in done.results] == [r.measured for r in whole.results]


def test_seeds_differ_and_repeat(recipe, tmp_path):
    recipe["seeds"] = [0, 1, 2]
    done = finetune(recipe)
    other = finetune({**recipe, "run": str(tmp_path / "other"), "seeds": [2]})
    hashes = [digest(result.folder / "model") for result in done.results]
    assert len(set(hashes)) == 3
    assert digest(other.model) == hashes[2]
    assert "over 3 seeds: mean" in done.summary()[0]
    assert done.best.measured.value == max(result.measured.value for result in done.results)


def test_the_best_weights_are_kept_not_the_last(recipe, monkeypatch):
    values = iter([0.5, 0.9, 0.4, 0.3, 0.2, 0.1, 0.1, 0.1, 0.1, 0.1])
    from clozeworks.jobs.finetune import run as finetuning

    judged = finetuning.FinetuneRun._evaluated

    def scripted(self, model):
        found = judged(self, model)
        return type(found)(next(values), True, found.record)

    monkeypatch.setattr(finetuning.FinetuneRun, "_evaluated", scripted)
    recipe["evaluation"], recipe["selection"] = {"every_steps": 5}, {"patience": 2}
    done = finetune(recipe)
    assert (done.best.step, done.best.steps) == (10, 20)


def test_a_changed_recipe_or_file_is_refused(recipe, tmp_path, monkeypatch):
    def dying(self, measured):
        raise Killed

    monkeypatch.setattr(Trainer, "_update", dying)
    with pytest.raises(Killed):
        finetune(recipe)
    monkeypatch.undo()
    # Nothing was kept yet, so it may begin anew with anything.
    finetune(recipe, "training.epochs=0.5")


def test_a_file_that_changed_meanwhile_is_noticed(recipe, tmp_path, monkeypatch):
    update = Trainer._update

    def dying(self, measured):
        update(self, measured)
        if self.step == 7:
            self.builtin[-1].snapshots.wait()
            raise Killed

    monkeypatch.setattr(Trainer, "_update", dying)
    with pytest.raises(Killed):
        finetune(recipe)
    (tmp_path / "train.csv").write_text(rows(49), encoding="utf-8")
    with pytest.raises(SettingError, match=r"started with another recipe: .*identity\.dev"):
        finetune(recipe)


def test_a_seed_that_is_done_is_not_taken_for_another_recipe(recipe):
    finetune(recipe, "training.epochs=0.2")
    before = (Path(recipe["run"]) / "recipe.json").read_bytes()
    with pytest.raises(SettingError, match=r"training\.epochs was 0\.2, now 0\.4"):
        finetune(recipe, "training.epochs=0.4")
    assert (Path(recipe["run"]) / "recipe.json").read_bytes() == before


def test_a_small_set_is_seen_as_often_as_it_says(recipe):
    done = finetune(recipe, "training.batch_size=100", "training.epochs=3")
    assert done.best.steps == 3  # 36 items, all of them in each step


def test_a_folder_of_another_task_is_refused(recipe, tmp_path):
    finetune(recipe, "training.epochs=0.2")
    (tmp_path / "train.conll").write_text("a O\nb X\n\na O\nb O\n\n" * 4, encoding="utf-8")
    other = {**recipe, "task": {"kind": "tag"}}
    other["data"] = {"train": [str(tmp_path / "train.conll")]}
    with pytest.raises(SettingError, match="holds a run of 'classify', and the task is 'tag'"):
        finetune(other)


def test_a_vocabulary_that_does_not_fit_is_stated(recipe, tmp_path, start):
    (tmp_path / "other.csv").write_text("text,label\n" + "ꙮ the,a\n☃ ꙮ,b\n" * 10, encoding="utf-8")
    recipe["data"] = {"train": [str(tmp_path / "other.csv")]}
    messages = labelled_task(read_finetune_recipe(recipe), cw.load(start)).messages
    assert "tokens of these texts are unknown" in messages[-1]
    assert "choose a model for their language, or extend its vocabulary" in messages[-1]


def test_tags_of_any_scheme_become_one_the_head_can_say(recipe, tmp_path, start):
    sentence = "the O\ncat I-PER\nin O\nNew I-LOC\nYork I-LOC\nLondon B-LOC\n\n"
    (tmp_path / "train.conll").write_text(sentence * 12, encoding="utf-8")
    recipe |= {"task": {"kind": "tag"}, "data": {"train": [str(tmp_path / "train.conll")]}}
    data = labelled_task(read_finetune_recipe(recipe), cw.load(start))
    assert data.task.labels == ("O", "B-LOC", "I-LOC", "B-PER", "I-PER")
    assert data.train[0].tags == ("O", "B-PER", "O", "B-LOC", "I-LOC", "B-LOC")
    assert "The tags are IOB1; they are used as BIO." in data.messages
    done = finetune(recipe)
    assert done.best.measured.primary == "f1"


def test_tags_can_be_learned_in_another_scheme(recipe, tmp_path, start):
    sentence = "the O\ncat B-PER\nin O\nNew B-LOC\nYork I-LOC\n\n"
    (tmp_path / "train.conll").write_text(sentence * 12, encoding="utf-8")
    recipe |= {"task": {"kind": "tag", "scheme": "BIOES"}}
    recipe["data"] = {"train": [str(tmp_path / "train.conll")]}
    data = labelled_task(read_finetune_recipe(recipe), cw.load(start))
    assert data.train[0].tags == ("O", "S-PER", "O", "B-LOC", "E-LOC")
    assert "The tags are BIO; they are used as BIOES." in data.messages
    done = finetune(recipe)
    model = cw.load(done.model)
    assert model.task.rules.name == "BIOES"
    for scheme, roles in (("BIO", "BIO"), ("BMES", "BMESO")):
        tags = model.tag("the cat in New York", scheme=scheme).tags
        assert {tag[0] for tag in tags} <= set(roles)


def test_words_may_come_from_the_model_itself(recipe, monkeypatch):
    recipe["training"]["epochs"] = 0.5
    recipe["augment"] = {"kind": "replace_by_model", "fraction": 0.3}
    first = finetune(recipe)
    again = finetune({**recipe, "run": recipe["run"] + "-again"})
    assert digest(first.model) == digest(again.model)
    recipe["model"] = str(first.model)  # a classifier fills no gaps
    with pytest.raises(SettingError, match="it needs a masked language model"):
        finetune({**recipe, "run": recipe["run"] + "-other"})


def test_questions_without_answers_get_a_threshold(recipe, tmp_path, start):
    lines = [
        {"question": "where", "context": f"the cat {n} in London", "answers": []}
        if n % 3 == 0
        else {
            "question": "where",
            "context": f"the dog {n} in London",
            "answers": [{"text": "London", "answer_start": len(f"the dog {n} in ")}],
        }
        for n in range(12)
    ]
    place = tmp_path / "train.jsonl"
    place.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    recipe |= {"task": {"kind": "answer"}, "data": {"train": [str(place)]}}
    data = labelled_task(read_finetune_recipe(recipe), cw.load(start))
    assert data.task.threshold == 0.0
    done = finetune(recipe)
    tuned = cw.load(done.model).task.threshold
    assert tuned == pytest.approx(done.best.measured.values["best_f1_threshold"])
    assert done.best.measured.values["f1"] == pytest.approx(done.best.measured.values["best_f1"])
    fixed = finetune({**recipe, "run": recipe["run"] + "-fixed"}, "task.threshold=0.5")
    assert cw.load(fixed.model).task.threshold == 0.5


def test_frozen_layers_do_not_move(recipe, start):
    recipe["training"]["freezing"] = {"heads_only": True}
    done = finetune(recipe)
    before, after = cw.load(start).model.state_dict(), cw.load(done.model).model.state_dict()
    assert all(
        (before[name] == after[name]).all() for name in before if name.startswith("encoder.")
    )


def test_defaults_follow_size_and_task():
    assert usual_learning_rate(110_000_000) == 3e-5
    assert usual_learning_rate(22_000_000) == 5e-5
    assert usual_learning_rate(4_000_000) == 2e-4
    assert usual_learning_rate(60_000_000, encoder_decoder=True) == pytest.approx(1.5e-4)
    assert usual_learning_rate(110_000_000, lora=True) == pytest.approx(3e-4)
    assert (usual_epochs("answer", 90_000), usual_epochs("classify", 90_000)) == (2.0, 3.0)
    assert usual_epochs("classify", 300) == 6.0


@pytest.mark.parametrize(
    ("change", "error", "sentence"),
    [
        ("task.kind=clasify", UnknownName, "Did you mean 'classify'"),
        ("task.labels=[1]", SettingError, "labels come from the data; leave it out."),
        ("task.problem=number", SettingError, "it follows from the labels; leave it out"),
        ("task.poolin=mean", UnknownName, "Did you mean 'pooling'"),
        (
            "data.dev_fraction=1",
            SettingError,
            "data.dev_fraction is 1.0; it must be above 0 and below 1.",
        ),
        ("training.batch_size=0", SettingError, "training.batch_size is 0; it must be at least 1."),
        (
            "training.learning_rate=-1",
            SettingError,
            "training.learning_rate is -1.0; it must be above 0.",
        ),
        ("selection.patience=0", SettingError, "selection.patience is 0; it must be at least 1."),
        ("seeds=[]", SettingError, "seeds is empty; it must be one seed or more."),
        ("seeds=[1,1]", SettingError, "seeds is [1, 1]; each must be there once."),
        (
            "data.train=[]",
            SettingError,
            "data.train is empty; it must be one labelled file or more.",
        ),
        (
            "training.freezing.layers=9",
            SettingError,
            "freezing.layers is 9; the model has 2 layers",
        ),
    ],
)
def test_settings_that_cannot_be(recipe, change, error, sentence):
    with pytest.raises(error) as caught:
        finetune(recipe, change)
    assert sentence in str(caught.value)


def test_nothing_is_made_when_the_file_cannot_be_used(recipe, tmp_path):
    (tmp_path / "train.csv").write_text("text,label\nonly one,yes\nand again,yes\n")
    with pytest.raises(InputError, match="the only label is 'yes'"):
        finetune(recipe)
    assert not (tmp_path / "run").exists()
    shutil.rmtree(tmp_path / "run", ignore_errors=True)


def test_each_evaluation_asks_the_dev_set_once_and_nothing_asks_it_again(
    recipe, tmp_path, monkeypatch
):
    from clozeworks.jobs.finetune import report as finetune_report
    from clozeworks.jobs.finetune import run as finetuning

    asked, real = [], finetuning.answers

    def counting(task, model, tokenizer, items, **options):
        asked.append(len(items))
        return real(task, model, tokenizer, items, **options)

    monkeypatch.setattr(finetuning, "answers", counting)
    monkeypatch.setattr(finetune_report, "predict", counting)
    done = finetune({**recipe, "evaluation": {"every_steps": 9}})
    assert asked == [12, 12, 12]
    records = [json.loads(line) for line in (done.best.folder / "metrics.jsonl").open()]
    losses = [record["evaluation"]["loss"] for record in records if "evaluation" in record]
    values = [record["judged"]["values"]["log_loss"] for record in records if "judged" in record]
    assert losses == values
    page = (tmp_path / "run" / "predictions.jsonl").read_text()
    # A run that is told of again asks the saved model, which says the same.
    assert finetune(recipe | {"evaluation": {"every_steps": 9}}).outcome is None
    assert asked == [12, 12, 12, 12]
    assert (tmp_path / "run" / "predictions.jsonl").read_text() == page


def test_of_equal_values_the_surest_weights_are_kept(recipe):
    done = finetune(
        {**recipe, "evaluation": {"every_steps": 3}, "training": {**recipe["training"]}}
    )
    records = [json.loads(line) for line in (done.best.folder / "metrics.jsonl").open()]
    judged = [
        (record["step"], record["judged"]["values"]) for record in records if "judged" in record
    ]
    best = max(values["accuracy"] for _, values in judged)
    equal = [(values["log_loss"], step) for step, values in judged if values["accuracy"] == best]
    assert len(equal) > 1
    assert done.best.step == min(equal)[1]
