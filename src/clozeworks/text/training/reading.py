"""Cuts training text into lines and counts its words, the same way in every process."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tokenizers import normalizers, pre_tokenizers

from clozeworks.errors import InputError
from clozeworks.text.valid import check_type, check_unicode

ReadingProgress = Callable[[str, int, int], None]

# Distinct stretches of text held before they are cut into words; bounds the memory.
STRETCHES = 500_000


def no_progress(stage: str, done: int, total: int) -> None:
    """Tells nobody."""


def lines_of(texts: Iterable[str]) -> Iterator[list[str]]:
    """Cuts texts into lines, a block of them for each text.

    Args:
        texts: The texts.

    Raises:
        InputError: A text is not a str or not valid Unicode.
    """
    if isinstance(texts, str):
        raise InputError("texts is one str; it must be an iterable of str; put it in a list.")
    for number, text in enumerate(texts, 1):
        check_type("text", number, text)
        check_unicode("text", number, text)
        yield text.split("\n")


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
