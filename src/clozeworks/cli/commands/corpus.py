"""`clozeworks corpus`: raw text to tokens on disk, and the batch that a step will see."""

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from clozeworks.cli.inputs import DocumentOptions, check_minimum, print_notes
from clozeworks.errors import InputError, SettingError
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.data.corpus.build import BuildResult

MAX_STEPS = 2**40
app = App(
    name="clozeworks corpus",
    help="Turn raw text into a corpus to train on, and inspect it.",
    help_format="plaintext",
    version_flags=[],
)


@app.command
def build(
    *inputs: Annotated[str, Parameter(required=True)],
    tokenizer: str,
    out: Annotated[Path, Parameter(alias="-o")],
    documents: Literal["blank-line", "file", "line"] = "blank-line",
    sentences: Literal["split", "wrapped", "lines", "whole"] = "split",
    words: str | None = None,
    validation: float = 0.01,
    keep_duplicates: Annotated[bool, Parameter(negative="")] = False,
    skip_bad_files: Annotated[bool, Parameter(negative="")] = False,
    workers: int | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    reading: DocumentOptions | None = None,
) -> None:
    """Build a corpus from text files. An interrupted build continues where it stopped.

    Args:
        inputs: Files, folders or globs: .txt, .csv, .tsv, .jsonl, .parquet, compressed or not;
            .json files must be named.
        tokenizer: A tokenizer or model folder.
        out: The corpus folder.
        documents: What a document is in a .txt file: the text between blank lines, the whole file,
            or a line.
        sentences: split finds sentences in English and Chinese text, and ends one at each line
            break; wrapped does not, for text that is wrapped at some column; lines takes each line
            as a sentence; whole keeps a document as it is, with its line breaks, for models that
            generate text.
        words: A segmenter for whole words in Chinese: jieba. Without it, each character is a word.
        validation: The fraction of documents that is held out.
        keep_duplicates: Keep documents that occurred before.
        skip_bad_files: Skip the rest of a file that cannot be read, with a message.
        workers: The number of processes. Defaults to the number of cores.
        overwrite: Replace an existing corpus.
        reading: How documents are read.
    """
    from clozeworks.data.corpus.build import BuildSettings, build_corpus
    from clozeworks.display.progress import ProgressBar
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    check_minimum(1, workers=workers)
    reading = reading or DocumentOptions()
    settings = BuildSettings(
        documents=documents,
        columns=reading.column,
        header=reading.header,
        sentences=sentences,
        words=words,
        validation=validation,
        keep_duplicates=keep_duplicates,
        skip_bad_files=skip_bad_files,
        **reading.given(),
    )
    begin = time.monotonic()
    try:
        with ProgressBar("bytes") as progress:
            built = build_corpus(
                inputs,
                out,
                Tokenizer.load(tokenizer),
                settings,
                workers=workers,
                overwrite=overwrite,
                progress=progress,
            )
    except (KeyboardInterrupt, SystemExit) as stop:
        stop.add_note("Run the same command again to go on.")
        raise
    _report(built, out, time.monotonic() - begin)


def _report(built: "BuildResult", out: Path, seconds: float) -> None:
    from clozeworks.data.files.discovery import TOKENIZER_FILES
    from clozeworks.display.corpus_page import counts

    print_notes(built.notes)
    for sentence in built.skipped:
        print(f"Skipped: {sentence}", file=sys.stderr)
    if built.ignored:
        # First those that somebody might have meant to be read.
        ignored = sorted(built.ignored, key=lambda path: path.name not in TOKENIZER_FILES)
        names = ", ".join(path.name for path in ignored[:3])
        more = " …" if len(built.ignored) > 3 else ""
        print(f"Files of other kinds were left alone: {names}{more}", file=sys.stderr)
    if built.resumed:
        left = counted(built.resumed, "shard was", "shards were")
        print(f"{left} left by an earlier run.", file=sys.stderr)
    tokens = sum(split["tokens"] for split in built.corpus.manifest["splits"].values())
    print(counts(built.corpus.manifest))
    if built.unchanged:
        print("It exists already, built from files of these names and sizes; nothing was done.")
    else:
        rate = "" if built.resumed else f" ({tokens / max(seconds, 1e-9):,.0f} a second)"
        print(f"{counted(tokens, 'token')} in {seconds:.1f} s{rate}")
    print(f"Look into it: clozeworks corpus show {shlex.quote(str(out))}")


@app.command
def show(
    corpus: Path,
    /,
    *,
    samples: int = 3,
    seed: int = 0,
) -> None:
    """Print what a corpus holds: counts, lengths, unknown tokens, samples.

    Args:
        corpus: The corpus folder.
        samples: The number of sentences shown from each split.
        seed: The seed by which they are chosen.
    """
    from clozeworks.data.corpus.corpus import Corpus
    from clozeworks.display.corpus_page import page

    check_minimum(0, samples=samples)
    print(page(Corpus.open(corpus), samples, seed))


@app.command
def verify(corpus: Path, /) -> None:
    """Check every byte of a corpus against its manifest.

    Args:
        corpus: The corpus folder.
    """
    from clozeworks.data.corpus.corpus import Corpus
    from clozeworks.data.corpus.verify import verify as check
    from clozeworks.display.progress import ProgressBar

    opened = Corpus.open(corpus)
    with ProgressBar("bytes") as progress:
        wrong = check(opened, progress)
    if wrong:
        rest = counted(len(wrong) - 3, "more is wrong", "more are wrong")
        more = f" {rest}." if len(wrong) > 3 else ""
        raise InputError(
            " ".join(wrong[:3]) + more + " Build the corpus again from the raw text with "
            "--overwrite."
        )
    count = sum(len(split["shards"]) for split in opened.manifest["splits"].values())
    shards = "1 shard is" if count == 1 else f"All {count:,} shards are"
    print(f"{corpus}: {shards} as the manifest says.")


@app.command
def batch(
    corpus: Path,
    /,
    *,
    objective: str = "bert",
    step: int = 0,
    length: int | None = None,
    tokens: int = 4096,
    seed: int = 0,
    split: str = "train",
    rank: int = 0,
    ranks: int = 1,
    show: int = 3,
) -> None:
    """Print the batch that a given training step will see.

    Args:
        corpus: The corpus folder.
        objective: What is learned: bert, roberta, t5, gpt2 or another paper's, or a table as in a
            recipe: {kind = "masked_lm", examples = {kind = "blocks", length = 64}}.
        step: The step, counted from 0.
        length: The maximum number of tokens per example. Defaults to that of the paper.
        tokens: The number of tokens per step.
        seed: The seed of the run.
        split: train or validation.
        rank: The process whose share is shown, if there are several.
        ranks: The number of processes that share a step.
        show: The number of examples printed.
    """
    from clozeworks.data.corpus.corpus import INDEX_FOLDER, Corpus
    from clozeworks.data.examples.loader import Loader
    from clozeworks.display.corpus_batch import lines
    from clozeworks.objectives.batch import Vocabularies
    from clozeworks.objectives.published import written
    from clozeworks.spec import PositiveInt, check

    check_minimum(0, step=step, show=show)
    check("--tokens", tokens, PositiveInt)
    if step >= MAX_STEPS:
        raise SettingError("--step", step, f"it must be below {MAX_STEPS:,}")
    opened = Corpus.open(corpus)
    part = opened.split(split)
    chosen = written(objective, length)
    examples = chosen.chosen_examples().arrange(
        part, opened.tokenizer, seed, opened.folder / INDEX_FOLDER
    )
    source = Vocabularies.of(opened.tokenizer, part)
    loader = Loader(
        examples,
        lambda clean: (clean, chosen.batch(clean, seed, source)),
        seed=seed,
        batch_tokens=tokens,
        rank=rank,
        ranks=ranks,
        workers=0,
    )
    clean, masked = loader.batch(step)
    targets = ", ".join(f"{name} {number:,}" for name, number in masked.counts().items())
    named = " + ".join(chosen.loss_names) if objective.lstrip().startswith("{") else objective
    print(
        f"step {step:,} of {named}, epoch {loader.epoch_of(step):,.2f}: "
        f"{counted(len(clean) // masked.views, 'example')}, {counted(len(masked.ids), 'token')}; "
        f"asked: {targets}"
    )
    if ranks > 1:
        print(f"rank {rank} of {ranks}")
    print()
    # With one document, which of two texts is a random one cannot be told by it.
    known = examples if part.documents > 1 else None
    for line in lines(clean, masked, opened.tokenizer, show, known):
        print(line)
