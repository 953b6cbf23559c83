"""Texts as commands are given them: a text itself, a file of texts, or standard input."""

import sys
from typing import TYPE_CHECKING

from clozeworks.wording import counted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clozeworks.data.files.texts import Texts


def given_texts(
    source: str,
    *,
    column: str | None = None,
    encoding: str | None = None,
    skip_blank: bool = False,
) -> "Texts":
    """What an argument stands for.

    Args:
        source: A text, a file, or - for standard input.
        column: The column or field that holds the text; "text" if None.
        encoding: What a file is written in; utf-8 if None.
        skip_blank: Whether blank lines are left out.

    Raises:
        InputError: It cannot be used as it is.
        SettingError: An option speaks of a file where there is none.
    """
    from clozeworks.data.files.texts import Texts, read_texts, resolve_input

    given = resolve_input(source)
    if isinstance(given, str):
        _check_unused({"--column": column, "--encoding": encoding, "--skip-blank": skip_blank})
        return Texts([given], ["the text"], "the command line")
    stream = sys.stdin.buffer if given is None else given
    return read_texts(stream, column=column, encoding=encoding or "utf-8", skip_blank=skip_blank)


def one_for_each(
    texts: "Texts",
    source: str | None,
    name: str,
    *,
    column: str | None = None,
    encoding: str | None = None,
) -> list[str] | None:
    """What belongs to each text, such as its answer; None where nothing was given.

    Args:
        texts: The texts.
        source: A text, a file with as many, or - for standard input.
        name: What they are, one of them: `--answers` and `--answer-column` are "answer".
        column: The column or field that holds them; "text" if None.
        encoding: What a file is written in; utf-8 if None.

    Raises:
        InputError: They cannot be used as they are, or are not as many.
        SettingError: An option speaks of a file where there is none.
    """
    from clozeworks.errors import InputError, SettingError

    if source is None:
        if column is not None:
            raise SettingError(f"--{name}-column is given without --{name}s; name their file, too.")
        return None
    read = given_texts(source, column=column, encoding=encoding)
    if len(read) != len(texts):
        raise InputError(
            f"{read.origin} has {counted(len(read), 'text')} and {texts.origin} {len(texts):,}; "
            f"each needs one {name}; give as many."
        )
    return read.texts


def say_unread(unread: "Sequence[int]", room: int | None) -> None:
    """Says how many prompts were read from their middle on, if any were.

    Args:
        unread: Tokens of each prompt that were not read.
        room: The most tokens that are read at a time.
    """
    if count := sum(map(bool, unread)):
        print(
            f"The beginning of {counted(count, 'prompt')} was not read, "
            f"{counted(max(unread), 'token')} at most: {room or 0:,} are read with what follows.",
            file=sys.stderr,
        )


def _check_unused(options: dict[str, object]) -> None:
    """A text on the command line is not a file, and takes no options of one."""
    from clozeworks.errors import SettingError

    for name, value in options.items():
        if value:
            raise SettingError(
                f"{name} is given, but the input is a text, not a file; leave {name} out, or name "
                f"a file."
            )
