"""A search of settings: nested halves, exact resume, and numbers that say what they are."""

import hashlib
import json

import pytest

import clozeworks as cw
from clozeworks.engine.trainer import Trainer
from clozeworks.errors import InputError, SettingError
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.finetune.search import Search, search

ANIMALS = ("cat", "dog", "house")


def rows(count):
    found = ["text,label"]
    for number in range(count):
        word, label = ("good", "yes") if number % 2 else ("bad", "no")
        found.append(f"the {ANIMALS[number % 3]} is {word} {number},{label}")
    return "\n".join(found) + "\n"


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    from clozeworks.text.training.train import train_from_iterator

    folder = tmp_path_factory.mktemp("start")
    tokenizer = train_from_iterator([rows(40)] * 3, kind="wordpiece", size=150)
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
        "training": {"epochs": 3, "batch_size": 8},
        "checkpointing": {"every_steps": 2},
        "seeds": [0, 1],
        "search": {"learning_rates": [1e-9, 0.01]},
    }


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_every_combination_or_as_many_as_the_budget_allows():
    small = Search(learning_rates=(0.1, 0.2, 0.1), epochs=(1.0, 2.0))
    assert small.settings() == [
        {"learning_rate": rate, "epochs": epochs} for rate in (0.1, 0.2) for epochs in (1.0, 2.0)
    ]
    large = Search(trials=5, learning_rates=(0.1, 0.2, 0.3), batch_sizes=(8, 16, 32))
    assert len(large.settings()) == 5
    assert large.settings() == large.settings()
    every = Search(trials=9, learning_rates=(0.1, 0.2, 0.3), batch_sizes=(8, 16, 32)).settings()
    assert all(setting in every for setting in large.settings())


def test_the_best_setting_is_trained_and_measured_on_items_that_had_no_say(
    recipe, tmp_path, listener
):
    done = search(recipe, callback=listener)
    assert done.best_trial == 1
    tried = [{"learning_rate": 1e-9}, {"learning_rate": 0.01}]
    assert [setting for setting, _ in done.trials] == tried
    values = [result.measured.value for _, result in done.trials]
    assert values[1] > values[0]
    assert [result.seed for result in done.results] == [0, 1]
    run = tmp_path / "run"
    written = json.loads((run / "search.json").read_text())
    assert written["best_trial"] == 1
    assert [trial["learning_rate"] for trial in written["trials"]] == [1e-9, 0.01]
    # 12 items of the dev set: 6 choose and 6 report, and no item does both.
    assert {result.measured.count for result in done.results} == {6}
    assert {measured.count for measured in done.reported} == {6}
    assert written["plan"]["chooses"] != written["plan"]["reports"]
    assert any("6 items of the dev set choose; the other 6" in note for note in listener.notes)
    best = done.results[done.best_seed]
    assert digest(done.model / "model.safetensors") == digest(
        best.folder / "model" / "model.safetensors"
    )
    lines = done.summary()
    assert "on the 6 items that chose it: being chosen by them, it flatters." in lines[0]
    assert lines[1].startswith("On the 6 items that had no say: accuracy ")
    assert "Over 2 seeds" in lines[2]
    # Nothing is left to do.
    again = search(recipe)
    assert again.outcome is None
    assert again.reported == done.reported


def test_halves_are_disjoint_and_only_one_is_seen_while_choosing(recipe, monkeypatch):
    from clozeworks.jobs.finetune import search as module

    searched = []
    monkeypatch.setattr(
        module._Searching, "run", lambda self: searched.append(self) or module.Searched("", [])
    )
    search(recipe)
    (state,) = searched
    chooses = {item.text for item in state.data.dev}
    apart = {item.text for item in state.apart}
    train = {item.text for item in state.data.train}
    assert not chooses & apart
    assert not train & (chooses | apart)
    assert len(chooses) + len(apart) + len(train) == 48


class Killed(Exception):  # noqa: N818
    pass


def test_killed_anywhere_it_ends_with_the_same_bytes(recipe, tmp_path, monkeypatch):
    recipe |= {"seeds": [0, 1], "training": {"epochs": 1, "batch_size": 8}}
    whole = search({**recipe, "run": str(tmp_path / "whole")})
    update = Trainer._update
    for moment in (3, 5, 8):  # in the first trial, in the second, in the second seed
        steps = []

        def dying(self, measured, moment=moment, steps=steps):
            update(self, measured)
            steps.append(self.step)
            if len(steps) == moment:
                self.builtin[-1].snapshots.wait()
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_update", dying)
            with pytest.raises(Killed):
                search(recipe)
    assert (tmp_path / "run" / "seed-0").exists()
    done = search(recipe)
    assert digest(done.model / "model.safetensors") == digest(whole.model / "model.safetensors")
    assert done.reported == whole.reported


def test_another_search_or_a_plain_run_is_refused(recipe, tmp_path):
    recipe["training"]["epochs"] = 0.3
    search(recipe)
    with pytest.raises(SettingError) as caught:
        search(recipe, "search.learning_rates=[0.5, 0.25]")
    sentence = str(caught.value)
    assert sentence.startswith(
        f"run is '{tmp_path / 'run'}'; it was begun as something else: search.learning_rates"
    )
    assert sentence.endswith("; name another folder.")
    plain = {key: value for key, value in recipe.items() if key != "search"}
    finetune({**plain, "run": str(tmp_path / "plain")})
    with pytest.raises(SettingError, match="it holds a run without a search; name another folder"):
        search({**recipe, "run": str(tmp_path / "plain")})


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            "search.learning_rates=[0.1]",
            "search.learning_rates is [0.1]; there is one setting only, and nothing to choose;",
        ),
        ("search.trials=1", "search.trials is 1; it must be at least 2."),
        ("search=5", "search is 5; it must be a table of settings: trials, "),
    ],
)
def test_settings_that_cannot_be(recipe, change, sentence):
    with pytest.raises(SettingError) as caught:
        search(recipe, change)
    assert sentence in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            ["search.learning_rates=[0.01, -1]"],
            "search.learning_rates[1] is -1.0; it must be above 0.",
        ),
        (["head=refuse"], "head is 'refuse'; the labels are no, yes, and the checkpoint has no"),
        (
            ["training.learning_rate=0.5"],
            "training.learning_rate is 0.5; `search.learning_rates` tries others; leave one",
        ),
        (
            ["search.batch_sizes=[4, 8]"],
            "training.batch_size is 8; `search.batch_sizes` tries others; leave one",
        ),
    ],
)
def test_what_cannot_be_is_said_before_anything_is_written(recipe, tmp_path, changes, sentence):
    with pytest.raises(SettingError) as caught:
        search(recipe, *changes)
    assert sentence in str(caught.value)
    assert not list((tmp_path / "run").glob("*.json"))


def test_a_search_and_other_runs_keep_out_of_each_others_folders(recipe, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "recipe.json").write_text('{"objective": {"kind": "masked_lm"}}')
    with pytest.raises(SettingError, match="it holds a run without a search"):
        search(recipe)
    assert "masked_lm" in (run / "recipe.json").read_text()
    plain = {key: value for key, value in recipe.items() if key != "search"}
    search({**recipe, "run": str(tmp_path / "other"), "training": {"epochs": 0.3}})
    with pytest.raises(SettingError, match="holds a search of settings; name another folder"):
        finetune({**plain, "run": str(tmp_path / "other")})


def test_the_best_trial_is_not_trained_again_and_more_seeds_can_be_asked_for(
    recipe, tmp_path, monkeypatch
):
    steps, update = [], Trainer._update

    def counting(self, measured):
        steps.append(self.seed)
        update(self, measured)

    monkeypatch.setattr(Trainer, "_update", counting)
    recipe |= {"seeds": [0], "training": {"epochs": 1}}
    search(recipe)
    assert len(steps) == 2 * 2  # two trials of two steps, and nothing else
    more = search(recipe, "seeds=[0, 1]")
    assert steps[4:] == [1, 1]
    assert [result.seed for result in more.results] == [0, 1]


def test_overlap_with_training_is_counted_on_the_half_that_reports(recipe, tmp_path, listener):
    (tmp_path / "dev.csv").write_text(rows(12), encoding="utf-8")
    recipe["data"] = {**recipe["data"], "dev": [str(tmp_path / "dev.csv")]}
    recipe["training"] = {"epochs": 0.3}
    search(recipe, callback=listener)
    assert any("6 of 6 texts of the dev set" in note for note in listener.notes)


def test_one_dev_item_cannot_choose_and_report(recipe, tmp_path):
    (tmp_path / "dev.csv").write_text(rows(1), encoding="utf-8")
    recipe["data"] = {**recipe["data"], "dev": [str(tmp_path / "dev.csv")]}
    with pytest.raises(InputError, match="the dev set has 1 item; a search needs at least 2"):
        search(recipe)


def test_without_a_table_it_is_said(recipe):
    del recipe["search"]
    with pytest.raises(SettingError) as caught:
        search(recipe)
    assert str(caught.value) == (
        "search is missing; it must say what is tried, such as search = "
        "{learning_rates = [2e-5, 5e-5]}."
    )
