"""Clozeworks: from raw text to a trained language model: BERT, T5, GPT and their relatives.

Names are loaded when they are first used, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from clozeworks.checkpoints.sentence import Pooling as Pooling
    from clozeworks.core.blueprint import Blueprint as Blueprint
    from clozeworks.data.files.vectors import open_vectors as open_vectors
    from clozeworks.engine.callbacks import Callback as Callback
    from clozeworks.errors import ClozeworksError as ClozeworksError
    from clozeworks.jobs.finetune.job import finetune as finetune
    from clozeworks.jobs.pretrain.job import pretrain as pretrain
    from clozeworks.jobs.tokenizer import train_tokenizer as train_tokenizer
    from clozeworks.jobs.verify import verify as verify
    from clozeworks.language_model import LanguageModel as LanguageModel
    from clozeworks.language_model import load as load
    from clozeworks.language_model import new as new
    from clozeworks.runs.trackers.mlflow import MLflowCallback as MLflowCallback
    from clozeworks.runs.trackers.tensorboard import TensorBoardCallback as TensorBoardCallback
    from clozeworks.runs.trackers.trackio import TrackioCallback as TrackioCallback
    from clozeworks.runs.trackers.wandb import WandbCallback as WandbCallback
    from clozeworks.text.tokenizer.tokenizer import Tokenizer as Tokenizer

__version__ = "0.2.0"

_PLACES = {
    "load": ("language_model", "load"),
    "new": ("language_model", "new"),
    "pretrain": ("jobs.pretrain.job", "pretrain"),
    "finetune": ("jobs.finetune.job", "finetune"),
    "Callback": ("engine.callbacks", "Callback"),
    "MLflowCallback": ("runs.trackers.mlflow", "MLflowCallback"),
    "TensorBoardCallback": ("runs.trackers.tensorboard", "TensorBoardCallback"),
    "TrackioCallback": ("runs.trackers.trackio", "TrackioCallback"),
    "WandbCallback": ("runs.trackers.wandb", "WandbCallback"),
    "LanguageModel": ("language_model", "LanguageModel"),
    "Blueprint": ("core.blueprint", "Blueprint"),
    "Pooling": ("checkpoints.sentence", "Pooling"),
    "Tokenizer": ("text.tokenizer.tokenizer", "Tokenizer"),
    "verify": ("jobs.verify", "verify"),
    "open_vectors": ("data.files.vectors", "open_vectors"),
    "train_tokenizer": ("jobs.tokenizer", "train_tokenizer"),
    "ClozeworksError": ("errors", "ClozeworksError"),
}

__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, attribute = _PLACES[name]
    return getattr(import_module(f"{__name__}.{module}"), attribute)
