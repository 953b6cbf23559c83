"""`clozeworks exposure`: measure the exposure bias of a model."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import TextOptions
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.inference.exposure import Exposure

app = App(name="clozeworks exposure", help_format="plaintext", version_flags=[])


@app.default
def exposure(
    model: str,
    source: str,
    /,
    *,
    answers: str | None = None,
    answer_column: str | None = None,
    given: int = 16,
    length: int = 64,
    greedy: Annotated[bool, Parameter(negative="")] = False,
    seed: int = 0,
    chart: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    as_json: Annotated[bool, Parameter(name="--json", negative="")] = False,
    reading: TextOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Measure exposure bias: the loss after correct tokens against that after the model's own.

    Both are measured position by position on the same texts. Also printed: how much the model
    repeats itself, and how long its texts are, compared with the given ones.

    Args:
        model: A model folder or hub name of a decoder or encoder-decoder with its head.
        source: A file of texts (.txt with one text per line, .csv, .tsv, .json, .jsonl, .parquet;
            compressed or not), a text, or - for the lines of standard input.
        answers: For an encoder-decoder, the answers to the texts: a file with as many.
        answer_column: The column of the answers, whose file may be that of the texts.
        given: The number of tokens of each text that a decoder is given before it continues.
        length: The number of tokens that are compared.
        greedy: Let the model choose its most likely tokens instead of sampling.
        seed: The seed for sampling.
        chart: Draw both curves to this file (.png).
        overwrite: Replace the chart if it exists.
        as_json: Print one JSON object instead of tables.
        reading: How texts are read.
        computing: Where the model computes.
    """
    from clozeworks.data.files.vectors import check_output

    if chart is not None:
        check_output(chart, overwrite=overwrite, suffixes=(".png",), name="exposure")
    reading = reading or TextOptions()
    texts = reading.read(source)
    right = reading.read_paired(texts, answers, "answer", answer_column)

    from clozeworks.display.progress import ProgressBar

    loaded = (computing or ComputingOptions()).load(model)
    with ProgressBar("tokens") as progress:
        result = loaded.exposure(
            texts.texts,
            right,
            given=given,
            length=length,
            greedy=greedy,
            seed=seed,
            progress=progress,
        )
    if as_json:
        means = {name: getattr(result, name) for name in ("teacher_forced", "free_running")}
        record = means | asdict(result)
        for name in ("positions", "repetition"):
            record[name] = [each._asdict() for each in getattr(result, name)]
        print(json.dumps(record))
    else:
        _print(result)
    if chart is not None:
        from clozeworks.reports.curves import exposure_chart
        from clozeworks.storage.atomic import atomic_file

        with atomic_file(chart, "wb", overwrite=overwrite) as file:
            file.write(exposure_chart(result))
        print(f"The curves are in {chart}.", file=sys.stderr)


def _print(result: "Exposure") -> None:
    from clozeworks.display.table import aligned

    rows: list[tuple[str, ...]] = [("tokens", "texts", "teacher-forced", "free-running", "more")]
    begin = 1
    while begin <= len(result.positions):  # 1, 2, 3-4, 5-8, …
        end = min(max(begin, 2 * (begin - 1)), len(result.positions))
        positions = result.positions[begin - 1 : end]
        count = sum(position.texts for position in positions)
        forced, free = (
            sum(getattr(position, side) * position.texts for position in positions) / count
            for side in ("teacher_forced", "free_running")
        )
        span = str(begin) if begin == end else f"{begin}–{end}"
        rows.append(_row(span, positions[0].texts, forced, free))
        begin = end + 1
    rows.append(_row("all", result.texts, result.teacher_forced, result.free_running))
    print("Loss in nats a token")
    print("\n".join(aligned(rows)))
    print()
    repeated = [("repeated", "its own", "texts")]
    for each in result.repetition:
        name = "single tokens" if each.n == 1 else f"runs of {each.n}"
        repeated.append((name, f"{each.free_running:.1%}", f"{each.reference:.1%}"))
    print("\n".join(aligned(repeated)))
    print()
    if result.length_ratio is None:
        print("The tokenizer has no token that ends a text, so every text goes on to the limit.")
    else:
        print(
            f"It writes {result.length_ratio:.2f} tokens for each of the texts; "
            f"{counted(result.ended, 'text')} of {result.texts:,} ended before the limit."
        )
    if result.skipped:
        print(f"{counted(result.skipped, 'text')} too short, left out.", file=sys.stderr)


def _row(span: str, texts: int, forced: float, free: float) -> tuple[str, ...]:
    return span, f"{texts:,}", f"{forced:.4f}", f"{free:.4f}", f"{free - forced:+.4f}"
