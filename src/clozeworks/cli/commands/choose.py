"""`clozeworks choose`: choose among labels by likelihood."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import (
    TableOptions,
    TextOptions,
    check_minimum,
    check_unused,
    resolve_input,
)
from clozeworks.cli.outputs import report_unread
from clozeworks.errors import MISSING, InputError, SettingError
from clozeworks.wording import as_json, counted

if TYPE_CHECKING:
    from clozeworks.inference.choose import Chosen
    from clozeworks.tasks.classify import TextItem

app = App(name="clozeworks choose", help_format="plaintext", version_flags=[])


@app.default
def choose(
    model: str,
    source: str,
    /,
    *,
    labels: str | None = None,
    template: str | None = None,
    normalize: Literal["token", "none", "unconditional"] = "token",
    shots: int = 0,
    examples: Annotated[Path | None, Parameter(name="--from")] = None,
    seeds: int = 1,
    description: str = "",
    batch_tokens: int | None = None,
    json_lines: Annotated[bool, Parameter(name="--json", negative="")] = False,
    reading: TableOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    r"""Classify texts without training, by how likely each label is to follow.

    With several seeds the mean of their scores decides. If a file has labels, the accuracy is
    printed, too: for each seed, and the mean.

    Args:
        model: A model folder or hub name of a decoder or encoder-decoder with its head.
        source: A text, a file (.txt with one text per line, .csv, .tsv, .json, .jsonl, .parquet;
            compressed or not), or - for the lines of standard input.
        labels: The labels, separated by commas. 0=negative,1=positive maps the labels of a file to
            words that can follow a text. Defaults to the labels of --from.
        template: How a text and a label are joined. Defaults to "{text}\nAnswer: {label}", or with
            demonstrations to "{text} -> {label}". Write \n for a line break.
        normalize: How labels are compared: by log probability per token (token), by its sum (none),
            or by its sum minus that without the text (unconditional).
        shots: The number of demonstrations before each text.
        examples: A labelled file that demonstrations are drawn from.
        seeds: How many times demonstrations are drawn.
        description: A description of the task, placed before the demonstrations.
        batch_tokens: Tokens per batch.
        json_lines: Print one JSON object per text.
        reading: How files are read.
        computing: Where the model computes.
    """
    if shots and examples is None:
        raise SettingError("--shots", shots, "demonstrations need examples", "name --from FILE")
    for name, value, usual in (("--seeds", seeds, 1), ("--description", description, "")):
        if not shots and value != usual:
            rule = "it has no effect without --shots"
            raise SettingError(name, value, rule, "leave it out, or give --shots")
    check_minimum(1, seeds=seeds, batch_tokens=batch_tokens)
    reading = reading or TableOptions()
    items = _items(source, reading, alone=examples is None)
    shown = [] if examples is None else _labelled(examples, reading)
    words = _words(labels, shown)
    for item in items:
        if item.label is not None and str(item.label) not in words:
            raise InputError(
                f"{item.source_location}: the label is {item.label!r}; it is not among "
                f"{', '.join(words)}, so nothing could be right; name it, or give it a word, as in "
                "--labels 0=negative,1=positive."
            )

    from clozeworks.display.progress import ProgressBar
    from clozeworks.inference import few_shot
    from clozeworks.inference.choose import TEMPLATE

    loaded = (computing or ComputingOptions()).load(model)
    if template is None:
        template = few_shot.TEMPLATE if shots else TEMPLATE
    template = template.replace("\\n", "\n")
    runs = []
    dropped = missing = 0
    for seed in range(seeds):
        before = None
        if shots:
            style = few_shot.FewShot(
                shots=shots, seed=seed, template=template, description=description
            )
            pairs = [(item.text, words[str(item.label)]) for item in shown]
            prompts = loaded.demonstrations([item.text for item in items], pairs, style)
            before = prompts.texts
            dropped, missing = dropped + prompts.dropped, missing + prompts.missing
        with ProgressBar("tokens") as progress:
            chosen = loaded.choose(
                [item.text for item in items],
                list(words.values()),
                template=template,
                normalize=normalize,
                before=before,
                source_locations=[item.source_location for item in items],
                batch_tokens=batch_tokens,
                progress=progress,
            )
        runs.append(chosen)
    # The most tokens of each prompt that a run had no room for.
    unread = [max(chosen.unread for chosen in several) for several in zip(*runs, strict=True)]
    _print(items, words, runs, unread, json_lines)
    wanted = len(items) * shots * seeds
    if missing:
        print(
            f"{counted(missing, 'demonstration')} of {wanted:,} could not be given: a text is "
            f"never shown to itself, and {examples} has too few others.",
            file=sys.stderr,
        )
    if dropped:
        print(
            f"{counted(dropped, 'demonstration')} of {wanted:,} did not fit into "
            f"{loaded.max_length:,} tokens.",
            file=sys.stderr,
        )
    report_unread(unread, loaded.max_length)
    _report_accuracy(items, words, runs)


def _items(source: str, reading: TableOptions, *, alone: bool) -> "Sequence[TextItem]":
    """The texts; `alone` says that no other file is read with these options."""
    from clozeworks.data.labelled.reading import read_items
    from clozeworks.tasks.classify import TextItem

    path = resolve_input(source)
    if isinstance(path, Path) and reading.file_format().suffix_of(path) != ".txt":
        labelled = read_items(path, TextItem, reading.reading(TextItem))
        print(labelled.description, file=sys.stderr)
        return [item for item in labelled.items if isinstance(item, TextItem)]
    if alone:
        check_unused("the input is not a table", reading, "columns", "header")
    unused = isinstance(path, str) and not alone
    texts = TextOptions(**({} if unused else reading.given())).read(source)
    return [
        TextItem(text, source_location=source_location)
        for text, source_location in zip(texts.texts, texts.source_locations, strict=True)
    ]


def _labelled(file: Path, reading: TableOptions) -> "Sequence[TextItem]":
    from clozeworks.data.labelled.reading import read_items
    from clozeworks.tasks.classify import TextItem

    labelled = read_items(file, TextItem, reading.reading(TextItem))
    if labelled.kind != "one":
        raise InputError(
            f"{file} has no single label in each row; demonstrations need one; name their column "
            f"with --columns label=NAME."
        )
    return [item for item in labelled.items if isinstance(item, TextItem)]


def _words(labels: str | None, shown: "Sequence[TextItem]") -> dict[str, str]:
    """The word of each label."""
    known = sorted({str(item.label) for item in shown})
    if labels is None:
        if not known:
            raise SettingError(
                "--labels", MISSING, "", "name what to choose from, such as good,bad"
            )
        return {label: label for label in known}
    words = {}
    for label in labels.split(","):
        name, _, word = label.strip().partition("=")
        words[name] = word or name
    for label in known:
        if label not in words:
            raise InputError(
                f"the label {label!r} of an example is not among --labels {labels}; add it."
            )
    return words


def _print(
    items: "Sequence[TextItem]",
    words: Mapping[str, str],
    runs: "Sequence[Sequence[Chosen]]",
    unread: Sequence[int],
    json_lines: bool,
) -> None:
    from clozeworks.display.highlight import shortened

    names = {word: name for name, word in words.items()}
    for number, item in enumerate(items):
        per_seed = [run[number].scores for run in runs]
        means = {word: sum(scores[word] for scores in per_seed) / len(runs) for word in per_seed[0]}
        ranked = sorted(means.items(), key=lambda pair: -pair[1])
        scores = {names[word]: score for word, score in ranked}
        label = next(iter(scores))
        if json_lines:
            record: dict[str, object] = {"text": item.text, "label": label, "scores": scores}
            if unread[number]:
                record["unread"] = unread[number]
            if item.label is not None:
                record["expected"] = item.label
            print(as_json(record))
        else:
            print(f"{label}  {scores[label]:.3f}  {shortened(item.text, 60)}")


def _report_accuracy(
    items: "Sequence[TextItem]", words: Mapping[str, str], runs: "Sequence[Sequence[Chosen]]"
) -> None:
    """Prints the accuracy of each seed on texts with a label."""
    known = [(number, item) for number, item in enumerate(items) if item.label is not None]
    if not known:
        return
    accuracies = [
        sum(run[number].label == words.get(str(item.label)) for number, item in known) / len(known)
        for run in runs
    ]
    each = ", the mean of seeds: " + ", ".join(f"{accuracy:.4f}" for accuracy in accuracies)
    print(
        f"Accuracy {sum(accuracies) / len(runs):.4f} on {counted(len(known), 'text')}"
        f"{each if len(runs) > 1 else ''}.",
        file=sys.stderr,
    )
