"""`clozeworks tokenizer`: train a tokenizer, extend one, or look into one."""

import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

from cyclopts import App, Parameter

from clozeworks.cli.commands.tokenizer_extend import extend
from clozeworks.cli.display.table import filled
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.text.tokenizer.styles import Style, StyleKind

app = App(
    name="clozeworks tokenizer",
    help="Train a tokenizer, extend one, or look into one.",
    help_format="plaintext",
    version_flags=[],
)


@app.command
def train(
    *files: str,
    out: Annotated[Path, Parameter(alias="-o")],
    kind: Literal["wordpiece", "bpe", "unigram"] | None = None,
    family: str | None = None,
    size: int = 30000,
    min_frequency: int = 2,
    cased: Annotated[bool, Parameter(negative="")] = False,
    extra: Annotated[list[str] | None, Parameter(negative="")] = None,
    column: Annotated[list[str] | None, Parameter(negative="")] = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Train a tokenizer from text files, the same that a corpus is built from.

    Args:
        files: Files, folders or globs: .txt, .csv, .tsv, .jsonl, .parquet, compressed or not;
            .json files must be named.
        out: The folder to make.
        kind: wordpiece (BERT), bpe (byte-level, RoBERTa and GPT) or unigram (ALBERT, T5);
            wordpiece if nothing else says it.
        family: Write texts as this family does, such as xlnet, t5, gpt2 or llama; it decides the
            kind and the special tokens.
        size: Entries of the vocabulary.
        min_frequency: How often a piece must occur.
        cased: Keep upper and lower case apart (WordPiece; byte-level and unigram always do).
        extra: A further special token, such as [NLU]; may be given several times.
        column: The column or field that holds the text, by name or number. If not given: "text", or
            the only column of strings.
        header: Whether the first row of .csv and .tsv files is a header; it is if not given.
        encoding: The encoding of text files.
        overwrite: Replace the folder if it holds something.
    """
    from clozeworks.checkpoints.whole_folder import check_target, fresh_folder
    from clozeworks.cli.display.progress import ProgressBar
    from clozeworks.errors import InputError, SettingError
    from clozeworks.jobs.tokenizer import train_tokenizer
    from clozeworks.text.tokenizer.styles import WordPieceStyle

    if not files:
        raise InputError("no file was named; give files, folders or globs with text.")
    style = _style(kind, family)
    if cased and style.kind != "wordpiece":
        raise SettingError(
            f"--cased has no effect on {style.kind}, which keeps case; leave it out."
        )
    if isinstance(style, WordPieceStyle):
        style = replace(style, lowercase=not cased)
    if extra:
        _check_extra(extra, style)
        special = replace(style.special, extra=(*style.special.extra, *extra))
        style = replace(style, special=special)
    check_target(out, overwrite=overwrite)
    begin = time.monotonic()
    with ProgressBar("bytes") as progress:
        tokenizer = train_tokenizer(
            files,
            kind=cast("StyleKind", style.kind),
            size=size,
            style=style,
            min_frequency=min_frequency,
            columns=column,
            header=header,
            encoding=encoding,
            progress=progress.staged,
        )
    with fresh_folder(out, overwrite=overwrite) as place:
        tokenizer.save(place)
    seconds = time.monotonic() - begin
    print(f"{out}: {tokenizer.kind}, {tokenizer.size:,} entries, trained in {seconds:.1f} s.")
    if tokenizer.size < size:
        print(f"The text has no more than {tokenizer.size:,} pieces that occur often enough.")
    print(f'Try it with: clozeworks tokenizer inspect {out} "a text of yours"')


def _style(kind: "StyleKind | None", family: str | None) -> "Style":
    """How texts are written: as a family does, or as is usual for a kind."""
    from clozeworks.errors import SettingError, UnknownName
    from clozeworks.text.training.train import STYLES

    if family is None:
        return STYLES[kind or "wordpiece"]()
    from clozeworks.families.family import families

    known = families()
    if family not in known:
        raise UnknownName("--family", family, known)
    style = known[family].style
    if kind is not None and kind != style.kind:
        raise SettingError(
            f"--kind is {kind} and --family is {family}, whose tokenizers are {style.kind}; leave "
            "one of them out."
        )
    return style


def _check_extra(extra: list[str], style: "Style") -> None:
    """Complains about names that are none, or are taken."""
    from clozeworks.errors import SettingError

    for place, name in enumerate(extra):
        if not name.strip():
            raise SettingError(f"--extra is {name!r}; a token needs a name; leave it out.")
        if name in style.special.names() or name in extra[:place]:
            raise SettingError(f"--extra is {name!r}, which is there already; leave it out.")


@app.command(name="bytes")
def byte_tokens(
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Make the tokenizer of ByT5, whose tokens are the bytes of a text; nothing is learned.

    Args:
        out: The folder to make.
        overwrite: Replace the folder if it holds something.
    """
    from clozeworks.checkpoints.whole_folder import check_target, fresh_folder
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    check_target(out, overwrite=overwrite)
    tokenizer = Tokenizer.of_bytes()
    with fresh_folder(out, overwrite=overwrite) as place:
        tokenizer.save(place)
    print(f"{out}: {tokenizer.size:,} entries, one for each byte and the special ones.")


@app.command
def inspect(folder: str, text: str | None = None, /) -> None:
    """Look into a tokenizer: what it is, and how it cuts a text.

    Args:
        folder: The folder of a tokenizer or a model, or a hub name.
        text: A text to cut.
    """
    from clozeworks.checkpoints.hub import resolve
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    tokenizer = Tokenizer.load(resolve(folder))
    special = tokenizer.special
    print(f"kind         {tokenizer.kind}")
    print(f"entries      {tokenizer.size:,}")
    for name in ("pad", "unknown", "mask", "first", "last"):
        token = getattr(special, name)
        print(f"{name:<12} " + (f"{token} = {tokenizer.id_of(token)}" if token else "none"))
    limit = f"{tokenizer.max_length:,} tokens" if tokenizer.max_length else "none stated"
    print(f"limit        {limit}")
    print(f"fingerprint  {tokenizer.fingerprint}")
    if text is None:
        return
    item = tokenizer.encode([text], offsets=True)[0]
    assert item.offsets is not None and item.words is not None
    print(f"\n{counted(len(item), 'token')}, {sum(item.special):,} of them added:")
    for token_id, (begin, end), word in zip(item.ids, item.offsets, item.words, strict=True):
        place = (
            "" if word is None else f"word {word:<4} characters {begin} to {end}: {text[begin:end]}"
        )
        print(f"  {token_id:>7}  {filled(tokenizer.token_of(token_id), 18)} {place}".rstrip())


app.command(extend)
