"""Errors meant for the person who runs the program.

Every message says where, what, and what to do: *Where* is *value*; *rule*; *what to do.*
Commands print the sentence and leave with exit code 2; nobody sees a traceback for a mistake
they can mend themselves.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class ClozeworksError(Exception):
    """Anything the user can cause and can mend."""


class SettingError(ClozeworksError, ValueError):
    """A setting has a value it may not have."""


class UnknownName(ClozeworksError, LookupError):  # noqa: N818 (the name is the sentence)
    """A name that no file, part or published size answers to."""

    def __init__(self, what: str, name: str, known: Iterable[str]) -> None:
        names = sorted(known)
        near = get_close_matches(name, names, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        super().__init__(f"{what} is {name!r}; known: {', '.join(names)}.{hint}")


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
