"""Plain data: read from JSON files, turned into specs, strictly, and back.

Every complaint names the dotted path and the value. A field whose type is a *slot* (a base class
marked by `is_slot`) takes a table with a `kind`, looked up in the registry, so the set of parts is
open: a new file in `core/positions/` can be named in JSON the moment it exists.
"""

import dataclasses
import json
import tomllib
import types
import typing
from collections import Counter
from pathlib import Path
from typing import Any, cast

from clozeworks import registry
from clozeworks.errors import MISSING, CheckpointError, SettingError, Stated, UnknownName, shown
from clozeworks.spec import check
from clozeworks.wording import shortened

# TOML knows no None: this is how a recipe says that there is none of something.
NONE = "none"


def read_text(path: Path, error: type[CheckpointError] = CheckpointError) -> str:
    """The text of a UTF-8 file, or a sentence about what is wrong with it.

    Args:
        path: The file.
        error: What a complaint is raised as.
    """
    # Trap: a pipe would be waited for, and a device may never end.
    if path.exists() and not path.is_file() and not path.is_dir():
        raise error(f"{path} is a device or a pipe, not a file; restore the file.")
    try:
        data = path.read_bytes()
        # Compat: editors on Windows put a mark before the first character.
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as wrong:
        line = data.count(b"\n", 0, wrong.start) + 1
        raise error(
            f"{path}, line {line:,}: byte 0x{data[wrong.start]:02x} is not UTF-8; restore the "
            f"file, or save it as UTF-8."
        ) from wrong
    except OSError as wrong:
        raise error(f"{path} cannot be read ({wrong.strerror}); restore the file.") from wrong


def read_json(
    path: Path, error: type[CheckpointError] = CheckpointError, *, optional: bool = False
) -> dict[str, Any]:
    """A JSON object from a file, or a sentence about what is wrong with it.

    Args:
        path: The file.
        error: What a complaint is raised as.
        optional: Whether a file that is not there counts as an empty object.
    """
    if optional and not path.exists():
        return {}
    data = read_any_json(path, error)
    if not isinstance(data, dict):
        raise error(
            f"{path} is JSON, but not an object; it must have the form {{…}}; restore the file."
        )
    return data


def read_any_json(path: Path, error: type[CheckpointError] = CheckpointError) -> Any:
    """Any JSON value from a file, or a sentence about what is wrong with it."""
    return parse_json(read_text(path, error), path, error)


def parse_json(
    text: str,
    path: Path,
    error: type[CheckpointError] = CheckpointError,
    *,
    repeats: bool = True,
) -> Any:
    """Any JSON value from the text of a file, or a sentence about what is wrong with it.

    Args:
        text: The text.
        path: The file, for messages.
        error: What a complaint is raised as.
        repeats: Whether an object may have a key twice, of which the last counts.
    """

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        read = dict(pairs)
        if len(read) < len(pairs):
            counts = Counter(key for key, _ in pairs)
            twice = next(key for key, count in counts.items() if count > 1)
            raise error(
                f"{path}: {shortened(repr(twice))} stands twice in one object; a key has one "
                "value; restore the file."
            )
        return read

    try:
        return json.loads(text, object_pairs_hook=None if repeats else once)
    except json.JSONDecodeError as wrong:
        raise error(
            f"{path}, line {wrong.lineno:,}: {wrong.msg}; it must be JSON; restore the file."
        ) from wrong
    except (ValueError, RecursionError) as wrong:
        raise error(
            f"{path}: a number is too long or the nesting too deep to read; restore the file."
        ) from wrong


def read(cls: Any, data: Any, path: str = "") -> Any:
    """Builds a value of type `cls` from plain data."""
    origin = typing.get_origin(cls)
    if origin in (types.UnionType, typing.Union):
        return _read_union(cls, data, path)
    if origin is tuple:
        return _read_tuple(cls, data, path)
    if origin is dict:
        return _read_dict(cls, data, path)
    if isinstance(cls, type) and cls.__dict__.get("is_slot"):
        return _read_slot(cls, data, path)
    if dataclasses.is_dataclass(cls):
        return _read_fields(cast(type, cls), data, path)
    return _read_plain(cls, data, path)


def plain(value: Any) -> Any:
    """The inverse of `read`: specs as dictionaries with their kind, tuples as lists."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
        in_slot = any(base.__dict__.get("is_slot") for base in type(value).__mro__)
        return {"kind": registry.kind(type(value)), **fields} if in_slot else fields
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def _read_union(cls: Any, data: Any, path: str) -> Any:
    members = [member for member in typing.get_args(cls) if member is not type(None)]
    if len(members) < len(typing.get_args(cls)) and (
        data is None or (data == NONE and str not in members)
    ):
        return None
    if len(members) == 1:
        return read(members[0], data, path)
    return _read_plain(cls, data, path)


def _read_tuple(cls: Any, data: Any, path: str) -> tuple[Any, ...]:
    if not isinstance(data, list | tuple):
        is_word = isinstance(data, str) and data.isidentifier() and len(data) < 100
        advice = f"write [{data}]" if is_word else ""
        raise SettingError(path, data, "it must be a list", advice)
    item = typing.get_args(cls)[0]
    return tuple(read(item, value, f"{path}[{i}]") for i, value in enumerate(data))


def _read_dict(cls: Any, data: Any, path: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise SettingError(path, data, "it must be a table")
    item = typing.get_args(cls)[1]
    return {str(key): read(item, value, f"{path}.{key}") for key, value in data.items()}


def _read_slot(cls: type, data: Any, path: str) -> Any:
    known = registry.specs(cls)
    if not isinstance(data, dict) or "kind" not in data:
        names = ", ".join(sorted(known))
        raise SettingError(path, data, f"it must be a table with a kind, one of: {names}")
    if not isinstance(data["kind"], str):
        rule = f"it must be one of: {', '.join(sorted(known))}"
        raise SettingError(f"{path}.kind" if path else "kind", data["kind"], rule)
    if data["kind"] not in known:
        raise UnknownName(f"{path}.kind" if path else "kind", data["kind"], known)
    rest = {key: value for key, value in data.items() if key != "kind"}
    return _read_fields(known[data["kind"]], rest, path)


def _read_fields(cls: type, data: Any, path: str) -> Any:
    if not isinstance(data, dict):
        names = ", ".join(field.name for field in dataclasses.fields(cls))
        rule = f"it must be a table of settings: {names}"
        raise SettingError(path or "the whole", data, rule)
    values = read_fields(cls, data, path)
    for field in dataclasses.fields(cls):
        required = (
            field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        )
        if field.name not in values and required:
            where = f"{path}.{field.name}" if path else field.name
            raise SettingError(where, MISSING, "it has no default", "set it")
    try:
        return cls(**values)
    except SettingError as error:
        raise error.within(path) from error.__cause__


def read_fields(cls: type, data: dict[str, Any], path: str = "") -> dict[str, Any]:
    """The values of some fields of a class, each checked by itself.

    Raises:
        SettingError: If a value is not of the type of its field, or breaks a bound.
        UnknownName: If there is no such field.
    """
    hints = typing.get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls)}
    values = {}
    for key, value in data.items():
        where = f"{path}.{key}" if path else str(key)
        if key not in fields:
            if deeper := _deeper(str(key), hints):
                full = f"{path}.{deeper}" if path else deeper
                raise SettingError(where, Stated("not known"), "", f"did you mean {full!r}?")
            raise UnknownName(f"A setting of {path}" if path else "A setting", str(key), fields)
        values[key] = read(hints[key], _with_kind(value, fields[key].default), where)
    for key, hint in typing.get_type_hints(cls, include_extras=True).items():
        if key in values:
            check(f"{path}.{key}" if path else key, values[key], hint)
    return values


def _deeper(key: str, hints: dict[str, Any]) -> str | None:
    """Where a key stands one table below, if it stands in one: `data.corpus` for `corpus`."""
    below = [
        f"{name}.{key}"
        for name, hint in hints.items()
        for each in (hint, *typing.get_args(hint))
        if isinstance(each, type) and dataclasses.is_dataclass(each)
        if key in {field.name for field in dataclasses.fields(each)}
    ]
    return below[0] if len(below) == 1 else None


def _with_kind(value: Any, default: Any) -> Any:
    """A table without a kind is of the kind of its setting's default, if that fills a slot."""
    if not isinstance(value, dict) or "kind" in value:
        return value
    in_slot = any(base.__dict__.get("is_slot") for base in type(default).__mro__)
    return {"kind": registry.kind(type(default)), **value} if in_slot else value


def _read_plain(cls: Any, data: Any, path: str) -> Any:
    if cls is Any:
        return data
    if cls is float and type(data) is int:
        try:
            return float(data)
        except OverflowError:
            raise SettingError(path, data, "it must be a number that a float can hold") from None
    if typing.get_origin(cls) is typing.Literal:
        check(path, data, cls)
        return data
    wanted = typing.get_args(cls) or (cls,)
    if type(data) not in wanted:
        names = " or ".join(getattr(kind, "__name__", str(kind)) for kind in wanted)
        raise SettingError(path, data, f"it must be {names}")
    return data


def override(data: dict[str, Any], change: str) -> None:
    """Changes one setting of plain data, as a command line writes it: `training.steps=2000`.

    What stands after the sign is read as TOML, and as a string if it is not.

    Raises:
        SettingError: If there is no equals sign, or the path leads through a value that is not a
            table.
    """
    path, sign, text = change.partition("=")
    if not sign or not path:
        raise SettingError(
            shown(change),
            Stated("not a change of a setting"),
            "write path=value, for example training.steps=2000",
        )
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):  # not TOML, a number too long, or nested too deep
        value = _unquoted(text)
    *tables, key = path.split(".")
    for depth, table in enumerate(tables):
        inner = data.setdefault(table, {})
        if not isinstance(inner, dict):
            where = ".".join(tables[: depth + 1])
            raise SettingError(
                where, inner, f"{shown(change)} changes a part of a table", "change it as a whole"
            )
        data = inner
    data[key] = value


def _unquoted(text: str) -> Any:
    """A text that is not TOML; a list of words where a shell took their quotation marks."""
    words = [word.strip() for word in text[1:-1].split(",")]
    if text.startswith("[") and text.endswith("]") and all(map(str.isidentifier, words)):
        return words
    return text
