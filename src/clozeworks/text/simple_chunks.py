"""The ids of simple chunks, from the tokenizer's model directly.

The idea: for characters of which one knows what every step before the model does to them, printable
ASCII and common Chinese, those steps are a regular expression. The model itself, WordPiece, BPE or
Unigram, is the library's own and is asked once for every part of a chunk.
"""

import re
from collections.abc import Callable
from typing import Any

from tokenizers import Tokenizer as Backend

# Parts that are remembered; when there are more, remembering begins anew.
_MOST_PARTS = 200_000

_ASCII = "!-~"
# Characters without decompositions that BERT's normaliser sets apart as words of their own: the
# common ideographs, and punctuation that belongs to them.
_CHINESE = "\u4e00-\u9fff，。！？：；（）、《》“”‘’…—·"
# GPT-2's rule, which for other characters asks for Unicode classes.
_BYTE_LEVEL = re.compile(
    r"'(?:s|t|re|ve|m|ll|d)| ?[A-Za-z]+| ?[0-9]+| ?[^\sA-Za-z0-9]+", flags=re.ASCII
)


class SimpleChunks:
    """Ids of chunks that hold nothing but simple characters.

    Args:
        backend: The tokenizer.
        whole: Matches the chunks it can do.
        part: Finds the words the model is asked for.
        write: How a part is written for the model.
    """

    def __init__(
        self, backend: Backend, whole: str, part: re.Pattern[str], write: Callable[[str], str]
    ) -> None:
        self._model = backend.model
        self._whole = re.compile(whole)
        self._part = part
        self._write = write
        self._known: dict[str, tuple[int, ...]] = {}

    def ids(self, chunk: str) -> list[int] | None:
        """The ids of a chunk, or None if it is not simple."""
        if self._whole.fullmatch(chunk) is None:
            return None
        found: list[int] = []
        for part in self._part.findall(chunk):
            found += self._known.get(part) or self._learn(part)
        return found

    def _learn(self, part: str) -> tuple[int, ...]:
        if len(self._known) > _MOST_PARTS:
            self._known.clear()
        ids = tuple(token.id for token in self._model.tokenize(self._write(part)))
        self._known[part] = ids
        return ids


def simple_chunks(
    backend: Backend, normalizers: list[dict[str, Any]], splitters: list[dict[str, Any]]
) -> SimpleChunks | None:
    """What knows the simple chunks of a tokenizer; None if its steps are not known here.

    Args:
        backend: The tokenizer.
        normalizers: Its normalisation, step by step.
        splitters: Its pre-tokenisation, step by step.
    """
    kinds = [step["type"] for step in splitters]
    if kinds == ["BertPreTokenizer"]:
        return _bert(backend, normalizers)
    if kinds == ["ByteLevel"] and not normalizers:
        # With a space added in front of a text, its first chunk is not as it stands.
        begin = " " if splitters[0]["add_prefix_space"] else " ?"
        whole = f"{begin}[{_ASCII}]+"
        return SimpleChunks(backend, whole, _BYTE_LEVEL, lambda part: part.replace(" ", "Ġ"))
    if kinds in (["Metaspace"], ["WhitespaceSplit", "Metaspace"]):
        if {step["type"] for step in normalizers} & {"Lowercase", "BertNormalizer"}:
            return None
        mark = splitters[-1]["replacement"]
        # Quotation marks are written otherwise by some.
        whole = f"[{_ASCII}]+".replace("!-~", "!-&(-_a-~")
        return SimpleChunks(backend, whole, re.compile(".+"), lambda part: mark + part)
    return None


def _bert(backend: Backend, normalizers: list[dict[str, Any]]) -> SimpleChunks | None:
    part = re.compile("[A-Za-z0-9]+|[^A-Za-z0-9]")
    if not normalizers:
        return SimpleChunks(backend, f"[{_ASCII}]+", part, str)
    if [step["type"] for step in normalizers] != ["BertNormalizer"]:
        return None
    step = normalizers[0]
    characters = _ASCII + (_CHINESE if step["handle_chinese_chars"] else "")
    return SimpleChunks(backend, f"[{characters}]+", part, str.lower if step["lowercase"] else str)
