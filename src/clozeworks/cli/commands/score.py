"""`clozeworks score`: measure how likely texts are."""

import sys
from collections.abc import Iterable, Sequence
from math import fsum, isfinite
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import OpenTexts, TextOptions, check_minimum, print_notes
from clozeworks.cli.outputs import report_unread
from clozeworks.wording import as_json, counted

if TYPE_CHECKING:
    from clozeworks.data.files.texts import Texts
    from clozeworks.inference.likelihood import Scored

app = App(name="clozeworks score", help_format="plaintext", version_flags=[])


@app.default
def score(
    model: str,
    source: str,
    /,
    *,
    continuations: str | None = None,
    continuation_column: str | None = None,
    max_length: int | None = None,
    overlap: int | None = None,
    batch_tokens: int | None = None,
    json_lines: Annotated[bool, Parameter(name="--json", negative="")] = False,
    reading: TextOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Measure how likely texts are under a model, or how likely continuations are.

    Prints the perplexity, the number of tokens and the text; then the perplexity over all tokens.
    Texts that are longer than the model's limit are read through overlapping windows.

    Args:
        model: A model folder or hub name of a decoder or encoder-decoder with its head; or the
            address of a server, http://HOST:PORT, with #NAME for one of its models.
        source: A text, a file (.txt with one text per line, .csv, .tsv, .json, .jsonl, .parquet;
            compressed or not), or - for the lines of standard input.
        continuations: The texts to score, each after one of the texts: a text, or a file with as
            many. For an encoder-decoder, the answers.
        continuation_column: The column of the continuations, whose file may be that of the texts.
        max_length: The maximum number of tokens per window. Defaults to the model's limit.
        overlap: The minimum number of tokens of context in each later window. Defaults to half a
            window.
        batch_tokens: Tokens per batch.
        json_lines: Print one JSON object per text, with the log probability of every token.
        reading: How texts are read.
        computing: Where the model computes.
    """
    check_minimum(1, batch_tokens=batch_tokens)
    reading = reading or TextOptions()
    pairs: Iterable[tuple[Texts, list[str] | None]]
    if continuations is None and continuation_column is None:
        texts = reading.open(source)
        pairs = ((chunk, None) for chunk in texts.chunks)
    else:  # texts and continuations belong together, so both are read first
        whole = reading.read(source)
        following = reading.read_paired(whole, continuations, "continuation", continuation_column)
        texts = OpenTexts(whole.origin, iter(()), len(whole))
        pairs = [(whole, following)]

    from clozeworks.cli.predict import TokenProgress
    from clozeworks.display.progress import ProgressBar
    from clozeworks.inference.likelihood import perplexity_of

    loaded = (computing or ComputingOptions()).open(model)
    number = count = long = 0
    total = 0.0
    unread: list[int] = []  # only those that are not 0
    with ProgressBar("tokens") as progress:
        tokens = TokenProgress(progress, lambda: number / texts.total if texts.total else None)
        for chunk, following in pairs:
            number += len(chunk)
            scores = loaded.score(
                chunk.texts,
                following,
                max_length=max_length,
                overlap=overlap,
                batch_tokens=batch_tokens,
                source_locations=chunk.source_locations,
                progress=tokens,
            )
            tokens.next_chunk()
            continued: Sequence[str | None] = following or [None] * len(scores)
            for text, continuation, scored in zip(chunk.texts, continued, scores, strict=True):
                _print(text, continuation, scored, json_lines)
            sys.stdout.flush()
            count += sum(each.count for each in scores)
            total += fsum(each.total for each in scores)
            long += sum(each.windows > 1 for each in scores)
            unread += filter(None, (each.unread for each in scores))
    print_notes(texts.late_notes())
    if any(unread):
        from clozeworks.serve.client.remote_model import RemoteModel

        known = loaded.described("score") if isinstance(loaded, RemoteModel) else loaded
        report_unread(unread, max_length or known.max_length)
    windows = f"; {counted(long, 'text')} read through several windows" if long else ""
    print(
        f"{counted(number, 'text')}, {counted(count, 'token')}: perplexity "
        f"{perplexity_of(total, count):,.2f}, {-total / count:.4f} nats a token{windows}.",
        file=sys.stderr,
    )


def _print(text: str, continuation: str | None, scored: "Scored", json_lines: bool) -> None:
    if not json_lines:
        from clozeworks.display.highlight import shortened

        shown = text if continuation is None else f"{text} | {continuation}"
        print(f"{scored.perplexity:12,.2f}  {scored.count:6,}  {shortened(shown, 60)}")
        return
    record: dict[str, Any] = {"text": text}
    if continuation is not None:
        record["continuation"] = continuation
    value = scored.perplexity
    record |= {
        "total": scored.total,
        "count": scored.count,
        "perplexity": value if isfinite(value) else None,
        "tokens": scored.tokens,
        "logprobs": scored.logprobs,
        "windows": scored.windows,
    }
    if continuation is not None:
        record["unread"] = scored.unread
    print(as_json(record))
