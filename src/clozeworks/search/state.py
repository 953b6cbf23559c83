"""`index.json`: what an index was made with, and which files it has.

It is written after each shard, in one step, so a folder is an index of the documents that were
written, whenever the program ends. Files with the names of shards that it does not name are left
over, and the next command that writes removes them; files with other names are somebody else's.
"""

import re
from collections.abc import Collection
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
# The names that this program gives to files of an index, and to those it has not finished.
_SHARD = re.compile(r"shard-(\d{6,})(\.(int8|binary))?\.safetensors")
_NAMES = rf"({_SHARD.pattern}|neighbours\.usearch)"
_OWN = re.compile(rf"{_NAMES}|\.({_NAMES}|index\.json)\.[0-9a-f]{{8}}-\d+-[0-9a-f]{{8}}\.temporary")
# Every state has these words, and stands out by three of them, though it may be damaged.
_WORDS = (b"tokenizer", b"pooling", b"query_prompt", b"document_prompt", b"probes", b"next_shard")
_LOOKED_AT = 1 << 20


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
    unfinished: tuple[str, ...] = ()
    """Of what documents were being added that are not all there: a key for each file."""
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
    """Whether a folder is an index, perhaps a damaged one; an index.json may be of other things."""
    try:
        return _is_state(folder / STATE)
    except OSError:
        return True  # whoever reads it is told why that fails


def _is_state(path: Path) -> bool:
    """Whether a file was written as the state of an index.

    Raises:
        OSError: If it cannot be read.
    """
    if not path.is_file():
        return False
    with path.open("rb") as file:
        beginning = file.read(_LOOKED_AT)
    return sum(b'"%b"' % word in beginning for word in _WORDS) >= 3


def read_state(folder: Path) -> IndexState:
    """Reads what an index says of itself.

    Raises:
        InputError: If the folder is not an index, or is damaged.
    """
    path = folder / STATE
    if not folder.exists():
        raise missing_file(folder)
    if not path.is_file():
        raise InputError(
            f"{folder} is not an index; an index is a folder with an {STATE}; name another one, or "
            "build one with `clozeworks index`."
        )
    if not is_index(folder):
        raise InputError(
            f"{path} is not of an index that this program made; name the folder of one, or build "
            "one in another folder with `clozeworks index`."
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
    """Removes files of the index that it does not name any more."""
    remove_others(folder, {note.file for note in state.files()})


def remove_others(folder: Path, kept: Collection[str]) -> None:
    """Removes files with names that only an index gives, but for those that are kept."""
    for path in folder.iterdir():
        if path.name not in kept and _OWN.fullmatch(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def free_number(folder: Path) -> int:
    """The number of a shard that is above those of all files of a folder."""
    found = (_SHARD.fullmatch(path.name) for path in folder.iterdir())
    return max((int(match[1]) + 1 for match in found if match), default=0)


def check_free(folder: Path) -> None:
    """Checks that a folder can become an index: that it is empty, or was begun as one.

    Raises:
        OutputError: If it holds something else.
    """
    if not folder.is_dir():
        return
    path = folder / STATE
    if path.exists() or path.is_symlink():
        try:
            is_own = _is_state(path)
        except OSError as error:
            raise OutputError(
                f"{path} cannot be read ({error.strerror or error}), so it is not replaced; make "
                "it readable, or choose another folder with --out."
            ) from error
        if not is_own:
            raise OutputError(
                f"{path} is not of an index that this program made, so it is not replaced; choose "
                "another folder with --out."
            )
        return
    foreign = sorted(path.name for path in folder.iterdir() if not _is_own(path.name))
    if foreign:
        raise OutputError(
            f"{folder} holds other files ({foreign[0]}); an index needs a folder of its own; "
            "choose another one with --out."
        )


def _is_own(name: str) -> bool:
    return name == LOCK or _OWN.fullmatch(name) is not None


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
