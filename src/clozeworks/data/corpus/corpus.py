"""A built corpus: its manifest, and its tokens as if they were one array.

Everything is addressed by its number in the whole split: token 0 is the first token of the first
shard, sentence and document numbers likewise. Where one shard ends does not matter.
"""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from clozeworks.arrays import BoolArray, Int64Array
from clozeworks.data.corpus.manifest import read_manifest
from clozeworks.data.corpus.shards import Shard, ShardEntry, Tokens, token_dtype
from clozeworks.errors import InputError

if TYPE_CHECKING:
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

TOKENIZER_FOLDER = "tokenizer"
INDEX_FOLDER = "index"
TRAIN, VALIDATION = "train", "validation"


class Split:
    """The training or the validation part of a corpus."""

    def __init__(self, name: str, shards: Sequence[Shard], vocabulary: int, identity: str) -> None:
        self.name = name
        self.shards = shards
        self.vocabulary = vocabulary
        self.identity = identity
        """A hash that changes with the content."""
        self.tokens = sum(shard.entry.tokens for shard in shards)
        self.sentences = sum(shard.entry.sentences for shard in shards)
        self.documents = sum(shard.entry.documents for shard in shards)
        self._begins = np.cumsum([0, *(shard.entry.tokens for shard in shards)])

    @cached_property
    def sentence_offsets(self) -> Int64Array:
        """The first token of every sentence, and the end; 8 bytes per sentence in memory."""
        return self._joined("sentences", "tokens")

    @cached_property
    def document_offsets(self) -> Int64Array:
        """The first sentence of every document, and the end."""
        return self._joined("documents", "sentences")

    def _joined(self, name: Literal["sentences", "documents"], unit: str) -> Int64Array:
        begins = np.cumsum([0, *(getattr(shard.entry, unit) for shard in self.shards)])
        chunks = [
            shard.offsets(name)[:-1] + begin
            for shard, begin in zip(self.shards, begins, strict=False)
        ]
        return np.concatenate([*chunks, begins[-1:]])

    def read(self, start: int, end: int) -> tuple[Tokens, BoolArray]:
        """The tokens from `start` to `end`, and which of them begin a word."""
        return self.gather(np.array([start]), np.array([end]))

    def gather(self, begins: Int64Array, ends: Int64Array) -> tuple[Tokens, BoolArray]:
        """The tokens of many stretches one after the other, and which of them begin a word.

        Args:
            begins: The first token of each stretch, (n,).
            ends: The end of each, (n,).
        """
        # The empty arrays give the result a type where there are no stretches.
        tokens: list[Tokens] = [np.empty(0, token_dtype(self.vocabulary))]
        words: list[BoolArray] = [np.empty(0, np.bool_)]
        shards = np.searchsorted(self._begins, begins, side="right") - 1
        offsets = self._begins[shards]
        starts, stops = (begins - offsets).tolist(), (ends - offsets).tolist()
        for shard, start, stop in zip(shards.tolist(), starts, stops, strict=True):
            # A stretch may go on in the shards that follow.
            while start < stop:
                tokens.append(self.shards[shard].read("tokens", start, stop))
                words.append(self.shards[shard].read("word_starts", start, stop))
                size = self.shards[shard].entry.tokens
                start, stop, shard = 0, stop - size, shard + 1
        if len(tokens) == 2:
            return tokens[1], words[1]
        return np.concatenate(tokens), np.concatenate(words)

    def at(self, positions: Int64Array) -> Int64Array:
        """The tokens at single positions, (n,)."""
        tokens = np.empty(len(positions), dtype=np.int64)
        shards = np.searchsorted(self._begins, positions, side="right") - 1
        for number in np.unique(shards):
            chosen = shards == number
            read = self.shards[number].read
            offsets = (positions[chosen] - self._begins[number]).tolist()
            tokens[chosen] = [read("tokens", offset, offset + 1)[0] for offset in offsets]
        return tokens


@dataclass(frozen=True)
class Corpus:
    """A corpus folder that was built to its end."""

    folder: Path
    manifest: dict[str, Any]

    @classmethod
    def open(cls, folder: Path | str) -> "Corpus":
        """Opens a corpus folder; reads the manifest only.

        Raises:
            InputError: If it is not a finished corpus.
        """
        folder = Path(folder)
        return cls(folder, read_manifest(folder))

    @property
    def splits(self) -> tuple[str, ...]:
        """The names of its parts."""
        return tuple(self.manifest["splits"])

    def split(self, name: str = TRAIN) -> Split:
        """One part; nothing of it is read yet.

        Raises:
            InputError: If there is no such split.
        """
        if name not in self.manifest["splits"]:
            rule = (
                "every document was held out; build it with a smaller --validation"
                if name == TRAIN
                else "a validation part is held out when it is built with --validation above 0"
            )
            raise InputError(
                f"{self.folder} has no part {name!r}; it has: {', '.join(self.splits)}; {rule}."
            )
        return Split(
            name,
            [Shard(self.folder / entry.file, entry) for entry in self.entries(name)],
            self.manifest["tokenizer"]["size"],
            self.manifest["splits"][name]["identity"],
        )

    def entries(self, name: str) -> list[ShardEntry]:
        """What the manifest says of the shards of a part."""
        names = [field.name for field in fields(ShardEntry)]
        shards = self.manifest["splits"][name]["shards"]
        return [ShardEntry(**{name: shard[name] for name in names}) for shard in shards]

    @cached_property
    def tokenizer(self) -> "Tokenizer":
        """The tokenizer it was built with.

        Raises:
            InputError: If it was replaced by another one.
        """
        from clozeworks.text.tokenizer.tokenizer import Tokenizer

        folder = self.folder / TOKENIZER_FOLDER
        tokenizer = Tokenizer.load(folder)
        built_with = self.manifest["tokenizer"]["fingerprint"]
        if built_with != tokenizer.fingerprint:
            raise InputError(
                f"{folder} holds another tokenizer ({_short(tokenizer.fingerprint)}) than the "
                f"corpus was built with ({_short(built_with)}); ids would mean other words; put "
                "the right one back, or build the corpus again with --overwrite."
            )
        return tokenizer

    def check_tokenizer(self, tokenizer: "Tokenizer", owner: str) -> None:
        """Checks that this tokenizer, which belongs to `owner`, made the tokens.

        Raises:
            InputError: If its fingerprint differs.
        """
        built_with = self.manifest["tokenizer"]["fingerprint"]
        if built_with != tokenizer.fingerprint:
            raise InputError(
                f"{self.folder} was built with another tokenizer ({_short(built_with)}) than "
                f"{owner} ({_short(tokenizer.fingerprint)}); ids would mean other words; build the "
                f"corpus again with the tokenizer of {owner}."
            )


def _short(fingerprint: str) -> str:
    return fingerprint.removeprefix("sha256:")[:12]
