"""How a method's batches are run, from its keyword arguments."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from clozeworks.display.progress import ProgressBar
from clozeworks.errors import SettingError, UnknownName
from clozeworks.inference.loop import BatchOptions

_NAMES = [field.name for field in fields(BatchOptions)]


@contextmanager
def batch_options(options: Mapping[str, Any]) -> Iterator[BatchOptions]:
    """The options of a loop; `progress=True` shows a bar while it runs.

    Raises:
        SettingError: If one has a value it cannot have.
        UnknownName: If there is no such option.
    """
    for name in options:
        if name not in _NAMES:
            raise UnknownName("An argument", name, _NAMES)
    given = {name: options.get(name) for name in _NAMES}
    tokens = given["batch_tokens"]
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool)):
        raise SettingError("batch_tokens", tokens, "it must be a whole number of tokens")
    if given["cancelled"] is not None and not callable(given["cancelled"]):
        rule = "it must be a function without arguments"
        raise SettingError("cancelled", given["cancelled"], rule)
    progress = given.pop("progress")
    if progress is True:
        with ProgressBar("tokens") as bar:
            yield BatchOptions(**given, progress=bar)
        return
    if progress in (None, False):
        progress = None
    elif not callable(progress):
        rule = "it must be True, or a function of what is done and how much there is in all"
        raise SettingError("progress", progress, rule)
    yield BatchOptions(**given, progress=progress)
