"""A recipe as a commented TOML file: every setting, what it is for, and its value.

The comments are the docstrings of the fields, so that the file cannot say something else than the
code.
"""

import ast
import dataclasses
import inspect
import json
import textwrap
import typing
from typing import Any

from clozeworks import config, registry
from clozeworks.jobs.pretrain.recipe import Recipe
from clozeworks.spec import Slot, bounds_in_words

_WIDTH = 96
_HEAD = """\
A recipe for: clozeworks pretrain
Every setting is here with its default; what is left out has it, too. On the command line a setting
is changed by its path: clozeworks pretrain FILE training.steps=2000"""


def recipe_text(recipe: Recipe, objective: str) -> str:
    """A recipe as a TOML file, with the name of its objective instead of the table."""
    lines = [*(f"# {line}" for line in _HEAD.splitlines()), ""]
    _table(recipe, "", lines, {"objective": objective})
    return "\n".join(lines) + "\n"


def field_help(cls: type) -> dict[str, str]:
    """The docstring under each field of a spec, those it inherits among them."""
    found: dict[str, str] = {}
    for owner in reversed(cls.__mro__):
        if not dataclasses.is_dataclass(owner):
            continue
        body = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
        assert isinstance(body, ast.ClassDef)
        for field, text in zip(body.body, body.body[1:], strict=False):
            if (
                isinstance(field, ast.AnnAssign)
                and isinstance(field.target, ast.Name)
                and isinstance(text, ast.Expr)
                and isinstance(text.value, ast.Constant)
                and isinstance(text.value.value, str)
            ):
                found[field.target.id] = inspect.cleandoc(text.value.value)
    return found


def _table(value: Any, path: str, lines: list[str], names: dict[str, str]) -> None:
    """Adds the settings of a spec, then the tables inside it."""
    cls = type(value)
    told, hints = field_help(cls), typing.get_type_hints(cls, include_extras=True)
    inner: list[tuple[str, Any]] = []
    slot = _slot(cls)
    if slot is not None:
        lines += [*_comment(_choices(slot)), f'kind = "{registry.kind(cls)}"']
    for field in dataclasses.fields(value):
        content = names.get(field.name, getattr(value, field.name))
        if dataclasses.is_dataclass(content):
            inner.append((field.name, content))
            continue
        lines += _comment(told.get(field.name, ""))
        lines += _comment(_allowed(hints[field.name]))
        lines.append(f"{field.name} = {toml(config.plain(content))}")
    for name, content in inner:
        where = f"{path}.{name}" if path else name
        about = told.get(name) or inspect.getdoc(_slot(type(content)) or type(content)) or ""
        about = about.removeprefix("Slot: ").split("\n")[0]
        lines += ["", *_comment(about[:1].upper() + about[1:]), f"[{where}]"]
        _table(content, where, lines, {})


def toml(value: Any) -> str:
    """A value in TOML; None is the word for it."""
    if value is None:
        return toml(config.NONE)
    if isinstance(value, str):
        # JSON's strings are TOML's, but for one character.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(toml, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{toml(key)} = {toml(item)}" for key, item in value.items()) + "}"
    return repr(value)


def _slot(cls: type) -> type | None:
    return next((base for base in cls.__mro__ if base.__dict__.get("is_slot")), None)


def _choices(slot: type) -> str:
    assert issubclass(slot, Slot)
    each = [
        f"  {kind}: {(inspect.getdoc(cls) or '').splitlines()[0]} ({cls.paper})"  # type: ignore[attr-defined]
        for kind, cls in sorted(registry.specs(slot).items())
    ]
    return "\n".join(["One of:", *each])


def _allowed(hint: Any) -> str:
    """The values a setting may have if they are few; what the entries of a list of tables are."""
    if typing.get_origin(hint) is typing.Literal:
        return f"One of: {', '.join(map(toml, typing.get_args(hint)))}."
    if bounds := bounds_in_words(hint):
        return f"It must be {bounds}."
    item = next(iter(typing.get_args(hint)), None)
    if typing.get_origin(hint) is not tuple or not dataclasses.is_dataclass(item):
        return ""
    told = field_help(typing.cast(type, item))
    each = [f"  {name}: {' '.join(text.split())}" for name, text in told.items()]
    return "\n".join(["Each is a table of:", *each])


def _comment(text: str) -> list[str]:
    lines = []
    for paragraph in _paragraphs(text):
        indent = " " * (len(paragraph) - len(paragraph.lstrip()))
        lines += textwrap.wrap(
            paragraph,
            _WIDTH,
            initial_indent="# ",
            subsequent_indent=f"# {indent * 2}",
            break_on_hyphens=False,
        )
    return lines


def _paragraphs(text: str) -> list[str]:
    """Lines that belong together as one; an indented line is one of its own."""
    found: list[str] = []
    for line in text.splitlines():
        if found and not line.startswith("  ") and not found[-1].startswith("  "):
            found[-1] += f" {line.strip()}"
        else:
            found.append(line)
    return found
