"""What a spec is: a frozen, keyword-only description of one part, with `build()`.

A model is a value before it is a module. Specs can be printed, compared, written as JSON, counted
and changed with `dataclasses.replace` before any weight exists.

What a field may hold is stated once, in its annotation, and checked whenever a spec is made, from a
file or in Python: `rank: PositiveInt`, `alpha: Annotated[float, Above(0)]`, or a `Literal`.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar, cast, dataclass_transform

from clozeworks.errors import SettingError, nearest

T = TypeVar("T")


@dataclass(frozen=True)
class Bound:
    """A rule about a value, in an annotation."""

    words: str
    """What the value must be: "above 0"."""
    test: Callable[[Any], bool]
    """Whether a value keeps the rule; numbers it is asked about are finite."""

    def allows(self, value: Any) -> bool:
        """Whether a value keeps the rule. NaN and infinite numbers keep none."""
        try:
            return not (isinstance(value, float) and not math.isfinite(value)) and self.test(value)
        except TypeError:  # a string where a number belongs
            return False


@dataclass(frozen=True)
class Advice:
    """What to do if a bound of the same annotation is broken."""

    text: str


class Above(Bound):
    """Greater than a limit."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"above {_number(limit)}", lambda value: value > limit)


class AtLeast(Bound):
    """A limit or greater."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"at least {_number(limit)}", lambda value: value >= limit)


class Below(Bound):
    """Less than a limit."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"below {_number(limit)}", lambda value: value < limit)


class AtMost(Bound):
    """A limit or less."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"at most {_number(limit)}", lambda value: value <= limit)


def _number(limit: float) -> str:
    return "2**63" if limit == 2**63 else f"{limit:,}"


FINITE = Bound("a finite number", lambda value: math.isfinite(value))
NOT_EMPTY = Bound("non-empty", lambda value: len(value) > 0)

PositiveInt = Annotated[int, AtLeast(1)]
NonNegativeInt = Annotated[int, AtLeast(0)]
PositiveFloat = Annotated[float, Above(0)]
NonNegativeFloat = Annotated[float, AtLeast(0)]
Probability = Annotated[float, AtLeast(0), AtMost(1)]
DropoutRate = Annotated[float, AtLeast(0), Below(1)]
RandomSeed = Annotated[int, AtLeast(0), Below(2**63)]


def bounds_in_words(hint: Any) -> str:
    """What an annotation allows, for help texts: "at least 0 and below 1"; empty if anything."""
    if typing.get_origin(hint) in (types.UnionType, typing.Union):
        return next(filter(None, map(bounds_in_words, typing.get_args(hint))), "")
    if typing.get_origin(hint) is not Annotated:
        return ""
    return " and ".join(bound.words for bound in hint.__metadata__ if isinstance(bound, Bound))


def check(setting: str, value: Any, hint: Any) -> None:
    """Complains about a value that its annotation does not allow.

    Args:
        setting: What the value is called in the complaint.
        value: The value.
        hint: A type such as `PositiveInt`, or `Annotated` with bounds, or a `Literal`; lists,
            tables and alternatives of them are looked into. Types themselves are not checked.

    Raises:
        SettingError: If a bound is broken.
    """
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        check(setting, value, arguments[0])
        bounds = [note for note in arguments[1:] if isinstance(note, Bound)]
        if not all(bound.allows(value) for bound in bounds):
            advice = next((note.text for note in arguments[1:] if isinstance(note, Advice)), "")
            endless = isinstance(value, float) and all(bound.test(value) for bound in bounds)
            words = bounds_in_words(hint) + (" and finite" if endless else "")
            raise SettingError(setting, value, f"it must be {words}", advice)
    elif origin is typing.Literal:
        if value not in arguments:
            names = [repr(choice) for choice in arguments]
            few = " or ".join(names) if len(names) < 3 else f"one of {', '.join(names)}"
            near = nearest(str(value), map(str, arguments))
            advice = f"did you mean {near!r}?" if near else ""
            raise SettingError(setting, value, f"it must be {few}", advice)
    elif origin in (types.UnionType, typing.Union):
        for member in arguments:
            if isinstance(value, _types(member)):
                check(setting, value, member)
    elif origin is tuple and arguments[1:] == (...,):
        for number, item in enumerate(value):
            check(f"{setting}[{number}]", item, arguments[0])
    elif origin is dict:
        for key, item in value.items():
            check(f"{setting}.{key}", item, arguments[1])


def _types(hint: Any) -> tuple[Any, ...]:
    """The types that values of an annotation have."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        return _types(arguments[0])
    if origin is typing.Literal:
        return tuple(type(choice) for choice in arguments)
    return (int, float) if hint is float else (origin or hint,)


def _has_bounds(hint: Any) -> bool:
    """Whether there is anything to check."""
    if typing.get_origin(hint) is typing.Literal:
        return True
    return bool(bounds_in_words(hint)) or any(map(_has_bounds, typing.get_args(hint)))


@cache
def _bounded_fields(cls: Any) -> dict[str, Any]:
    hints = typing.get_type_hints(cls, include_extras=True)
    names = (field.name for field in dataclasses.fields(cls))
    return {name: hints[name] for name in names if _has_bounds(hints[name])}


@dataclass_transform(frozen_default=True, kw_only_default=True)
def spec(cls: type[T]) -> type[T]:
    """Makes a class a spec: a frozen dataclass that checks the bounds its annotations state."""
    before = cls.__dict__.get("__post_init__")
    if before is not None or not hasattr(cls, "__post_init__"):

        def check_fields(self: Any) -> None:
            for name, hint in _bounded_fields(cast(Hashable, type(self))).items():
                check(name, getattr(self, name), hint)
            if before is not None:
                before(self)

        cls.__post_init__ = check_fields  # type: ignore[attr-defined]
    # Trap: slots=True would make dataclass return a second class, and the first would stay behind
    # in __subclasses__(), where the registry looks.
    return dataclass(frozen=True, kw_only=True)(cls)


class Slot:
    """A part of a blueprint that any of several specs can be.

    Subclasses that are slots themselves set `is_slot = True` in their body; the specs that fill
    them do not. `folder` names the package whose files belong to the slot, if it has one.
    """

    is_slot: ClassVar[bool] = False
    folder: ClassVar[str | None] = None
    paper: ClassVar[str] = ""
