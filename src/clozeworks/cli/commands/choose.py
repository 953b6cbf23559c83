"""`clozeworks choose`: choose among labels by likelihood."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from clozeworks.cli.inputs import TextOptions, resolve_input
from clozeworks.cli.outputs import report_unread
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.data.labelled.reading import Reading
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
    columns: str | None = None,
    header: bool | None = None,
    encoding: str = "utf-8",
    batch_tokens: int | None = None,
    json_lines: Annotated[bool, Parameter(name="--json", negative="")] = False,
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
        columns: The columns of a file by role, each by name or number: text=review,label=stars.
        header: Whether the first row of .csv and .tsv files is a header. Detected if not given.
        encoding: The encoding of files.
        batch_tokens: Tokens per batch.
        json_lines: Print one JSON object per text.
    """
    from clozeworks.data.labelled.columns import parse_columns
    from clozeworks.data.labelled.reading import Reading
    from clozeworks.errors import InputError, SettingError
    from clozeworks.tasks.classify import TextItem

    if shots and examples is None:
        raise SettingError(f"--shots is {shots}; demonstrations need examples; name --from FILE.")
    if not shots and (seeds != 1 or description):
        name = "--seeds" if seeds != 1 else "--description"
        raise SettingError(f"{name} has no effect without --shots; leave it out, or give --shots.")
    if seeds < 1:
        raise SettingError(f"--seeds is {seeds}; it must be at least 1.")
    named = {} if columns is None else parse_columns(columns, TextItem)
    reading = Reading(columns=named, header=header, encoding=encoding)
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

    from clozeworks.cli.display.progress import ProgressBar
    from clozeworks.inference import few_shot
    from clozeworks.inference.choose import TEMPLATE
    from clozeworks.language_model import load

    loaded = load(model)
    usual = few_shot.TEMPLATE if shots else TEMPLATE
    written = usual if template is None else template.replace("\\n", "\n")
    runs = []
    dropped = missing = 0
    for seed in range(seeds):
        before = None
        if shots:
            style = few_shot.FewShot(
                shots=shots, seed=seed, template=written, description=description
            )
            pairs = [(item.text, words[str(item.label)]) for item in shown]
            made = loaded.demonstrations([item.text for item in items], pairs, style)
            before = made.texts
            dropped, missing = dropped + made.dropped, missing + made.missing
        with ProgressBar("tokens") as progress:
            found = loaded.choose(
                [item.text for item in items],
                list(words.values()),
                template=written,
                normalize=normalize,
                before=before,
                source_locations=[item.source_location for item in items],
                batch_tokens=batch_tokens,
                progress=progress,
            )
        runs.append(found)
    _print(items, words, runs, json_lines)
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
    report_unread(_unread(runs), loaded.max_length)
    _tell(items, words, runs)


def _items(source: str, reading: "Reading", *, alone: bool) -> "Sequence[TextItem]":
    """The texts; `alone` says that there is no other file that options could be about."""
    from clozeworks.data.labelled.reading import read_items
    from clozeworks.errors import SettingError
    from clozeworks.tasks.classify import TextItem

    given = resolve_input(source)
    if isinstance(given, Path) and ".txt" not in given.suffixes:
        labelled = read_items(given, TextItem, reading)
        print(labelled.description, file=sys.stderr)
        return [item for item in labelled.items if isinstance(item, TextItem)]
    for name, value in (("--columns", reading.columns or None), ("--header", reading.header)):
        if alone and value is not None:
            raise SettingError(f"{name} is given, but no table is; leave {name} out.")
    unsaid = reading.encoding == "utf-8" or (isinstance(given, str) and not alone)
    encoding = None if unsaid else reading.encoding
    texts = TextOptions(encoding=encoding).read(source)
    return [
        TextItem(text, source_location=source_location)
        for text, source_location in zip(texts.texts, texts.source_locations, strict=True)
    ]


def _labelled(file: Path, reading: "Reading") -> "Sequence[TextItem]":
    from clozeworks.data.labelled.reading import read_items
    from clozeworks.errors import InputError
    from clozeworks.tasks.classify import TextItem

    labelled = read_items(file, TextItem, reading)
    if labelled.kind != "one":
        raise InputError(
            f"{file} has no single label in each row; demonstrations need one; name their column "
            f"with --columns label=NAME."
        )
    return [item for item in labelled.items if isinstance(item, TextItem)]


def _words(labels: str | None, shown: "Sequence[TextItem]") -> dict[str, str]:
    """The word of each label."""
    from clozeworks.errors import InputError, SettingError

    found = sorted({str(item.label) for item in shown})
    if labels is None:
        if not found:
            raise SettingError("--labels is not given; name what may be chosen, such as good,bad.")
        return {label: label for label in found}
    words = {}
    for label in labels.split(","):
        name, _, word = label.strip().partition("=")
        words[name] = word or name
    for label in found:
        if label not in words:
            raise InputError(
                f"the label {label!r} of an example is not among --labels {labels}; add it."
            )
    return words


def _means(runs: "Sequence[Sequence[Chosen]]", number: int) -> dict[str, float]:
    """The scores of a text, over all seeds; the highest first."""
    own = [run[number].scores for run in runs]
    means = {word: sum(scores[word] for scores in own) / len(own) for word in own[0]}
    return dict(sorted(means.items(), key=lambda pair: -pair[1]))


def _unread(runs: "Sequence[Sequence[Chosen]]") -> list[int]:
    """The most tokens of each prompt that no run had room for."""
    return [max(one.unread for one in several) for several in zip(*runs, strict=True)]


def _print(
    items: "Sequence[TextItem]",
    words: Mapping[str, str],
    runs: "Sequence[Sequence[Chosen]]",
    json_lines: bool,
) -> None:
    from clozeworks.cli.display.highlight import shortened

    names = {word: name for name, word in words.items()}
    unread = _unread(runs)
    for number, item in enumerate(items):
        scores = {names[word]: score for word, score in _means(runs, number).items()}
        label = next(iter(scores))
        if json_lines:
            record: dict[str, object] = {"text": item.text, "label": label, "scores": scores}
            if unread[number]:
                record["unread"] = unread[number]
            if item.label is not None:
                record["expected"] = item.label
            print(json.dumps(record, ensure_ascii=False))
        else:
            print(f"{label}  {scores[label]:.3f}  {shortened(item.text, 60)}")


def _tell(
    items: "Sequence[TextItem]", words: Mapping[str, str], runs: "Sequence[Sequence[Chosen]]"
) -> None:
    """How often each seed was right, where that is known."""
    known = [(number, item) for number, item in enumerate(items) if item.label is not None]
    if not known:
        return
    shares = [
        sum(run[number].label == words.get(str(item.label)) for number, item in known) / len(known)
        for run in runs
    ]
    said = f"Accuracy {sum(shares) / len(shares):.4f} on {counted(len(known), 'text')}"
    if len(runs) > 1:
        said += ", the mean of seeds: " + ", ".join(f"{share:.4f}" for share in shares)
    print(f"{said}.", file=sys.stderr)
