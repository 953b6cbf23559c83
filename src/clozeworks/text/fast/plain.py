"""Raw text to ids and nothing else, faster than the Rust library alone.

The idea: text repeats its words. Where a tokenizer never looks across a space, what stands between
two spaces has the same ids wherever it occurs, so each such chunk is encoded once and remembered;
of simple text (ASCII, common Chinese) even each word, and of ASCII all words of many texts are cut
and looked up at once. Texts with anything unusual in them (other white space, control characters,
two spaces) are encoded as a whole.
"""

import json
import re
from collections.abc import Sequence
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend

from clozeworks.arrays import Int64Array, Uint32Array
from clozeworks.text.fast.ascii_words import written
from clozeworks.text.fast.simple_text import simple_text
from clozeworks.text.fast.word_memory import WordMemory, flattened
from clozeworks.text.tokenizer.library import FAILS, library
from clozeworks.text.tokenizer.tokenizer import Tokenizer

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
# What stands between two spaces and is not all ASCII; of what is, as much as there is in a row.
_RUNS = re.compile("[!-~]++(?![^ ])(?: [!-~]++(?![^ ]))*|[^ ]++")


class PlainText:
    """Encodes raw text without special tokens.

    Trap: a raw text may hold `[SEP]` or `</s>`, as pages about language models do. Here these are
    text like any other and never become special tokens.
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        state = _without_special(tokenizer.state)
        self._backend = Backend.from_str(json.dumps(state))
        self._backend.no_truncation()
        self._backend.no_padding()
        normalizers = _steps(state["normalizer"], "normalizers")
        splitters = _steps(state["pre_tokenizer"], "pretokenizers")
        self._begin = _beginning(state, normalizers, splitters)
        self._simple = simple_text(self._backend, normalizers, splitters)
        # What the library adds in front of a text stands in front of its first chunk.
        adds = self._begin == " " and splitters[0]["add_prefix_space"]
        self._added = " " if adds else ""
        # Metaspace alone does not cut where a character turns into a space or into nothing.
        self._simple_only = [step["type"] for step in splitters] == ["Metaspace"]
        self._memory = WordMemory()

    @library("the tokenizer", FAILS)
    def encode(self, texts: Sequence[str]) -> tuple[Uint32Array, Int64Array]:
        """The ids of all texts, one after the other, and how many each has."""
        if self._begin is None:
            return flattened(self._ids(texts))
        units: list[str] = []
        ascii_only: list[bool] = []
        counts = [self._cut(text, units, ascii_only) for text in texts]
        codes, words = self._codes(units, np.array(ascii_only, np.bool_))
        ids, sizes = self._memory.ids_of(codes)
        self._memory.forget()
        # A text has units, a unit words, a word ids.
        ends = _before(sizes)[_before(words)[_before(counts)]]
        return ids, np.diff(ends)

    def _cut(self, text: str, units: list[str], ascii_only: list[bool]) -> int:
        """Adds the units of a text to a list: itself in ASCII, or its chunks; says how many."""
        if self._simple is not None and self._simple.ascii.takes(text):
            units.append(self._added + text)
            ascii_only.append(True)
            return 1
        chunks, runs = self._chunks(text)
        units += chunks
        ascii_only += map(str.isascii, chunks) if runs else repeat(False, len(chunks))
        return len(chunks)

    def _chunks(self, text: str) -> tuple[list[str], bool]:
        """The chunks of a text, and whether those in ASCII stand together as runs."""
        # Printable characters are neither control characters nor white space but the space.
        if "  " in text or text.strip(" ") != text or not text.isprintable():
            return [text], False
        text = self._added + text
        words = self._simple.words(text) if self._simple else None
        if words is not None:
            return words, False
        if self._simple_only:
            return [text], False
        if self._begin:
            return text.replace(" ", "\n ").removeprefix("\n").split("\n"), False
        if self._simple is None or not self._simple.ascii.takes_all:
            return text.split(" "), False
        return _RUNS.findall(text), True

    def _codes(
        self, units: list[str], is_ascii: NDArray[np.bool_]
    ) -> tuple[Int64Array, Int64Array]:
        """The words of all units as numbers of the memory, and how many each unit has."""
        counts = np.ones(len(units), np.int64)
        of_ascii = is_ascii
        ascii_codes = np.zeros(0, np.int64)
        if is_ascii.any():
            found = self._ascii_codes([units[position] for position in np.flatnonzero(is_ascii)])
            ascii_codes, counts[is_ascii] = found
            of_ascii = np.repeat(is_ascii, counts)
        codes = np.zeros(len(of_ascii), np.int64)
        codes[of_ascii] = ascii_codes
        codes[~of_ascii] = self._known([units[position] for position in np.flatnonzero(~is_ascii)])
        return codes, counts

    def _ascii_codes(self, texts: list[str]) -> tuple[Int64Array, Int64Array]:
        assert self._simple is not None
        words = self._simple.ascii.cut(texts)
        memory = self._memory
        codes = memory.codes_of_pairs(words.first, words.second)
        codes[words.long] = self._known(words.long_words)
        missing = np.flatnonzero(codes < 0)
        if len(missing):
            pairs = np.stack([words.first[missing], words.second[missing]], axis=1)
            new, which = np.unique(pairs, axis=0, return_inverse=True)
            ids = [self._simple.ids(word) for word in written(*new.T)]
            codes[missing] = len(memory) + which.ravel()
            memory.learn_pairs(new[:, 0], new[:, 1], ids)
        return codes, words.counts

    def _known(self, chunks: list[str]) -> Int64Array:
        """The numbers of chunks, which are remembered if they are new."""
        codes = self._memory.codes_of(chunks)
        missing = np.flatnonzero(codes < 0).tolist()
        if missing:
            new = list(dict.fromkeys(chunks[position] for position in missing))
            self._memory.learn(new, self._new(new))
            codes[missing] = self._memory.codes_of([chunks[position] for position in missing])
        return codes

    @library("the tokenizer", FAILS)
    def ids_and_offsets(
        self, texts: Sequence[str]
    ) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """The ids of each text, and the characters each stands for."""
        encodings = self._backend.encode_batch(list(texts), add_special_tokens=False)
        return [(item.ids, item.offsets) for item in encodings]

    def _new(self, chunks: list[str]) -> list[list[int]]:
        """The ids of chunks that are not remembered."""
        if self._simple is None:
            return self._ids(chunks)
        simple = self._simple
        simple_ids = [simple.ids(c) if simple.words(c) == [c] else None for c in chunks]
        others = iter(
            self._ids([c for c, ids in zip(chunks, simple_ids, strict=True) if ids is None])
        )
        return [next(others) if ids is None else ids for ids in simple_ids]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        encodings = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [item.ids for item in encodings]


def _before(counts: Sequence[int] | Int64Array) -> Int64Array:
    """How many there are before each, and in all."""
    return np.concatenate([[0], np.cumsum(counts, dtype=np.int64)])


def _without_special(state: dict[str, Any]) -> dict[str, Any]:
    """A tokenizer that knows no special tokens; all other tokens keep their ids."""
    # Trap: Unigram finds `[SEP]` among its own pieces, although it is not looked for as a token.
    special = {token["content"] for token in state["added_tokens"] if token["special"]}
    model = dict(state["model"])
    special.discard(model.get("unk_token"))
    vocabulary = model["vocab"]
    if isinstance(vocabulary, dict):
        renamed = {_never(piece, special): number for piece, number in vocabulary.items()}
        model["vocab"] = renamed
    else:
        unknown = model.get("unk_id")
        model["vocab"] = [
            [piece if number == unknown else _never(piece, special), score]
            for number, (piece, score) in enumerate(vocabulary)
        ]
    added = [token for token in state["added_tokens"] if not token["special"]]
    return {**state, "model": model, "added_tokens": added, "post_processor": None}


def _never(piece: str, special: set[str]) -> str:
    return f" {piece} " if piece in special else piece  # no word has spaces around it


def _beginning(
    state: dict[str, Any], normalizers: list[dict[str, Any]], splitters: list[dict[str, Any]]
) -> str | None:
    """What a chunk inside a text begins with; None if the tokenizer may look across spaces."""
    if state["model"].get("dropout") or state["added_tokens"]:
        return None
    kinds = {step["type"] for step in splitters}
    if kinds == {"ByteLevel"}:
        return None if normalizers or not splitters[0].get("use_regex", True) else " "
    if not all(_is_local(step) for step in normalizers):
        return None
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
        spaces = step["pattern"] in ({"Regex": " {2,}"}, {"Regex": r"\s+"})
        marks = step["pattern"] in ({"String": "``"}, {"String": "''"})
        return step["content"] == " " if spaces else marks and step["content"] == '"'
    return step["type"] in _LOCAL_NORMALIZERS
