"""`index.json`: what an index was made with, and which files it has.

It is written after each shard, in one step, so a folder is an index of the documents that were
written, whenever the program ends. Files that it does not name are left over, and the next command
that writes removes them.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from clozeworks import config
from clozeworks.data.files.encodings import missing_file
from clozeworks.errors import ClozeworksError, InputError, OutputError
from clozeworks.search.shard import FileNote, ShardNote
from clozeworks.storage.atomic import write_json
from clozeworks.storage.checksums import is_intact, sealed
from clozeworks.storage.locks import FILE as LOCK

STATE = "index.json"
VERSION = 1
# The widest vector, and the most numbers of a file that are believed.
_WIDEST = 1 << 20
_MOST = 1 << 40
_FILE = re.compile(r"[a-z0-9-][a-z0-9.-]{0,60}")


@dataclass(frozen=True)
class ModelNote:
    """What an index notes of the model that made its vectors."""

    name: str
    """The folder or hub name it was loaded from."""
    tokenizer: str
    """The fingerprint of its tokenizer."""
    pooling: str
    """How token vectors were pooled, in words."""
    max_length: int | None
    """The most tokens of a text."""
    query_prompt: str
    """What was put before queries."""
    document_prompt: str
    """What was put before texts."""
    probes: tuple[tuple[float, ...], ...]
    """The vectors of some fixed texts: a model that gives others is another one."""


@dataclass(frozen=True)
class CodingNote:
    """How vectors are written as codes."""

    kind: Literal["int8", "binary"]
    numbers: dict[str, tuple[float, ...]]
    recall: float | None = None
    """How much of the exact top 10 was found."""


@dataclass(frozen=True)
class NeighboursNote:
    """The file of approximate neighbours."""

    file: str
    bytes: int
    sha256: str
    shards: tuple[int, ...]
    """The numbers of the shards whose vectors it has."""
    recall: float | None = None
    """How much of the exact top 10 was found."""


@dataclass(frozen=True)
class IndexState:
    """Everything that `index.json` says."""

    model: ModelNote
    width: int
    similarity: Literal["cosine", "dot"]
    passage_tokens: int
    """The most tokens of a passage."""
    version: int = VERSION
    next_shard: int = 0
    """The number of the next shard; none is used twice."""
    complete: bool = True
    """Whether everything that was to be added was added."""
    shards: tuple[ShardNote, ...] = ()
    coding: CodingNote | None = None
    neighbours: NeighboursNote | None = None

    def files(self) -> list[FileNote]:
        """Every file of the index but this one."""
        found = [FileNote(shard.file, shard.bytes, shard.sha256) for shard in self.shards]
        found += [shard.codes for shard in self.shards if shard.codes is not None]
        if (near := self.neighbours) is not None:
            found.append(FileNote(near.file, near.bytes, near.sha256))
        return found


def is_index(folder: Path) -> bool:
    """Whether a folder is an index."""
    return (folder / STATE).is_file()


def read_state(folder: Path) -> IndexState:
    """Reads what an index says of itself.

    Raises:
        InputError: If the folder is not an index, or is damaged.
    """
    path = folder / STATE
    if not folder.exists():
        raise missing_file(folder)
    if not is_index(folder):
        raise InputError(
            f"{folder} is not an index; an index is a folder with an {STATE}; name another one, or "
            "build one with `clozeworks index`."
        )
    try:
        data = config.read_json(path)
        if data.get("version") != VERSION and isinstance(data.get("version"), int):
            raise InputError(
                f"{path} has version {data['version']:,}; this program reads version {VERSION}; "
                "build the index again with --overwrite."
            )
        if not is_intact(data):
            raise _damaged(path, "its checksum is that of another content")
        data.pop("checksum", None)
        state: IndexState = config.read(IndexState, data)
    except InputError:
        raise
    except ClozeworksError as error:
        raise _damaged(path, str(error).rstrip(".")) from error
    if fault := _fault(state):
        raise _damaged(path, fault)
    return state


def write_state(folder: Path, state: IndexState) -> None:
    """Writes what an index says of itself, in one step.

    Raises:
        OutputError: If it cannot be written.
    """
    write_json(folder / STATE, sealed(config.plain(state)))


def remove_unnamed(folder: Path, state: IndexState) -> None:
    """Removes files that the index does not name."""
    named = {note.file for note in state.files()} | {STATE, LOCK}
    for path in folder.iterdir():
        if path.name not in named and path.is_file():
            path.unlink(missing_ok=True)


def check_free(folder: Path) -> None:
    """Checks that a folder can become an index: that it is empty, or was begun as one.

    Raises:
        OutputError: If it holds something else.
    """
    if not folder.is_dir() or is_index(folder):
        return
    foreign = sorted(path.name for path in folder.iterdir() if not _is_own(path.name))
    if foreign:
        raise OutputError(
            f"{folder} holds other files ({foreign[0]}); an index needs a folder of its own; "
            "choose another one with --out."
        )


def _is_own(name: str) -> bool:
    return name == LOCK or name.startswith("shard-") or name.endswith(".temporary")


def _damaged(path: Path, why: str) -> InputError:
    return InputError(
        f"{path} is damaged ({why}); put an intact copy in its place, or build the index again "
        "with --overwrite."
    )


def _fault(state: IndexState) -> str | None:
    """What no index says of itself."""
    numbers: list[Any] = [state.width, state.passage_tokens]
    if not all(1 <= number <= _WIDEST for number in numbers):
        return "a width or a length is not possible"
    for note in state.files():
        if not _FILE.fullmatch(note.file):
            return "a file has a name that no file of an index has"
        if not 0 < note.bytes < _MOST:
            return "the size of a file is not possible"
    for shard in state.shards:
        if not 0 < shard.documents <= shard.passages < _MOST or shard.number < 0:
            return "the size of a shard is not possible"
    if len({shard.number for shard in state.shards}) < len(state.shards):
        return "a shard stands twice in it"
    if any(len(probe) != state.width for probe in state.model.probes):
        return "the vectors of the model are of another width"
    return None
