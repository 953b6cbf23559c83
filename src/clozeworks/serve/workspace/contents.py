"""What there is in some folders: models, indexes, runs, corpora, labelled files, each by a name.

A client only ever says these names; what is read is what was found here. Symbolic links below the
folders are not followed, so that nothing leads out of them.
"""

import json
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from clozeworks.data.corpus.corpus import TOKENIZER_FOLDER
from clozeworks.data.corpus.manifest import MANIFEST
from clozeworks.data.files.encodings import missing_file
from clozeworks.data.files.tables import TABLE_SUFFIXES
from clozeworks.errors import InputError
from clozeworks.runs.folder import MODEL
from clozeworks.runs.listing import is_run
from clozeworks.search.state import is_index
from clozeworks.storage.regular_files import read_regular

# How deep is looked, into how many folders, and how many entries of each.
DEPTH, MOST_FOLDERS, MOST_ENTRIES = 4, 2_000, 5_000
_LARGEST_CONFIG = 4 << 20
# .json files are mostly settings, and have to be named.
_LABELLED = (*(each for each in TABLE_SUFFIXES if each != ".json"), ".conll", ".conllu")


@dataclass
class Contents:
    """What was found, by kind and name."""

    models: dict[str, Path] = field(default_factory=dict)
    """Models and indexes."""
    runs: dict[str, Path] = field(default_factory=dict)
    corpora: dict[str, Path] = field(default_factory=dict)
    files: dict[str, Path] = field(default_factory=dict)
    """Files with labelled data."""
    is_cut: bool = False
    """Whether there was more than is looked at."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show."""
        return not (self.models or self.runs or self.corpora or self.files)


def find_contents(sources: Sequence[str | Path], *, hub: bool = True) -> Contents:
    """Looks into folders, and at files.

    Args:
        sources: Models, runs, indexes, corpora, folders that hold some of these, labelled files.
        hub: Whether what does not exist may be the name of a model on the hub.

    Raises:
        InputError: If one of them does not exist, or is neither a file nor a folder.
    """
    search = _Search()
    for source in dict.fromkeys(map(str, sources)):
        path = Path(source).expanduser()
        if path.is_dir():
            search.look(path, _shown(path.resolve()), DEPTH, is_named=True)
        elif path.is_file():
            search.add(search.found.files, _shown(path), path)
        elif path.exists():
            raise InputError(f"{path} is neither a file nor a folder; name one of these.")
        elif hub and source.count("/") == 1 and not source.startswith((".", "/", "~")):
            search.add(search.found.models, source, Path(source))
        else:
            raise missing_file(path)
    return search.found


class _Search:
    """Walks through folders, and remembers what it has found."""

    def __init__(self) -> None:
        self.found = Contents()
        self._seen: set[str] = set()
        self._folders = 0

    def add(self, kind: dict[str, Path], name: str, path: Path) -> None:
        """Adds a path by its name, or by one that is free."""
        free, number = name, 2
        while free in kind:
            free, number = f"{name} ({number})", number + 1
        kind[free] = path

    def look(self, folder: Path, name: str, depth: int, *, is_named: bool = False) -> None:
        """Finds out what a folder is, and looks below if it is nothing of its own."""
        real = os.path.realpath(folder)
        if real in self._seen:
            return
        self._folders += 1
        if self._folders > MOST_FOLDERS:
            self.found.is_cut = True
            return
        self._seen.add(real)
        if is_run(folder):
            self.add(self.found.runs, name, folder)
            if _is_model(folder / MODEL):
                self.add(self.found.models, name, folder / MODEL)
        elif is_index(folder) or _is_model(folder):
            self.add(self.found.models, name, folder)
        elif _is_corpus(folder):
            self.add(self.found.corpora, name, folder)
        else:
            self._look_below(folder, "" if is_named else f"{name}/", depth)

    def _look_below(self, folder: Path, prefix: str, depth: int) -> None:
        folders = []
        for entry in self._entries(folder):
            name = prefix + _written(entry.name)
            if entry.is_dir(follow_symlinks=False):
                folders.append((Path(entry.path), name))
            elif entry.name.lower().endswith(_LABELLED) and _is_regular(entry):
                self.add(self.found.files, name, Path(entry.path))
        for path, name in folders:
            if depth > 0:
                self.look(path, name, depth - 1)
            else:
                self.found.is_cut = True

    def _entries(self, folder: Path) -> Iterator[os.DirEntry[str]]:
        entries: list[os.DirEntry[str]] = []
        try:
            with os.scandir(folder) as inside:
                for entry in inside:
                    if entry.name.startswith("."):
                        continue
                    if len(entries) >= MOST_ENTRIES:
                        self.found.is_cut = True
                        break
                    entries.append(entry)
        except OSError:  # somebody else's, or gone
            return
        yield from sorted(entries, key=lambda entry: entry.name)


def _shown(path: Path) -> str:
    """What a path that was named is called."""
    parts = [part for part in path.parts if part not in ("/", MODEL)]
    return _written(parts[-1]) if parts else str(path)


def _written(name: str) -> str:
    """The name of a file as characters that JSON can hold."""
    return os.fsencode(name).decode("utf-8", "replace")


def _is_regular(entry: os.DirEntry[str]) -> bool:
    try:
        return stat.S_ISREG(entry.stat(follow_symlinks=False).st_mode)
    except OSError:
        return False


def _is_model(folder: Path) -> bool:
    """Whether a folder holds a config that names a family; that of a tokenizer does not."""
    try:
        config = json.loads(read_regular(folder / "config.json", _LARGEST_CONFIG))
        return isinstance(config, dict) and isinstance(config.get("model_type"), str)
    except (OSError, ValueError, RecursionError):
        return False


def _is_corpus(folder: Path) -> bool:
    try:
        return (folder / MANIFEST).is_file() and (folder / TOKENIZER_FOLDER).is_dir()
    except OSError:
        return False
