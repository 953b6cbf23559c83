"""Clozeworks: from raw text to a trained language model: BERT, T5, GPT and their relatives.

    import clozeworks as cw

    model = cw.load("path/or/hub-name")  # or cw.new("bert-tiny", tokenizer)
    model.fill(...), model.embed(...), model.generate(...), model.predict(...)
    result = cw.finetune(model, data, task="classify")  # also cw.pretrain, cw.evaluate
    cw.evaluate(result.load(), other_data)

Tasks and their items are in `cw.tasks`: `cw.tasks.Classify`, `cw.tasks.TextItem`. Errors that a
user can fix are subclasses of `cw.ClozeworksError`; all of them are in `cw.errors`. Names are
loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clozeworks import errors as errors
    from clozeworks import tasks as tasks
    from clozeworks.checkpoints.sentence import Pooling as Pooling
    from clozeworks.core.blueprint import Blueprint as Blueprint
    from clozeworks.data.files.file_format import FileFormat as FileFormat
    from clozeworks.data.files.vectors import open_vectors as open_vectors
    from clozeworks.engine.callbacks import Callback as Callback
    from clozeworks.errors import ClozeworksError as ClozeworksError
    from clozeworks.jobs.calls import evaluate as evaluate
    from clozeworks.jobs.calls import finetune as finetune
    from clozeworks.jobs.calls import mine as mine
    from clozeworks.jobs.calls import pretrain as pretrain
    from clozeworks.jobs.search.index import Index as Index
    from clozeworks.jobs.tokenizer import train_tokenizer as train_tokenizer
    from clozeworks.jobs.verify import verify as verify
    from clozeworks.language_model import LanguageModel as LanguageModel
    from clozeworks.language_model import load as load
    from clozeworks.language_model import new as new
    from clozeworks.runs.trackers.mlflow import MLflowCallback as MLflowCallback
    from clozeworks.runs.trackers.tensorboard import TensorBoardCallback as TensorBoardCallback
    from clozeworks.runs.trackers.trackio import TrackioCallback as TrackioCallback
    from clozeworks.runs.trackers.wandb import WandbCallback as WandbCallback
    from clozeworks.serve.client.remote_model import connect as connect
    from clozeworks.serve.client.remote_model import connect_async as connect_async
    from clozeworks.serve.workspace.opening import open as open
    from clozeworks.text.tokenizer.tokenizer import Tokenizer as Tokenizer

__version__ = "0.2.0"

# Where each name is.
_PLACES = {
    "load": "language_model",
    "new": "language_model",
    "LanguageModel": "language_model",
    "connect": "serve.client.remote_model",
    "connect_async": "serve.client.remote_model",
    "open": "serve.workspace.opening",
    "finetune": "jobs.calls",
    "pretrain": "jobs.calls",
    "evaluate": "jobs.calls",
    "mine": "jobs.calls",
    "Callback": "engine.callbacks",
    "MLflowCallback": "runs.trackers.mlflow",
    "TensorBoardCallback": "runs.trackers.tensorboard",
    "TrackioCallback": "runs.trackers.trackio",
    "WandbCallback": "runs.trackers.wandb",
    "Tokenizer": "text.tokenizer.tokenizer",
    "train_tokenizer": "jobs.tokenizer",
    "verify": "jobs.verify",
    "Index": "jobs.search.index",
    "open_vectors": "data.files.vectors",
    "FileFormat": "data.files.file_format",
    "Pooling": "checkpoints.sentence",
    "Blueprint": "core.blueprint",
    "ClozeworksError": "errors",
}
_MODULES = ("errors", "tasks")

# Trap: with `open` in it, `from clozeworks import *` would take Python's own from whoever wrote it.
__all__ = ["__version__", *(name for name in _PLACES if name != "open"), *_MODULES]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES, *__all__})
