"""`clozeworks evaluate`: measure how good a model is on labelled data."""

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from clozeworks.cli.inputs import LabelledOptions
from clozeworks.errors import InputError, SettingError, UnknownName
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.reading import Labelled, Reading
    from clozeworks.language_model.model import LanguageModel
    from clozeworks.tasks.metrics.labels import KnownLabels
    from clozeworks.tasks.metrics.measured import Measured
    from clozeworks.tasks.task import Task

app = App(name="clozeworks evaluate", help_format="plaintext", version_flags=[])


@dataclass(frozen=True)
class EvaluatedModel:
    """The result of an evaluation.

    Attributes:
        measured: The values.
        details: How well each label is known.
        records: Each item with its gold label and the prediction.
        command: The task as a person types it.
        task: The task; None for gaps.
        threshold: The best threshold for answers, in few digits; None if there is none.
    """

    measured: "Measured"
    details: "KnownLabels"
    records: list[dict[str, Any]]
    command: str
    task: Any = None
    threshold: str | None = None


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(LabelledOptions):
    """How labelled files are read.

    Attributes:
        labels: One label per row, several, or numbers; as the model was trained if not given.
    """


@app.default
def evaluate(
    model: str,
    file: Path,
    /,
    *,
    task: str | None = None,
    skip_bad_rows: Annotated[bool, Parameter(negative="")] = False,
    metric: str | None = None,
    threshold: float | None = None,
    predictions: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
    options: EvaluateOptions | None = None,
) -> None:
    """Measure how good a model is on labelled data, with 95 % intervals.

    Args:
        model: A model folder or hub name.
        file: Labelled data: .csv, .tsv, .jsonl, .json, .parquet, CoNLL columns, compressed or not.
            For fill: texts with [MASK], and the right words as label.
        task: What is measured; as the model folder says if not given.
        skip_bad_rows: Drop rows that cannot be used, and count them.
        metric: The main metric, or a GLUE task such as mrpc.
        threshold: For questions: give no answer if "none" is ahead by more than this.
        predictions: Write each item with what is right and what the model says to this file
            (.jsonl).
        overwrite: Replace the file of predictions if it exists.
        json_text: Print one JSON object.
        options: How labelled files are read.
    """
    from clozeworks.cli.predict import closing
    from clozeworks.data.files.vectors import check_output
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.tasks.classify import TextItem
    from clozeworks.tasks.metrics.measured import with_primary
    from clozeworks.tasks.results.records import write_records

    if predictions is not None:
        check_output(predictions, overwrite=overwrite, suffixes=(".jsonl",), name="predictions")

    from clozeworks.language_model import load

    loaded = load(model)
    options = options or EvaluateOptions()
    kind = _kind(loaded, task, file, options)
    measured_task = None if kind is None else _with_threshold(loaded, kind, threshold)
    item = TextItem if measured_task is None else measured_task.files_hold()
    bad = BadRows(skip=skip_bad_rows)
    reading = options.reading(item)
    writes = measured_task is not None and measured_task.writes
    if reading.labels is reading.separator is None and not writes:
        # Whole numbers in a file may be names, too: as the model's labels are.
        labels = "one" if measured_task is None else measured_task.label_kind
        reading = replace(reading, labels=None if labels == "several" else labels)
    labelled = _read(file, measured_task, reading, bad)
    begin = time.monotonic()
    if measured_task is None:
        result = _evaluate_gaps(loaded, labelled)
    else:
        result = _evaluate_task(loaded, measured_task, labelled)
    if metric is not None:
        result = replace(result, measured=with_primary(result.measured, metric))
    if json_text:
        print(json.dumps(_record(model, labelled, result)))
    else:
        _print(model, labelled, result)
    if predictions is not None:
        write_records(predictions, result.records, overwrite=overwrite)
    seconds, long = time.monotonic() - begin, sum(r.get("windows", 1) > 1 for r in result.records)
    count = result.measured.count
    print(closing(count, item.asked_unit, seconds, long, bad, predictions), file=sys.stderr)


def _kind(
    loaded: "LanguageModel", task: str | None, file: Path, options: LabelledOptions
) -> "type[Task[Any, Any]] | None":
    """The task: as --task, the model folder or the file says; None for gaps."""
    from clozeworks.inference.cloze import GapItem
    from clozeworks.tasks.task import command_name, task_classes

    kinds = {command_name(kind): each for kind, each in task_classes().items()}
    if task is not None and task not in {*kinds, GapItem.command}:
        raise UnknownName("task", task, (*kinds, GapItem.command))
    if task in kinds:
        return kinds[task]
    trained = loaded.task
    if task is not None or trained is None:
        if "vocabulary" not in loaded.blueprint.heads:
            loaded.fill([]) if task else loaded.predict([])  # complains
        return None
    if "task" in loaded.checkpoint.notes:
        return type(trained)
    # A published folder does not say for how many texts its head is; the file may.
    able = [kind for kind in kinds.values() if trained.suited_to(kind) is not None]
    if len(able) < 2:
        return type(trained)
    guess, reason = _guessed(able, type(trained), file, options)
    print(
        f"The model folder does not say whether it is for texts or for pairs; {reason}, so it is "
        f"measured with --task {guess.item_type.command}.",
        file=sys.stderr,
    )
    return guess


def _guessed(
    able: "Sequence[type[Task[Any, Any]]]",
    usual: "type[Task[Any, Any]]",
    file: Path,
    options: LabelledOptions,
) -> "tuple[type[Task[Any, Any]], str]":
    """The task whose columns a file has, by their usual names; else the usual one; and why."""
    from clozeworks.data.files.compression import format_suffix
    from clozeworks.data.files.tables import TableReader, read_table
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.columns import find_columns

    others = [kind for kind in able if kind is not usual]
    if options.columns is not None:
        roles = {part.partition("=")[0].strip() for part in options.columns.split(",")}
        fits = [kind for kind in others if roles & {*kind.item_type.text_names}]
        return (fits[0] if fits else usual), f"--columns is {options.columns}"
    bad = BadRows(skip=True)
    for kind in others:
        try:
            if format_suffix(file) == ".json":
                head = read_table(file, options.encoding, bad.add)
            else:
                head = TableReader(file, options.encoding, bad.add).head
            columns = find_columns(head, kind.item_type, {}, options.header)[1]
        except InputError:  # reading the file as texts says what is wrong with it
            return usual, f"{file} has no columns of pairs"
        texts = kind.item_type.text_names
        known = [column for column in columns if column.role in texts and column.how == "known"]
        if len(known) == len(texts):
            return kind, f"{file} has the columns {' and '.join(each.name for each in known)}"
    return usual, f"{file} has no columns with the usual names of pairs"


def _with_threshold(
    loaded: "LanguageModel", kind: "type[Task[Any, Any]]", threshold: float | None
) -> "Task[Any, Any]":
    """The model's task, with another threshold if one is given."""
    if threshold is not None and "threshold" not in kind.command_options:
        rule = f"{kind.item_type.command} has no threshold, only questions have one"
        raise SettingError("--threshold", threshold, rule, "leave it out")
    task = loaded.task_for(kind)
    return task if threshold is None else task.configured(threshold=threshold)[0]


def _read(
    file: Path, task: "Task[Any, Any] | None", reading: "Reading", bad: "BadRows"
) -> "Labelled":
    """Reads labelled data and prints which columns were taken for what."""
    from clozeworks.data.labelled.reading import read_items
    from clozeworks.tasks.classify import TextItem

    if task is None:
        labelled = read_items(file, TextItem, reading, bad=bad)
    else:
        labelled = task.read_to_measure(file, reading, bad)
    if labelled.description:
        print(labelled.description, file=sys.stderr)
    item = labelled.item
    if not labelled.is_labelled:
        if (why := item.missing_labels(labelled.items)) is not None:
            raise InputError(f"{file} has no {item.gold_word}, and judging a model needs {why}")
        raise InputError(
            f"{file} has no {item.gold_word}, and there is nothing to measure without them; name "
            f"their column with --columns {item.label_role}=NAME."
        )
    bare = next((each for each in labelled.items if each.gold is None), None)
    if bare is not None:
        raise InputError(
            f"{bare.source_location} has no answer; give one, or mark it as impossible."
        )
    return labelled


def _evaluate_gaps(loaded: "LanguageModel", labelled: "Labelled") -> EvaluatedModel:
    from dataclasses import asdict

    from clozeworks.inference.cloze import TOP, GapItem, measure_gaps, right_words
    from clozeworks.tasks.metrics.labels import KnownLabels

    items = labelled.items
    right_words(loaded.tokenizer, items)  # complains before the long work
    filled = loaded.fill([item.text for item in items], top=TOP)
    measured = measure_gaps(loaded.tokenizer, items, filled, intervals=True)
    records = [
        {**asdict(answer), "gold": item.gold_json(), "source_location": item.source_location}
        for item, answer in zip(items, filled, strict=True)
    ]
    return EvaluatedModel(measured, KnownLabels(), records, GapItem.command)


def _evaluate_task(
    loaded: "LanguageModel", task: "Task[Any, Any]", labelled: "Labelled"
) -> EvaluatedModel:
    from clozeworks.cli.display.evaluation_page import with_small_confusion
    from clozeworks.cli.display.progress import ProgressBar
    from clozeworks.cli.fitting_labels import fitted
    from clozeworks.tasks.results.records import record_of

    items: Sequence[Any] = labelled.items
    labels = task.settings().get("id2label", {}).values()
    if labels and task.label_kind != "numbers":
        items, sentence = fitted(items, list(labels))
        if sentence:
            print(sentence, file=sys.stderr)
    with ProgressBar("tokens") as progress:
        answers = loaded.predict(items, task, progress=progress)
    measured = task.measure(items, answers, intervals=True)
    records = [
        record_of(item, answer, gold=True) for item, answer in zip(items, answers, strict=True)
    ]
    best = _best_threshold(task, items, answers, measured)
    details = with_small_confusion(task.known_labels(items, answers))
    return EvaluatedModel(measured, details, records, task.item_type.command, task, best)


def _best_threshold(
    task: Any, items: Sequence[Any], answers: Sequence[Any], measured: "Measured"
) -> str | None:
    """The best threshold, in at least four digits and as few as reach the same F1."""
    exact = measured.values.get("best_f1_threshold")
    if exact is None or not math.isfinite(exact):
        return None
    for digits in range(4, 17):
        # One of the answers has exactly this doubt, and rounding may leave it on the other side.
        for rounding in (ROUND_CEILING, ROUND_FLOOR):
            shown = f"{Context(prec=digits, rounding=rounding).create_decimal_from_float(exact):f}"
            rounded = replace(task, threshold=float(shown)).measure(items, answers)
            if rounded.values["f1"] >= measured.values["best_f1"] - 1e-9:
                return shown
    return repr(exact)


def _record(model: str, labelled: "Labelled", result: EvaluatedModel) -> dict[str, Any]:
    from clozeworks.cli.display.evaluation_page import labels_json

    values = result.measured.to_dict()
    # JSON has no word for what is not a number.
    values["values"] = {n: v if math.isfinite(v) else None for n, v in values["values"].items()}
    finite = {n: e for n, e in values["intervals"].items() if all(map(math.isfinite, e))}
    values |= {"intervals": finite, **labels_json(result.details)}
    return {"model": model, "task": result.command, "files": labelled.files, **values}


def _print(model: str, labelled: "Labelled", result: EvaluatedModel) -> None:
    import shlex

    from clozeworks.cli.display.evaluation_page import number, page

    measured = result.measured
    amount = counted(measured.count, labelled.item.asked_unit)
    title = f"{result.command}, {model} on {', '.join(labelled.files)}: {amount}"
    print(page(title, measured, result.details))
    if result.threshold is not None:
        print(
            f"\nThe best F1, {number(measured.values['best_f1'])}, is reached with the threshold "
            f"{result.threshold}; it was chosen by these questions, so this F1 is a little too "
            "good: measure it on others.\n"
            f"Use it: clozeworks answer {shlex.quote(model)} … --threshold {result.threshold}"
        )
    elif result.task is not None and "best_f1" not in measured.values:
        impossible = sum(getattr(item, "impossible", False) for item in labelled.items)
        if impossible:
            print(
                f"\n{counted(impossible, 'of the questions has', 'of the questions have')} no "
                "answer, and the model always gives one; measure with --threshold 0 to let "
                "it give none, and to find the best threshold."
            )
