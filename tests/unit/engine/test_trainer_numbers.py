"""The numbers of a run: rates by step, snapshots in time and whole, seconds of all sessions."""

import math
from dataclasses import replace
from threading import Event

import pytest

from clozeworks.engine import checkpointer
from clozeworks.engine import snapshots as snapshots_module
from clozeworks.engine.schedules.linear import Linear
from clozeworks.engine.snapshots import Snapshots


def test_each_step_has_the_rate_of_its_number(trained):
    trainer = trained(steps=5, rate=0.01, evaluate=0)
    schedule = Linear(warmup_steps=2)
    trainer.training = replace(trainer.training, schedule=schedule)
    rates, real = [], trainer.optimizer.step

    def step():
        rates.append(trainer.optimizer.param_groups[0]["lr"])
        real()

    trainer.optimizer.step = step
    trainer.run()
    assert rates == pytest.approx([0.01 * schedule.factor(number, 5) for number in range(5)])
    assert len(set(rates)) > 3


def test_snapshots_come_by_the_clock(trained, monkeypatch):
    """Half a minute a step, and one snapshot every two minutes."""
    trainer = trained(steps=9, every=None, keep=9)
    trainer.builtin[-1]._settings = replace(
        trainer.builtin[-1]._settings, every_steps=None, every_minutes=2
    )

    class Clock:
        monotonic = staticmethod(lambda: 30.0 * trainer.step)

    monkeypatch.setattr(checkpointer, "time", Clock)
    trainer.run()
    assert Snapshots(trainer.snapshots.folder, 9).steps() == [4, 8, 9]


def test_an_update_waits_until_the_weights_before_it_are_written(trained, monkeypatch):
    trainer = trained(steps=3, every=2)
    save, step, updated, early = snapshots_module.write_tensors, trainer.optimizer.step, Event(), []

    def slow(*arguments, **options):
        if trainer.step == 2:
            early.append(updated.wait(0.3))
        save(*arguments, **options)

    def noted():
        step()
        if trainer.step == 2:
            updated.set()

    monkeypatch.setattr(snapshots_module, "write_tensors", slow)
    trainer.optimizer.step = noted
    trainer.run()
    assert early and not any(early) and updated.is_set()


def test_seconds_of_all_sessions_count(trained):
    first = trained(steps=4, watched=1)
    first.run()
    snapshot, _ = first.snapshots.read_latest()
    snapshot.state["seconds"] = 5000.0
    again = trained(steps=4, watched=1, since=4)
    again.resume(snapshot)
    assert again.seconds >= 5000


def test_perplexity_is_the_exponential_of_the_loss(trained):
    trainer = trained(steps=2, evaluate=2)
    trainer.run()
    found = trainer.callback.evaluations[-1]["evaluation"]["masked_lm"]
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))
    assert found["perplexity"] > 2 * found["loss"]
