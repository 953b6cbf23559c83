"""Fine-tuning that tells targets in part: scheduled sampling through a whole run."""

import json

import pytest

from clozeworks.engine.trainer import Trainer
from clozeworks.errors import SettingError
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.finetune.recipe import read_finetune_recipe

HALF = {
    "teacher_forcing": {"kind": "linear_teacher_forcing", "fall": 0.0, "begin": 0.5},
    "choose": "drawn",
}


@pytest.fixture
def recipe(writers, tmp_path):
    rows = [
        {"source": f"the {animal} is good on day {n}", "target": f"good {animal} , day {n} ."}
        for n in range(8)
        for animal in ("cat", "dog", "fox", "hen")
    ]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")

    def make(name, run, sampling=None):
        return {
            "run": str(tmp_path / run),
            "model": str(writers[name]),
            "task": {"kind": "text_to_text", "writing": {"max_new_tokens": 4}},
            "data": {"train": [str(tmp_path / "rows.jsonl")], "dev_fraction": 0.25},
            "training": {"epochs": 2.0, "batch_size": 8, "learning_rate": 0.01},
            "scheduled_sampling": sampling,
            "evaluation": {"every_steps": 3},
            "checkpointing": {"every_steps": 2},
        }

    return make


def weights(done):
    return (done.model / "model.safetensors").read_bytes()


def losses(done):
    """What each step cost, and what the dev set cost each time."""
    lines = (done.folder / "seed-0" / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    steps = [record["text_to_text"]["loss"] for record in records if "text_to_text" in record]
    found = [record["evaluation"] for record in records if "evaluation" in record]
    return steps, [evaluation["text_to_text"]["loss"] for evaluation in found]


@pytest.mark.parametrize("name", ["t5", "gpt2"])
def test_targets_are_told_in_part_while_it_learns_and_whole_where_it_is_judged(name, recipe):
    still = "training.learning_rate=1e-12"  # so that all is asked of the same weights
    plain, part = (finetune(recipe(name, str(each), each), still) for each in (None, HALF))
    before, after = losses(plain), losses(part)
    assert len(before[0]) == len(after[0]) == 6
    pairs = zip(before[0], after[0], strict=True)
    # Not all: a model may happen to say the very tokens it is not told.
    assert sum(one != pytest.approx(other, rel=1e-4) for one, other in pairs) > 3
    assert before[1] == pytest.approx(after[1], rel=1e-6)


@pytest.mark.parametrize("name", ["t5", "gpt2"])
def test_a_run_that_was_stopped_ends_with_the_same_weights(name, recipe, listener, monkeypatch):
    done = finetune(recipe(name, "whole", HALF), callback=listener)
    assert (
        "Seed 0: Of the tokens before those of targets 50% are given at first and 50% in the last "
        "step; the others are what the model would have predicted."
    ) in listener.notes
    update = Trainer._update

    def dying(self, measured):
        update(self, measured)
        if self.step == 3:
            self.builtin[-1].snapshots.wait()
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "_update", dying)
        with pytest.raises(KeyboardInterrupt):
            finetune(recipe(name, "again", HALF))
    assert weights(finetune(recipe(name, "again", HALF))) == weights(done)


def test_with_everything_told_it_is_plain_fine_tuning(recipe):
    told = {"kind": "linear_teacher_forcing", "fall": 1.0, "hold": 4}
    runs = [
        finetune(recipe("t5", "plain")),
        finetune(recipe("t5", "held", {"teacher_forcing": told})),
    ]
    (plain, _), (held, _) = map(losses, runs)
    assert plain[:5] == held[:5] and len(plain) == 6
    with pytest.raises(
        SettingError, match="in all 6 steps every target token is given, so it has no effect"
    ):
        finetune(recipe("t5", "never", {"teacher_forcing": {**told, "hold": 5}}))


def test_it_is_for_tasks_that_write(recipe):
    with pytest.raises(SettingError) as caught:
        read_finetune_recipe({**recipe("t5", "run", HALF), "task": {"kind": "classify"}})
    assert str(caught.value) == (
        "scheduled_sampling is set; `task.kind` is 'classify': only the answers of text_to_text "
        "are texts; leave it out."
    )
