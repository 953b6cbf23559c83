"""The loop: exact after a stop, calm on a full disk, plain words when numbers go wrong."""

import errno
import math
import os
import re
import signal

import pytest
import torch

from clozeworks.engine import snapshots as snapshots_module
from clozeworks.engine.evaluation import EvalResult
from clozeworks.engine.gradients import norm_of
from clozeworks.engine.guards import Diverged
from clozeworks.engine.metrics import read
from clozeworks.errors import CheckpointError, OutputError
from clozeworks.objectives.published import published

TIMED = {"seconds", "tokens_per_second", "share_of_peak"}


def lines(trainer):
    """The metrics file without times."""
    return [
        {key: value for key, value in record.items() if key not in TIMED}
        for record in read(trainer.metrics._path)
    ]


def same(one, other):
    assert one.keys() == other.keys()
    return all(torch.equal(one[name], other[name]) for name in one)


def stopping_behind(trainer, step):
    """A cost that sends this process a signal during a step."""
    real, sent = trainer.loss, []

    def cost(model, tensors):
        if trainer.step == step - 1 and not sent:
            sent.append(signal.SIGTERM)
            signal.raise_signal(signal.SIGTERM)
        return real(model, tensors)

    return cost


@pytest.mark.parametrize("step", [1, 3, 5])
def test_a_run_that_is_stopped_and_goes_on_is_the_same_run(trained, step):
    whole = trained(evaluate=3, every=4)
    assert whole.run().finished
    first = trained(folder="other", evaluate=3, every=4)
    first.loss = stopping_behind(first, step)
    outcome = first.run()
    assert (outcome.step, outcome.finished, outcome.signal) == (step, False, signal.SIGTERM)
    first.metrics.close()
    second = trained(folder="other", evaluate=3, every=4, since=step)
    snapshot, damaged = second.snapshots.read_latest()
    assert snapshot.step == step and not damaged
    second.resume(snapshot)
    outcome = second.run()
    assert outcome.finished and outcome.signal == 0
    assert outcome.tokens == whole.tokens and outcome.guards == whole.guards
    ends = [trainer.snapshots.read(6).tensors for trainer in (whole, second)]
    assert same(ends[0]["model"], ends[1]["model"])
    assert same(ends[0]["optimizer"], ends[1]["optimizer"])
    assert lines(second) == lines(whole)


def test_a_second_signal_loses_the_step_and_nothing_else(trained):
    """The step is many pieces long; the two signals come while the first of them is computed."""
    trainer = trained(every=100)
    real, seen = trainer.loss, []

    def cost(model, tensors):
        if trainer.step == 2:
            seen.append(len(tensors.ids))
            signal.raise_signal(signal.SIGINT)
            signal.raise_signal(signal.SIGINT)
        return real(model, tensors)

    trainer.loss = cost
    outcome = trainer.run()
    assert (outcome.step, outcome.finished, outcome.signal) == (2, False, signal.SIGINT)
    assert len(seen) == 1
    snapshot, _ = trainer.snapshots.read_latest()
    assert snapshot.step == 2
    twin = trained(steps=2, folder="twin", every=100)
    twin.run()
    assert same(snapshot.tensors["model"], twin.snapshots.read(2).tensors["model"])


def test_a_snapshot_of_another_model_is_refused(trained, network):
    trainer = trained(steps=1)
    trainer.run()
    snapshot, _ = trainer.snapshots.read_latest()
    other = trained(name="roberta", folder="other")
    with pytest.raises(CheckpointError) as caught:
        other.resume(snapshot)
    message = str(caught.value)
    assert message.startswith("the snapshot of step 1 belongs to another model: ")
    assert message.endswith("is not in both, or has another shape; use another run folder.")
    name = next(iter(snapshot.tensors["model"]))
    snapshot.tensors["model"][name] = torch.zeros(1, 2, 3)
    with pytest.raises(CheckpointError, match=f"another model: {name} is"):
        trained(folder="third").resume(snapshot)


def test_another_number_of_lanes_is_said(trained):
    trainer = trained(steps=2)
    trainer.run()
    snapshot, _ = trainer.snapshots.read_latest()
    again = trained(folder="other", count=2)
    again.resume(snapshot)
    assert again.callback.notes == [
        "The run was begun with 1 processes of 1 threads and goes on with 1 of 2: the results will "
        "be those of another run of the same recipe, not the same to the bit."
    ]


def test_held_out_text_costs_the_same_each_time(trained):
    trainer = trained()
    trainer.evaluation.evaluate(trainer)
    trainer.evaluation.evaluate(trainer)
    first, second = trainer.callback.evaluations
    assert first == second and first["step"] == 0
    for part in ("masked_lm", "next_sentence"):
        found = first["evaluation"][part]
        assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))


def test_lines_come_when_they_are_due(trained):
    trainer = trained(steps=5, watched=2, evaluate=3)
    trainer.run()
    assert [record["step"] for record in trainer.callback.steps] == [2, 4, 5]
    assert [record["step"] for record in trainer.callback.evaluations] == [3, 5]
    assert [record["tokens"] for record in trainer.callback.steps][-1] == trainer.tokens
    assert [record["step"] for record in lines(trainer)] == [2, 3, 4, 5, 5]


@pytest.fixture
def full_from(monkeypatch):
    """Makes the disk full for the snapshots of some steps."""

    def fill(*steps):
        real = snapshots_module.write_tensors

        def save(path, group):
            if int(path.parent.name.split(".")[1].removeprefix("step-")) in steps:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            real(path, group)

        monkeypatch.setattr(snapshots_module, "write_tensors", save)

    return fill


def test_a_full_disk_does_not_end_the_run(trained, full_from):
    full_from(3, 4)
    trainer = trained(steps=6)
    assert trainer.run().finished
    assert trainer.snapshots.steps() == [5, 6]
    folder = trainer.snapshots.folder
    assert trainer.callback.notes == [
        f"{folder}/step-00000000{step} could not be written (No space left on device); the one of "
        "step 2 stays, and the run goes on."
        for step in (3, 4)
    ]


def test_the_last_snapshot_is_tried_although_the_one_before_failed(trained, full_from):
    full_from(4)
    trainer = trained(steps=5, every=4)
    assert trainer.run().finished
    assert trainer.snapshots.steps() == [5]


def test_a_last_snapshot_that_failed_beside_the_training_is_tried_again(trained, monkeypatch):
    trainer = trained(steps=4, every=4)
    real, failed = snapshots_module.write_tensors, []

    def once(path, group):
        if not failed:
            failed.append(path)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(path, group)

    monkeypatch.setattr(snapshots_module, "write_tensors", once)
    assert trainer.run().finished
    assert trainer.snapshots.steps() == [4]


def test_a_full_disk_at_the_end_is_an_error(trained, full_from):
    full_from(6)
    trainer = trained(steps=6, every=2)
    with pytest.raises(OutputError) as caught:
        trainer.run()
    assert str(caught.value) == (
        f"{trainer.snapshots.folder}/step-000000006 could not be written (No space left on device)"
        "; the one of step 4 stays; make room, then run the same again."
    )
    assert trainer.snapshots.steps() == [2, 4]


def test_a_full_disk_ends_the_run_if_that_is_wanted(trained, full_from):
    full_from(1, 2)
    trainer = trained(steps=6, when="stop")
    with pytest.raises(OutputError, match="there is none yet; make room, then run the same again"):
        trainer.run()
    assert trainer.step <= 3


def test_lines_that_cannot_be_written_do_not_end_the_run(trained, monkeypatch):
    trainer = trained(steps=4)
    real, full = trainer.metrics._write, [True]

    def write():
        if full[0]:
            raise OutputError("metrics.jsonl could not be written (No space left on device)")
        real()

    monkeypatch.setattr(trainer.metrics, "_write", write)
    trainer.run()
    assert trainer.callback.notes[0] == (
        "metrics.jsonl could not be written (No space left on device); the lines are kept for "
        "later, and the run goes on."
    )
    full[0] = False
    trainer.metrics.close()
    assert [record["step"] for record in lines(trainer)] == [2, 4, 4]
    trainer = trained(steps=4, when="stop", folder="other")
    full[0] = True
    monkeypatch.setattr(trainer.metrics, "_write", write)
    with pytest.raises(OutputError, match=r"; make room, then run the same again\.$"):
        trainer.run()


def test_a_loss_that_is_not_finite_changes_nothing(trained, weights):
    trainer = trained(steps=4, watched=4)
    objective = published("bert", 24)
    held = []

    def cost(model, tensors):
        loss = objective.loss(model, tensors)
        if trainer.step == 2 and trainer.model.training:
            held.append(weights(trainer.model))
            loss.terms["masked_lm"].total.mul_(math.nan)
        elif trainer.step == 3:
            held.append(weights(trainer.model))
        return loss

    trainer.loss = cost
    outcome = trainer.run()
    assert same(held[0], held[-1]) and not same(held[0], weights(trainer.model))
    assert (outcome.guards.skipped, outcome.guards.in_a_row, outcome.finished) == (1, 0, True)
    assert trainer.callback.notes == [
        "Step 3: loss nan, gradient nan: not finite, so the weights stay as they were (1 times so "
        "far)."
    ]
    assert trainer.callback.steps[-1]["skipped"] == 1


def test_a_huge_rate_ends_with_a_diagnosis_and_the_snapshots_from_before(trained):
    trainer = trained(steps=60, rate=1e38, clip=None)
    with pytest.raises(Diverged, match=r"^step \d+: loss or gradient was not finite 10 times"):
        trainer.run()
    assert trainer.guards.skipped == 10
    last, damaged = trainer.snapshots.read_latest()
    assert not damaged and last.step == trainer.step - 10
    assert last.state["guards"]["in_a_row"] == 0
    assert not list(trainer.snapshots.folder.glob(".*"))


def test_a_spike_is_marked(trained):
    trainer = trained(steps=3, watched=3)
    trainer.guards.seen, trainer.guards.mean, trainer.guards.spread = 500, 1.0, 0.01
    outcome = trainer.run()
    assert outcome.guards.spikes >= 1
    sentence = r"Step 1: the loss, 6\.\d+, is far above the usual 1\.0\d+\."
    assert re.fullmatch(sentence, trainer.callback.notes[0])
    assert trainer.callback.steps[-1]["spikes"] == outcome.guards.spikes


def test_a_run_that_becomes_slow_says_so(trained):
    trainer = trained()
    for rate in (100, 90, 110, 105, 95, 60, 40):
        trainer.logger._note_slowness(trainer, rate)
    assert trainer.callback.notes == [
        "Step 0: 40 tokens a second, usually 100: something else may be using this machine."
    ]


@pytest.mark.parametrize("clip", [1e-4, 1e4])
def test_gradients_are_clipped_and_never_stretched(trained, clip):
    trainer = trained(steps=1, clip=clip)
    seen, real = [], trainer.optimizer.step

    def step():
        grads = [p.grad for p in trainer.model.parameters() if p.grad is not None]
        seen.append(norm_of(grads))
        real()

    trainer.optimizer.step = step
    trainer.run()
    before = trainer.callback.steps[-1]["gradient"]
    assert before > 0.1, "the line has the norm before clipping"
    assert seen == [pytest.approx(min(clip, before), rel=1e-4)]


def test_the_norm_of_many_small_numbers():
    """A sum of squares in float32 is wrong in the fourth digit here."""
    grads = [torch.full((3000, 1000), 1e-3), torch.full((7,), 2.0)]
    expected = math.sqrt(3e6 * float(torch.tensor(1e-3)) ** 2 + 28)
    assert norm_of(grads) == pytest.approx(expected, rel=1e-6)


def test_a_run_that_is_stopped_keeps_the_best_weights_of_before(trained, weights):
    """Nothing after the stop is better, so what is restored at the end is from before it."""
    held = {}

    def judged(trainer):
        def evaluate():
            held.setdefault(trainer.step, weights(trainer.model))
            return EvalResult(1.0 / trainer.step, True, {})

        return evaluate

    first = trained(evaluate=1)
    first.evaluation.evaluator = judged(first)
    first.loss = stopping_behind(first, 3)
    assert not first.run().finished
    second = trained(evaluate=1, since=3)
    second.evaluation.evaluator = judged(second)
    snapshot, _ = second.snapshots.read_latest()
    second.resume(snapshot)
    assert second.run().finished
    best = second.evaluation.early_stopping
    assert (best.value, best.step, best.waited) == (1.0, 1, 5)
    assert not same(held[1], weights(second.model))
    best.restore(second.model)
    assert same(held[1], weights(second.model))


def test_layers_move_less_the_deeper_they_are(trained, weights):
    """The first step of Adam is as long as the rate, whatever the gradient."""
    trainer = trained(steps=1, rate=1e-3, dropout=0.0, layer_decay=0.5)
    before = weights(trainer.model)
    trainer.run()

    def moved(name):
        change = (weights(trainer.model)[name] - before[name]).abs()
        return float(change.median())

    biases = "feed_forward.part.down.bias"
    assert moved("heads.vocabulary.dense.bias") == pytest.approx(1e-3, rel=0.01)
    assert moved(f"encoder.layers.1.{biases}") == pytest.approx(5e-4, rel=0.01)
    assert moved(f"encoder.layers.0.{biases}") == pytest.approx(2.5e-4, rel=0.01)
    assert moved("embeddings.norm.bias") == pytest.approx(1.25e-4, rel=0.01)


def test_bfloat16_is_what_the_layers_compute_in(trained):
    """And what they learn is close to what they learn in float32, but not the same."""
    kinds, ends = {}, {}
    for precision in ("float32", "bfloat16"):
        trainer = trained(steps=3, dropout=0.0, folder=precision, precision=precision, watched=1)
        seen = kinds.setdefault(precision, set())
        layer = trainer.model.encoder.layers[0].feed_forward.part.up
        layer.register_forward_hook(lambda module, inputs, out, seen=seen: seen.add(out.dtype))
        trainer.run()
        ends[precision] = [record["loss"] for record in trainer.callback.steps]
        assert all(p.dtype == torch.float32 for p in trainer.model.parameters())
    # Held-out text is measured as it will be used.
    assert kinds == {"float32": {torch.float32}, "bfloat16": {torch.bfloat16, torch.float32}}
    assert ends["bfloat16"] == pytest.approx(ends["float32"], rel=0.02)
    assert ends["bfloat16"] != ends["float32"]


def test_the_last_snapshot_of_a_run_that_goes_wrong_removes_none_from_before(trained):
    trainer = trained(steps=5, keep=1)
    objective = published("bert", 24)

    def cost(model, tensors):
        loss = objective.loss(model, tensors)
        if trainer.step >= 2 and trainer.model.training:
            loss.terms["masked_lm"].total.mul_(math.nan)
        return loss

    trainer.loss = cost
    assert trainer.run().guards.in_a_row == 3
    assert trainer.snapshots.steps() == [2, 5]
