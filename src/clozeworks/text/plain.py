"""Raw text to ids and nothing else, faster than the Rust library alone.

The idea: text repeats its words. Where a tokenizer never looks across a space, what stands between
two spaces has the same ids wherever it occurs, so each such chunk is encoded once and remembered.
Texts with anything unusual in them (other white space, control characters, two spaces) are encoded
as a whole.
"""

import json
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend

from clozeworks.text.tokenizer import Tokenizer

# Chunks that are remembered; when there are more, remembering begins anew.
_MOST_CHUNKS = 400_000
# Longer ones, such as a Chinese sentence, hardly come again.
_LONGEST_CHUNK = 40

# Steps that treat what stands between two spaces without looking further. Of these some also treat
# runs of white space, which the chunks do not have.
_LOCAL_NORMALIZERS = {
    "BertNormalizer",
    "Lowercase",
    "NFC",
    "NFD",
    "NFKC",
    "NFKD",
    "Nmt",
    "Precompiled",
    "Strip",
    "StripAccents",
}
_LOCAL_SPLITTERS = {"BertPreTokenizer", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit"}

Ids = NDArray[np.uint32]
Lengths = NDArray[np.int64]


class PlainText:
    """Encodes raw text without special tokens.

    Trap: a raw text may hold `[SEP]` or `</s>`, as pages about language models do. Here these are
    text like any other and never become special tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._backend = Backend.from_str(json.dumps(tokenizer.state))
        self._backend.no_truncation()
        self._backend.no_padding()
        self._backend.encode_special_tokens = True
        self._begin = _beginning(tokenizer.state)
        self._known: dict[str, tuple[int, ...]] = {}

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        """The ids of all texts, one after the other, and how many each has."""
        if self._begin is None:
            return _flat(self._ids(texts))
        pieces: list[list[str]] = [self._chunks(text, self._begin) for text in texts]
        chunks = list(chain.from_iterable(pieces))
        found = self._look_up(chunks)
        ids = np.fromiter(chain.from_iterable(found), np.uint32)
        sizes = np.fromiter(map(len, found), np.int64, len(found))
        ends = np.cumsum([0, *map(len, pieces)])
        return ids, np.diff(np.concatenate([[0], np.cumsum(sizes)])[ends])

    def ids_and_offsets(
        self, texts: Sequence[str]
    ) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """The ids of each text, and the characters each stands for."""
        found = self._backend.encode_batch(list(texts), add_special_tokens=False)
        return [(item.ids, item.offsets) for item in found]

    @staticmethod
    def _chunks(text: str, begin: str) -> list[str]:
        # Printable characters are neither control characters nor white space but the space.
        if "  " in text or text.strip(" ") != text or not text.isprintable():
            return [text]
        first, *rest = text.split(" ")
        return [first, *(begin + chunk for chunk in rest)] if begin else [first, *rest]

    def _look_up(self, chunks: Sequence[str]) -> list[tuple[int, ...]]:
        known = self._known
        if len(known) > _MOST_CHUNKS:
            known.clear()
        found = list(map(known.get, chunks))
        new = {chunk: () for chunk, ids in zip(chunks, found, strict=True) if ids is None}
        if new:
            fresh = dict(zip(new, map(tuple, self._ids(list(new))), strict=True))
            known.update(item for item in fresh.items() if len(item[0]) <= _LONGEST_CHUNK)
            found = [
                fresh[chunk] if ids is None else ids
                for chunk, ids in zip(chunks, found, strict=True)
            ]
        return found  # type: ignore[return-value]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        found = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [item.ids for item in found]


def _flat(ids: Sequence[Sequence[int]]) -> tuple[Ids, Lengths]:
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    return np.fromiter(chain.from_iterable(ids), np.uint32, int(lengths.sum())), lengths


def _beginning(state: dict[str, Any]) -> str | None:
    """What a chunk inside a text begins with; None if the tokenizer may look across spaces."""
    model = state["model"]
    if model.get("dropout") or any(
        " " in token["content"] or not token["special"] for token in state["added_tokens"]
    ):
        return None
    if not all(_is_local(step) for step in _steps(state["normalizer"], "normalizers")):
        return None
    splitters = _steps(state["pre_tokenizer"], "pretokenizers")
    kinds = {step["type"] for step in splitters}
    if kinds == {"ByteLevel"}:
        return " " if splitters[0].get("use_regex", True) else None
    if "Metaspace" in kinds:
        always = all(
            step.get("prepend_scheme", "always") == "always" and step.get("split", True)
            for step in splitters
            if step["type"] == "Metaspace"
        )
        return "" if always and kinds <= {"Metaspace", "WhitespaceSplit"} else None
    splits = kinds & {"BertPreTokenizer", "Whitespace", "WhitespaceSplit"}
    return "" if splits and kinds <= _LOCAL_SPLITTERS else None


def _steps(step: dict[str, Any] | None, name: str) -> list[dict[str, Any]]:
    if step is None:
        return []
    return step[name] if step["type"] == "Sequence" else [step]


def _is_local(step: dict[str, Any]) -> bool:
    if step["type"] == "Replace":
        # A run of white space becomes one space; two marks become a quotation mark.
        return step["pattern"] in (
            {"Regex": " {2,}"},
            {"Regex": r"\s+"},
            {"String": "``"},
            {"String": "''"},
        )
    return step["type"] in _LOCAL_NORMALIZERS
