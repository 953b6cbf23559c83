"""`clozeworks exposure`: measure the exposure bias of a model."""

import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

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
    """
    from clozeworks.data.files.vectors import check_output

    if chart is not None:
        check_output(chart, overwrite=overwrite, suffixes=(".png",), name="exposure")
    reading = reading or TextOptions()
    texts = reading.read(source)
    right = reading.read_paired(texts, answers, "answer", answer_column)

    from clozeworks.cli.display.progress import ProgressBar
    from clozeworks.language_model import load

    loaded = load(model)
    with ProgressBar("tokens") as progress:
        found = loaded.exposure(
            texts.texts,
            right,
            given=given,
            length=length,
            greedy=greedy,
            seed=seed,
            progress=progress,
        )
    if as_json:
        record = asdict(found)
        for name in ("positions", "repetition"):
            record[name] = [each._asdict() for each in getattr(found, name)]
        print(
            json.dumps(
                {
                    "teacher_forced": found.teacher_forced,
                    "free_running": found.free_running,
                    **record,
                }
            )
        )
    else:
        _print(found)
    if chart is not None:
        from clozeworks.reports.curves import exposure_chart
        from clozeworks.storage.atomic import atomic_file

        with atomic_file(chart, "wb", overwrite=overwrite) as file:
            file.write(exposure_chart(found))
        print(f"The curves are in {chart}.", file=sys.stderr)


def _print(found: "Exposure") -> None:
    from clozeworks.cli.display.table import aligned

    rows = [("tokens", "texts", "teacher-forced", "free-running", "more")]
    begin = 1
    while begin <= len(found.positions):  # 1, 2, 3-4, 5-8, …
        end = min(max(begin, 2 * (begin - 1)), len(found.positions))
        own = found.positions[begin - 1 : end]
        count = sum(position.texts for position in own)
        forced, free = (
            sum(getattr(position, side) * position.texts for position in own) / count
            for side in ("teacher_forced", "free_running")
        )
        span = str(begin) if begin == end else f"{begin}–{end}"
        texts = f"{own[0].texts:,}"
        rows.append((span, texts, f"{forced:.4f}", f"{free:.4f}", f"{free - forced:+.4f}"))
        begin = end + 1
    more = found.free_running - found.teacher_forced
    rows.append(
        (
            "all",
            f"{found.texts:,}",
            f"{found.teacher_forced:.4f}",
            f"{found.free_running:.4f}",
            f"{more:+.4f}",
        )
    )
    print("Loss in nats a token")
    print("\n".join(aligned(rows)))
    print()
    repeated = [("repeated", "its own", "texts")]
    for each in found.repetition:
        name = "single tokens" if each.n == 1 else f"runs of {each.n}"
        repeated.append((name, f"{each.free_running:.1%}", f"{each.reference:.1%}"))
    print("\n".join(aligned(repeated)))
    print()
    if found.length_ratio is None:
        print("The tokenizer has no token that ends a text, so every text goes on to the limit.")
    else:
        print(
            f"It writes {found.length_ratio:.2f} tokens for each of the texts; "
            f"{counted(found.ended, 'text')} of {found.texts:,} ended before the limit."
        )
    if found.skipped:
        print(f"{counted(found.skipped, 'text')} too short, left out.", file=sys.stderr)
