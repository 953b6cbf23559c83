"""Builds a corpus: documents in, shards and a manifest out.

Documents are read and compared in order by one process; tokens are made by many; shards are put
together in order again. So the bytes do not depend on the number of workers, and a build that was
interrupted at any moment goes on after its last finished shard: the documents before it are read
again, which is cheap, and must be the same ones.
"""

import os
import shutil
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass, field
from hashlib import blake2b
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any

from clozeworks.data.corpus.chunks import ChunkSettings, CorpusChunk, Sentences, check_usable
from clozeworks.data.corpus.corpus import TOKENIZER_FOLDER, TRAIN, VALIDATION, Corpus
from clozeworks.data.corpus.duplicates import seen_before
from clozeworks.data.corpus.folder import begin_anew, check_free, prepare
from clozeworks.data.corpus.manifest import BUILDING, MANIFEST, VERSION
from clozeworks.data.corpus.split_writer import ChangedInputError, SplitWriter
from clozeworks.data.corpus.workers import ChunkWorkers, chunk_workers
from clozeworks.data.files.discovery import InputFiles, find_files
from clozeworks.data.files.documents import Document, Documents, read_documents
from clozeworks.data.files.encodings import printable
from clozeworks.data.files.file_format import FileFormat
from clozeworks.data.files.lines import FileNotes
from clozeworks.data.files.texts import check_header
from clozeworks.errors import InputError
from clozeworks.runtime.progress import Progress
from clozeworks.spec import Advice, AtLeast, Below, spec
from clozeworks.storage.atomic import write_json
from clozeworks.storage.checksums import sealed
from clozeworks.storage.locks import locked
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted

CHUNK_CHARACTERS = 1_000_000


@spec
class BuildSettings(FileFormat):
    """How a corpus is made."""

    documents: Documents = "blank-line"
    """What separates documents in plain text: `blank-line`, `file` or `line`."""
    columns: tuple[str, ...] = ()
    """The columns or fields that hold the text, by name or number; empty for `text`, or the only
    column of strings."""
    header: bool | None = None
    """Whether the first row of csv and tsv files is a header; it is if not given."""
    sentences: Sentences = "split"
    """`split` finds sentences within lines, `wrapped` across them; `lines` takes every line as one,
    `whole` every document."""
    words: str | None = None
    """A segmenter for whole words in Chinese, such as `jieba`."""
    validation: Annotated[
        float, AtLeast(0), Below(1), Advice("it is the fraction of documents that is held out")
    ] = 0.01
    """The fraction of documents that is held out."""
    keep_duplicates: bool = False
    """Whether a document that came before is kept."""
    skip_bad_files: bool = False
    """Whether the rest of a file that cannot be read is left out."""


@dataclass
class BuildResult:
    """What a build did."""

    corpus: Corpus
    """The finished corpus."""
    resumed: int = 0
    """Shards that an earlier run had finished."""
    skipped: list[str] = field(default_factory=list)
    """A message about each file of which the rest was left out."""
    notes: tuple[str, ...] = ()
    """What there is to say about how files were read, in sentences."""
    ignored: list[Path] = field(default_factory=list)
    """Files of other kinds in the folders named."""
    unchanged: bool = False
    """Whether the same corpus existed already and nothing was done."""


def build_corpus(
    inputs: Sequence[str | Path],
    out: Path,
    tokenizer: Tokenizer,
    settings: BuildSettings | None = None,
    *,
    workers: int | None = None,
    overwrite: bool = False,
    progress: Progress | None = None,
) -> BuildResult:
    """Builds a corpus, or goes on with one.

    Args:
        inputs: Files, folders and globs.
        out: The corpus folder.
        tokenizer: Makes the tokens; a copy is kept with the corpus.
        settings: How it is made.
        workers: Processes; as many as there are cores if not given.
        overwrite: Whether a corpus that exists there is replaced.
        progress: Called with the bytes of input read and their number in all.

    Raises:
        InputError: If the input cannot be read, or has changed since the build was begun.
        OutputError: If the folder holds something else, or cannot be written.
    """
    settings = settings or BuildSettings()
    chunk_settings = ChunkSettings(settings.sentences, settings.words)
    check_usable(tokenizer, chunk_settings)
    sources = _input_files(inputs, out, settings)
    check_header(sources.files, settings.header, settings)
    sizes = [path.stat().st_size for path in sources.files]
    recipe = _recipe(sources.files, sizes, tokenizer, settings)
    # With little to do, starting processes would take longer than doing it.
    small = sum(sizes) < 4 * CHUNK_CHARACTERS
    count = workers if workers is not None else 1 if small else _cores()
    check_free(out)
    with locked(out):
        if not prepare(out, recipe, tokenizer, overwrite=overwrite):
            return BuildResult(Corpus.open(out), ignored=sources.ignored, unchanged=True)
        with chunk_workers(out / TOKENIZER_FOLDER, chunk_settings, count) as submit:
            run = _Run(out, submit, settings, tokenizer, in_flight=2 * count + 1)
            try:
                run.read(sources.files, sizes, progress)
            except ChangedInputError:
                if not overwrite:
                    raise
                begin_anew(out)
                run = _Run(out, submit, settings, tokenizer, in_flight=2 * count + 1)
                run.read(sources.files, sizes, progress)
        corpus = run.finish(recipe)
        return BuildResult(corpus, run.resumed, run.skipped, run.notes.sentences(), sources.ignored)


def _input_files(inputs: Sequence[str | Path], out: Path, file_format: FileFormat) -> InputFiles:
    """Finds the input files; what is in the corpus folder itself is not text to learn from."""
    sources = find_files(inputs, file_format)
    if not out.is_dir():
        return sources
    folder = os.path.realpath(out)
    files, ignored = (
        [path for path in paths if not Path(os.path.realpath(path)).is_relative_to(folder)]
        for paths in (sources.files, sources.ignored)
    )
    if not files:
        raise InputError(f"the input is in {out}, the corpus folder; name other files.")
    return InputFiles(files, ignored)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _recipe(
    files: Sequence[Path], sizes: Sequence[int], tokenizer: Tokenizer, settings: BuildSettings
) -> dict[str, Any]:
    written = {**asdict(settings), "columns": list(settings.columns)}
    # As in corpora that were built before there were these settings.
    for name in ("header", "format", "separator", "quoting", "bad_bytes", "max_row_length"):
        if written[name] == getattr(BuildSettings, name):
            del written[name]
    return {
        "version": VERSION,
        "tokenizer": tokenizer.fingerprint,
        "settings": written,
        "files": [[printable(path), size] for path, size in zip(files, sizes, strict=True)],
    }


@dataclass
class _Run:
    """One pass over the input."""

    out: Path
    submit: ChunkWorkers
    settings: BuildSettings
    tokenizer: Tokenizer
    in_flight: int

    def __post_init__(self) -> None:
        self.writers = {name: SplitWriter(name, self.out) for name in (TRAIN, VALIDATION)}
        self.resumed = sum(len(writer.shards) for writer in self.writers.values())
        self.skipped: list[str] = []
        self.notes = FileNotes()
        self.counts: Counter[str] = Counter()
        self._waiting: deque[tuple[SplitWriter, Future[CorpusChunk], int, bytes]] = deque()

    def read(self, files: Sequence[Path], sizes: Sequence[int], progress: Progress | None) -> None:
        """Takes every document of every file, and writes all shards."""
        held_out = int(self.settings.validation * 2**64)
        with seen_before() as is_new:
            for document in self._documents(files, sizes, progress):
                text = document.text.strip()
                digest = blake2b(text.encode(), digest_size=16).digest()
                self.counts["documents_read"] += 1
                if not self.settings.keep_duplicates and not is_new(digest):
                    self.counts["duplicates_dropped"] += 1
                    continue
                part = VALIDATION if int.from_bytes(digest[:8], "big") < held_out else TRAIN
                writer = self.writers[part]
                if writer.take(text, digest) and writer.characters >= CHUNK_CHARACTERS:
                    self._hand_over(writer)
        for writer in self.writers.values():
            writer.check_reached()
            self._hand_over(writer)
        self._collect(0)
        for writer in self.writers.values():
            writer.write()

    def _documents(
        self, files: Sequence[Path], sizes: Sequence[int], progress: Progress | None
    ) -> Iterator[Document]:
        total = sum(sizes)
        for path, before in zip(files, accumulate(sizes, initial=0), strict=False):

            def note(read: int, before: int = before) -> None:
                if progress is not None:
                    progress(before + read, total)

            taken = 0
            try:
                for document in read_documents(
                    path,
                    documents=self.settings.documents,
                    columns=self.settings.columns or None,
                    header=self.settings.header,
                    file_format=self.settings,
                    position=note,
                    notes=self.notes,
                ):
                    yield document
                    taken += 1
            except InputError as error:
                if not self.settings.skip_bad_files:
                    raise
                documents = counted(taken, "document")
                self.skipped.append(f"{error} {documents} of this file came before it.")
            self.counts["files_read"] += 1

    def _hand_over(self, writer: SplitWriter) -> None:
        if not writer.documents:
            return
        future = self.submit(writer.documents)
        self._waiting.append((writer, future, writer.taken, writer.chain))
        writer.documents, writer.characters = [], 0
        self._collect(self.in_flight)

    def _collect(self, keep: int) -> None:
        while len(self._waiting) > keep:
            writer, future, taken, chain = self._waiting.popleft()
            writer.add(future.result(), taken, chain)

    def finish(self, recipe: dict[str, Any]) -> Corpus:
        """Writes the manifest; from then on it is a corpus."""
        splits = {
            writer.name: writer.described() for writer in self.writers.values() if writer.shards
        }
        if not splits:
            skipped = f" Left out was: {self.skipped[0]}" if self.skipped else ""
            raise InputError(
                "the input holds no text that gives a token; check the files, and which column or "
                f"field holds the text (--column).{skipped}"
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
        write_json(self.out / MANIFEST, sealed(manifest))
        known = {shard["file"] for split in splits.values() for shard in split["shards"]}
        for path in self.out.glob("*.safetensors"):
            if path.name not in known:
                path.unlink()
        shutil.rmtree(self.out / BUILDING, ignore_errors=True)
        return Corpus.open(self.out)
