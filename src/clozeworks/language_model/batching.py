"""How a method's batches are run and its progress is shown, from its keyword arguments."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any

from clozeworks.display.progress import ProgressBar
from clozeworks.errors import SettingError
from clozeworks.inference.loop import BatchOptions
from clozeworks.language_model.arguments import refuse_unknown
from clozeworks.runtime.progress import Progress

_NAMES = [field.name for field in fields(BatchOptions)]


@contextmanager
def batch_options(options: Mapping[str, Any], method: Callable[..., Any]) -> Iterator[BatchOptions]:
    """The options of a loop; `progress=True` shows a bar while it runs.

    Args:
        options: The keyword arguments that are not the method's own.
        method: The method that was called, for messages.

    Raises:
        SettingError: If one has a value it cannot have.
        UnknownName: If there is no such option.
    """
    refuse_unknown(options, method.__name__, method)
    given = {name: options.get(name) for name in _NAMES}
    tokens = given["batch_tokens"]
    if tokens is not None and (not isinstance(tokens, int) or isinstance(tokens, bool)):
        raise SettingError("batch_tokens", tokens, "it must be a whole number of tokens")
    if given["cancelled"] is not None and not callable(given["cancelled"]):
        rule = "it must be a function without arguments"
        raise SettingError("cancelled", given["cancelled"], rule)
    with shown_progress(given.pop("progress"), "tokens") as progress:
        yield BatchOptions(**given, progress=progress)


@contextmanager
def shown_progress(progress: Progress | bool | None, unit: str) -> Iterator[Progress | None]:
    """The function that progress is reported to; for True, a bar that counts in this unit.

    Raises:
        SettingError: If it is neither a function nor True or False.
    """
    if progress is True:
        with ProgressBar(unit) as bar:
            yield bar
    elif progress is None or progress is False:
        yield None
    elif not callable(progress):
        rule = "it must be True, or a function of what is done and how much there is in all"
        raise SettingError("progress", progress, rule)
    else:
        yield progress
