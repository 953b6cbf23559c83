"""`clozeworks embed`: turn texts into vectors."""

import sys
import time
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import TextOptions, check_minimum
from clozeworks.wording import counted

app = App(name="clozeworks embed", help_format="plaintext", version_flags=[])


@app.default
def embed(
    model: str,
    source: str,
    /,
    *,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    prompt: str | None = None,
    pooling: str | None = None,
    normalize: bool | None = None,
    max_length: int | None = None,
    truncate: Annotated[bool, Parameter(negative="")] = False,
    batch_tokens: int | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    reading: TextOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Turn texts into vectors.

    Args:
        model: A model folder or hub name.
        source: A text, a file (.txt with one text per line, .csv, .tsv, .json, .jsonl, .parquet;
            compressed or not), or - for the lines of standard input.
        out: The output file: .npy, .jsonl or .parquet. Without it, vectors are printed as JSON
            lines.
        prompt: A prefix for each text: the name of a prompt in the model folder, or any other text;
            "" for none. Defaults to the default prompt of the folder, if it names one.
        pooling: first, mean, max, mean_sqrt_length, weighted_mean, last; several separated by
            commas. Defaults to what the model folder says, or else mean (last for a decoder).
        normalize: Scale vectors to length 1. Defaults to what the model folder says.
        max_length: The maximum number of tokens per text. Defaults to the model's limit.
        truncate: Truncate longer texts instead of refusing them.
        batch_tokens: Tokens per batch.
        overwrite: Replace the output file if it exists.
        reading: How texts are read.
        computing: Where the model computes.
    """
    from clozeworks.data.files.vectors import (
        VECTOR_SUFFIXES,
        check_output,
        write_jsonl,
        write_vectors,
    )

    check_minimum(1, batch_tokens=batch_tokens)
    if out is not None:
        check_output(out, overwrite=overwrite, suffixes=VECTOR_SUFFIXES)
    texts = (reading or TextOptions()).read(source)

    from clozeworks.display.progress import ProgressBar

    loaded = (computing or ComputingOptions()).load(model)
    modes = None if pooling is None else [mode.strip() for mode in pooling.split(",")]
    begin = time.monotonic()
    with ProgressBar("tokens") as progress:
        vectors = loaded.embed(
            texts.texts,
            prompt=prompt,
            pooling=modes,
            normalize=normalize,
            max_length=max_length,
            truncate=truncate,
            batch_tokens=batch_tokens,
            source_locations=texts.source_locations,
            progress=progress,
        )
    seconds = time.monotonic() - begin
    if out is None:
        write_jsonl(sys.stdout.buffer, vectors, texts.texts)
        sys.stdout.flush()
    else:
        write_vectors(out, vectors, texts.texts, overwrite=overwrite)
    how = str(loaded.pooling) if modes is None else f"{' + '.join(modes)} pooling (as asked)"
    if normalize is not None:
        how += "; scaled to length 1 (as asked)" if normalize else "; not scaled (as asked)"
    print(f"Pooling: {how}.", file=sys.stderr)
    if before := loaded.prompts.find(prompt):
        print(f"Prompt: {before}.", file=sys.stderr)
    skipped = f" ({counted(texts.skipped, 'blank one')} left out)" if texts.skipped else ""
    print(
        f"{counted(len(vectors), 'text')}{skipped} in {seconds:.1f} s; "
        f"vectors of width {vectors.shape[1]:,}" + (f" in {out}" if out else ""),
        file=sys.stderr,
    )
    if out is not None and out.suffix == ".npy":
        print(f"Read them with: numpy.load({str(out)!r})", file=sys.stderr)
