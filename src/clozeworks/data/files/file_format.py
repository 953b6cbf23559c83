"""How the bytes of files become rows: format, encoding, cells, and what may not be there."""

from pathlib import Path
from typing import Literal

from clozeworks.data.files.compression import COMPRESSIONS, format_suffix, read_blocks
from clozeworks.data.files.encodings import canonical_encoding, open_file, printable
from clozeworks.errors import InputError, SettingError, Stated, UnknownName
from clozeworks.spec import PositiveInt, spec

DEFAULT_ENCODING = "utf-8"
# A row of more characters is rather a quotation mark that is never closed, or no text at all.
LONGEST_ROW = 10_000_000
SEPARATED_SUFFIXES = (".csv", ".tsv")
# Other suffixes that files of a known format often have.
_SAME = {".tab": ".tsv", ".ndjson": ".jsonl", ".jl": ".jsonl"}
_ESCAPES = {"\\t": "\t", "tab": "\t"}
_LOOKED_AT = 10  # lines, to see what a file is that has no known suffix
_LINE_LENGTH = 100_000

BadBytes = Literal["refuse", "replace", "skip-row"]
Quoting = Literal["auto", "none", "double"]


@spec
class FileFormat:
    """How files are read. What is None is found out."""

    format: str | None = None
    """csv, tsv, jsonl, json, parquet, txt or what else the task reads; as the suffix says if not
    given."""
    separator: str | None = None
    """What stands between the cells of a row: a comma in csv, a tab in tsv if not given."""
    quoting: Quoting = "auto"
    """Whether cells may stand in quotation marks (double), or these are part of the text (none).
    auto: double with commas and the like, and with tabs if the file is written so throughout."""
    encoding: str = DEFAULT_ENCODING
    """What text files are written in; a byte order mark goes before it."""
    bad_bytes: BadBytes = "refuse"
    """What to do about bytes that are not valid in the encoding: refuse the file, replace each by
    U+FFFD, or skip the rows that hold one; the last two are counted."""
    max_row_length: PositiveInt = LONGEST_ROW
    """The most characters of a row or line."""

    def __post_init__(self) -> None:
        canonical_encoding(self.encoding)
        if self.separator in ("", "\n", "\r", '"'):
            rule = "it must be what stands between cells, such as ; or a tab"
            value = self.separator if self.separator else Stated("empty")
            raise SettingError("separator", value, rule)
        if self.quoting == "double" and len(self.cell_separator("")) > 1:
            rule = "cells in quotation marks are separated by one character"
            raise SettingError("separator", self.separator, rule, "choose quoting none")

    def cell_separator(self, suffix: str) -> str:
        """What stands between the cells of a file with a suffix."""
        written = self.separator or ("," if suffix == ".csv" else "\t")
        return _ESCAPES.get(written, written)

    def suffix_of(self, path: Path) -> str:
        """The suffix of files that are read as this one."""
        suffix = f".{self.format.lower().lstrip('.')}" if self.format else format_suffix(path)
        return _SAME.get(suffix, suffix)

    def check(self, path: Path, known: tuple[str, ...], purpose: str = "", advice: str = "") -> str:
        """Insists that a file can be read, and gives the suffix that decides how.

        Args:
            path: The file.
            known: The suffixes that can be read, without those of compressions.
            purpose: The command or task that reads the file, for the message.
            advice: What else can be done if it has another suffix, for the message.

        Raises:
            InputError: If the suffix is not known, or else if the file does not exist.
            SettingError: If the separator or the quoting has no effect.
            UnknownName: If the format is not known.
        """
        suffix = self.suffix_of(path)
        if suffix not in known:
            if self.format:
                raise UnknownName("format", self.format, [each.lstrip(".") for each in known])
            with open_file(path):  # that a file is missing is worse news than its suffix
                pass
            raise unknown_format(path, known, purpose, advice)
        if suffix not in SEPARATED_SUFFIXES:
            for name in ("separator", "quoting"):
                value = getattr(self, name)
                if value not in (None, "auto"):
                    rule = f"{printable(path)} is read as {suffix}, which has no cells"
                    raise SettingError(name, value, rule, f"leave `{name}` out, or name the format")
        return suffix


def unknown_format(
    path: Path, known: tuple[str, ...], purpose: str = "", advice: str = ""
) -> InputError:
    """Makes the error for a file whose suffix is not known, with a guess at what it is."""
    compressed = path.suffix.lower() in COMPRESSIONS
    shown = "".join(path.suffixes[-2:] if compressed else path.suffixes[-1:])
    has = f"has the suffix {shown!r}" if shown else "has no suffix"
    read = f"{purpose} reads" if purpose else "known:"
    guess = _likely_format(path)
    if guess in known:
        say = f"it looks like {guess[1:]}: say --format {guess[1:]}"
    else:
        example = "txt" if ".txt" in known else known[0][1:]
        say = f"say what it is with --format, such as --format {example}"
    also = f", {advice}" if advice else ""
    return InputError(
        f"{printable(path)} {has}; {read} {listed_formats(known)}; {say}{also}, or convert it."
    )


def listed_formats(known: tuple[str, ...]) -> str:
    """Lists suffixes in a message, with the compressions that each may have."""
    exception = " all but .parquet" if ".parquet" in known else " each"
    return f"{', '.join(known)},{exception} also with {', '.join(COMPRESSIONS)}"


def _likely_format(path: Path) -> str:
    """What the first lines of a file look like; empty if like nothing in particular."""
    try:
        block = next(read_blocks(path))[:_LINE_LENGTH]
    except (InputError, StopIteration):
        return ""
    if block.startswith(b"PAR1"):
        return ".parquet"
    lines = [line for line in block.split(b"\n")[:_LOOKED_AT] if line.strip()]
    if not lines:
        return ""
    if all(line.lstrip().startswith(b"{") for line in lines):
        return ".jsonl" if len(lines) > 1 else ".json"
    if lines[0].lstrip().startswith(b"["):
        return ".json"
    for suffix, separator in ((".tsv", b"\t"), (".csv", b",")):
        # A cell in quotation marks may go on in lines of its own.
        if sum(separator in line for line in lines) >= 0.8 * len(lines):
            return suffix
    return ""
