"""What commands are given: a text itself, a file, or standard input."""

import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, TypeVar

from cyclopts import Parameter

from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.data.files.texts import Texts
    from clozeworks.data.labelled.bad_rows import BadRows

T = TypeVar("T")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How texts are read.

    Attributes:
        column: The column or field that holds the text, by name or number. If not given: "text", or
            the only column of strings.
        header: Whether the first row of .csv and .tsv files is a header; it is if not given.
        encoding: The encoding of files and standard input; utf-8 if not given.
        skip_blank: Leave out blank texts instead of stopping at them.
    """

    column: str | None = None
    header: bool | None = None
    encoding: str | None = None
    skip_blank: Annotated[bool, Parameter(negative="")] = False

    def read(self, source: str) -> "Texts":
        """Reads what an argument stands for.

        Args:
            source: A text, a file, or - for the lines of standard input.

        Raises:
            InputError: If it cannot be used as it is.
            SettingError: If an option is about files and there is none.
        """
        from clozeworks.data.files.lines import DEFAULT_ENCODING
        from clozeworks.data.files.texts import Texts, read_texts
        from clozeworks.errors import SettingError

        found = resolve_input(source)
        if isinstance(found, str):
            for name in ("column", "header", "encoding", "skip_blank"):
                if getattr(self, name) not in (None, False):
                    option = f"--{name.replace('_', '-')}"
                    raise SettingError(
                        f"{option} is given, but the input is a text, not a file; leave {option} "
                        "out, or name a file."
                    )
            return Texts([found], ["the text"], "the command line")
        return read_texts(
            sys.stdin.buffer if found is None else found,
            column=self.column,
            header=self.header,
            encoding=self.encoding or DEFAULT_ENCODING,
            skip_blank=self.skip_blank,
        )

    def read_paired(
        self, texts: "Texts", source: str | None, name: str, column: str | None
    ) -> list[str] | None:
        """Reads what belongs to each text, such as its answer.

        Args:
            texts: The texts.
            source: A text, a file with as many, or - for standard input; None if nothing was given.
            name: What one of them is called: "answer" for `--answers` and `--answer-column`.
            column: The column or field that holds them.

        Returns:
            One for each text, or None if nothing was given.

        Raises:
            InputError: If they cannot be used as they are, or are not as many as the texts.
            SettingError: If an option is about files and there is none, or blank texts are skipped.
        """
        from clozeworks.errors import InputError, SettingError

        if source is None:
            if column is not None:
                raise SettingError(
                    f"--{name}-column is given without --{name}s; name their file, too."
                )
            return None
        if self.skip_blank:
            raise SettingError(
                f"--skip-blank and --{name}s are both given; texts and {name}s would no longer "
                "belong together; leave one out."
            )
        header = self.header if _has_header(source) else None
        paired = TextOptions(column=column, header=header, encoding=self.encoding).read(source)
        if len(paired) != len(texts):
            raise InputError(
                f"{paired.origin} has {counted(len(paired), 'text')} and {texts.origin} "
                f"{len(texts):,}; each needs one {name}; give as many."
            )
        return paired.texts


def _has_header(source: str) -> bool:
    from clozeworks.data.files.compression import format_suffix
    from clozeworks.data.files.texts import HEADER_SUFFIXES

    return format_suffix(Path(source)) in HEADER_SUFFIXES


def resolve_input(argument: str) -> str | Path | None:
    """Decides what an input on the command line is.

    Args:
        argument: `-`, the name of a file, or a text.

    Returns:
        `None` for standard input, a `Path` for a file that exists, or else the text itself.

    Raises:
        InputError: If it is blank, or looks like the name of a file that does not exist.
    """
    from clozeworks.data.files.encodings import check_characters, missing_file, printable
    from clozeworks.errors import InputError

    if argument == "-":
        return None
    if not argument.strip():
        raise InputError("The input is blank; give a text, the name of a file, or - to pipe one.")
    path = Path(argument)
    named_like_file = _looks_like_file(argument)
    try:
        exists, is_folder = path.exists(), path.is_dir()
    except PermissionError:
        exists, is_folder = named_like_file, False  # reading it gives the right message
    except (OSError, ValueError):  # too long for a name, or holds what no name may hold
        exists, is_folder = False, False
    if is_folder:
        raise InputError(
            f"{printable(path)} is a folder; name one of the files in it, "
            "or, if it is meant as a text, pipe it in with -."
        )
    if exists:
        return path
    if named_like_file:
        raise missing_file(
            path, "check the name and the folder, or, if it is meant as a text, pipe it in with -"
        )
    check_characters(argument, "The input")
    return argument


def _looks_like_file(argument: str) -> bool:
    from clozeworks.data.files.compression import format_suffix
    from clozeworks.data.files.texts import TEXT_SUFFIXES

    if format_suffix(Path(argument)) in TEXT_SUFFIXES:
        return True
    separators = [os.sep, os.altsep] if os.altsep else [os.sep]
    # Marks such as </s> and [MASK] may stand beside a separator and are never part of a name.
    return any(separator in argument for separator in separators) and not any(
        character.isspace() or character in "<>[]" for character in argument
    )


def refuse(bad: "BadRows", source_location: str, message: str) -> None:
    """Notes a bad row; it ends the reading unless such rows are dropped.

    Args:
        bad: Collects bad rows.
        source_location: The file and the row.
        message: What is wrong and what to do, without a full stop.

    Raises:
        InputError: If bad rows are not dropped.
    """
    bad.add(source_location, message)
    bad.finish()


class Whole(Generic[T]):
    """Items that are all read already, and how many of them were given.

    Args:
        items: The items.
    """

    def __init__(self, items: Sequence[T]) -> None:
        self._items = items
        self._given = 0

    def __iter__(self) -> Iterator[T]:
        for item in self._items:
            self._given += 1
            yield item

    def fraction_read(self) -> float:
        """The fraction of them that has been given."""
        return self._given / max(1, len(self._items))
