"""Experiment trackers: the settings and the numbers of a run, for the programs that show them.

One file for each; its class is a `Callback`, chosen by `logging.trackers` in a recipe or given to
`callbacks`. Each session of a run, and each seed of fine-tuning, is a run of the tracker; a session
that goes on from a snapshot goes on with the tracker's run. Names of numbers are the same for all:
`train/loss`, `eval/accuracy`. A tracker that fails is reported, and the run goes on without it.
"""

from importlib import import_module

from clozeworks.engine.settings import Logging, TrackerName
from clozeworks.runs.trackers.tracker import Tracker

_CLASSES: dict[TrackerName, str] = {
    "tensorboard": "TensorBoardCallback",
    "wandb": "WandbCallback",
    "trackio": "TrackioCallback",
    "mlflow": "MLflowCallback",
}


def trackers_of(logging: Logging) -> list[Tracker]:
    """The trackers that a recipe names.

    Raises:
        MissingExtra: If the library of one is not installed.
    """
    modules = [
        (name, import_module(f"{__name__}.{name}")) for name in dict.fromkeys(logging.trackers)
    ]
    return [getattr(module, _CLASSES[name])(logging.project or None) for name, module in modules]
