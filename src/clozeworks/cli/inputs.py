"""The inputs of commands: a text itself, a file, or standard input; and how files are read."""

import os
import sys
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from clozeworks.errors import SET, InputError, SettingError
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.data.files.texts import Texts
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.items import Item
    from clozeworks.data.labelled.reading import Reading


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How texts are read.

    Attributes:
        column: The column or field that holds the text, by name or number. If not given: "text", or
            the only column of strings.
        header: Whether the first row of .csv and .tsv files is a header; it is if not given.
        encoding: The encoding of files and standard input; utf-8 if not given.
        skip_blank: Skip blank texts instead of stopping at them.
    """

    column: str | None = None
    header: bool | None = None
    encoding: str | None = None
    skip_blank: Annotated[bool, Parameter(negative="")] = False

    def read(self, source: str) -> "Texts":
        """Reads a text, a file, or for - the lines of standard input."""
        from clozeworks.data.files.texts import Texts, read_texts

        resolved = resolve_input(source)
        if isinstance(resolved, str):
            check_unused("the input is a text, not a file", self)
            return Texts([resolved], ["the text"], "the command line")
        return read_texts(
            sys.stdin.buffer if resolved is None else resolved,
            column=self.column,
            header=self.header,
            encoding=self.encoding or "utf-8",
            skip_blank=self.skip_blank,
        )

    def read_paired(
        self, texts: "Texts", source: str | None, name: str, column: str | None
    ) -> list[str] | None:
        """Reads what belongs to each text, such as its answer; None if no source was given.

        The name is what one of them is called: "answer" for `--answers` and `--answer-column`.
        """
        if source is None:
            if column is not None:
                rule = f"--{name}s is missing"
                raise SettingError(f"--{name}-column", column, rule, "name their file, too")
            return None
        if self.skip_blank:
            rule = f"with --{name}s, texts and {name}s would no longer belong together"
            raise SettingError("--skip-blank", SET, rule, "leave one of the two out")
        header = self.header if _has_header(source) else None
        paired = TextOptions(column=column, header=header, encoding=self.encoding).read(source)
        if len(paired) != len(texts):
            raise InputError(
                f"{paired.origin} has {counted(len(paired), 'text')} and {texts.origin} "
                f"{len(texts):,}; each needs one {name}; give as many."
            )
        return paired.texts


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DocumentOptions:
    """How documents are read from files.

    Attributes:
        column: The column or field that holds the text, by name or number. If not given: "text", or
            the only column of strings. May be given several times: each becomes a line, as for the
            texts of pairs and triplets.
        header: Whether the first row of .csv and .tsv files is a header; it is if not given.
        encoding: The encoding of text files.
    """

    column: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    header: bool | None = None
    encoding: str = "utf-8"


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TableOptions:
    """How rows are read from files.

    Attributes:
        columns: The columns by role, by name or number: text=review,label=5. Detected if not given.
            Roles: text, label; first, second; words, tags; question, context, answers; source,
            target, input, prefix, task, messages.
        header: Whether the first row of .csv and .tsv is a header; detected if not given.
        encoding: The encoding of files and standard input.
    """

    columns: str | None = None
    header: bool | None = None
    encoding: str = "utf-8"

    def reading(self, item: "type[Item]") -> "Reading":
        """The same, as files of an item are read."""
        from clozeworks.data.labelled.columns import parse_columns
        from clozeworks.data.labelled.reading import Reading

        columns = {} if self.columns is None else parse_columns(self.columns, item)
        return Reading(columns, self.header, encoding=self.encoding)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LabelledOptions(TableOptions):
    """How labelled rows are read from files.

    Attributes:
        labels: One label per row, several, or numbers; detected if not given.
        separator: The separator between several labels in one cell, such as |.
    """

    labels: Literal["one", "several", "numbers"] | None = None
    separator: str | None = None

    def reading(self, item: "type[Item]") -> "Reading":
        """The same, as files of an item are read."""
        reading = super().reading(item)
        return replace(reading, labels=self.labels, separator=self.separator)


def option_name(setting: str) -> str:
    """The option of a setting: --top-k for top_k."""
    return f"--{setting.replace('_', '-')}"


def check_minimum(minimum: int, **settings: int | None) -> None:
    """Complains about an option whose value is below a minimum: `check_minimum(1, seeds=0)`."""
    for name, value in settings.items():
        if value is not None and value < minimum:
            raise SettingError(option_name(name), value, f"it must be at least {minimum}")


def check_unused(because: str, options: object, *names: str) -> None:
    """Complains about an option that is given but has no effect.

    Args:
        because: Why it has none.
        options: A dataclass of options.
        names: Its fields that have no effect; all if not given.
    """
    for field in fields(options):  # type: ignore[arg-type]
        name, value = field.name, getattr(options, field.name)
        if value != field.default and (not names or name in names):
            option = option_name(f"no_{name}" if value is False else name)
            shown = SET if isinstance(value, bool) else value
            raise SettingError(option, shown, because, "leave it out")


def _has_header(source: str) -> bool:
    from clozeworks.data.files.compression import format_suffix
    from clozeworks.data.files.texts import HEADER_SUFFIXES

    return format_suffix(Path(source)) in HEADER_SUFFIXES


def resolve_input(argument: str) -> str | Path | None:
    """`None` for `-`, standard input; a `Path` for a file that exists; or else the text itself.

    Raises:
        InputError: If it is blank, or looks like the name of a file that does not exist.
    """
    from clozeworks.data.files.encodings import check_characters, missing_file, printable

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
    """Notes a bad row, with a message without a full stop; raises it unless rows are dropped."""
    bad.add(source_location, message)
    bad.finish()
