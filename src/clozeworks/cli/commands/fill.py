"""`clozeworks fill`: fill in the words missing from a text."""

import sys
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import TextOptions, check_unused, print_notes
from clozeworks.wording import as_json

if TYPE_CHECKING:
    from clozeworks.inference.fill import Filled

app = App(name="clozeworks fill", help_format="plaintext", version_flags=[])


@app.default
def fill(
    model: str,
    source: str,
    /,
    *more: str,
    top: Annotated[int, Parameter(alias="-k")] = 5,
    words: str | None = None,
    json_lines: Annotated[bool, Parameter(name="--json", negative="")] = False,
    reading: TextOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Fill in the words missing from a text.

    Args:
        model: A model folder or hub name with a masked-language-model head, or an encoder-decoder
            such as T5, which writes any number of words into a gap; or the address of a server,
            http://HOST:PORT, with #NAME for one of its models.
        source: A text with [MASK], or the model's own mask token or sentinels, at every gap; a file
            of such texts (.txt with one text per line, .csv, .tsv, .json, .jsonl, .parquet;
            compressed or not); or - for the lines of standard input.
        more: Further texts.
        top: The number of guesses per gap.
        words: Rank only these words, separated by commas; not for encoder-decoders.
        json_lines: Print one JSON object per text.
        reading: How texts are read from a file.
        computing: Where the model computes.
    """
    reading = reading or TextOptions()
    if more:
        check_unused("the inputs are several texts, not a file", reading)
    opened = None if more else reading.open(source)
    allowed = None if words is None else [word.strip() for word in words.split(",") if word.strip()]
    loaded = (computing or ComputingOptions()).open(model)
    if opened is None:
        _print(loaded.fill([source, *more], top=top, words=allowed), json_lines)
        return
    for chunk in opened.chunks:
        locations = chunk.source_locations
        filled = loaded.fill(chunk.texts, top=top, words=allowed, source_locations=locations)
        _print(filled, json_lines)
    print_notes(opened.late_notes())


def _print(several: "Sequence[Filled]", json_lines: bool) -> None:
    for filled in several:
        if json_lines:
            print(as_json(asdict(filled)))
            continue
        print(filled.best)
        for number, guesses in enumerate(filled.gaps, start=1):
            if len(filled.gaps) > 1:
                print(f"  gap {number}")
            for guess in guesses:
                print(f"  {guess.score:7.4f}  {guess.word}")
    sys.stdout.flush()
