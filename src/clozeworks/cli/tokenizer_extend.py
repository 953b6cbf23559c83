"""`clozeworks tokenizer extend`: new pieces for text that a vocabulary was not made for."""

import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

if TYPE_CHECKING:
    from clozeworks.data.finding import Found
    from clozeworks.text.extend import Extension
    from clozeworks.text.tokenizer import Tokenizer
    from clozeworks.text.word_counts import WordCounter

# One document in so many is held out, and believed if it has at least so many words.
HELD_OUT = 20
ENOUGH = 1_000
SHOWN = 12


def extend(
    model: str,
    /,
    *files: str,
    add: int,
    out: Annotated[Path, Parameter(alias="-o")],
    least: int = 5,
    column: Annotated[list[str] | None, Parameter(negative="")] = None,
    encoding: str = "utf-8",
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Add pieces to a vocabulary, for text of another field or language.

    No old piece changes its id. A model gets a row for each new piece, the mean of the rows of the
    pieces it replaces; train it on with the new folder.

    Args:
        model: A model or tokenizer folder, or a hub name.
        files: Files, folders or globs: .txt, .jsonl, .csv, .tsv, .parquet, packed or not.
        add: How many pieces; fewer if no more are worth it.
        out: The folder to make: a model folder if there are weights, else a tokenizer folder.
        least: How often a new piece must be used in the text.
        column: The column or field that holds the text; "text" if not given.
        encoding: What text files are written in.
        overwrite: Replace the folder if it holds something.
    """
    from clozeworks import language_model
    from clozeworks.checkpoints.hub import resolve
    from clozeworks.checkpoints.whole_folder import check_target, fresh_folder
    from clozeworks.data.finding import find_files
    from clozeworks.errors import InputError, SettingError
    from clozeworks.text import extend as extending
    from clozeworks.text.tokenizer import Tokenizer
    from clozeworks.text.word_counts import WordCounter

    if not files:
        raise InputError("no file was named; give files, folders or globs with text.")
    for name, value in (("--add", add), ("--least", least)):
        if value < 1:
            raise SettingError(f"{name} is {value:,}; it must be at least 1.")
    check_target(out, overwrite=overwrite)
    begin = time.monotonic()
    found = find_files(files)
    folder = resolve(model)
    loaded = language_model.load(model) if _has_weights(folder) else None
    tokenizer = loaded.tokenizer if loaded else Tokenizer.load(folder)
    held = WordCounter(tokenizer)
    texts = _read(found, column, encoding, held)
    if loaded is None:
        extension = extending.extend(tokenizer, texts, add, least=least)
        with fresh_folder(out, overwrite=overwrite) as place:
            extension.tokenizer.save(place)
        what = "tokenizer"
    else:
        extension = loaded.extend(texts, add, least=least)
        loaded.save(out, overwrite=overwrite)
        what = f"{loaded.family.model_type} model of {loaded.blueprint.count():,} parameters"
    seconds = time.monotonic() - begin
    pieces = "piece" if len(extension.pieces) == 1 else "pieces"
    print(
        f"{out}: {what}; {len(extension.pieces):,} {pieces} added to {tokenizer.size:,} "
        f"in {seconds:.1f} s."
    )
    for line in _page(tokenizer, extension, held.words()):
        print(line)
    if len(extension.pieces) < add:
        print(f"The text has no more pieces that would be used {least:,} times.")
    if extension.note:
        print(extension.note)
    inputs = [*files, *(part for name in column or () for part in ("--column", name))]
    command = ["clozeworks", "corpus", "build", *inputs, "--tokenizer", str(out)]
    print(f"Go on with: {shlex.join([*command, '--out', 'corpus'])}")


def _has_weights(folder: Path) -> bool:
    # Of weights that cannot be read, loading says so.
    kinds = ("*.safetensors", "pytorch_model*.bin", "tf_model.h5")
    return (folder / "config.json").exists() and any(
        path for kind in kinds for path in folder.glob(kind)
    )


def _read(
    found: "Found", column: Sequence[str] | None, encoding: str, held: "WordCounter"
) -> Iterator[str]:
    """The texts of all files but those held out, whose words are counted."""
    from clozeworks.cli.progress import Progress
    from clozeworks.jobs.tokenizer import read_texts

    with Progress("bytes", "read") as progress:
        texts = read_texts(found.files, columns=column, encoding=encoding, progress=progress)
        for number, text in enumerate(texts, start=1):
            if number % HELD_OUT:
                yield text
            else:
                held.add(text)


def _page(tokenizer: "Tokenizer", extension: "Extension", held: Counter[str]) -> Iterator[str]:
    from clozeworks.text.extend import measure

    before, after = extension.before, extension.after
    where = "the text itself; too little of it could be held out"
    if held.total() >= ENOUGH:
        before, after = measure(tokenizer, held), measure(extension.tokenizer, held)
        where = f"documents held out, one in {HELD_OUT}"
    rows = [
        ("", "before", "after"),
        ("tokens per word", f"{before.tokens_per_word:.3f}", f"{after.tokens_per_word:.3f}"),
        ("unknown tokens", f"{before.unknown_share:.3%}", f"{after.unknown_share:.3%}"),
    ]
    for name, *cells in rows:
        yield f"{name:<15}" + "".join(f"{cell:>10}" for cell in cells)
    yield f"measured on {before.words:,} words of {where}"
    shown = [
        # Byte-level pieces are written in an alphabet of their own.
        extension.tokenizer.decode([number]).strip() if tokenizer.kind == "bpe" else piece
        for number, piece in enumerate(extension.pieces[:SHOWN], tokenizer.size)
    ]
    yield "new: " + ", ".join(shown) + (" …" if len(extension.pieces) > SHOWN else "")
