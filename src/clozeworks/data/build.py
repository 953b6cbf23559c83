"""Builds a corpus: documents in, shards and a manifest out.

Documents are read and compared in order by one process; tokens are made by many; shards are put
together in order again. So the bytes do not depend on the number of workers, and a build that was
stopped at any moment goes on behind its last finished shard: the documents before it are read
again, which is cheap, and must be the same ones.
"""

import os
import shutil
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

from clozeworks.data.corpus import MANIFEST, TOKENIZER_FOLDER, TRAIN, VALIDATION, VERSION, Corpus
from clozeworks.data.documents import Document, read_documents
from clozeworks.data.duplicates import seen_before
from clozeworks.data.finding import find_files
from clozeworks.data.locking import locked
from clozeworks.data.pieces import Piece, PieceSettings, Sentences
from clozeworks.data.routes import BUILDING, Route, read_record, write_record
from clozeworks.data.workers import Makers, makers
from clozeworks.errors import InputError, OutputError, SettingError
from clozeworks.text.tokenizer import Tokenizer

PIECE_CHARACTERS = 1_000_000
RECIPE = "recipe.json"
INDEX_FOLDER = "index"
OWN_NAMES = {MANIFEST, TOKENIZER_FOLDER, BUILDING, INDEX_FOLDER, ".lock"}

Progress = Callable[[int, int], None]


@dataclass(frozen=True, kw_only=True)
class BuildSettings:
    """How a corpus is made.

    Attributes:
        documents: What separates documents in plain text: `blank-line`, `file` or `line`.
        columns: The columns or fields that hold the text; empty for `text`, or the only one.
        encoding: What text files are written in.
        sentences: `split` finds sentences within lines, `wrapped` across them; `lines` takes every
            line as one.
        words: A segmenter for whole words in Chinese, such as `jieba`.
        validation: The share of documents that is held out.
        keep_duplicates: Whether a document that came before is kept.
        skip_bad_files: Whether the rest of a file that cannot be read is left out.
    """

    documents: Literal["blank-line", "file", "line"] = "blank-line"
    columns: tuple[str, ...] = ()
    encoding: str = "utf-8"
    sentences: Sentences = "split"
    words: str | None = None
    validation: float = 0.01
    keep_duplicates: bool = False
    skip_bad_files: bool = False

    def check(self) -> None:
        """Complains about a setting out of range."""
        if not 0 <= self.validation < 1:
            raise SettingError(
                f"validation is {self.validation}; it is a share of the documents, at least 0 and "
                "below 1."
            )


@dataclass
class Built:
    """What a build did.

    Attributes:
        corpus: The finished corpus.
        resumed: Shards that an earlier run had finished.
        skipped: Sentences about files that were left out from some place on.
        ignored: Files of other kinds in the folders named.
    """

    corpus: Corpus
    resumed: int = 0
    skipped: list[str] = field(default_factory=list)
    ignored: list[Path] = field(default_factory=list)


def build_corpus(
    inputs: Sequence[str | Path],
    out: Path,
    tokenizer: Tokenizer,
    settings: BuildSettings | None = None,
    *,
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> Built:
    """Builds a corpus, or goes on with one.

    Args:
        inputs: Files, folders and globs.
        out: The corpus folder.
        tokenizer: Makes the tokens; a copy is kept with the corpus.
        settings: How it is made.
        workers: Processes; as many as there are cores if not given.
        overwrite: Whether a corpus that stands there is replaced.
        progress: Called with the bytes of input read and their number in all.

    Raises:
        InputError: The input cannot be read, or is not what it was when the build was begun.
        OutputError: The folder holds something else, or cannot be written.
    """
    settings = settings or BuildSettings()
    settings.check()
    found = find_files(inputs)
    recipe = _recipe(found.files, tokenizer, settings)
    count = workers if workers is not None else _cores()
    with locked(out):
        if not _prepare(out, recipe, tokenizer, overwrite):
            return Built(Corpus.open(out), ignored=found.ignored)
        total = sum(path.stat().st_size for path in found.files)
        if total < 4 * PIECE_CHARACTERS:
            count = 1  # starting processes would take longer
        piece_settings = PieceSettings(settings.sentences, settings.words)
        with makers(out / TOKENIZER_FOLDER, piece_settings, count) as made:
            run = _Run(out, made, settings, tokenizer, in_flight=2 * count + 1)
            run.read(found.files, progress)
        corpus = run.finish(recipe)
        return Built(corpus, run.resumed, run.skipped, found.ignored)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _recipe(files: Sequence[Path], tokenizer: Tokenizer, settings: BuildSettings) -> dict[str, Any]:
    return {
        "version": VERSION,
        "tokenizer": tokenizer.fingerprint,
        "settings": {**asdict(settings), "columns": list(settings.columns)},
        "files": [[str(path), path.stat().st_size] for path in files],
    }


def _prepare(out: Path, recipe: dict[str, Any], tokenizer: Tokenizer, overwrite: bool) -> bool:
    """Makes the folder ready; False if the very corpus stands there already."""
    building = out / BUILDING
    begun = next(
        (read_record(path) for path in (out / MANIFEST, building / RECIPE) if path.is_file()), None
    )
    before = None if begun is None else begun.get("made", begun)
    if before is not None and not overwrite:
        if before != recipe:
            raise OutputError(
                f"{out} holds a corpus made otherwise: {_difference(before, recipe)}; choose "
                "another folder with --out, or replace it with --overwrite."
            )
        if (out / MANIFEST).is_file():
            shutil.rmtree(building, ignore_errors=True)
            return False
    if before is None:
        _check_empty(out)
    elif overwrite:
        _clear(out)
    try:
        building.mkdir(parents=True, exist_ok=True)
        (out / TOKENIZER_FOLDER).mkdir(exist_ok=True)
        tokenizer.save(out / TOKENIZER_FOLDER)
    except OSError as error:
        raise OutputError(
            f"{out} cannot be written ({error.strerror or error}); choose another folder."
        ) from error
    write_record(building / RECIPE, recipe)
    return True


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str:
    for name, value in now["settings"].items():
        if before.get("settings", {}).get(name) != value:
            return f"{name} was {before.get('settings', {}).get(name)!r} and is {value!r}"
    for name in ("tokenizer", "files", "version"):
        if before.get(name) != now[name]:
            return (
                "other input files, or files of another size"
                if name == "files"
                else (f"another {name}")
            )
    return "something else"


def _is_own(name: str) -> bool:
    shard = name.startswith((TRAIN + "-", VALIDATION + "-")) and name.endswith(".safetensors")
    return name in OWN_NAMES or shard or name.endswith(".temporary")


def _check_empty(out: Path) -> None:
    foreign = sorted(path.name for path in out.iterdir() if not _is_own(path.name))
    if foreign:
        raise OutputError(
            f"{out} holds other files ({foreign[0]}); a corpus needs a folder of its own; choose "
            "another one with --out."
        )


def _clear(out: Path) -> None:
    (out / MANIFEST).unlink(missing_ok=True)  # first: what is left is no corpus any more
    for path in out.iterdir():
        if path.name in (BUILDING, INDEX_FOLDER, TOKENIZER_FOLDER):
            shutil.rmtree(path)
        elif _is_own(path.name) and path.name != ".lock":
            path.unlink()


class _Run:
    """One pass over the input."""

    def __init__(
        self, out: Path, made: Makers, settings: BuildSettings, tokenizer: Tokenizer, in_flight: int
    ) -> None:
        self.out = out
        self.made = made
        self.settings = settings
        self.tokenizer = tokenizer
        self.in_flight = in_flight
        self.routes = {name: Route(name, out) for name in (TRAIN, VALIDATION)}
        self.resumed = sum(len(route.shards) for route in self.routes.values())
        self.skipped: list[str] = []
        self.counts: Counter[str] = Counter()
        self._waiting: deque[tuple[Route, Future[Piece], int, bytes]] = deque()

    def read(self, files: Sequence[Path], progress: Progress | None) -> None:
        """Takes every document of every file, and writes all shards."""
        held_out = int(self.settings.validation * 2**64)
        with seen_before() as is_new:
            for document in self._documents(files, progress):
                text = document.text.strip()
                digest = blake2b(text.encode(), digest_size=16).digest()
                self.counts["documents_read"] += 1
                if not self.settings.keep_duplicates and not is_new(digest):
                    self.counts["duplicates_dropped"] += 1
                    continue
                part = VALIDATION if int.from_bytes(digest[:8], "big") < held_out else TRAIN
                route = self.routes[part]
                if route.take(text, digest) and route.characters >= PIECE_CHARACTERS:
                    self._hand_over(route)
        for route in self.routes.values():
            route.check_reached()
            self._hand_over(route)
        self._collect(0)
        for route in self.routes.values():
            route.write()

    def _documents(self, files: Sequence[Path], progress: Progress | None) -> Iterator[Document]:
        sizes = [path.stat().st_size for path in files]
        for number, path in enumerate(files):
            before = sum(sizes[:number])

            def note(place: int, before: int = before) -> None:
                if progress is not None:
                    progress(before + place, sum(sizes))

            taken = 0
            try:
                for document in read_documents(
                    path,
                    documents=self.settings.documents,
                    columns=self.settings.columns or None,
                    encoding=self.settings.encoding,
                    position=note,
                ):
                    yield document
                    taken += 1
            except InputError as error:
                if not self.settings.skip_bad_files:
                    raise
                used = f"the {taken:,} documents before it were used" if taken else "nothing used"
                self.skipped.append(f"{error} ({used})")
            self.counts["files_read"] += 1

    def _hand_over(self, route: "Route") -> None:
        if not route.documents:
            return
        future = self.made.submit(route.documents)
        self._waiting.append((route, future, route.taken, route.chain))
        route.documents, route.characters = [], 0
        self._collect(self.in_flight)

    def _collect(self, keep: int) -> None:
        while len(self._waiting) > keep:
            route, future, taken, chain = self._waiting.popleft()
            route.add(future.result(), taken, chain)

    def finish(self, recipe: dict[str, Any]) -> Corpus:
        """Writes the manifest; from then on it is a corpus."""
        splits = {route.name: route.described() for route in self.routes.values() if route.shards}
        if not splits:
            raise InputError(
                "the input holds no text that gives a token; check the files, and which column or "
                "field holds the text (--column)."
            )
        manifest = {
            "version": VERSION,
            "made": recipe,
            "tokenizer": {
                "fingerprint": self.tokenizer.fingerprint,
                "size": self.tokenizer.size,
                "kind": self.tokenizer.kind,
                "unknown": self.tokenizer.special.unknown,
            },
            "counts": dict(sorted(self.counts.items())),
            "splits": splits,
        }
        write_record(self.out / MANIFEST, manifest)
        known = {shard["file"] for split in splits.values() for shard in split["shards"]}
        for path in self.out.glob("*.safetensors"):
            if path.name not in known:
                path.unlink()
        shutil.rmtree(self.out / BUILDING, ignore_errors=True)
        return Corpus.open(self.out)
