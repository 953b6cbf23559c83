"""What `cw.load` and `cw.new` return: a checkpoint that can predict, be trained and be saved."""

from clozeworks.language_model.factory import new
from clozeworks.language_model.model import LanguageModel, load, outline

__all__ = ["LanguageModel", "load", "new", "outline"]
