"""Simple text, cut into the words that a tokenizer's model is asked for.

The idea: for characters of which one knows what every step before the model does to them, printable
ASCII and common Chinese, those steps are a regular expression. The model itself, WordPiece, BPE or
Unigram, is the library's own.
"""

import re
from collections.abc import Callable
from typing import Any

from tokenizers import Tokenizer as Backend

from clozeworks.text.fast.ascii_words import AsciiWords

_ASCII = " -~"
# Characters without decompositions that BERT's normaliser sets apart as words of their own: the
# common ideographs, and punctuation that belongs to them.
_CHINESE = "\u4e00-\u9fff，。！？：；（）、《》“”‘’…—·"
_BERT = re.compile("[A-Za-z0-9]+|[^A-Za-z0-9 ]")
# GPT-2's rule, which for other characters asks for Unicode classes.
_BYTE_LEVEL = re.compile("'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^ A-Za-z0-9]+")
_METASPACE = re.compile("[^ ]+")


class SimpleText:
    """Cuts texts of simple characters with single spaces, and asks the model for the words.

    Args:
        backend: The tokenizer.
        characters: The characters it can do, as in a regular expression.
        word: Finds the words.
        ascii_words: Finds those of many texts in ASCII at once.
        write: How a word is written for the model.
    """

    def __init__(
        self,
        backend: Backend,
        characters: str,
        word: re.Pattern[str],
        ascii_words: AsciiWords,
        write: Callable[[str], str],
    ) -> None:
        self.ascii = ascii_words
        self._model = backend.model
        self._is_simple = re.compile(f"[{characters}]*").fullmatch
        self._all_ascii = characters.startswith(_ASCII)
        self._words = word.findall
        self._write = write

    def words(self, text: str) -> list[str] | None:
        """The words of a text, or None if it is not simple."""
        ascii_only = self._all_ascii and text.isascii() and text.isprintable()
        return self._words(text) if ascii_only or self._is_simple(text) else None

    def ids(self, word: str) -> list[int]:
        """The ids of a word."""
        return [token.id for token in self._model.tokenize(self._write(word))]


def simple_text(
    backend: Backend, normalizers: list[dict[str, Any]], splitters: list[dict[str, Any]]
) -> SimpleText | None:
    """What knows the simple texts of a tokenizer; None if its steps are not known here."""
    kinds = [step["type"] for step in splitters]
    if kinds == ["BertPreTokenizer"]:
        return _bert(backend, normalizers)
    if kinds == ["ByteLevel"] and not normalizers:
        # An apostrophe may begin `'s`, which is cut off whatever stands around it.
        ascii_words = AsciiWords(_letter_digit_mark, with_space=True, without="'")
        return SimpleText(
            backend, _ASCII, _BYTE_LEVEL, ascii_words, lambda word: word.replace(" ", "Ġ")
        )
    if kinds in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        mark = splitters[-1]["replacement"]
        # Quotation marks are written otherwise by some; what others do is asked of them.
        plain = "".join(c for c in map(chr, range(33, 127)) if c not in "'`")
        normal = backend.normalizer
        changed = normal is not None and any(normal.normalize_str(c) != c for c in [plain, *plain])
        if changed or mark.isascii():
            return None
        characters = _ASCII.replace("-", "-&(-_a-")
        ascii_words = AsciiWords(lambda character: 0, without="'`")
        return SimpleText(backend, characters, _METASPACE, ascii_words, lambda word: mark + word)
    return None


def _bert(backend: Backend, normalizers: list[dict[str, Any]]) -> SimpleText | None:
    characters, lower = _ASCII, False
    if normalizers:
        if [step["type"] for step in normalizers] != ["BertNormalizer"]:
            return None
        lower = normalizers[0]["lowercase"]
        characters += _CHINESE if normalizers[0]["handle_chinese_chars"] else ""
    ascii_words = AsciiWords(lambda character: int(character.isalnum()), alone=0, lower=lower)
    return SimpleText(backend, characters, _BERT, ascii_words, str.lower if lower else str)


def _letter_digit_mark(character: str) -> int:
    return 0 if character.isalpha() else 1 if character.isdigit() else 2
