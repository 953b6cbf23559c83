"""Raw text to ids and nothing else, faster than the Rust library alone.

The idea: text repeats its words. Where a tokenizer never looks across a space, what stands between
two spaces has the same ids wherever it occurs, so each such chunk is encoded once and remembered;
of simple text (ASCII, common Chinese) even each word. Texts with anything unusual in them (other
white space, control characters, two spaces) are encoded as a whole.
"""

import json
from collections.abc import Iterable, Sequence
from itertools import chain, count, repeat
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer as Backend

from clozeworks.text.simple_text import simple_text
from clozeworks.text.tokenizer import Tokenizer

# Chunks that are remembered; when there are more, the rarer half is forgotten.
_MOST_CHUNKS = 200_000
# Longer ones, such as a whole text, hardly come again.
_LONGEST_CHUNK = 40
# Characters of a chunk that room is reckoned with.
_MEAN_CHUNK = 20

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
        self._memory = _Memory()

    def encode(self, texts: Sequence[str]) -> tuple[Ids, Lengths]:
        """The ids of all texts, one after the other, and how many each has."""
        if self._begin is None:
            return _flat(self._ids(texts))
        chunks: list[str] = []
        counts = [self._cut(text, chunks) for text in texts]
        memory = self._memory
        codes = memory.codes_of(chunks)
        missing = np.flatnonzero(codes < 0).tolist()
        if missing:
            new = list(dict.fromkeys(chunks[place] for place in missing))
            memory.learn(new, self._new(new))
            codes[missing] = memory.codes_of([chunks[place] for place in missing])
        ids, sizes = memory.ids_of(codes)
        memory.forget()
        ends = np.cumsum([0, *counts])
        return ids, np.diff(np.concatenate([[0], np.cumsum(sizes)])[ends])

    def ids_and_offsets(
        self, texts: Sequence[str]
    ) -> list[tuple[list[int], list[tuple[int, int]]]]:
        """The ids of each text, and the characters each stands for."""
        found = self._backend.encode_batch(list(texts), add_special_tokens=False)
        return [(item.ids, item.offsets) for item in found]

    def _cut(self, text: str, chunks: list[str]) -> int:
        """Adds the chunks of a text to a list; says how many there are."""
        before = len(chunks)
        # Printable characters are neither control characters nor white space but the space.
        if "  " in text or text.strip(" ") != text or not text.isprintable():
            chunks.append(text)
            return 1
        text = self._added + text
        words = self._simple.words(text) if self._simple else None
        if words is not None:
            chunks += words
        elif self._simple_only:
            chunks.append(text)
        elif self._begin:
            chunks += text.replace(" ", "\n ").removeprefix("\n").split("\n")
        else:
            chunks += text.split(" ")
        return len(chunks) - before

    def _new(self, chunks: list[str]) -> list[list[int]]:
        """The ids of chunks that are not remembered."""
        if self._simple is None:
            return self._ids(chunks)
        simple = self._simple
        found = [simple.ids(c) if simple.words(c) == [c] else None for c in chunks]
        others = iter(self._ids([c for c, ids in zip(chunks, found, strict=True) if ids is None]))
        return [next(others) if ids is None else ids for ids in found]

    def _ids(self, texts: Sequence[str]) -> list[list[int]]:
        found = self._backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return [item.ids for item in found]


class _Memory:
    """The ids of chunks, as ranges of one flat array."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}
        self._flat = np.zeros(0, np.uint32)
        self._offsets = np.zeros(1, np.int64)
        self._uses = np.zeros(0, np.int64)
        self._characters = 0

    def __len__(self) -> int:
        return len(self._codes)

    def __contains__(self, chunk: str) -> bool:
        return chunk in self._codes

    def codes_of(self, chunks: Sequence[str]) -> Lengths:
        """The number of each chunk, -1 for those not known."""
        found = map(self._codes.get, chunks, repeat(-1))
        return np.fromiter(found, np.int64, len(chunks))

    def ids_of(self, codes: Lengths) -> tuple[Ids, Lengths]:
        """The ids of chunks, one after the other, and how many each has."""
        self._uses += np.bincount(codes, minlength=len(self._uses))
        begins = self._offsets[codes]
        sizes = self._offsets[codes + 1] - begins
        ends = np.cumsum(sizes)
        places = np.repeat(begins - ends + sizes, sizes) + np.arange(ends[-1] if len(ends) else 0)
        return self._flat[places], sizes

    def learn(self, chunks: Sequence[str], ids: Sequence[Sequence[int]]) -> None:
        """Remembers chunks that were not known."""
        flat, sizes = _flat(ids)
        self._characters += sum(map(len, chunks))
        self._codes.update(zip(chunks, count(len(self._uses)), strict=False))
        self._offsets = np.concatenate([self._offsets, self._offsets[-1] + np.cumsum(sizes)])
        self._flat = np.concatenate([self._flat, flat])
        self._uses = np.concatenate([self._uses, np.zeros(len(chunks), np.int64)])

    def forget(self) -> None:
        """Forgets the rarer half when there is too much, and long chunks with them."""
        if max(len(self._codes), self._characters // _MEAN_CHUNK) <= _MOST_CHUNKS:
            return
        kept = np.argsort(-self._uses, kind="stable")[: _MOST_CHUNKS // 2]
        chunks = [*self._codes]
        wanted = [code for code in kept.tolist() if len(chunks[code]) <= _LONGEST_CHUNK]
        uses = self._uses[wanted] // 2  # what was frequent long ago counts less
        ids, sizes = self.ids_of(np.array(wanted, np.int64))
        self._codes = {chunks[code]: number for number, code in enumerate(wanted)}
        self._characters = sum(map(len, self._codes))
        self._flat, self._uses = ids, uses
        self._offsets = np.concatenate([[0], np.cumsum(sizes)])


def _flat(ids: Sequence[Sequence[int]]) -> tuple[Ids, Lengths]:
    lengths = np.fromiter(map(len, ids), np.int64, len(ids))
    flat: Iterable[int] = chain.from_iterable(ids)
    return np.fromiter(flat, np.uint32, int(lengths.sum())), lengths


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
        kept = model.get("unk_id")
        model["vocab"] = [
            [piece if number == kept else _never(piece, special), score]
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
