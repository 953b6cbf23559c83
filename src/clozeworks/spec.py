"""What a spec is: a frozen, keyword-only description of one part, with `build()`.

A model is a value before it is a module. Specs can be printed, compared, written as JSON, counted
and changed with `dataclasses.replace` before any weight exists.
"""

from dataclasses import dataclass
from typing import ClassVar, TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True, kw_only_default=True)
def spec(cls: type[T]) -> type[T]:
    """Makes a class a spec."""
    # Trap: slots=True would make dataclass return a second class, and the first would stay behind
    # in __subclasses__(), where the registry looks.
    return dataclass(frozen=True, kw_only=True)(cls)


class Slot:
    """A place in a blueprint that any of several specs can fill.

    Subclasses that are slots themselves set `is_slot = True` in their body; the specs that fill
    them do not. `folder` names the package whose files belong to the slot, if it has one.
    """

    is_slot: ClassVar[bool] = False
    folder: ClassVar[str | None] = None
    paper: ClassVar[str] = ""
