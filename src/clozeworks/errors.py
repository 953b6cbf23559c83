"""Errors meant for the person who runs the program.

Every message says where, what, and what to do: *Where* is *value*; *rule*; *what to do.*
Commands print the sentence and exit with code 2; nobody sees a traceback for a mistake they can
fix themselves.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any


class ClozeworksError(Exception):
    """Anything the user can cause and can fix."""


class Stated(str):
    """A value in words, such as "missing": messages show it without quotes."""


MISSING, SET = Stated("missing"), Stated("set")


class SettingError(ClozeworksError, ValueError):
    """A setting has a value that it may not have.

    The sentence is made here: *setting* is *value*; *rule*; *advice*. If several settings are
    involved, `setting` is the one to change, and the rule states the others, each in backticks:
    "it must be divisible by `heads`, 3". Commands replace these names by their options.
    """

    setting: str = ""
    """The name of the setting, relative to the class that checks it. `config` adds the path of the
    table that it was read from."""
    value: Any = None
    """Its value, as it is; a `Stated` one is shown without quotes."""
    rule: str = ""
    """What it must be instead, or why it cannot be."""
    advice: str = ""
    """What to do, if the rule does not say so."""

    def __init__(self, setting: str, value: Any, rule: str, advice: str = "") -> None:
        # Trap: an error is pickled as its class and `args`; so the sentence is made in `__str__`.
        super().__init__(setting, value, rule, advice)
        self.setting, self.value, self.rule, self.advice = setting, value, rule, advice

    def __str__(self) -> str:
        if not self.setting:  # a sentence, as another process told it
            return str(self.args[0])
        parts = (f"{self.setting} is {shown(self.value)}", self.rule, self.advice)
        sentence = "; ".join(part for part in parts if part)
        return sentence if sentence.endswith("?") else sentence + "."

    def within(self, path: str) -> "SettingError":
        """The same error for a setting of the table `path`."""
        if not self.setting or not path:
            return self
        return SettingError(f"{path}.{self.setting}", self.value, self.rule, self.advice)

    def respelled(self, spell: Callable[[str], str]) -> "SettingError":
        """The same error with every name of a setting spelled another way, such as an option."""
        if not self.setting:
            return self

        def names(text: str) -> str:
            return re.sub(r"`([^`]+)`", lambda match: spell(match[1]), text)

        return SettingError(spell(self.setting), self.value, names(self.rule), names(self.advice))


def shown(value: Any) -> str:
    """A value as messages show it: strings quoted, numbers with commas, nothing as "empty"."""
    if isinstance(value, Stated):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool):
        return f"{value:,}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(shown, value))}]" if value else "empty"
    return repr(value)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that somebody may have meant."""
    return next(iter(get_close_matches(name, list(known), n=1)), None)


class UnknownName(ClozeworksError, LookupError):  # noqa: N818 (the name is the sentence)
    """A name that no file, part or published size answers to."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        super().__init__(what, name, tuple(known))

    def __str__(self) -> str:
        if len(self.args) == 1:  # a sentence, as another process told it
            return str(self.args[0])
        what, name, known = self.args
        names = sorted(known)
        near = nearest(name, names)
        hint = f" Did you mean {near!r}?" if near else ""
        return f"{what} is {name!r}; known: {', '.join(names)}.{hint}"


class InputError(ClozeworksError, ValueError):
    """A text, or a file of texts, that cannot be used as it is."""


class CheckpointError(ClozeworksError):
    """A model folder that is incomplete, damaged or contradicts itself."""


class UnfinishedRun(CheckpointError):  # noqa: N818
    """The model of a run that has not come to its end.

    Attributes:
        model: The folder that is not there.
        run: The folder of the run.
    """

    def __init__(self, model: str, run: str, advice: str | None = None) -> None:
        self.model, self.run = model, run
        advice = advice or "run the command it was begun with again."
        super().__init__(f"{model} is not there; the run {run} has not come to its end; {advice}")


class TokenizerError(CheckpointError):
    """Tokenizer files that are missing, damaged or do not belong to the model."""


class OutputError(ClozeworksError, OSError):
    """A place that cannot be written, or that already holds something."""


class HubError(ClozeworksError):
    """A model name that could not be fetched from the hub."""


class UnsupportedError(ClozeworksError):
    """Something this checkpoint cannot do; the message says what would make it work."""


class MissingExtra(ClozeworksError, ImportError):  # noqa: N818
    """An optional library is needed for what was asked."""

    def __init__(self, what: str, library: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the library {library!r}, which is not installed; "
            f"install it with: pip install 'clozeworks[{extra}]'."
        )
