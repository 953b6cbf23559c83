"""`clozeworks score`: say how likely texts are."""

import json
import sys
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.inference.likelihood import Scored

app = App(name="clozeworks score", help_format="plaintext", version_flags=[])


@app.default
def score(
    model: str,
    source: str,
    /,
    *,
    continuations: str | None = None,
    column: str | None = None,
    continuation_column: str | None = None,
    encoding: str | None = None,
    skip_blank: Annotated[bool, Parameter(negative="")] = False,
    max_length: int | None = None,
    overlap: int | None = None,
    budget: int | None = None,
    json_lines: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Say how likely texts are to a decoder, or how likely other texts are to follow them.

    Prints perplexity, number of tokens and text; then the perplexity over all tokens. Longer texts
    than the model takes are read through windows that overlap.

    Args:
        model: A model folder or hub name of a decoder or encoder-decoder with its head.
        source: A text, a file (.txt one text per line, .jsonl, .csv, .tsv, each also .gz), or - for
            the lines of standard input.
        continuations: What follows each text, and is asked for alone: a text, or a file with as
            many. Of an encoder-decoder: the answers.
        column: The field or column that holds the text; "text" if not given.
        continuation_column: The same for the file of continuations, which may be the same file.
        encoding: What the files are written in; utf-8 if not given.
        skip_blank: Leave out blank lines instead of complaining about them.
        max_length: The most tokens of a window; the model's limit if not given.
        overlap: How many tokens a later window has at least before those it asks for; half of a
            window if not given.
        budget: Tokens per batch.
        json_lines: Print one JSON object per text, with the log share of every token.
    """
    from clozeworks.cli.texts import given_texts, one_for_each, say_unread
    from clozeworks.errors import SettingError

    if skip_blank and continuations is not None:
        raise SettingError(
            "--skip-blank and --continuations are both given; texts and what follows them would no "
            "longer belong together; leave one out."
        )
    texts = given_texts(source, column=column, encoding=encoding, skip_blank=skip_blank)
    behind = one_for_each(
        texts, continuations, "continuation", column=continuation_column, encoding=encoding
    )

    from clozeworks.cli.display.progress import ProgressBar
    from clozeworks.inference.likelihood import perplexity
    from clozeworks.language_model import load

    loaded = load(model)
    with ProgressBar("tokens") as progress:
        found = loaded.score(
            texts.texts,
            behind,
            max_length=max_length,
            overlap=overlap,
            batch_tokens=budget,
            source_locations=texts.places,
            progress=progress,
        )
    for number, scored in enumerate(found):
        _print(texts.texts[number], None if behind is None else behind[number], scored, json_lines)
    say_unread([scored.unread for scored in found], max_length or loaded.max_length)
    count, total = sum(one.count for one in found), sum(one.total for one in found)
    long = sum(one.windows > 1 for one in found)
    said = f"; {counted(long, 'text')} read through several windows" if long else ""
    print(
        f"{counted(len(found), 'text')}, {counted(count, 'token')}: perplexity "
        f"{perplexity(found):,.2f}, {-total / count:.4f} nats a token{said}.",
        file=sys.stderr,
    )


def _print(text: str, continuation: str | None, scored: "Scored", json_lines: bool) -> None:
    if not json_lines:
        from clozeworks.cli.display.highlight import shortened

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
    print(json.dumps(record, ensure_ascii=False))
