"""Whether a folder is what it was when it was written: a model, a corpus, a run, an index and more.

Files are compared with their checksums, where the folder has some; and what can be checked without
them is: headers, shapes, numbers that are finite, a tokenizer that does not contradict itself.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import torch

from clozeworks.checkpoints.adapters import CONFIG as ADAPTER
from clozeworks.checkpoints.adapters import read_weights
from clozeworks.checkpoints.folder import load, read_config
from clozeworks.config import read_json
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.data.corpus.manifest import BUILDING, MANIFEST
from clozeworks.data.corpus.verify import verify as corpus_faults
from clozeworks.engine.metrics import FILE as METRICS
from clozeworks.engine.snapshots import DamagedSnapshot, Snapshots
from clozeworks.errors import ClozeworksError, InputError, SettingError
from clozeworks.runs.folder import NOTES as MESSAGES
from clozeworks.runs.folder import RECIPE, RESULT, SEARCH, SESSIONS, SNAPSHOTS, STATE
from clozeworks.runs.listing import is_run
from clozeworks.runs.state import read_state
from clozeworks.runtime.progress import Progress
from clozeworks.search.state import is_index
from clozeworks.search.state import read_state as read_state_of_index
from clozeworks.search.store import DocumentStore, check_store
from clozeworks.storage.atomic import kept_unless
from clozeworks.storage.checksums import (
    FILES,
    NOTES,
    file_faults,
    files_in,
    notes_fault,
    write_notes,
)
from clozeworks.storage.locks import held
from clozeworks.text.tokenizer.checking import tokenizer_faults
from clozeworks.text.tokenizer.styles import Style
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

# What `accept` may be asked for.
_ACCEPTED = ("model", "tokenizer", "adapter")


@dataclass(frozen=True)
class Verification:
    """What was found in a folder."""

    folder: str
    """The folder."""
    kind: str
    """What it is: model, tokenizer, adapter, corpus, run or index."""
    checked: list[str] = field(default_factory=list)
    """What was checked, in sentences."""
    faults: list[str] = field(default_factory=list)
    """What is wrong, in sentences; empty if nothing is."""
    notes: list[str] = field(default_factory=list)
    """What could not be checked, or is worth knowing, in sentences."""

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.faults


def verify(
    folder: str | Path, *, accept: bool = False, progress: Progress | None = None
) -> Verification:
    """Checks every byte of a folder that can be checked.

    Args:
        folder: A model, a tokenizer, an adapter, a corpus, a run or an index.
        accept: Whether the files count as they are from now on, if they can be used: for a model or
            tokenizer folder that was changed on purpose, or that somebody else wrote.
        progress: Is told how many bytes of the files with checksums are done, and how many there
            are.

    Returns:
        What was checked, what is wrong (`.faults`, empty if nothing is) and what is worth knowing.

    Raises:
        InputError: If there is no such folder, or it is none of these.
        SettingError: If `accept` is asked for a corpus, a run or an index.
    """
    folder = Path(folder)
    kind = kind_of(folder)
    if accept and kind not in _ACCEPTED:
        which = f"an {kind}" if kind == "index" else f"a {kind}"
        rule = f"{folder} is {which}, whose files are made by commands alone"
        raise SettingError("accept", True, rule, "leave it out, or make the folder again")
    found = Verification(str(folder), kind)
    if accept:
        _accept(folder, found)
    elif kind == "corpus":
        _verify_corpus(folder, found, progress)
    elif kind == "run":
        _verify_run(folder, found, progress)
    elif kind == "index":
        _verify_index(folder, found, progress)
    else:
        _verify_files(folder, found, progress)
    return found


def kind_of(folder: Path) -> str:
    """What a folder is: model, tokenizer, adapter, corpus, run or index.

    Raises:
        InputError: If it is none of them.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "is not there"
        raise InputError(f"{folder} {what}; name the folder of a model, tokenizer, corpus or run.")
    if is_index(folder):
        return "index"
    if (folder / MANIFEST).exists() or (folder / BUILDING).is_dir():
        return "corpus"
    if is_run(folder):
        return "run"
    if (folder / ADAPTER).exists():
        return "adapter"
    if (folder / "config.json").exists():
        return "model"
    if Tokenizer.is_in(folder):
        return "tokenizer"
    raise InputError(
        f"{folder} is neither a model nor a tokenizer, adapter, corpus, run or index; name another "
        "folder."
    )


def _accept(folder: Path, found: Verification) -> None:
    """Takes the files of a folder as they are; nothing is changed if they cannot be used."""
    path = folder / NOTES
    with kept_unless(path) as settle:
        try:
            notes = {"format": 1, **read_json(path, optional=True)}
            write_notes(folder, notes)
            if "tokenizer" in notes:
                notes["tokenizer"] = Tokenizer.load(folder, _style(folder)).fingerprint
                write_notes(folder, notes)
            _verify_files(folder, found, None)
        except ClozeworksError as error:
            found.faults.append(str(error))
        if not found.faults:
            settle()
            found.notes.append(f"{folder}: the files count as they are from now on ({NOTES}).")


def _style(folder: Path) -> Style | None:
    return read_config(folder)[1].style if (folder / "config.json").exists() else None


def _verify_files(folder: Path, found: Verification, progress: Progress | None) -> None:
    """A model, a tokenizer or an adapter, and what is in folders inside."""
    kind = kind_of(folder)
    faults = list(_checksum_faults(folder, found, progress))
    try:
        if not faults:
            faults += _structure_faults(folder, kind, found)
    except ClozeworksError as error:
        faults.append(str(error))
    found.faults.extend(faults)
    for path in sorted(folder.iterdir()):
        if path.is_dir() and (path / ADAPTER).exists():
            _verify_files(path, found, progress)


def _checksum_faults(folder: Path, found: Verification, progress: Progress | None) -> Iterator[str]:
    """What is not as its checksum says."""
    try:
        notes = read_json(folder / NOTES, optional=True)
    except ClozeworksError as error:
        yield str(error)
        return
    if fault := notes_fault(folder, notes):
        yield fault
        return
    if FILES not in notes:
        found.notes.append(
            f"{folder} has no checksums to compare its files with; record those of today with: "
            f"clozeworks verify {folder} --accept"
        )
        return
    for fault in file_faults(folder, notes, progress=progress):
        yield f"{fault}; restore it."
    found.checked.append(
        f"{folder}: {counted(len(notes[FILES]), 'file')} compared with the size and sha256 of "
        "when it was saved."
    )
    if found.kind != "run":
        for name in sorted(set(files_in(folder)) - notes[FILES].keys()):
            found.notes.append(f"{folder / name} was added later; it has no checksum.")


def _structure_faults(folder: Path, kind: str, found: Verification) -> Iterator[str]:
    """What is wrong with files that are as they were saved, or of which nobody knows."""
    known = FILES in read_json(folder / NOTES, optional=True)
    style = None
    if kind == "adapter":
        yield from _not_finite(folder, read_weights(folder))
        found.checked.append(f"{folder}: the weights are finite.")
        return
    if kind == "model":
        checkpoint = load(folder, check=False)
        yield from _not_finite(folder, checkpoint.model.state_dict())
        found.notes.extend([f"{folder}: {line}" for line in checkpoint.report.notes])
        found.checked.append(
            f"{folder}: {counted(checkpoint.report.loaded, 'weight')} of the shapes that "
            "config.json asks for, all finite."
        )
        style = checkpoint.family.style
        if checkpoint.tokenizer is None:
            return
    odd = tokenizer_faults(folder, style)
    # Some vocabularies were published with gaps; where every byte is as it was saved, this is one.
    if known:
        found.notes.extend(odd)
    else:
        yield from odd
    found.checked.append(f"{folder}: the tokenizer does not contradict itself.")


def _not_finite(folder: Path, weights: dict[str, torch.Tensor]) -> Iterator[str]:
    for name, tensor in weights.items():
        if not bool(tensor.isfinite().all()):
            yield f"{folder}: {name} holds NaN or infinity; restore the weights."


def _verify_corpus(folder: Path, found: Verification, progress: Progress | None) -> None:
    try:
        corpus = Corpus.open(folder)
        found.faults.extend(corpus_faults(corpus, progress))
    except ClozeworksError as error:
        found.faults.append(str(error))
        return
    count = sum(len(corpus.entries(name)) for name in corpus.splits)
    found.checked.append(
        f"{folder}: {counted(count, 'shard')} and the tokenizer compared with the manifest."
    )


def _verify_index(folder: Path, found: Verification, progress: Progress | None) -> None:
    try:
        state = read_state_of_index(folder)
        files = {note.file: {"bytes": note.bytes, "sha256": note.sha256} for note in state.files()}
        faults = list(file_faults(folder, {FILES: files}, progress=progress))
        found.faults.extend(f"{fault}; restore it, or build the index again." for fault in faults)
        if not faults:
            check_store(DocumentStore(folder, state))
    except ClozeworksError as error:
        found.faults.append(str(error))
        return
    found.checked.append(
        f"{folder}: {counted(len(files), 'file')} compared with the size and sha256 of when it "
        "was written."
    )
    if not state.complete:
        found.notes.append(f"{folder} is not complete: the command that built it goes on.")


def _verify_run(folder: Path, found: Verification, progress: Progress | None) -> None:
    """A run and its parts: what it noted, its snapshots, its models."""
    running = held(folder)
    if running:
        found.notes.append(f"{folder} is being written by a program; what changes is left out.")
    else:
        found.faults.extend(_checksum_faults_of_run(folder, found, progress))
    for part in _parts(folder):
        found.faults.extend(_record_faults(part))
        if not running:
            _verify_snapshots(part, found)
        for path in sorted(part.iterdir()):
            if path.is_dir() and (path / "config.json").exists():
                _verify_files(path, found, progress)


def _parts(folder: Path) -> list[Path]:
    """The folder of a run, and those of its seeds and trials."""
    inside = [path.parent for path in folder.rglob(RECIPE) if path.parent != folder]
    return [folder, *sorted(inside)]


def _checksum_faults_of_run(
    folder: Path, found: Verification, progress: Progress | None
) -> Iterator[str]:
    if (folder / NOTES).exists():
        yield from _checksum_faults(folder, found, progress)
        return
    found.notes.append(f"{folder} is not finished: what is still written has no checksums.")


def _record_faults(folder: Path) -> Iterator[str]:
    """What is wrong with the files in which a run notes how it is."""
    for name in (RECIPE, RESULT, SEARCH):
        try:
            read_json(folder / name, optional=True)
        except ClozeworksError as error:
            yield str(error)
    if (folder / STATE).exists() and (state := read_state(folder)).status == "damaged":
        yield f"{folder}: {state.problem}; run the command of the run again."
    for name in (METRICS, SESSIONS, MESSAGES):
        path = folder / name
        for number, line in enumerate(path.read_bytes().splitlines() if path.exists() else (), 1):
            try:
                json.loads(line)
            except ValueError:
                yield f"{path}, line {number:,} is not JSON; it is left out where it is read."


def _verify_snapshots(folder: Path, found: Verification) -> None:
    snapshots = Snapshots(folder / SNAPSHOTS, 1)
    for step in snapshots.steps():
        try:
            snapshots.read(step)
        except (DamagedSnapshot, ClozeworksError) as error:
            found.faults.append(f"{error} Remove it; the run goes on from the one before it.")
    if steps := snapshots.steps():
        found.checked.append(
            f"{folder / SNAPSHOTS}: {counted(len(steps), 'snapshot')} compared with its manifest."
        )
