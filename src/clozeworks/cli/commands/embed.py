"""`clozeworks embed`: turn texts into vectors."""

import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import OpenTexts, TextOptions, check_minimum, print_notes
from clozeworks.cli.outputs import (
    CHECKED,
    check_resume,
    check_same_model,
    open_output,
    other_input,
    partial_file,
    uninterrupted,
)
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.checkpoints.sentence import Prompts
    from clozeworks.data.files.texts import Texts
    from clozeworks.data.files.vectors import VectorWriter
    from clozeworks.inference.embed import Vectors
    from clozeworks.language_model.model import LanguageModel
    from clozeworks.serve.client.remote_model import RemoteModel

app = App(name="clozeworks embed", help_format="plaintext", version_flags=[])
# Vectors that are written before a signal is heeded.
_ROWS = 256


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
    truncate_dim: int | None = None,
    max_length: int | None = None,
    truncate: Annotated[bool, Parameter(negative="")] = False,
    batch_tokens: int | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    resume: Annotated[bool, Parameter(negative="")] = False,
    reading: TextOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Turn texts into vectors.

    Args:
        model: A model folder or hub name; or the address of a server, http://HOST:PORT, with #NAME
            for one of its models.
        source: A text, a file (.txt with one text per line, .csv, .tsv, .json, .jsonl, .parquet;
            compressed or not), or - for the lines of standard input.
        out: The output file: .npy, .jsonl or .parquet; it appears when it is complete. What is done
            when you stop is kept in NAME.partial.npy. Without it, vectors are printed as JSON
            lines.
        prompt: A prefix for each text: the name of a prompt in the model folder, or any other text;
            "" for none. Defaults to the default prompt of the folder, if it names one.
        pooling: first, mean, max, mean_sqrt_length, weighted_mean, last; several separated by
            commas. Defaults to what the model folder says, or else mean (last for a decoder).
            Steps that follow the folder's own pooling, such as a dense layer, are then left out.
        normalize: Scale vectors to length 1. Defaults to what the model folder says.
        truncate_dim: Keep so many dimensions, the first ones, before vectors are scaled; for models
            that were trained for it (Matryoshka).
        max_length: The maximum number of tokens per text. Defaults to the model's limit.
        truncate: Truncate longer texts instead of refusing them.
        batch_tokens: Tokens per batch.
        overwrite: Replace the output file if it exists.
        resume: Go on where you stopped: vectors of NAME.partial.npy are taken over.
        reading: How texts are read.
        computing: Where the model computes.
    """
    from clozeworks.data.files.vectors import VECTOR_SUFFIXES, check_output

    check_minimum(1, batch_tokens=batch_tokens, truncate_dim=truncate_dim)
    if out is not None:
        check_output(out, overwrite=overwrite, suffixes=VECTOR_SUFFIXES)
    if resume:
        check_resume(out)
    texts = (reading or TextOptions()).open(source)
    loaded = (computing or ComputingOptions()).open(model)
    modes = None if pooling is None else [mode.strip() for mode in pooling.split(",")]
    work = _Work(loaded, texts, out, overwrite, resume)
    work.run(
        prompt=prompt,
        pooling=modes,
        normalize=normalize,
        truncate_dim=truncate_dim,
        max_length=max_length,
        truncate=truncate,
        batch_tokens=batch_tokens,
    )
    print_notes(texts.late_notes())
    pooled, prompts = _stated(loaded)
    how = pooled if modes is None else f"{' + '.join(modes)} pooling (as asked)"
    if normalize is not None:
        how += "; scaled to length 1 (as asked)" if normalize else "; not scaled (as asked)"
    if truncate_dim is not None:
        how += f"; the first {truncate_dim:,} dimensions (as asked)"
    print(f"Pooling: {how}.", file=sys.stderr)
    if before := prompts.find(prompt):
        print(f"Prompt: {before}.", file=sys.stderr)
    print(work.closing(), file=sys.stderr)
    if out is not None and out.suffix == ".npy":
        print(f"Read them with: numpy.load({str(out)!r})", file=sys.stderr)


def _stated(loaded: "LanguageModel | RemoteModel") -> "tuple[str, Prompts]":
    """The pooling of a model in words, and its prompts."""
    from clozeworks.checkpoints.sentence import Prompts
    from clozeworks.serve.client.remote_model import RemoteModel

    if not isinstance(loaded, RemoteModel):
        return str(loaded.pooling), loaded.prompts
    described = loaded.described("embed")
    return described.pooling, Prompts(described.prompts, described.default_prompt)


class _Work:
    """Embeds texts chunk by chunk; each chunk is written before the next is read."""

    def __init__(
        self,
        loaded: "LanguageModel | RemoteModel",
        texts: OpenTexts,
        out: Path | None,
        overwrite: bool,
        resume: bool,
    ) -> None:
        self.loaded = loaded
        self.texts = texts
        self.out = out
        self.overwrite = overwrite
        self.resume = resume
        self.count = 0
        self.before = 0
        self.read = 0
        self.width = 0
        self.begin = time.monotonic()

    def run(self, **how: Any) -> None:
        """Embeds and writes everything; whoever stops it keeps the vectors that are written."""
        from clozeworks.cli.predict import TokenProgress
        from clozeworks.data.files.vectors import vectors_into
        from clozeworks.display.progress import ProgressBar

        suffix = ".jsonl" if self.out is None else self.out.suffix.lower()
        opened = open_output(
            self.out,
            "vectors",
            self.done,
            mode="wb",
            overwrite=self.overwrite,
            errors=True,
            resumed=self.resume,
        )
        with (
            opened as file,
            vectors_into(file, suffix) as writer,
            ProgressBar("tokens") as progress,
        ):
            tokens = TokenProgress(progress, self.fraction_read)
            earlier = self._earlier()
            for chunk in self.texts.chunks:
                self.read += len(chunk)
                known = self._take_over(chunk, earlier, writer, how)
                texts, locations = chunk.texts[known:], chunk.source_locations[known:]
                if not texts:
                    continue
                vectors = self.loaded.embed(
                    texts, source_locations=locations, progress=tokens, **how
                )
                tokens.next_chunk()
                for start in range(0, len(texts), _ROWS):
                    rows = slice(start, start + _ROWS)
                    with uninterrupted():  # a vector that is written is counted
                        writer.write(texts[rows], vectors[rows])
                        self.count += len(texts[rows])
                file.flush()
            self.width = writer.width or 0

    def _earlier(self) -> "Iterator[tuple[str | None, Vectors]]":
        """The texts and vectors that are there already."""
        from clozeworks.data.files.vectors import read_vectors

        return (
            iter(())
            if self.out is None or not self.resume
            else read_vectors(partial_file(self.out))
        )

    def _take_over(
        self,
        chunk: "Texts",
        earlier: "Iterator[tuple[str | None, Vectors]]",
        writer: "VectorWriter",
        how: "Mapping[str, Any]",
    ) -> int:
        """Writes the vectors of a chunk that are there already; returns how many."""
        known = list(islice(earlier, len(chunk)))
        for number, (text, _) in enumerate(known):
            if text not in (None, chunk.texts[number]):
                assert self.out is not None
                location = chunk.source_locations[number]
                raise other_input(self.out, self.before + number + 1, location)
        if known and not self.before:
            self._check_model(chunk, [vector for _, vector in known[:CHECKED]], how)
        if known:
            import numpy as np

            writer.write(chunk.texts[: len(known)], np.stack([vector for _, vector in known]))
        self.before += len(known)
        return len(known)

    def _check_model(
        self, chunk: "Texts", vectors: "Sequence[Vectors]", how: "Mapping[str, Any]"
    ) -> None:
        """Computes the first vectors again, to see that they are those of this model."""
        import numpy as np

        from clozeworks.cli.predict import is_exact

        assert self.out is not None
        count = len(vectors)
        close = 1e-3 if is_exact(self.loaded) else 0.05
        now = self.loaded.embed(
            chunk.texts[:count], source_locations=chunk.source_locations[:count], **how
        )
        same = [
            old.shape == new.shape
            and bool(np.linalg.norm(old - new) <= close * np.linalg.norm(new))
            for old, new in zip(vectors, now, strict=True)
        ]
        check_same_model(self.out, same, self.loaded.name)

    def fraction_read(self) -> float | None:
        """The fraction of the texts that has been read, if it is known how many there are."""
        return self.read / self.texts.total if self.texts.total else None

    def done(self) -> str:
        """How many vectors were written, of how many; empty before the first."""
        return self._pace(self.texts.total) if self.count else ""

    def closing(self) -> str:
        """The last line: how many, how fast, where they are."""
        where = f" in {self.out}" if self.out else ""
        return f"{self._pace(None)}; vectors of width {self.width:,}{where}"

    def _pace(self, total: int | None) -> str:
        skipped = self.texts.skipped
        left_out = f" ({counted(skipped, 'blank one')} left out)" if skipped else ""
        amount = counted(self.before + self.count, "text")
        if total is not None:
            amount = f"{self.before + self.count:,} of {counted(total, 'text')}"
        now = f", {self.count:,} of them now," if self.before else ""
        return f"{amount}{left_out}{now} in {time.monotonic() - self.begin:.1f} s"
