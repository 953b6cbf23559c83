"""Callbacks of a user: they see every step, may stop a run, and cannot lose it."""

import csv

import pytest

import clozeworks as cw
from clozeworks.engine.callbacks import CallbackList


class Recorder(cw.Callback):
    """Remembers what it was told, and stops a run when asked to."""

    def __init__(self, stop_at=None):
        self.stop_at, self.told, self.losses = stop_at, [], []

    def on_train_begin(self, steps):
        self.told.append(("begin", steps))

    def on_step(self, step, result):
        self.told.append(("step", step))
        self.losses.append(result.loss)
        return step == self.stop_at

    def on_log(self, step, record):
        self.told.append(("log", record["step"]))

    def on_evaluate(self, step, record):
        self.told.append(("evaluate", record["step"]))

    def on_train_end(self, outcome):
        self.told.append(("end", outcome.step))


class Failing(cw.Callback):
    def on_step(self, step, result):
        raise ZeroDivisionError("a mistake of mine")


def test_a_callback_sees_every_step_of_pretraining(tiny_recipe):
    recorder = Recorder()
    done = cw.pretrain(tiny_recipe, "logging.every_steps=2", callbacks=[recorder])
    assert done.outcome.finished
    assert recorder.told == [
        ("evaluate", 0), ("begin", 6),
        ("step", 1), ("step", 2), ("log", 2), ("step", 3), ("evaluate", 3),
        ("step", 4), ("log", 4), ("step", 5), ("step", 6), ("log", 6), ("evaluate", 6),
        ("end", 6),
    ]  # fmt: skip
    assert len(recorder.losses) == 6 and all(loss > 0 for loss in recorder.losses)


def test_a_callback_can_stop_a_run_and_it_goes_on_later(tiny_recipe):
    done = cw.pretrain(tiny_recipe, callbacks=[Recorder(stop_at=2)])
    assert (done.outcome.step, done.outcome.finished, done.outcome.signal) == (2, False, 0)
    assert done.model is None
    recorder = Recorder()
    done = cw.pretrain(tiny_recipe, callbacks=[recorder])
    assert done.outcome.finished
    assert [step for kind, step in recorder.told if kind == "step"] == [3, 4, 5, 6]


def test_a_callback_that_fails_is_reported_and_the_run_goes_on(tiny_recipe, listener):
    recorder = Recorder()
    done = cw.pretrain(tiny_recipe, callbacks=[listener, Failing(), recorder])
    assert done.outcome.finished
    assert [note for note in listener.notes if "Failing" in note] == [
        "The callback Failing failed (ZeroDivisionError: a mistake of mine); it is told nothing "
        "more, and the run goes on."
    ]
    assert len(recorder.losses) == 6


def test_what_the_job_needs_may_fail(listener):
    class Broken(cw.Callback):
        def on_message(self, message):
            raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        CallbackList([Broken()]).on_message("x")


def test_fine_tuning_tells_callbacks_too(tiny_recipe, tmp_path):
    model = cw.pretrain(tiny_recipe).model
    with (tmp_path / "train.csv").open("w", newline="") as file:
        rows = [(f"ba be {'bo' if number % 2 else 'bu'}", number % 2) for number in range(24)]
        csv.writer(file).writerows([("text", "label"), *rows])
    recipe = {
        "run": str(tmp_path / "tuned"),
        "model": str(model),
        "task": {"kind": "classify"},
        "data": {"train": [str(tmp_path / "train.csv")], "dev_fraction": 0.25},
        "training": {"steps": 4, "batch_size": 8},
    }
    done = cw.finetune(recipe, callbacks=[Recorder(stop_at=1)])
    assert done.model is None and done.outcome.step == 1
    recorder = Recorder()
    assert cw.finetune(recipe, callbacks=[recorder]).model is not None
    assert [step for kind, step in recorder.told if kind == "step"] == [2, 3, 4]
    assert ("end", 4) in recorder.told
