"""`cw.finetune`, `cw.pretrain` and `cw.evaluate` take what a program has."""

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import polars
import pyarrow
import pytest
import torch
import torch.nn.functional as F

import clozeworks as cw
from clozeworks.engine.trainer import Trainer
from clozeworks.errors import (
    InputError,
    OutputError,
    SettingError,
    UnfinishedRun,
)
from clozeworks.jobs import disk
from clozeworks.jobs.finetune.objects import weights_identity

SMALL = {"lr": 0.01, "batch_size": 8, "epochs": 1}


def digest(result):
    return hashlib.sha256((result.model / "model.safetensors").read_bytes()).hexdigest()


def test_a_frame_is_learned_from(start, capsys, tuned, frame):
    before = weights_identity(start)
    notes, task = dict(start.checkpoint.notes), start.task
    result = tuned(start, epochs=6)
    assert result.metrics["accuracy"] == 1.0
    assert [
        each.label for each in result.load().classify(["the dog is good 3", "the cat is bad"])
    ] == ["yes", "no"]
    assert weights_identity(start) == before
    assert (start.checkpoint.notes, start.task) == (notes, task)
    assert result.folder == Path("runs/classify-1") and result.model == result.folder / "model"
    assert capsys.readouterr() == ("", "")
    assert "accuracy 1.000" in repr(result) and "result.load() loads it" in repr(result)
    assert "<td style='text-align:left'>1.0000</td>" in result._repr_html_()
    recipe = json.loads((result.folder / "recipe.json").read_text())
    assert recipe["data"]["train"] == ["runs/classify-1/data/train.jsonl"]
    assert recipe["training"]["epochs"] == 6 and recipe["model"] == start.name
    rows = [json.loads(line) for line in Path(recipe["data"]["train"][0]).read_text().splitlines()]
    assert rows == frame.to_dict("records")


def test_every_form_is_learned_from_alike(start, folder, tuned, frame):
    frame.to_csv("rows.csv", index=False)
    wanted = digest(tuned(folder, "rows.csv"))
    forms = [
        Path("rows.csv"), ["rows.csv"], frame, polars.DataFrame(frame.to_dict("list")),
        pyarrow.table(frame.to_dict("list")), frame.to_dict("records"),
        frame.to_dict("list"), list(zip(frame.text.tolist(), frame.label.tolist(), strict=True)),
        [cw.tasks.TextItem(row.text, row.label) for row in frame.itertuples()],
        [frame[:7], "rest.csv"],
    ]  # fmt: skip
    frame[7:].to_csv("rest.csv", index=False)
    assert {digest(tuned(start, form)) for form in forms} == {wanted}
    # What a run wrote down repeats it.
    for number in (4, 9, 10, 11):
        recipe = json.loads(Path(f"runs/classify-{number}/recipe.json").read_text())
        recipe |= {"run": f"again-{number}", "model": str(folder)}
        assert digest(cw.finetune(recipe, quiet=True)) == wanted


def test_splits_are_learned_from_and_measured_on(start, tuned, frame):
    first = tuned(start, {"train": frame[:30], "dev": frame[30:]})
    assert first.best.measured.count == 10
    assert (first.folder / "data" / "dev.jsonl").exists()
    assert digest(first) == digest(tuned(start, frame[:30], dev=frame[30:]))
    with pytest.raises(InputError, match="data has the splits test, and none is called 'train'"):
        tuned(start, {"test": frame})


@pytest.mark.parametrize(
    ("splits", "dev", "sentence"),
    [
        (("train", "validation"), False, None),
        (
            ("train", "validation", "test"),
            False,
            "The split test of the data is left untouched; to measure there: "
            "result.load().evaluate(data['test']).",
        ),
        (
            ("train", "validation", "test"),
            True,
            "The splits validation, test of the data are left untouched; to measure there: "
            "result.load().evaluate(data['test']).",
        ),
    ],
)
def test_splits_that_are_not_used_are_named(start, tuned, frame, splits, dev, sentence):
    data = {name: frame[:30] if name == "train" else frame[30:] for name in splits}
    result = tuned(start, data, **({"dev": frame[30:]} if dev else {}))
    messages = [json.loads(line) for line in (result.folder / "notes.jsonl").open()]
    told = [each["note"] for each in messages if "left untouched" in each["note"]]
    assert told == ([] if sentence is None else [sentence])
    if sentence is not None:
        assert result.load().evaluate(data["test"]).measured.count == 10


def test_a_full_disk_leaves_no_folder(start, tuned, frame, monkeypatch):
    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: SimpleNamespace(free=10_000))
    with pytest.raises(OutputError, match="has 10 kB free"):
        tuned(start, frame)
    assert not Path("runs").exists()


@pytest.mark.parity
def test_datasets_are_learned_from_as_frames_are(start, tuned, frame):
    import datasets

    whole = datasets.Dataset.from_pandas(frame)
    assert digest(tuned(start, whole)) == digest(tuned(start, frame))
    splits = datasets.DatasetDict(
        train=datasets.Dataset.from_pandas(frame[:30]),
        validation=datasets.Dataset.from_pandas(frame[30:]),
    )
    assert digest(tuned(start, splits)) == digest(tuned(start, frame[:30], dev=frame[30:]))
    with pytest.raises(InputError, match="data has the splits test, and none is called 'train'"):
        tuned(start, datasets.DatasetDict(test=splits["train"]))


def each_cost(logits, labels):
    return F.cross_entropy(logits, labels, reduction="none")


class Killed(Exception):  # noqa: N818
    pass


def test_a_killed_run_goes_on_to_the_bit_with_the_same_objects(
    start, folder, monkeypatch, tuned, frame
):
    whole = tuned(start, out="whole", epochs=2)
    update, steps = Trainer._update, [0]

    def dying(self, measured):
        update(self, measured)
        steps[0] += 1
        if steps[0] == 4:
            self.builtin[-1].snapshots.wait()
            raise Killed

    monkeypatch.setattr(Trainer, "_update", dying)
    again = {"out": "run", "epochs": 2, "checkpointing": {"every_steps": 1}}
    with pytest.raises(Killed):
        tuned(start, **again)
    monkeypatch.setattr(Trainer, "_update", update)
    other = cw.load(folder)
    with torch.no_grad():
        next(other.model.parameters()).add_(1)
    other.name = start.name
    for model, changes, words in (
        (other, {}, "identity.model was 'sha256"),
        (
            start,
            {"data": frame.assign(label=frame.label.tolist()[::-1])},
            "identity.train was '36 items",
        ),
        (start, {"loss": each_cost}, "identity.loss was None, now"),
        (start, {"lr": 0.1}, "lr was 0.01, now 0.1"),
    ):
        with pytest.raises(SettingError) as caught:
            tuned(model, **{**again, **changes})
        assert str(caught.value).startswith(
            "out is 'run/seed-0'; it was started with another recipe"
        )
        assert words in str(caught.value) and str(caught.value).endswith("name another folder.")
    Path("run").rename("moved")
    assert digest(tuned(start, **{**again, "out": "moved"})) == digest(whole)


def test_callbacks_stop_a_run_and_the_result_says_so(start, tuned):
    class Stop(cw.Callback):
        def on_step(self, step, result):
            return step == 2

    result = tuned(start, callbacks=Stop(), out="run")
    assert result.model is None and result.metrics == {}
    assert "Stopped after step 2; nothing is lost." in repr(result)
    assert "out='run' to go on" in result._repr_html_().replace("&#x27;", "'")
    with pytest.raises(UnfinishedRun, match="make the same call again with out='run' to go on"):
        result.load()
    assert tuned(start, callbacks=[], out="run").model is not None


def test_progress_and_summary_are_shown_unless_quiet(start, capsys, frame):
    result = cw.finetune(start, frame, task="classify", **SMALL)
    shown = capsys.readouterr()
    assert shown.out == "" and "36 items to learn from, 4 to be judged by." in shown.err
    assert "The model is in runs/classify-1/model: result.load() loads it." in shown.err
    model = result.load()
    cw.evaluate(model, frame)
    shown = capsys.readouterr()
    assert shown.out == "" and "accuracy" in shown.err and "on data: 40 texts" in shown.err
    assert cw.evaluate(str(result.model), frame, quiet=True).count == len(frame)
    model.predict(frame.text.tolist()), model.embed(frame.text.tolist())
    assert capsys.readouterr() == ("", "")


def test_recipes_and_keywords_say_the_same(start, folder, tuned, frame):
    frame.to_csv("rows.csv", index=False)
    recipe = {
        "run": "one", "model": str(folder), "task": {"kind": "classify"},
        "data": {"train": ["rows.csv"]},
        "training": {"learning_rate": 0.01, "batch_size": 8, "epochs": 3},
    }  # fmt: skip
    wanted = digest(cw.finetune(recipe, "training.epochs=1", quiet=True))
    lines = [
        'run = "two"',
        f'model = "{folder}"',
        'task = {kind = "classify"}',
        'data = {train = ["rows.csv"]}',
    ]
    Path("recipe.toml").write_text("\n".join(lines))
    assert digest(cw.finetune("recipe.toml", quiet=True, **SMALL)) == wanted
    assert digest(tuned(folder, "rows.csv", out="three")) == wanted
    training = {"learning_rate": 0.01, "batch_size": 8}
    four = cw.finetune(
        folder,
        "rows.csv",
        "training.epochs=1",
        task={"kind": "classify"},
        training=training,
        quiet=True,
    )
    assert digest(four) == wanted


def test_a_search_is_made(start, tuned):
    found = tuned(start, lr=None, search={"learning_rates": [0.01, 0.001]}, dev_fraction=0.3)
    assert len(found.trials) == 2 and "accuracy" in found.metrics
    assert found.load().task.labels == ("no", "yes")
    assert (found.folder / "data" / "train.jsonl").exists()


def test_a_model_that_says_its_task_needs_no_other(start, tuned, frame):
    result = tuned(start)
    again = cw.finetune(result.load(), frame, quiet=True, **SMALL)
    assert again.folder == Path("runs/classify-2")


def test_embed_shows_progress_if_asked(start, capsys, monkeypatch, frame):
    seen = []
    start.embed(
        frame.text.tolist(),
        batch_tokens=16,
        progress=lambda done, total: seen.append((done, total)),
    )
    assert len(seen) > 3 and seen[-1][0] == seen[-1][1]
    monkeypatch.setattr("clozeworks.display.progress.ProgressBar.line", lambda *_: "how far")
    monkeypatch.setattr(
        "clozeworks.display.progress.time.monotonic", iter(range(0, 10**6, 9)).__next__
    )
    start.embed(frame.text.tolist(), batch_tokens=16, progress=True)
    assert capsys.readouterr().err.splitlines()[0] == "how far"


def test_pretraining_takes_keywords(tiny_recipe, capsys):
    training = tiny_recipe.pop("training")
    del training["steps"]
    result = cw.pretrain(tiny_recipe, "training.steps=2", training=training, run="here")
    assert result.folder == Path("here") and result.outcome.step == 2
    assert result.load().tokenizer and "result.load() loads it" in capsys.readouterr().err
    assert (
        cw.pretrain(
            tiny_recipe, training=training, steps=2, run="here", quiet=True
        ).outcome.finished
        is True
    )


def test_all_names_are_listed():
    wanted = {"finetune", "evaluate", "pretrain", "load", "FileFormat", "tasks", "errors"}
    assert wanted <= set(cw.__all__) <= set(dir(cw))
    assert {"Classify", "TextItem", "ChatItem", "Task"} <= set(dir(cw.tasks))
    for module in (cw, cw.tasks):
        for name in module.__all__:
            assert getattr(module, name) is not None
        with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
            module.nothing  # noqa: B018
