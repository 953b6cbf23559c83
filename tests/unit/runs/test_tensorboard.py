"""Numbers for TensorBoard: all of them, each once, also after a stop."""

import pytest

from clozeworks.engine.callbacks import Session
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.runs.trackers.tensorboard import TensorBoardCallback


def points(folder):
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    found = events.EventAccumulator(str(folder))
    found.Reload()
    return {
        tag: [(event.step, event.value) for event in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def test_numbers_of_a_run(tiny_recipe, listener):
    tiny_recipe["logging"]["trackers"] = ["tensorboard"]
    done = pretrain(tiny_recipe, callback=listener)
    found = points(done.folder / "tensorboard")
    losses = [record["masked_lm"]["loss"] for record in done.records if "masked_lm" in record]
    assert [step for step, _ in found["train/masked_lm/loss"]] == [1, 2, 3, 4, 5, 6]
    assert [value for _, value in found["train/masked_lm/loss"]] == pytest.approx(losses)
    assert [step for step, _ in found["eval/next_sentence/accuracy"]] == [0, 3, 6]
    assert "train/learning_rate" in found and "train/step" not in found


def test_numbers_of_fine_tuning(tiny_recipe, tmp_path):
    model = pretrain(tiny_recipe).model
    rows = [f"ba be {'bo' if number % 2 else 'bu'},{number % 2}" for number in range(24)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    recipe = {
        "run": str(tmp_path / "tuned"),
        "model": str(model),
        "task": {"kind": "classify"},
        "data": {"train": [str(tmp_path / "rows.csv")], "dev_fraction": 0.25},
        "training": {"steps": 4, "batch_size": 8},
        "logging": {"every_steps": 1, "trackers": ["tensorboard"]},
        "evaluation": {"every_steps": 2},
        "seeds": [1, 2],
    }
    for result in finetune(recipe).results:
        numbers = points(result.folder / "tensorboard")
        assert [step for step, _ in numbers["train/classify/loss"]] == [1, 2, 3, 4]
        assert [step for step, _ in numbers["eval/loss"]] == [2, 4]
        assert [step for step, _ in numbers["eval/accuracy"]] == [2, 4]


def opened(folder, step):
    board = TensorBoardCallback()
    board.on_session_begin(Session(folder, {"run": str(folder)}, step))
    return board


def test_no_point_twice_after_a_stop(tmp_path):
    first = opened(tmp_path, None)
    for step in range(1, 6):
        first.on_log(step, {"step": step, "loss": 1.0})
    first.on_session_end("stopped")
    second = opened(tmp_path, 3)  # the last snapshot is that of step 3
    for step in range(4, 8):
        second.on_log(step, {"step": step, "loss": 2.0})
    second.on_session_end("finished")
    found = points(tmp_path / "tensorboard")["train/loss"]
    assert found == [(step, 1.0 if step <= 3 else 2.0) for step in range(1, 8)]


def test_a_run_begun_again_begins_again_here(tmp_path):
    for value in (1.0, 2.0):
        board = opened(tmp_path, None)
        board.on_evaluate(0, {"evaluation": {"loss": value}})
        board.on_session_end("finished")
    assert points(tmp_path / "tensorboard")["eval/loss"] == [(0, 2.0)]
