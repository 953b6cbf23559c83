"""What `cw.load` and `cw.new` return: a checkpoint that can be asked, trained and saved."""

from clozeworks.language_model.factory import new
from clozeworks.language_model.model import LanguageModel, load

__all__ = ["LanguageModel", "load", "new"]
