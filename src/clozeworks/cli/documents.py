"""Documents of commands that search: how they are read, and the index that is made of them."""

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import DocumentOptions, print_notes
from clozeworks.errors import MISSING, OutputError, SettingError
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.jobs.search.index import Index, IndexSettings
    from clozeworks.jobs.search.sources import FileDocuments
    from clozeworks.search.writer import AddedCounts


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class IndexedOptions(DocumentOptions):
    """How documents are read from files.

    Attributes:
        id_column: The column that holds the id of a document, by name or number. If not given: "id"
            or "_id", or else the file and the row.
        documents: What a document is in a .txt file: a line, the text between blank lines, or the
            whole file.
        skip_blank: Skip rows without a text instead of stopping at them.
    """

    id_column: str | None = None
    documents: Literal["line", "blank-line", "file"] = "line"
    skip_blank: Annotated[bool, Parameter(negative="")] = False

    def source(self, inputs: Sequence[str]) -> "FileDocuments":
        """The documents of files, folders and globs."""
        from clozeworks.data.files.discovery import find_files
        from clozeworks.jobs.search.sources import FileDocuments

        file_format = self.file_format()
        return FileDocuments(
            files=find_files(inputs, file_format).files,
            columns=self.column,
            id_column=self.id_column,
            documents=self.documents,
            header=self.header,
            skip_blank=self.skip_blank,
            file_format=file_format,
        )


def build(
    source: "FileDocuments",
    model: str,
    out: Path,
    settings: "IndexSettings",
    computing: ComputingOptions,
    *,
    overwrite: bool = False,
    prune: bool = False,
) -> "tuple[Index, AddedCounts]":
    """Builds an index, or adds to one, with a bar; whoever stops it is told how to go on."""
    from clozeworks.display.progress import ProgressBar
    from clozeworks.jobs.search.index import build_index
    from clozeworks.jobs.search.sources import count_documents
    from clozeworks.search.state import check_free, is_index
    from clozeworks.search.writer import AddedCounts

    check_free(out)
    amount = count_documents(source)
    print_notes(source.notes.sentences())
    counts, replacing = AddedCounts(), overwrite and is_index(out)
    try:
        with ProgressBar("documents") as progress:
            return build_index(
                source,
                computing.load(model),
                out,
                settings,
                overwrite=overwrite,
                prune=prune,
                counted=amount,
                counts=counts,
                progress=progress,
            )
    except OutputError:
        if counts.documents:
            print(_so_far(out), file=sys.stderr)
        raise
    except (KeyboardInterrupt, SystemExit) as stop:
        again = "Run the same command again to go on."
        if replacing:
            again = "It is the index that was there; the same command begins the new one again."
        elif overwrite:
            again = "Run the same command without --overwrite to go on."
        stop.add_note(f"{_so_far(out)} {again}")
        raise


def _so_far(out: Path) -> str:
    from clozeworks.search.state import is_index, read_state
    from clozeworks.search.store import DocumentStore

    count = len(DocumentStore(out, read_state(out))) if is_index(out) else 0
    return f"{out} holds {counted(count, 'document')}."


@contextmanager
def opened(
    inputs: Sequence[str],
    model: str | None,
    index: Path | None,
    reading: IndexedOptions,
    computing: ComputingOptions,
) -> "Iterator[tuple[Index, FileDocuments | None]]":
    """An index of files, kept in a folder or forgotten afterwards; or the one that is named.

    Args:
        inputs: Files, folders or globs; or the folder of an index.
        model: The sentence model; needed for files.
        index: Where the index of files is kept; nowhere if None.
        reading: How documents are read.
        computing: Where the model computes.
    """
    from clozeworks.jobs.search.index import Index, IndexSettings
    from clozeworks.search.state import is_index, read_state

    if len(inputs) == 1 and is_index(Path(inputs[0])):
        yield Index.open(inputs[0]), None
        return
    source = reading.source(inputs)
    if model is None and index is not None and is_index(index):
        model = read_state(index).model.name
    if model is None:
        rule = "texts become vectors by a sentence model"
        raise SettingError("--model", MISSING, rule, "name one, or an index that was built")
    with TemporaryDirectory() as folder:
        out = Path(folder) / "index" if index is None else index
        yield build(source, model, out, IndexSettings(), computing, prune=True)[0], source
