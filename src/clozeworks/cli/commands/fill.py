"""`clozeworks fill`: guess the words missing from a text."""

import json
from dataclasses import asdict
from typing import Annotated

from cyclopts import App, Parameter

app = App(name="clozeworks fill", help_format="plaintext", version_flags=[])


@app.default
def fill(
    model: str,
    text: str,
    /,
    *more: str,
    top: Annotated[int, Parameter(alias="-k")] = 5,
    words: str | None = None,
    json_lines: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Guess the words missing from a text.

    Args:
        model: A model folder or hub name with a masked-language-model head, or an encoder-decoder
            such as T5, which writes any number of words into a gap.
        text: A text with [MASK], or the model's own mask token or sentinels, at every gap.
        more: Further texts.
        top: How many guesses per gap.
        words: Rank only these words, separated by commas; not for encoder-decoders.
        json_lines: Print one JSON object per text.
    """
    from clozeworks.language_model import load

    allowed = None if words is None else [word.strip() for word in words.split(",") if word.strip()]
    for filled in load(model).fill([text, *more], top=top, words=allowed):
        if json_lines:
            print(json.dumps(asdict(filled), ensure_ascii=False))
            continue
        print(filled.best)
        for number, guesses in enumerate(filled.gaps, start=1):
            if len(filled.gaps) > 1:
                print(f"  gap {number}")
            for guess in guesses:
                print(f"  {guess.score:7.4f}  {guess.word}")
