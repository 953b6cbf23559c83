"""`clozeworks look`: what happens inside a model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import TextOptions, check_minimum

app = App(
    name="clozeworks look",
    help="Look inside a model: attention, layers, attributions, words in contexts, pieces.",
    help_format="plaintext",
    version_flags=[],
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class LookOutput:
    """How what was seen is shown.

    Attributes:
        out: A page that shows it in a browser, without a network, such as look.html.
        overwrite: Replace the page if it exists.
        language: The language of the page: en or zh.
        json_text: Print JSON.
    """

    out: Annotated[Path | None, Parameter(alias="-o")] = None
    overwrite: Annotated[bool, Parameter(negative="")] = False
    language: Literal["en", "zh"] = "en"
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False

    def check(self) -> None:
        """Checks early that a page can be written.

        Raises:
            OutputError: If it exists, cannot be written, or has another ending than .html.
        """
        if self.out is not None:
            from clozeworks.data.files.vectors import check_output

            check_output(self.out, overwrite=self.overwrite, suffixes=(".html",), name="look")

    def show(self, record: dict[str, Any], lines: Callable[[], Sequence[str]]) -> None:
        """Prints what was seen, and writes the page."""
        from clozeworks.wording import as_json

        if self.out is not None:
            from clozeworks.serve.inside.page_alone import page_alone
            from clozeworks.storage.atomic import atomic_file

            with atomic_file(self.out, "w", overwrite=self.overwrite) as file:
                file.write(page_alone(record, self.language))
        if self.json_text:
            print(as_json(record))
            return
        print("\n".join(lines()))
        if self.out is not None:
            print(f"\n{self.out}: the same in a browser; it needs no network.")


@app.command
def attention(
    model: str,
    text: str,
    second: str | None = None,
    /,
    *,
    target: str | None = None,
    layer: int | None = None,
    head: int | None = None,
    top: int | None = None,
    output: LookOutput | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Show where each head looks, how much it really adds, and what that comes to over layers.

    Args:
        model: A model folder or hub name.
        text: A text.
        second: A second text that is read with it.
        target: What an encoder-decoder such as T5 writes for it; then its decoder is shown, too.
        layer: The layer that is shown in full, from 1; -1 is the last. On a page and in JSON all
            layers are if not given and the text is short.
        head: Print what each token looks at in one head of the layer (the last if not given).
        top: In JSON and on the page, only so many tokens that each token looks at.
        output: How it is shown.
        computing: Where the model computes.
    """
    from clozeworks.display.look_text import attention_lines
    from clozeworks.errors import SettingError

    check_minimum(1, head=head, top=top)
    output = output or LookOutput()
    output.check()
    loaded = (computing or ComputingOptions()).load(model)
    whole = head is None and (output.json_text or output.out is not None)
    layers = layer if layer is not None or whole else -1
    view = loaded.look.attention(_text(text, second), target=target, layers=layers)
    heads = min(stream.heads for stream in view.streams)
    if head is not None and head > heads:
        raise SettingError("--head", head, f"this model has {heads} heads", f"use 1 to {heads}")
    record = view.to_dict(top, packed=not output.json_text) if whole else {}
    output.show(record, lambda: attention_lines(view, head))


@app.command
def lens(
    model: str,
    text: str,
    /,
    *,
    target: str | None = None,
    right: str | None = None,
    places: Annotated[list[int] | None, Parameter(negative="")] = None,
    top: int = 5,
    tuned: Path | None = None,
    output: LookOutput | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Show which words the vocabulary head would say after each layer.

    Args:
        model: A model folder or hub name with a language-model head.
        text: A text; for a masked model with [MASK], or its words name themselves.
        target: What an encoder-decoder such as T5 writes for it.
        right: The right words for the gaps, separated by commas.
        places: The numbers of the tokens to look at, as clozeworks look tokens counts them.
        top: How many words of each layer.
        tuned: A file of a tuned lens, as model.look.train_lens makes it in Python.
        output: How it is shown.
        computing: Where the model computes.
    """
    from clozeworks.display.look_text import lens_lines
    from clozeworks.look.tuned_lens import TunedLens

    check_minimum(1, top=top)
    output = output or LookOutput()
    output.check()
    loaded = (computing or ComputingOptions()).load(model)
    view = loaded.look.lens(
        text,
        target=target,
        right=None if right is None else [word.strip() for word in right.split(",")],
        places=places,
        top=top,
        tuned=None if tuned is None else TunedLens.load(tuned, loaded.model),
    )
    output.show(view.to_dict(), lambda: lens_lines(view))


@app.command
def attribute(
    model: str,
    text: str,
    second: str | None = None,
    /,
    *,
    label: str | None = None,
    word: str | None = None,
    number: int | None = None,
    gap: int = 1,
    target: str | None = None,
    token: int | None = None,
    other: str | None = None,
    baseline: Literal["mask", "pad", "zero", "mean"] | None = None,
    steps: int = 50,
    controls: Annotated[bool, Parameter(negative="")] = False,
    output: LookOutput | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Show what each word of a text does to a label, an answer, or a written word.

    Args:
        model: A model folder or hub name.
        text: A text; for question answering the question.
        second: The second text of a pair; for question answering the context.
        label: The label. Defaults to the likeliest.
        word: The word in a gap. Defaults to the likeliest.
        number: Where each word has a label, the number of the word that is asked about, from 1.
        gap: Which gap, from 1.
        target: What follows the text, or what an encoder-decoder writes for it.
        token: Which token of the target, from 1. Defaults to all of them.
        other: Another text: what makes the vectors of both similar is shown.
        baseline: What stands in place of the words: mask, pad, zero or mean (of all token vectors).
            Defaults to the first of mask, pad and mean that the model has.
        steps: Points of the integral; doubled up to 400 while more than 5 % is missing.
        controls: Also take out words in this order, and ask a model with random weights.
        output: How it is shown.
        computing: Where the model computes.
    """
    from clozeworks.display.look_text import attribution_lines
    from clozeworks.errors import SettingError

    check_minimum(1, number=number, gap=gap, token=token, steps=steps)
    if word is not None and number is not None:
        raise SettingError("--number", number, "--word is given, too", "leave one out")
    output = output or LookOutput()
    output.check()
    loaded = (computing or ComputingOptions()).load(model)
    asked: dict[str, Any] = {
        "label": label,
        "word": word if number is None else number - 1,
        "gap": gap - 1,
        "target": target,
        "token": None if token is None else token - 1,
        "other": other,
    }
    given = _text(text, second)
    view = loaded.look.attribute(given, baseline=baseline, steps=steps, **asked)
    record, lines = view.to_dict(), attribution_lines(view)
    if controls:
        found = loaded.look.control(view, given, **asked)
        record["controls"] = found.to_dict()
        lines += found.notes()
    output.show(record, lambda: lines)


@app.command
def contexts(
    model: str,
    word: str,
    texts: str,
    /,
    *,
    forms: str | None = None,
    layer: str | None = None,
    correction: Literal["raw", "centred", "whitened"] = "centred",
    neighbours: int = 5,
    seed: int = 0,
    reading: TextOptions | None = None,
    output: LookOutput | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Compare the vectors of one word in many texts: a map, clusters, the nearest contexts.

    Args:
        model: A model folder or hub name.
        word: The word; small and capital letters are alike.
        texts: A file of texts with the word, and others (.txt with one text per line, .csv, .tsv,
            .json, .jsonl, .parquet; compressed or not), or - for the lines of standard input. The
            baseline is measured on all of them.
        forms: Further forms of the word, separated by commas.
        layer: The layer of the map: a number, 0 for the embeddings, or sum_last_four. Defaults to
            the last.
        correction: raw; centred (minus the mean of other words); or whitened by them.
        neighbours: How many nearest contexts each has.
        seed: Decides which other words are drawn, and where clusters begin.
        reading: How texts are read.
        output: How it is shown.
        computing: Where the model computes.
    """
    from clozeworks.display.look_text import contexts_lines

    check_minimum(1, neighbours=neighbours)
    output = output or LookOutput()
    output.check()
    given = (reading or TextOptions()).read(texts)
    loaded = (computing or ComputingOptions()).load(model)
    view = loaded.look.contexts(
        word,
        given.texts,
        forms=[each.strip() for each in (forms or "").split(",") if each.strip()],
        layer=layer,
        correction=correction,
        neighbours=neighbours,
        seed=seed,
    )
    output.show(view.to_dict(), lambda: contexts_lines(view))


@app.command
def tokens(
    model: str,
    text: str,
    second: str | None = None,
    /,
    *,
    output: LookOutput | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Show the pieces of a text: their characters, ids and bytes.

    Args:
        model: A model folder or hub name.
        text: A text of any length.
        second: A second text that is read with it.
        output: How it is shown.
        computing: Where the model computes.
    """
    from clozeworks.display.look_text import tokens_lines

    output = output or LookOutput()
    output.check()
    loaded = (computing or ComputingOptions()).load(model)
    view = loaded.look.tokens(_text(text, second))
    output.show(view.to_dict(), lambda: tokens_lines(view))


def _text(text: str, second: str | None) -> str | tuple[str, str]:
    return text if second is None else (text, second)
