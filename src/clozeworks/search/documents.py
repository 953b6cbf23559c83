"""What an index holds of a text, and the hashes by which it is known again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, NamedTuple

HASH_BYTES = 16


class PassageSpan(NamedTuple):
    """A part of a text that has a vector of its own: where it begins and ends, in characters."""

    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class IndexedDocument:
    """A text that is searched for."""

    id: str
    """Its name; no other document of the index has it."""
    text: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    """What else is known of it: plain data that conditions may be about."""
    source_location: str = ""
    """Where it came from, for people: `reviews.csv, row 8,412`."""

    @property
    def text_hash(self) -> bytes:
        """The same for the same text."""
        return hash_of(self.text)

    def record(self) -> str:
        """What is stored of it beside its text."""
        data = {"columns": dict(self.columns), "source": self.source_location}
        return json.dumps(data, separators=(",", ":"))


def hash_of(text: str) -> bytes:
    """A hash of a text; no two texts that anybody has have the same."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=HASH_BYTES).digest()


@dataclass(frozen=True)
class SearchHit:
    """A document that was found."""

    id: str
    """Its name."""
    score: float
    """How well it fits; what the number means depends on how it was searched."""
    passage: str
    """The part of its text that fits best."""
    begin: int
    """Where the passage begins in the text, in characters."""
    end: int
    """Where it ends."""
    columns: dict[str, Any]
    """What else is known of the document."""
    source_location: str
    """Where it came from: `reviews.csv, row 8,412`."""
    ranks: dict[str, int] = field(default_factory=dict)
    """Its place in each of the rankings that were joined, from 1: `vectors`, `words`."""
    before: str = field(default="", repr=False, compare=False)
    """What stands before the passage, as far as a person wants to read it; not in its JSON."""
    after: str = field(default="", repr=False, compare=False)
    """And after it."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        found: dict[str, Any] = {"id": self.id, "score": self.score, "passage": self.passage}
        found |= {"begin": self.begin, "end": self.end, "columns": self.columns}
        if self.source_location:
            found["source_location"] = self.source_location
        return found | ({"ranks": self.ranks} if self.ranks else {})

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "SearchHit":
        """The same from what `to_dict` wrote."""
        return cls(
            id=record["id"],
            score=record["score"],
            passage=record["passage"],
            begin=record["begin"],
            end=record["end"],
            columns=dict(record["columns"]),
            source_location=record.get("source_location", ""),
            ranks=dict(record.get("ranks", {})),
        )
