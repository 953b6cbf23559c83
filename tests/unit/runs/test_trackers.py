"""Experiment trackers: what they are told, also when a run stops, goes on or fails.

The libraries are stood in for by modules that record what they are called with, and take the
arguments that the real ones take.
"""

import sys
from types import ModuleType, SimpleNamespace

import pytest

import clozeworks as cw
from clozeworks.errors import ClozeworksError, MissingExtra, SettingError
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.pretrain.job import pretrain


class Recorded:
    """What a library was called with: the name of the function, and its arguments."""

    def __init__(self, monkeypatch):
        self.calls = []
        for fake in (self.wandb(), self.trackio(), self.mlflow()):
            monkeypatch.setitem(sys.modules, fake.__name__, fake)

    def named(self, name):
        return [arguments for called, arguments in self.calls if called == name]

    def run(self, library, **attributes):
        def log(data, step=None):
            self.calls.append((f"{library}.log", {"step": step, **data}))

        def finish(exit_code=None):
            self.calls.append((f"{library}.finish", exit_code))

        return SimpleNamespace(log=log, finish=finish, **attributes)

    def wandb(self):
        module = ModuleType("wandb")

        def init(
            project=None,
            dir=None,
            id=None,
            name=None,
            config=None,
            group=None,
            reinit=None,
            resume=None,
        ):
            self.calls.append(("wandb.init", dict(locals())))
            return self.run("wandb", id=id or f"id-{name}")

        module.init = init
        return module

    def trackio(self):
        module = ModuleType("trackio")

        def init(project, name=None, group=None, config=None, resume="never", embed=True):
            print("* Trackio project initialized")
            self.calls.append(("trackio.init", dict(locals())))
            return self.run("trackio", name=name)

        module.init = init
        module.finish = lambda: self.calls.append(("trackio.finish", None))
        return module

    def mlflow(self):
        module = ModuleType("mlflow")

        def start_run(run_id=None, experiment_id=None, run_name=None, nested=False):
            self.calls.append(("mlflow.start_run", dict(locals())))
            return SimpleNamespace(info=SimpleNamespace(run_id=run_id or f"id-{run_name}"))

        def log_params(params):
            assert len(params) <= 100 and all(len(value) <= 500 for value in params.values())
            self.calls.append(("mlflow.log_params", params))

        def log_metrics(metrics, step=None, synchronous=None, run_id=None):
            self.calls.append(("mlflow.log", {"step": step, "run_id": run_id, **metrics}))

        module.start_run, module.log_params, module.log_metrics = start_run, log_params, log_metrics
        module.active_run = lambda: None
        module.set_experiment = lambda name: self.calls.append(("mlflow.experiment", name))
        module.end_run = lambda status="FINISHED": self.calls.append(("mlflow.finish", status))
        return module


@pytest.fixture
def recorded(monkeypatch):
    return Recorded(monkeypatch)


class StopAt(cw.Callback):
    def __init__(self, step):
        self.step = step

    def on_step(self, step, result):
        return step == self.step


class FailAt(cw.Callback):
    """A display, whose errors end the run."""

    def on_step(self, step, result):
        raise ClozeworksError("no more")


def test_trackers_get_settings_numbers_and_the_end(tiny_recipe, recorded, capsys):
    tiny_recipe["logging"] |= {"trackers": ["wandb", "trackio", "mlflow"], "project": "words"}
    done = pretrain(tiny_recipe)
    losses = [record["loss"] for record in done.records if "evaluation" not in record]
    for library in ("wandb", "trackio", "mlflow"):
        logged = recorded.named(f"{library}.log")
        trained = [numbers for numbers in logged if "train/loss" in numbers]
        measured = [numbers for numbers in logged if "eval/loss" in numbers]
        assert [numbers["step"] for numbers in trained] == [1, 2, 3, 4, 5, 6]
        assert [numbers["train/loss"] for numbers in trained] == losses
        assert [numbers["step"] for numbers in measured] == [0, 3, 6]
        assert "eval/next_sentence/accuracy" in measured[0]
    (begun,) = recorded.named("wandb.init")
    assert begun["config"]["training"]["steps"] == 6
    assert (begun["project"], begun["name"], begun["group"]) == ("words", "run", None)
    assert (begun["id"], begun["resume"], begun["reinit"]) == (None, None, "create_new")
    assert begun["dir"] == str(done.folder)
    (begun,) = recorded.named("trackio.init")
    assert (begun["project"], begun["name"], begun["resume"]) == ("words", "run", "never")
    assert capsys.readouterr().out == ""
    assert recorded.named("mlflow.experiment") == ["words"]
    parameters = {}
    for part in recorded.named("mlflow.log_params"):
        parameters |= part
    assert parameters["training.steps"] == "6" and parameters["seed"] == "0"
    finishes = [recorded.named(f"{name}.finish") for name in ("wandb", "trackio", "mlflow")]
    assert finishes == [[0], [None], ["FINISHED"]]


def test_a_stopped_run_goes_on_in_the_tracker(tiny_recipe, recorded):
    tiny_recipe["logging"]["trackers"] = ["wandb", "trackio", "mlflow"]
    pretrain(tiny_recipe, callbacks=[StopAt(4)])
    pretrain(tiny_recipe)
    assert [(begun["id"], begun["resume"]) for begun in recorded.named("wandb.init")] == [
        (None, None),
        ("id-run", "allow"),
    ]
    assert [begun["resume"] for begun in recorded.named("trackio.init")] == ["never", "allow"]
    assert [begun["project"] for begun in recorded.named("trackio.init")] == ["clozeworks"] * 2
    assert [begun["run_id"] for begun in recorded.named("mlflow.start_run")] == [None, "id-run"]
    steps = [numbers["step"] for numbers in recorded.named("wandb.log") if "train/loss" in numbers]
    assert steps == [1, 2, 3, 4, 5, 6]
    assert recorded.named("wandb.finish") == [255, 0]
    assert recorded.named("mlflow.finish") == ["KILLED", "FINISHED"]
    assert sum("training.steps" in part for part in recorded.named("mlflow.log_params")) == 1


def test_a_failed_run_is_failed_in_the_tracker(tiny_recipe, recorded):
    tiny_recipe["logging"]["trackers"] = ["wandb", "mlflow"]
    with pytest.raises(ClozeworksError, match="no more"):
        pretrain(tiny_recipe, callback=FailAt())
    assert recorded.named("wandb.finish") == [1]
    assert recorded.named("mlflow.finish") == ["FAILED"]


def test_each_seed_is_a_run_of_the_tracker(tiny_recipe, tmp_path, recorded):
    model = pretrain(tiny_recipe).model
    rows = [f"ba be {'bo' if number % 2 else 'bu'},{number % 2}" for number in range(24)]
    (tmp_path / "rows.csv").write_text("\n".join(["text,label", *rows]), encoding="utf-8")
    recipe = {
        "run": str(tmp_path / "tuned"),
        "model": str(model),
        "task": {"kind": "classify"},
        "data": {"train": [str(tmp_path / "rows.csv")], "dev_fraction": 0.25},
        "training": {"steps": 2, "batch_size": 8},
        "evaluation": {"every_steps": 1},
        "seeds": [1, 2],
    }
    finetune(recipe, callbacks=[cw.WandbCallback(project="rows")])
    begun = [(run["name"], run["group"], run["project"]) for run in recorded.named("wandb.init")]
    assert begun == [("tuned-seed-1", "tuned", "rows"), ("tuned-seed-2", "tuned", "rows")]
    steps = [run["step"] for run in recorded.named("wandb.log") if "eval/accuracy" in run]
    assert steps == [1, 2, 1, 2]
    assert recorded.named("wandb.finish") == [0, 0]


def test_a_tracker_that_fails_does_not_end_the_run(tiny_recipe, recorded, listener, monkeypatch):
    def init(**arguments):
        raise OSError("no network")

    monkeypatch.setattr(sys.modules["wandb"], "init", init)
    tiny_recipe["logging"]["trackers"] = ["wandb", "mlflow"]
    assert pretrain(tiny_recipe, callback=listener).model is not None
    assert (
        "The callback WandbCallback failed (OSError: no network); it is told nothing more, and the "
        "run goes on."
    ) in listener.notes
    assert recorded.named("wandb.log") == [] and recorded.named("mlflow.finish") == ["FINISHED"]


@pytest.mark.parametrize("name", ["tensorboard", "wandb", "trackio", "mlflow"])
def test_a_missing_library_is_said_before_the_run(name, tiny_recipe, tmp_path, monkeypatch):
    absent = "torch.utils.tensorboard" if name == "tensorboard" else name
    monkeypatch.setitem(sys.modules, absent, None)
    tiny_recipe["logging"]["trackers"] = [name]
    with pytest.raises(MissingExtra) as error:
        pretrain(tiny_recipe)
    assert str(error.value) == (
        f"The tracker {name} needs the library {name!r}, which is not installed; install it with: "
        f"pip install 'clozeworks[{name}]'."
    )
    assert not (tmp_path / "run").exists()


def test_a_folder_called_like_a_library_is_not_the_library(monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", ModuleType("wandb"))
    with pytest.raises(MissingExtra, match="The tracker wandb needs the library 'wandb'"):
        cw.WandbCallback()


def test_an_unknown_tracker_is_said(tiny_recipe):
    tiny_recipe["logging"]["trackers"] = ["wandbb"]
    with pytest.raises(SettingError) as error:
        pretrain(tiny_recipe)
    assert str(error.value) == (
        "logging.trackers[0] is 'wandbb'; it must be one of 'tensorboard', 'wandb', 'trackio', "
        "'mlflow'; did you mean 'wandb'?"
    )
