"""`clozeworks tokenizer`: train, extend or inspect a tokenizer."""

import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from clozeworks.cli.inputs import DocumentOptions, check_minimum, option_name, print_notes
from clozeworks.display.table import filled
from clozeworks.errors import SET, SettingError, UnknownName
from clozeworks.wording import counted, visible

if TYPE_CHECKING:
    from clozeworks.core.model import Model
    from clozeworks.data.files.discovery import InputFiles
    from clozeworks.inference.cloze_cost import ClozeCost
    from clozeworks.language_model import LanguageModel
    from clozeworks.text.tokenizer.styles import Style, StyleKind
    from clozeworks.text.tokenizer.tokenizer import Tokenizer
    from clozeworks.text.training.extend import Extension

# One document in so many is held out; they are measured if they have at least so many words.
HELD_OUT = 20
ENOUGH = 1_000
# So many of those held out are kept, drawn at random, and of each its beginning, to mask words in.
KEPT = 2_000
BEGINNING = 2_000
# Masked words times parameters: some seconds of work. Fewer words would say too little.
EFFORT = 40_000_000_000
FEWEST = 300
SHOWN = 12

app = App(
    name="clozeworks tokenizer",
    help="Train, extend or inspect a tokenizer.",
    help_format="plaintext",
    version_flags=[],
)


@app.command
def train(
    *files: Annotated[str, Parameter(required=True)],
    out: Annotated[Path, Parameter(alias="-o")],
    kind: Literal["wordpiece", "bpe", "unigram"] | None = None,
    family: str | None = None,
    size: int = 30000,
    min_frequency: int = 2,
    cased: Annotated[bool, Parameter(negative="")] = False,
    extra: Annotated[list[str] | None, Parameter(negative="")] = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    reading: DocumentOptions | None = None,
) -> None:
    """Train a tokenizer from text files, the same that a corpus is built from.

    Args:
        files: Files, folders or globs: .txt, .csv, .tsv, .jsonl, .parquet, compressed or not;
            .json files must be named.
        out: The output folder.
        kind: wordpiece (BERT), bpe (byte-level, RoBERTa and GPT) or unigram (ALBERT, T5). Defaults
            to that of --family, or else to wordpiece.
        family: Tokenize as this family does, such as xlm-roberta, t5, gpt2, llama or qwen2; it
            determines the kind and the special tokens.
        size: The size of the vocabulary.
        min_frequency: How often a piece must occur.
        cased: Distinguish upper and lower case (WordPiece; byte-level and unigram always do).
        extra: An additional special token, such as [NLU]; may be given several times.
        overwrite: Replace the folder if it is not empty.
        reading: How documents are read.
    """
    from clozeworks.checkpoints.whole_folder import check_target
    from clozeworks.data.files.lines import FileNotes
    from clozeworks.display.progress import ProgressBar
    from clozeworks.jobs.tokenizer import train_tokenizer
    from clozeworks.text.tokenizer.styles import WordPieceStyle

    style = _style(kind, family)
    if cased and style.kind != "wordpiece":
        raise SettingError("--cased", SET, f"{style.kind} always keeps case", "leave it out")
    if isinstance(style, WordPieceStyle):
        style = replace(style, lowercase=not cased)
    extra = extra or []
    for index, name in enumerate(extra):
        if not name.strip():
            raise SettingError("--extra", name, "a token needs a name", "leave it out")
        if name in style.special.names() or name in extra[:index]:
            raise SettingError("--extra", name, "there is such a token already", "leave it out")
    if extra:
        special = replace(style.special, extra=(*style.special.extra, *extra))
        style = replace(style, special=special)
    check_target(out, overwrite=overwrite)
    begin, reading, notes = time.monotonic(), reading or DocumentOptions(), FileNotes()
    with ProgressBar("bytes") as progress:
        tokenizer = train_tokenizer(
            files,
            kind=style.kind,
            size=size,
            style=style,
            min_frequency=min_frequency,
            columns=reading.column or None,
            header=reading.header,
            file_format=reading.file_format(),
            notes=notes,
            progress=progress.staged,
        )
    print_notes(notes.sentences())
    _save(tokenizer, out, overwrite)
    seconds = time.monotonic() - begin
    print(f"{out}: {tokenizer.kind}, {tokenizer.size:,} entries, trained in {seconds:.1f} s.")
    if tokenizer.size < size:
        print(f"The text has no more than {tokenizer.size:,} pieces that occur often enough.")
    print(f'Try it with: clozeworks tokenizer inspect {out} "a text of yours"')


def _save(tokenizer: "Tokenizer", out: Path, overwrite: bool) -> None:
    from clozeworks.checkpoints.whole_folder import fresh_folder

    with fresh_folder(out, overwrite=overwrite) as temporary:
        tokenizer.save(temporary)


def _style(kind: "StyleKind | None", family: str | None) -> "Style":
    """The style of a family's tokenizers, or the usual one of a kind."""
    from clozeworks.text.training.train import STYLES

    if family is None:
        return STYLES[kind or "wordpiece"]()
    from clozeworks.families.family import families

    known = families()
    if family not in known:
        raise UnknownName("--family", family, known)
    style = known[family].style
    if kind is not None and kind != style.kind:
        rule = f"tokenizers of --family {family} are {style.kind}"
        raise SettingError("--kind", kind, rule, "leave one of the two out")
    return style


@app.command(name="bytes")
def byte_tokens(
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Create the tokenizer of ByT5, whose tokens are the bytes of a text; nothing is trained.

    Args:
        out: The output folder.
        overwrite: Replace the folder if it is not empty.
    """
    from clozeworks.checkpoints.whole_folder import check_target
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    check_target(out, overwrite=overwrite)
    tokenizer = Tokenizer.of_bytes()
    _save(tokenizer, out, overwrite)
    print(f"{out}: {tokenizer.size:,} entries, one for each byte and the special ones.")


@app.command
def inspect(folder: str, text: str | None = None, /) -> None:
    """Inspect a tokenizer: what it is, and how it tokenizes a text.

    Args:
        folder: The folder of a tokenizer or a model, or a hub name.
        text: A text to tokenize.
    """
    from clozeworks.checkpoints.hub import resolve
    from clozeworks.text.tokenizer.checking import tokenizer_faults
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    path = resolve(folder)
    tokenizer = Tokenizer.load(path)
    special = tokenizer.special
    print(f"kind         {tokenizer.kind}")
    print(f"entries      {tokenizer.size:,}")
    for name in ("pad", "unknown", "mask", "first", "last"):
        token = getattr(special, name)
        print(
            f"{name:<12} " + (f"{visible(token)} = {tokenizer.id_of(token)}" if token else "none")
        )
    limit = f"{tokenizer.max_length:,} tokens" if tokenizer.max_length else "none stated"
    print(f"limit        {limit}")
    print(f"fingerprint  {tokenizer.fingerprint}")
    for fault in tokenizer_faults(path):
        print(f"look at      {visible(fault)}")
    if text is None:
        return
    item = tokenizer.encode([text], offsets=True)[0]
    assert item.offsets is not None and item.words is not None
    print(f"\n{counted(len(item), 'token')}, {sum(item.special):,} of them added:")
    for token_id, (begin, end), word in zip(item.ids, item.offsets, item.words, strict=True):
        shown = filled(visible(tokenizer.token_of(token_id)), 18)
        if word is not None:
            shown += f" word {word:<4} characters {begin} to {end}: {visible(text[begin:end])}"
        print(f"  {token_id:>7}  {shown}".rstrip())


@app.command
def extend(
    model: str,
    /,
    *files: Annotated[str, Parameter(required=True)],
    add: int,
    out: Annotated[Path, Parameter(alias="-o")],
    least: int = 5,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    reading: DocumentOptions | None = None,
) -> None:
    """Add pieces to a vocabulary, for text of another domain or language.

    Existing pieces keep their ids. A model gets a row for each new piece, the mean of the rows of
    the pieces it replaces; continue training with the new folder. For a model that fills gaps, the
    cost of a masked word is printed, too, in nats: all its pieces, predicted independently.

    Args:
        model: A model or tokenizer folder, or a hub name.
        files: Files, folders or globs: .txt, .csv, .tsv, .jsonl, .parquet, compressed or not;
            .json files must be named.
        add: The number of pieces; fewer if no more are worth adding.
        out: The folder to make: a model folder if there are weights, else a tokenizer folder.
        least: How often a new piece must be used in the text.
        overwrite: Replace the folder if it is not empty.
        reading: How documents are read.
    """
    from clozeworks import language_model
    from clozeworks.checkpoints.hub import resolve
    from clozeworks.checkpoints.whole_folder import check_target
    from clozeworks.data.files.discovery import find_files
    from clozeworks.text.tokenizer.tokenizer import Tokenizer
    from clozeworks.text.training import extend as extending

    check_minimum(1, add=add, least=least)
    check_target(out, overwrite=overwrite)
    begin, reading = time.monotonic(), reading or DocumentOptions()
    inputs = find_files(files, reading.file_format())
    folder = resolve(model)
    loaded = language_model.load(model) if _has_weights(folder) else None
    tokenizer = loaded.tokenizer if loaded else Tokenizer.load(folder)
    held = _HeldOut(tokenizer)
    texts = _read(inputs, reading, held)
    gaps: list[ClozeCost] = []
    if loaded is None:
        extension = extending.extend(tokenizer, texts, add, least=least)
        _save(extension.tokenizer, out, overwrite)
        what = "tokenizer"
    else:
        old = loaded.model
        extension = loaded.extend(texts, add, least=least)
        loaded.save(out, overwrite=overwrite)
        gaps = _costs(old, tokenizer, loaded, held)
        what = f"{loaded.family.model_type} model of {loaded.blueprint.count():,} parameters"
    seconds = time.monotonic() - begin
    pieces = counted(len(extension.pieces), "piece")
    print(f"{out}: {what}; {pieces} added to {tokenizer.size:,} in {seconds:.1f} s.")
    for line in _page(tokenizer, extension, held.words(), gaps):
        print(line)
    if len(extension.pieces) < add:
        print(f"The text has no more pieces that would be used {counted(least, 'time')}.")
    if extension.note:
        print(extension.note)
    words = [*files, *(part for name in reading.column for part in ("--column", name))]
    if reading.header is not None:
        words.append("--header" if reading.header else "--no-header")
    for name, value in reading.given().items():
        words += [option_name(name), str(value)]
    # Where each Chinese character is a word, whole words are masked only if jieba finds them.
    words += ["--words", "jieba"] if extension.note else []
    command = ["clozeworks", "corpus", "build", *words, "--tokenizer", str(out)]
    print(f"Go on with: {shlex.join([*command, '--out', 'corpus'])}")


def _has_weights(folder: Path) -> bool:
    # Of weights that cannot be read, loading says so.
    kinds = ("*.safetensors", "pytorch_model*.bin", "tf_model.h5")
    return (folder / "config.json").exists() and any(
        path for kind in kinds for path in folder.glob(kind)
    )


class _HeldOut:
    """Documents that are held out: the words of all, and some of the texts."""

    def __init__(self, tokenizer: "Tokenizer") -> None:
        from clozeworks.rng import RandomStream
        from clozeworks.text.training.word_counts import WordCounter

        self.texts: list[str] = []
        self._counter = WordCounter(tokenizer)
        self._stream = RandomStream(0, "documents held out")
        self._seen = 0

    def words(self) -> Counter[str]:
        """How often each word came."""
        return self._counter.words()

    def add(self, text: str) -> None:
        """Counts the words of a document; keeps each with the same probability."""
        from clozeworks.rng import below

        self._counter.add(text)
        self._seen += 1
        if self._seen <= KEPT:
            self.texts.append(_beginning(text))
            return
        index = int(below(self._stream.words(0, self._seen, 1), self._seen)[0, 0])
        if index < KEPT:
            self.texts[index] = _beginning(text)


def _beginning(text: str) -> str:
    """The beginning of a text, without half a word at its end."""
    from clozeworks.text.characters import words_of

    if len(text) <= BEGINNING:
        return text
    words = words_of(text[:BEGINNING])
    return text[: words[-1][0]] if words else ""


def _costs(
    old: "Model", tokenizer: "Tokenizer", new: "LanguageModel", held: _HeldOut
) -> "list[ClozeCost]":
    """The cost of masked words for the old and the new model; empty if it cannot be measured."""
    from clozeworks.inference.cloze_cost import MAX_WORDS, cloze_cost

    can_fill = "vocabulary" in new.blueprint.heads and tokenizer.mask_id is not None
    if not can_fill or held.words().total() < ENOUGH:
        return []
    max_words = min(MAX_WORDS, max(FEWEST, EFFORT // new.blueprint.count()))
    both = [(old, tokenizer, new.tokenizer), (new.model, new.tokenizer, tokenizer)]
    costs = [
        cloze_cost(
            model,
            own_tokenizer,
            held.texts,
            beside=[other],
            max_length=new.max_length,
            max_words=max_words,
        )
        for model, own_tokenizer, other in both
    ]
    return costs if costs[0].words else []


def _read(inputs: "InputFiles", reading: DocumentOptions, held: _HeldOut) -> Iterator[str]:
    """The texts of all files but those held out."""
    from clozeworks.data.files.lines import FileNotes
    from clozeworks.display.progress import ProgressBar
    from clozeworks.jobs.tokenizer import read_texts

    notes = FileNotes()
    with ProgressBar("bytes", "read") as progress:
        texts = read_texts(
            inputs.files,
            columns=reading.column or None,
            header=reading.header,
            file_format=reading.file_format(),
            notes=notes,
            progress=progress,
        )
        for number, text in enumerate(texts, start=1):
            if number % HELD_OUT:
                yield text
            else:
                held.add(text)
    print_notes(notes.sentences())


def _page(
    tokenizer: "Tokenizer",
    extension: "Extension",
    held: Counter[str],
    gaps: "Sequence[ClozeCost]",
) -> Iterator[str]:
    from clozeworks.text.training.extend import measure

    before, after = extension.before, extension.after
    where = "the text itself; too little of it could be held out"
    if held.total() >= ENOUGH:
        before, after = measure(tokenizer, held), measure(extension.tokenizer, held)
        where = f"documents held out, one in {HELD_OUT}"
    rows: list[tuple[str, ...]] = [
        ("", "before", "after"),
        ("tokens per word", f"{before.tokens_per_word:.3f}", f"{after.tokens_per_word:.3f}"),
        ("unknown tokens", f"{before.unknown_share:.3%}", f"{after.unknown_share:.3%}"),
    ]
    if gaps:
        rows.append(("nats per word", *(f"{cost.per_word:.3f}" for cost in gaps)))
        rows.append(("nats per token", *(f"{cost.per_token:.3f}" for cost in gaps)))
    for name, *cells in rows:
        yield f"{name:<15}" + "".join(f"{cell:>10}" for cell in cells)
    yield f"measured on {counted(before.words, 'word')} of {where}"
    if gaps:
        yield (
            f"nats: what {gaps[0].words:,} hidden words cost the model; all pieces of a word are "
            "hidden, and guessed independently of each other"
        )
    shown = [
        # Byte-level pieces are written in an alphabet of their own.
        extension.tokenizer.decode([number]).strip() if tokenizer.kind == "bpe" else piece
        for number, piece in enumerate(extension.pieces[:SHOWN], tokenizer.size)
    ]
    yield "new: " + ", ".join(map(visible, shown)) + (" …" if len(extension.pieces) > SHOWN else "")
