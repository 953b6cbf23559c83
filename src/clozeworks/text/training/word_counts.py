"""Counts the words of texts as a tokenizer sees them, before its model cuts them into pieces.

The idea: text repeats itself, so each distinct stretch between two spaces goes through
normalisation and splitting once. Whether a published tokenizer allows that, or looks across spaces,
is tried on the first lines of the text itself.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator

from tokenizers import Tokenizer as Backend
from tokenizers import normalizers, pre_tokenizers

from clozeworks.errors import InputError
from clozeworks.text.tokenizer.library import FAILS, library
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.valid import check_type, check_unicode

ReadingProgress = Callable[[str, int, int], None]

# Distinct stretches of text held before they are cut into words; bounds the memory.
STRETCHES = 500_000
# Lines that are cut both ways before stretches are trusted.
TRIED = 300


def no_progress(stage: str, done: int, total: int) -> None:
    """Reports nothing."""


def lines_of(texts: Iterable[str]) -> Iterator[list[str]]:
    """Cuts texts into lines, a block of them for each text.

    Raises:
        InputError: If a text is not a str or not valid Unicode, or all are white space.
    """
    if isinstance(texts, str):
        raise InputError("texts is one str; it must be an iterable of str; put it in a list.")
    empty = True
    for number, text in enumerate(texts, 1):
        check_type("text", number, text)
        check_unicode("text", number, text)
        empty = empty and not text.strip()
        yield text.split("\n")
    if empty:
        raise InputError(
            "the training text is empty; a tokenizer learns from words; give files with text."
        )


def count_words(
    blocks: Iterable[list[str]],
    normalizer: normalizers.Normalizer,
    cut: pre_tokenizers.PreTokenizer,
) -> Counter[str]:
    """Counts the words of a text.

    Neither step may look across a space, so each distinct stretch between spaces is treated once.
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


class WordCounter:
    """Counts words text by text; a line is cut on its own, any white space counts as a space."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        backend = Backend.from_str(json.dumps(tokenizer.state))
        self._normalizer = backend.normalizer
        self._splitter = backend.pre_tokenizer
        self._words: Counter[str] = Counter()
        self._stretches: Counter[str] = Counter()
        self._first: list[str] = []
        # What a stretch inside a line begins with; None if lines must be cut as a whole.
        self._begin: str | None = None
        self._texts = 0

    @library("the tokenizer", FAILS)
    def add(self, text: str) -> None:
        """Counts the words of one more text.

        Raises:
            InputError: If the text is not a str, not valid Unicode, or holds a NUL.
        """
        self._texts += 1
        check_type("text", self._texts, text)
        check_unicode("text", self._texts, text)
        if "\0" in text:
            raise InputError(
                f"text {self._texts:,} holds the character U+0000; it does not occur in text; "
                "take it out."
            )
        for line in text.split("\n"):
            if len(self._first) < TRIED:
                self._first.append(line)
                if len(self._first) == TRIED:
                    self._try()
            else:
                self._count(line)
        if len(self._stretches) > STRETCHES:
            self._cut()

    @library("the tokenizer", FAILS)
    def words(self) -> Counter[str]:
        """How often each word came."""
        if len(self._first) < TRIED:
            self._try()
            self._first = []
        self._cut()
        return self._words

    def _try(self) -> None:
        lines = [" ".join(line.split()) for line in self._first]
        for begin in ("", " "):
            if all(self._agrees(line, begin) for line in lines):
                self._begin = begin
                break
        for line in lines:
            self._count(line)

    def _agrees(self, line: str, begin: str) -> bool:
        return self._cut_one(line) == [
            word for stretch in _stretches(line, begin) for word in self._cut_one(stretch)
        ]

    def _count(self, line: str) -> None:
        if self._begin is None:
            self._stretches[" ".join(line.split())] += 1
        else:
            self._stretches.update(_stretches(line, self._begin))

    def _cut(self) -> None:
        for stretch, count in self._stretches.items():
            for word in self._cut_one(stretch):
                self._words[word] += count
        self._stretches.clear()

    def _cut_one(self, stretch: str) -> list[str]:
        if self._normalizer is not None:
            stretch = self._normalizer.normalize_str(stretch)
        if self._splitter is None:
            return [stretch] if stretch else []
        return [word for word, _ in self._splitter.pre_tokenize_str(stretch) if word]


def _stretches(line: str, begin: str) -> Iterable[str]:
    first, *others = line.split() or [""]
    return [first, *(begin + other for other in others)] if begin else [first, *others]
