"""Messages name what a person wrote: options of a command, or arguments of Python.

Messages are written with options, `--columns label=NAME`. Where a program called, `in_python` makes
arguments of them: `columns={"label": "NAME"}`.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from inspect import signature
from typing import Any

from clozeworks.data.files.file_format import FileFormat
from clozeworks.errors import ClozeworksError, SettingError, UnknownName
from clozeworks.inference.loop import BatchOptions

# An option, what is said of it in Python, and what may follow it.
_OPTION = re.compile(r"--([a-z][a-z-]*)(?: \((\w+=\w+) in Python\))?(?: ([\w.,=/-]*[\w/]=?))?")
_IN_RECIPE = re.compile(r" \([\w.]+=\w+ in a recipe\)")
_COMMAND = "clozeworks "
# Options without a value.
_SWITCHES = {"skip-bad-rows", "skip-blank", "header", "overwrite", "truncate"}
# Options whose value may follow in a sentence.
_VALUED = {"format", "encoding", "quoting", "bad-bytes", "separator", "task", "threshold"}
# What follows an option in a sentence, and is not a value.
_WORDS = {"is", "out", "or", "and", "keeps", "takes", "if"}
_FILE_FORMAT = {field.name for field in fields(FileFormat)}


@contextmanager
def in_python(
    names: Mapping[str, str] | None = None, *, file_format: bool = False
) -> Iterator[None]:
    """Errors raised inside name arguments of Python.

    Args:
        names: What settings are called in the call, by their path in a recipe.
        file_format: Whether how files are read is one argument, `file_format`.
    """
    given = dict(names or {})

    def spell(setting: str) -> str:
        name = setting.removeprefix("--").replace("-", "_") if setting[:2] == "--" else setting
        return given.get(name, name)

    def text(sentence: str) -> str:
        for path, name in ((path, name) for path, name in given.items() if "." in path):
            sentence = re.sub(rf"(?<![\w.]){re.escape(path)}(?![\w.])", name, sentence)
        return as_arguments(sentence, file_format=file_format)

    try:
        yield
    except SettingError as error:
        if not error.setting:
            raise
        spelled = error.respelled(spell)
        raise SettingError(
            spelled.setting, spelled.value, text(spelled.rule), text(spelled.advice)
        ).with_traceback(error.__traceback__) from error.__cause__
    except UnknownName as error:
        what = error.args[0].replace("--", "") if len(error.args) > 1 else ""
        spelled_name = error.respelled(lambda _: given.get(what, what))
        raise spelled_name.with_traceback(error.__traceback__) from error.__cause__
    except ClozeworksError as error:
        error.args = tuple(text(each) if isinstance(each, str) else each for each in error.args)
        raise


def refuse_unknown(options: Mapping[str, Any], name: str, function: Callable[..., Any]) -> None:
    """Complains about a keyword argument that neither a function has nor a loop over batches.

    Raises:
        UnknownName: If there is one.
    """
    usual = {field.name for field in fields(BatchOptions)}
    for option in options:
        if option not in usual:
            parameters = signature(function).parameters.values()
            known = usual | {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
            raise UnknownName(f"An argument of {name}", option, known)


def as_arguments(sentence: str, *, file_format: bool = False) -> str:
    """A sentence that names arguments of Python instead of options; commands stay as they are."""

    def argument(match: re.Match[str]) -> str:
        option, stated, value = match.groups()
        after = "" if value is None else f" {value}"
        name = option.removeprefix("no-").replace("-", "_")
        if stated:
            return stated + after
        if option in _SWITCHES or option != option.removeprefix("no-"):
            return f"{name}={option in _SWITCHES}{after}"
        if option == "columns" and value and "=" in value:
            return f"columns={_columns(value)}"
        has_value = option in _VALUED and value and value not in _WORDS
        written = f'{name}="{value}"' if has_value else name
        if file_format and name in _FILE_FORMAT:
            written = f"file_format=cw.FileFormat({written if has_value else name + '=…'})"
        return written + ("" if has_value else after)

    before, command, rest = sentence.partition(_COMMAND)
    return _OPTION.sub(argument, _IN_RECIPE.sub("", before)) + command + rest


def _columns(written: str) -> str:
    """`text=1,label=NAME` as a dict."""
    pairs = (part.partition("=") for part in written.split(","))
    cells = (
        f'"{role}": {column if column.isdecimal() else f"{column!r}"}' for role, _, column in pairs
    )
    return "{" + ", ".join(cells).replace("'", '"') + "}"
