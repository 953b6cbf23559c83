"""Writes the documents of one split of a corpus into shards."""

import json
from collections import Counter
from dataclasses import asdict
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from clozeworks.data.corpus.chunks import LENGTH_CLASSES, ChunkArrays, CorpusChunk, join
from clozeworks.data.corpus.manifest import BUILDING
from clozeworks.data.corpus.shards import ShardEntry, totals, write_shard
from clozeworks.errors import InputError
from clozeworks.storage.atomic import write_json

SHARD_TOKENS = 8_000_000
RECORD = {"entry", "taken", "chain", "counts", "lengths"}


class ChangedInputError(InputError):
    """The input has changed since the build was begun."""


class SplitWriter:
    """Writes the documents of one split into shards."""

    def __init__(self, name: str, out: Path) -> None:
        self.name = name
        self.out = out
        self.shards = _finished(name, out)
        self.documents: list[str] = []
        self.characters = 0
        self.taken = 0
        self.chain = b""
        self._marks = {shard["taken"]: bytes.fromhex(shard["chain"]) for shard in self.shards}
        self._done = max(self._marks, default=0)
        self._open: list[ChunkArrays] = []
        self._tokens = 0
        self._counted: Counter[str] = Counter()
        self._lengths = np.zeros((2, LENGTH_CLASSES), np.int64)
        self._last = (0, b"")

    def take(self, text: str, digest: bytes) -> bool:
        """Takes a document; False if an earlier run has put it into a shard."""
        self.taken += 1
        self.chain = blake2b(self.chain + digest, digest_size=16).digest()
        if self.taken <= self._done:
            if self._marks.get(self.taken, self.chain) != self.chain:
                raise self._changed()
            return False
        self.documents.append(text)
        self.characters += len(text)
        return True

    def check_reached(self) -> None:
        """Refuses fewer documents than an earlier run had finished."""
        if self.taken < self._done:
            raise self._changed()

    def _changed(self) -> ChangedInputError:
        return ChangedInputError(
            f"the input is not what it was when the build of {self.out} was begun; begin again "
            "with --overwrite."
        )

    def add(self, chunk: CorpusChunk, taken: int, chain: bytes) -> None:
        """Adds the next chunk; writes a shard when there is enough."""
        self._open.append(chunk.arrays)
        self._tokens += len(chunk.arrays["tokens"])
        self._counted.update(chunk.counts)
        self._lengths += [chunk.sentence_lengths, chunk.document_lengths]
        self._last = (taken, chain)
        if self._tokens >= SHARD_TOKENS:
            self.write()

    def write(self) -> None:
        """Writes what is open as the next shard; it counts once its record is written, too."""
        if not self._tokens:
            return
        stem = f"{self.name}-{len(self.shards):05}"
        entry = write_shard(self.out / f"{stem}.safetensors", join(self._open))
        record = {
            "entry": asdict(entry),
            "taken": self._last[0],
            "chain": self._last[1].hex(),
            "counts": dict(self._counted),
            "lengths": self._lengths.tolist(),
        }
        write_json(self.out / BUILDING / f"{stem}.json", record)
        self.shards.append(record)
        self._open, self._tokens = [], 0
        self._counted = Counter()
        self._lengths = np.zeros_like(self._lengths)

    def described(self) -> dict[str, Any]:
        """What the manifest says of this split."""
        counts: Counter[str] = Counter()
        for shard in self.shards:
            counts.update(shard["counts"])
        counts.update(self._counted)  # documents at the end that gave no token
        entries = [ShardEntry(**shard["entry"]) for shard in self.shards]
        lengths = np.sum([shard["lengths"] for shard in self.shards], axis=0)
        return {
            **totals(entries),
            "counts": dict(sorted(counts.items())),
            "sentence_lengths": lengths[0].tolist(),
            "document_lengths": lengths[1].tolist(),
            "shards": [asdict(entry) for entry in entries],
        }


def _finished(name: str, out: Path) -> list[dict[str, Any]]:
    """The records of complete shards, up to the first that is not."""
    records: list[dict[str, Any]] = []
    while True:
        stem = f"{name}-{len(records):05}"
        record = read_record(out / BUILDING / f"{stem}.json")
        shard = out / f"{stem}.safetensors"
        complete = record.keys() >= RECORD and record["entry"].keys() >= {"bytes", "sha256"}
        if not complete or not shard.is_file() or shard.stat().st_size != record["entry"]["bytes"]:
            return records
        records.append(record)


def read_record(path: Path) -> dict[str, Any]:
    """A JSON object we wrote; empty if it is missing or damaged."""
    try:
        value = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
