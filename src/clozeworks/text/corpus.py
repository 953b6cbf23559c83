"""Reads training text and counts its words, the same way in every process."""

import gzip
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path

from tokenizers import normalizers, pre_tokenizers

from clozeworks.errors import InputError
from clozeworks.text.valid import check_type, check_unicode

Progress = Callable[[str, int, int], None]

BLOCK = 1 << 20
# Distinct stretches of text held before they are cut into words; bounds the memory.
STRETCHES = 500_000


def no_progress(stage: str, done: int, total: int) -> None:
    """Tells nobody."""


def read_files(files: Sequence[Path], progress: Progress) -> Iterator[list[str]]:
    """Reads text files as blocks of lines.

    Args:
        files: UTF-8 text files; those named `.gz` are unpacked.
        progress: Told the bytes read, as they lie on the disk.

    Raises:
        InputError: A file is missing, damaged, not UTF-8, or holds a NUL.
    """
    for path in files:
        if not path.is_file():
            raise InputError(f"{path} is not a file; training reads text files; check the path.")
    total = sum(path.stat().st_size for path in files)
    before = 0
    for path in files:
        line = 1
        with path.open("rb") as raw:
            unpacked = gzip.GzipFile(fileobj=raw) if path.suffix == ".gz" else raw
            while True:
                try:
                    lines = unpacked.readlines(BLOCK)
                except (OSError, EOFError, zlib.error) as error:
                    raise InputError(
                        f"{path} cannot be unpacked ({error}); a .gz file must be whole; "
                        "fetch it again."
                    ) from None
                if not lines:
                    break
                yield _decoded(path, lines, line)
                line += len(lines)
                progress("read", before + raw.tell(), total)
        before += path.stat().st_size
        progress("read", before, total)


def _decoded(path: Path, lines: list[bytes], first: int) -> list[str]:
    block = b"".join(lines)
    nul = block.find(b"\0")
    if nul >= 0:
        number = first + block.count(b"\n", 0, nul)
        raise InputError(
            f"{path}, line {number:,}: the line holds a NUL byte; text files have none; check "
            "that the file is text and saved as UTF-8."
        )
    try:
        text = block.decode("utf-8")
    except UnicodeDecodeError as error:
        number = first + block.count(b"\n", 0, error.start)
        raise InputError(
            f"{path}, line {number:,}: byte 0x{block[error.start]:02x} is not UTF-8; training "
            "text must be UTF-8; convert the file."
        ) from None
    if first == 1:
        text = text.removeprefix("\ufeff")
    return text.split("\n")


def read_texts(texts: Iterable[str], progress: Progress) -> Iterator[list[str]]:
    """Reads texts from anywhere as blocks of lines.

    Args:
        texts: The texts.
        progress: Told the texts read; the total is not known and given as 0.

    Raises:
        InputError: A text is not a str or not valid Unicode.
    """
    if isinstance(texts, str):
        raise InputError("texts is one str; it must be an iterable of str; put it in a list.")
    for number, text in enumerate(texts, 1):
        check_type("text", number, text)
        check_unicode("text", number, text)
        yield text.split("\n")
        if number % 1_000 == 0:
            progress("read", number, 0)


def some(blocks: Iterable[list[str]]) -> Iterator[list[str]]:
    """Passes blocks on and insists that there is text in them.

    Args:
        blocks: Blocks of lines.

    Raises:
        InputError: Nothing but white space was there.
    """
    found = False
    for block in blocks:
        found = found or any(line.strip() for line in block)
        yield block
    if not found:
        raise InputError(
            "the training text is empty; a tokenizer learns from words; give files with text."
        )


def count_words(
    blocks: Iterable[list[str]],
    normalizer: normalizers.Normalizer,
    cut: pre_tokenizers.PreTokenizer,
) -> Counter[str]:
    """Counts the words of a text.

    Neither step looks across a space, so each distinct stretch between spaces is treated once.

    Args:
        blocks: Blocks of lines.
        normalizer: Cleans the characters.
        cut: Cuts a stretch into words.
    """
    words: Counter[str] = Counter()
    stretches: Counter[str] = Counter()
    for block in blocks:
        for line in block:
            stretches.update(line.split(" "))
        if len(stretches) > STRETCHES:
            _cut(stretches, words, normalizer, cut)
    _cut(stretches, words, normalizer, cut)
    words.pop("", None)
    return words


def _cut(
    stretches: Counter[str],
    words: Counter[str],
    normalizer: normalizers.Normalizer,
    cut: pre_tokenizers.PreTokenizer,
) -> None:
    clean: Counter[str] = Counter()
    for stretch, count in stretches.items():
        for part in normalizer.normalize_str(stretch).split(" "):
            clean[part] += count
    stretches.clear()
    clean.pop("", None)
    for part, count in clean.items():
        for word, _ in cut.pre_tokenize_str(part):
            words[word] += count
