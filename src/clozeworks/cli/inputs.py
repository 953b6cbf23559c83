"""The inputs of commands: a text itself, a file, or standard input; and how files are read."""

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

from cyclopts import Parameter

from clozeworks.errors import SET, InputError, SettingError
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.data.files.file_format import FileFormat
    from clozeworks.data.files.texts import TextReader, Texts, TextSettings
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.items import Item
    from clozeworks.data.labelled.reading import Reading


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class FileOptions:
    """How the bytes of files become rows.

    Attributes:
        format: csv, tsv, jsonl, json, parquet, txt or what else is read here; as the suffix of a
            file says if not given.
        separator: What stands between the cells of a row, such as ; or tab. If not given, a comma
            in csv and a tab in tsv.
        quoting: Whether cells may stand in quotation marks: double (with "" for one inside), or
            none, where the marks are part of the text. If not given, double with commas; with tabs,
            as the file shows.
        encoding: The encoding of files and standard input, such as gb18030; utf-8 if not given.
        bad_bytes: What to do about bytes that are not valid in the encoding: refuse the file,
            replace each by U+FFFD, or skip the rows that hold one. refuse if not given.
        max_row_length: The most characters of a row or line; 10,000,000 if not given.
    """

    format: str | None = None
    separator: str | None = None
    quoting: Literal["auto", "none", "double"] | None = None
    encoding: str | None = None
    bad_bytes: Literal["refuse", "replace", "skip-row"] | None = None
    max_row_length: int | None = None

    def given(self) -> dict[str, Any]:
        """The settings that are given."""
        values = {field.name: getattr(self, field.name) for field in fields(FileOptions)}
        return {name: value for name, value in values.items() if value is not None}

    def file_format(self) -> "FileFormat":
        """The same, as files are read."""
        from clozeworks.data.files.file_format import FileFormat

        return FileFormat(**self.given())


@dataclass(frozen=True)
class OpenTexts:
    """Texts that are read as they are needed.

    Attributes:
        origin: The file, or what else they come from.
        chunks: The texts, as many at a time as are worked on at once.
        total: How many there are; None if that is not known.
        reader: What reads them, and notes what there is to say; None for a text that was typed.
    """

    origin: str
    chunks: "Iterator[Texts]"
    total: int | None
    reader: "TextReader | None" = None

    @property
    def skipped(self) -> int:
        """How many blank ones were left out so far."""
        return self.reader.skipped if self.reader else 0

    def late_notes(self) -> tuple[str, ...]:
        """What is known only after all of it was read, in sentences."""
        arrived = self.reader is not None and self.total is None
        return self.reader.notes.sentences() if self.reader and arrived else ()


FILE_OPTIONS = tuple(field.name for field in fields(FileOptions))
# Those that are about files alone, and not about what comes in by standard input.
LAYOUT_OPTIONS = ("format", "separator", "quoting")


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TextOptions(FileOptions):
    """How texts are read.

    Attributes:
        column: The column or field that holds the text, by name or number. If not given: "text", or
            the only column of strings.
        header: Whether the first row of .csv and .tsv files is a header; it is if not given.
        skip_blank: Skip blank texts instead of stopping at them.
    """

    column: str | None = None
    header: bool | None = None
    skip_blank: Annotated[bool, Parameter(negative="")] = False

    def open(self, source: str) -> "OpenTexts":
        """Opens a text, a file, or for - the lines of standard input.

        A file is read once to see that all of it can be used, so that an error in its last line is
        known before the first one is worked on.
        """
        resolved = resolve_input(source)
        if isinstance(resolved, str):
            return self._typed(resolved)
        from clozeworks.data.files.texts import TextReader

        reader = TextReader(self._source(resolved), **self._settings())
        total = None
        if resolved is not None:
            total = reader.check()
            print_notes(reader.notes.sentences())
        return OpenTexts(reader.origin, reader.chunks(), total, reader)

    def read(self, source: str) -> "Texts":
        """Reads a text, a file, or for - the lines of standard input, as a whole."""
        resolved = resolve_input(source)
        if isinstance(resolved, str):
            return next(self._typed(resolved).chunks)
        from clozeworks.data.files.texts import read_texts

        texts = read_texts(self._source(resolved), **self._settings())
        print_notes(texts.notes)
        return texts

    def _typed(self, text: str) -> "OpenTexts":
        from clozeworks.data.files.texts import Texts

        check_unused("the input is a text, not a file", self)
        origin = "the command line"
        return OpenTexts(origin, iter([Texts([text], ["the text"], origin)]), 1)

    def _source(self, path: Path | None) -> "Path | BinaryIO":
        from clozeworks.data.files.lines import STANDARD_INPUT

        if path is None:
            check_unused(f"{STANDARD_INPUT} has no columns", self, *LAYOUT_OPTIONS)
            return sys.stdin.buffer
        return path

    def _settings(self) -> "TextSettings":
        return {
            "column": self.column,
            "header": self.header,
            "file_format": self.file_format(),
            "skip_blank": self.skip_blank,
        }

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
        separated = _is_separated(source)
        given = {
            name: value
            for name, value in self.given().items()
            if separated or name not in LAYOUT_OPTIONS
        }
        header = self.header if separated else None
        paired = TextOptions(column=column, header=header, **given).read(source)
        if len(paired) != len(texts):
            raise InputError(
                f"{paired.origin} has {counted(len(paired), 'text')} and {texts.origin} "
                f"{len(texts):,}; each needs one {name}; give as many."
            )
        return paired.texts


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class DocumentOptions(FileOptions):
    """How documents are read from files.

    Attributes:
        column: The column or field that holds the text, by name or number. If not given: "text", or
            the only column of strings. May be given several times: each becomes a line, as for the
            texts of pairs and triplets.
        header: Whether the first row of .csv and .tsv files is a header; it is if not given.
    """

    column: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = ()
    header: bool | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class TableOptions(FileOptions):
    """How rows are read from files.

    Attributes:
        columns: The columns by role, by name or number: text=review,label=5. Detected if not given.
            Roles: text, label; first, second; words, tags; question, context, answers; anchor,
            positive, negative, teacher; query, document; source, target, input, prefix, task,
            messages.
        header: Whether the first row of .csv and .tsv is a header; detected if not given.
    """

    columns: str | None = None
    header: bool | None = None

    def reading(self, item: "type[Item]") -> "Reading":
        """The same, as files of an item are read."""
        from clozeworks.data.labelled.columns import parse_columns
        from clozeworks.data.labelled.reading import Reading

        columns = {} if self.columns is None else parse_columns(self.columns, item)
        return Reading(columns=columns, header=self.header, **self.given())


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LabelledOptions(TableOptions):
    """How labelled rows are read from files.

    Attributes:
        labels: One label per row, several, or numbers; detected if not given.
        label_separator: The separator between several labels in one cell, such as |.
    """

    labels: Literal["one", "several", "numbers"] | None = None
    label_separator: str | None = None

    def reading(self, item: "type[Item]") -> "Reading":
        """The same, as files of an item are read."""
        reading = super().reading(item)
        return replace(reading, labels=self.labels, label_separator=self.label_separator)


def task_parameter(what: str, *more: str) -> Parameter:
    """An argument or option that names a task: its help lists those there are, and some more."""
    from clozeworks.cli.main import task_commands

    return Parameter(help=f"{what}: {', '.join(sorted([*task_commands(), *more]))}.")


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


def print_notes(notes: Iterable[str]) -> None:
    """Prints what there is to say about how files were read, beside the result."""
    for note in notes:
        print(note, file=sys.stderr)


def _is_separated(source: str) -> bool:
    from clozeworks.data.files.file_format import SEPARATED_SUFFIXES, FileFormat

    return FileFormat().suffix_of(Path(source)) in SEPARATED_SUFFIXES


def resolve_input(argument: str) -> str | Path | None:
    """`None` for `-`, standard input; a `Path` for a file that exists; or else the text itself.

    Raises:
        InputError: If it is blank, or looks like the name of a file that does not exist.
    """
    from clozeworks.data.files.encodings import check_characters, missing_file, printable

    if argument in ("-", "/dev/stdin"):
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
