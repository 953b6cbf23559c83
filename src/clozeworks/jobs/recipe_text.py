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
from collections.abc import Collection, Mapping
from typing import Any

from clozeworks import config, registry
from clozeworks.errors import InputError
from clozeworks.jobs.finetune.recipe import FROM_DATA, FinetuneRecipe
from clozeworks.jobs.finetune.search import Search
from clozeworks.jobs.pretrain.recipe import Recipe
from clozeworks.spec import Slot, bounds_in_words
from clozeworks.tasks.task import task_classes

_WIDTH = 96
_PRETRAIN = """\
A recipe for: clozeworks pretrain
Every setting is here with its default; what is left out has it, too. On the command line a setting
is changed by its path: clozeworks pretrain FILE training.steps=2000"""
_FINETUNE = """\
A recipe for: clozeworks finetune
Every setting is here with its default, after a # without a space: remove it to change the setting.
On the command line a setting is changed by its path: clozeworks finetune FILE training.epochs=5"""


def recipe_text(recipe: Recipe, objective: str) -> str:
    """A recipe as a TOML file, with the name of its objective instead of the table."""
    page = _Page(_PRETRAIN)
    page.table({**_values(recipe), "objective": objective}, type(recipe))
    return page.text()


def finetune_text(recipe: FinetuneRecipe) -> str:
    """A recipe of fine-tuning as a TOML file: what has a default stands in comments."""
    page = _Page(_FINETUNE, live=("run", "model", "task.kind", "data.train"))
    kind = recipe.task["kind"]
    settings = {
        name: value
        for name, value in _defaults(task_classes()[kind]).items()
        if name not in FROM_DATA
    }
    values = _values(recipe)
    tables = {name: values.pop(name) for name in list(values) if _is_table(values[name])}
    del values["task"]
    page.table(values, type(recipe))
    page.header("task", f"What is learned: to {task_classes()[kind].summary}.")
    page.setting("task.kind", kind, f"One of: {', '.join(task_classes())}.")
    page.table(settings, task_classes()[kind], "task")
    page.table(tables, type(recipe))
    page.optional("search", Search, "Settings that are tried, of which the best is kept")
    return page.text()


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


class _Page:
    """The lines of a file: tables of settings, each with its help.

    Args:
        head: What the file is for.
        live: The paths of settings that stand as they are, while all others stand in comments; None
            if all of them do.
    """

    def __init__(self, head: str, live: Collection[str] | None = None) -> None:
        self._lines = [f"# {line}" for line in head.splitlines()]
        self._lines.append("")
        self._live = live

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"

    def table(self, values: Mapping[str, Any], cls: type, path: str = "") -> None:
        """Adds the settings of a spec, then the tables inside it."""
        told, hints = field_help(cls), typing.get_type_hints(cls, include_extras=True)
        for name, value in values.items():
            where = f"{path}.{name}" if path else name
            if _is_table(value):
                continue
            about = [told.get(name, ""), _allowed(hints[name])]
            optional = _optional_table(hints[name])
            if value is None and optional is not None:
                about.append(_table_in_words(where, optional))
            if value is None and str in typing.get_args(hints[name]):
                # TOML has no None, and the word for it is a string like any other.
                self._comment(*about, f'Not set; to set it: {name} = "…"')
            else:
                self.setting(where, config.plain(value), *about)
        for name, value in values.items():
            if not _is_table(value):
                continue
            where, slot = f"{path}.{name}" if path else name, _slot(type(value))
            self.header(where, told.get(name) or inspect.getdoc(slot or type(value)) or "")
            if slot is not None:
                self.setting(f"{where}.kind", registry.kind(type(value)), _choices(slot))
            self.table(_values(value), type(value), where)

    def header(self, path: str, about: str) -> None:
        """Begins a table."""
        about = about.removeprefix("Slot: ").split("\n\n")[0]
        self._lines.append("")
        self._comment(about[:1].upper() + about[1:])
        self._lines.append(f"[{path}]")

    def setting(self, path: str, value: Any, *about: str) -> None:
        """Adds a setting after what there is to say about it."""
        self._comment(*about)
        mark = "" if self._live is None or path in self._live else "#"
        self._lines.append(f"{mark}{path.rpartition('.')[2]} = {toml(value)}")

    def optional(self, name: str, cls: type, about: str) -> None:
        """Says what a table that is not there may hold."""
        self._lines.append("")
        self._comment(f"{about}. {_table_in_words(name, cls)}")

    def _comment(self, *texts: str) -> None:
        for text in texts:
            self._lines += _comment(text)


def _values(value: Any) -> dict[str, Any]:
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _defaults(cls: type) -> dict[str, Any]:
    """The defaults of those fields that have one."""
    found = {}
    for field in dataclasses.fields(cls):
        if field.default is not dataclasses.MISSING:
            found[field.name] = field.default
        elif field.default_factory is not dataclasses.MISSING:
            found[field.name] = field.default_factory()
    return found


def _is_table(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, type)


def _optional_table(hint: Any) -> type | None:
    """The spec of a setting that is a table or nothing."""
    members = [member for member in typing.get_args(hint) if isinstance(member, type)]
    return next((each for each in members if dataclasses.is_dataclass(each) or _slot(each)), None)


def _table_in_words(name: str, cls: type) -> str:
    """What a table may hold, as help beside a setting that has none."""
    if cls.__dict__.get("is_slot"):
        return f"As a table, [{name}], it has a kind and its settings. {_choices(cls)}"
    told, defaults = field_help(cls), config.plain(_defaults(cls))
    each = [
        f"  {field.name}"
        f"{f' = {toml(defaults[field.name])}' if field.name in defaults else ' (needed)'}: "
        f"{' '.join(told.get(field.name, '').split())}"
        for field in dataclasses.fields(cls)
    ]
    return "\n".join([f"As a table, [{name}], it has these settings:", *each])


def toml(value: Any) -> str:
    """A value in TOML; None is the word for it."""
    if value is None:
        return toml(config.NONE)
    if isinstance(value, str):
        if any("\ud800" <= character <= "\udfff" for character in value):
            raise InputError(
                f"{value} is not valid Unicode, and a recipe cannot hold it; rename the file or "
                "folder."
            )
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
