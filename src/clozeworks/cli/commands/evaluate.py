"""`clozeworks evaluate`: measure how good a model is on labelled data."""

import json
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import ROUND_CEILING, ROUND_FLOOR, Context
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from clozeworks.cli.display.evaluation_page import Details
from clozeworks.errors import InputError, SettingError
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.data.labelled.reading import Labelled, Reading
    from clozeworks.language_model.model import LanguageModel
    from clozeworks.tasks.metrics.measured import Measured

EvaluatedTask = Literal["classify", "compare", "tag", "answer", "fill", "text-to-text"]
app = App(name="clozeworks evaluate", help_format="plaintext", version_flags=[])


@dataclass(frozen=True)
class Evaluation:
    """What was found out.

    Attributes:
        measured: The values.
        details: How well each label is known.
        records: Each item with what is right and what the model said.
        task: The task; None for gaps.
        threshold: The best threshold for answers, in few digits; None if there is none.
    """

    measured: "Measured"
    details: Details
    records: list[dict[str, Any]]
    task: Any = None
    threshold: str | None = None


@app.default
def evaluate(
    model: str,
    file: Path,
    /,
    *,
    task: EvaluatedTask | None = None,
    columns: str | None = None,
    header: bool | None = None,
    labels: Literal["one", "several", "numbers"] | None = None,
    separator: str | None = None,
    encoding: str = "utf-8",
    skip_bad_rows: Annotated[bool, Parameter(negative="")] = False,
    metric: str | None = None,
    threshold: float | None = None,
    predictions: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Measure how good a model is on labelled data, with intervals of 95 %.

    Args:
        model: A model folder or hub name.
        file: Labelled data: .csv, .tsv, .jsonl, .json, .parquet, CoNLL columns, packed or not. For
            fill: texts with [MASK], and the right words as label.
        task: What is measured; as the model folder says if not given.
        columns: Which columns are what, by name or number: text=review,label=5. Found if not given.
            Roles: text, label; first, second; words, tags; question, context, answers; source,
            target, input, prefix, task, messages.
        header: Whether the first row of .csv and .tsv is a header; found out if not given.
        labels: One label per row, several, or numbers; as the model was trained if not given.
        separator: What stands between several labels of one cell, such as |.
        encoding: What text files are written in.
        skip_bad_rows: Drop rows that cannot be used, and count them.
        metric: The value that decides and stands first, or a GLUE task such as mrpc.
        threshold: For questions: give no answer if "none" is ahead by more than this.
        predictions: Write each item with what is right and what the model says to this file
            (.jsonl).
        overwrite: Replace the file of predictions if it exists.
        json_text: Print one JSON object.
    """
    from clozeworks.data.files.vectors import check_output
    from clozeworks.data.labelled.bad_rows import BadRows

    if predictions is not None:
        check_output(predictions, overwrite=overwrite, suffixes=(".jsonl",), name="predictions")

    from clozeworks.language_model import load

    loaded = load(model)
    chosen = task or task_name(loaded, file, columns, header, encoding)
    check_able(loaded, chosen, threshold)
    bad = BadRows(skip=skip_bad_rows)
    reading = _reading(loaded, chosen, columns, header, labels, separator, encoding)
    labelled = read(file, chosen, reading, bad, loaded)
    begin = time.monotonic()
    found = _gaps(loaded, labelled) if chosen == "fill" else _asked(loaded, labelled, threshold)
    measured = found.measured
    if metric is not None:
        from clozeworks.tasks.metrics.glue import with_primary

        measured = with_primary(measured, metric)
    if json_text:
        print(json.dumps(_object(model, labelled, chosen, measured, found.details)))
    else:
        _print(model, labelled, chosen, measured, found)
    if predictions is not None:
        _write(predictions, found.records, overwrite)
    from clozeworks.cli.predict import closing

    seconds, long = time.monotonic() - begin, sum(r.get("windows", 1) > 1 for r in found.records)
    what = {"compare": "pair", "answer": "question"}.get(chosen, "text")
    print(closing(measured.count, what, seconds, long, bad, predictions), file=sys.stderr)


def task_name(
    loaded: "LanguageModel", file: Path, columns: str | None, header: bool | None, encoding: str
) -> EvaluatedTask:
    """What a model is measured on if nobody said: what its folder says, or the file suggests.

    Raises:
        UnsupportedError: The model has no head to measure.
    """
    from clozeworks.tasks.classify import Classify
    from clozeworks.tasks.compare import Compare

    task = loaded.task
    if task is None:
        if "vocabulary" not in loaded.blueprint.heads:
            loaded.ask([])  # complains
        return "fill"
    if not isinstance(task, Classify):
        named: dict[str, EvaluatedTask] = {"tag": "tag", "text_to_text": "text-to-text"}
        return named.get(task.name, "answer")
    if isinstance(task, Compare) or "task" in loaded.checkpoint.notes:
        return "compare" if isinstance(task, Compare) else "classify"
    guess, reason = _guessed(file, columns, header, encoding)
    print(
        f"The model folder does not say whether it is for texts or for pairs; {reason}, so it is "
        f"measured with --task {guess}.",
        file=sys.stderr,
    )
    return guess


def _guessed(
    file: Path, columns: str | None, header: bool | None, encoding: str
) -> tuple[EvaluatedTask, str]:
    from clozeworks.data.files.compression import format_suffix
    from clozeworks.data.files.tables import TableReader, read_table
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.columns import find_columns

    if columns is not None:
        roles = {part.partition("=")[0].strip() for part in columns.split(",")}
        pair = bool(roles & {"first", "second"})
        return ("compare" if pair else "classify"), f"--columns is {columns}"
    bad = BadRows(skip=True)
    try:
        if format_suffix(file) == ".json":
            head = read_table(file, encoding, bad.add)
        else:
            head = TableReader(file, encoding, bad.add).head
        found = find_columns(head, "compare", {}, header)[1]
    except InputError:  # reading the file as texts says what is wrong with it
        return "classify", f"{file} has no columns of pairs"
    known = [column for column in found if column.role != "label" and column.how == "known"]
    if len(known) == 2:
        return "compare", f"{file} has the columns {known[0].name} and {known[1].name}"
    return "classify", f"{file} has no columns with the usual names of pairs"


def check_able(loaded: "LanguageModel", task: EvaluatedTask, threshold: float | None) -> None:
    """Insists that a model can do what is measured.

    Raises:
        UnsupportedError: It has no head for it.
        SettingError: There is a threshold where there are no questions.
    """
    if threshold is not None and task != "answer":
        raise SettingError(
            f"--threshold is {threshold} and the task is {task}; only questions have one; leave "
            "it out."
        )
    if task == "classify":
        loaded.classify([])
    elif task == "compare":
        loaded.compare([])
    elif task == "tag":
        loaded.tag([])
    elif task == "answer":
        loaded.answer([], [])
    elif task == "text-to-text":
        loaded.text_to_text([])
    elif "vocabulary" not in loaded.blueprint.heads:
        loaded.fill([])


def _reading(
    loaded: "LanguageModel",
    task: EvaluatedTask,
    columns: str | None,
    header: bool | None,
    labels: Literal["one", "several", "numbers"] | None,
    separator: str | None,
    encoding: str,
) -> "Reading":
    from clozeworks.data.labelled.columns import parse_columns
    from clozeworks.data.labelled.reading import Reading

    # Texts with gaps are read as texts with a label.
    kind: Any = {"fill": "classify", "text-to-text": _kind(loaded)}.get(task, task)
    named = parse_columns(columns, kind) if columns else {}
    if labels is None and separator is None and task != "text-to-text":
        problem = "one" if task == "fill" else getattr(loaded.task, "problem", None)
        # A file of which all labels are whole numbers cannot say whether they are names.
        labels = {"one": "one", "number": "numbers"}.get(str(problem))  # type: ignore[assignment]
    return Reading(named, header, labels, separator, encoding)


def _kind(loaded: "LanguageModel") -> str:
    """What files for a model that writes are read as."""
    from clozeworks.tasks.text_to_text.formats import format_of
    from clozeworks.tasks.text_to_text.task import TextToText

    task = loaded.task
    if isinstance(task, TextToText) and task.format is not None:
        return format_of(task.format).kind
    return "text-to-text"


def read(
    file: Path,
    task: EvaluatedTask,
    reading: "Reading",
    bad: Any,
    loaded: "LanguageModel | None" = None,
) -> "Labelled":
    """Reads labelled data and says what was taken for what.

    Raises:
        InputError: It cannot be used as it is, or has no labels.
    """
    from clozeworks.data.labelled.items import QuestionItem
    from clozeworks.data.labelled.labels import NO_TURN, ROLE_OF_LABELS, are_chats
    from clozeworks.data.labelled.reading import read_labelled
    from clozeworks.tasks.text_to_text.data import named_format, read_texts

    if task == "text-to-text" and loaded is not None:
        writing = loaded.writing_task()
        labelled = read_texts([file], writing, reading, bad, names=named_format(writing, file))
    else:
        labelled = read_labelled(file, "classify" if task == "fill" else task, reading, bad=bad)
    if labelled.found:
        print(labelled.found, file=sys.stderr)
    if labelled.kind == "none":
        if are_chats(labelled.items):
            raise InputError(f"{file} has no targets, and judging a model needs {NO_TURN}")
        role = ROLE_OF_LABELS.get(task, "label")
        raise InputError(
            f"{file} has no labels, and there is nothing to measure without them; name their "
            f"column with --columns {role}=NAME."
        )
    for item in labelled.items:
        if isinstance(item, QuestionItem) and not item.answers and not item.impossible:
            raise InputError(f"{item.place} has no answer; give one, or mark it as impossible.")
    return labelled


def _gaps(loaded: "LanguageModel", labelled: "Labelled") -> Evaluation:
    from dataclasses import asdict

    from clozeworks.data.labelled.items import TextItem
    from clozeworks.inference.cloze import TOP, measure_gaps, right_words
    from clozeworks.reports.predictions import gold_of

    items = [item for item in labelled.items if isinstance(item, TextItem)]
    right_words(loaded.tokenizer, items)  # complains before the long work
    filled = loaded.fill([item.text for item in items], top=TOP)
    measured = measure_gaps(loaded.tokenizer, items, filled, intervals=True)
    records = [
        {**asdict(answer), "gold": gold_of(item), "place": item.place}
        for item, answer in zip(items, filled, strict=True)
    ]
    return Evaluation(measured, Details(), records)


def _asked(loaded: "LanguageModel", labelled: "Labelled", threshold: float | None) -> Evaluation:
    from clozeworks.cli.display.evaluation_page import details_of
    from clozeworks.cli.display.progress import ProgressBar
    from clozeworks.cli.display.records import record_of
    from clozeworks.cli.fitting_labels import fitted
    from clozeworks.reports.predictions import gold_of
    from clozeworks.tasks.compare import as_compare

    task: Any = loaded.task
    if labelled.task == "compare":
        task = as_compare(task)
    elif labelled.task == "text-to-text":
        task = loaded.writing_task()
    if threshold is not None:
        task = replace(task, threshold=threshold)
    items: Sequence[Any] = labelled.items
    if getattr(task, "labels", ()) and getattr(task, "problem", "one") != "number":
        items, said = fitted(items, task.labels)
        if said:
            print(said, file=sys.stderr)
    with ProgressBar("tokens") as progress:
        answers = loaded.ask(items, task, progress=progress)
    measured = task.measure(items, answers, intervals=True)
    records = [
        {**record_of(item, answer), "gold": gold_of(item)}
        for item, answer in zip(items, answers, strict=True)
    ]
    best = _best_threshold(task, items, answers, measured)
    return Evaluation(measured, details_of(task, items, answers), records, task, best)


def _best_threshold(
    task: Any, items: Sequence[Any], answers: Sequence[Any], measured: "Measured"
) -> str | None:
    """The best threshold in as few digits, but at least four, as do as well."""
    exact = measured.values.get("best_f1_threshold")
    if exact is None or not math.isfinite(exact):
        return None
    for digits in range(4, 17):
        # One of the answers has exactly this doubt, and rounding may leave it on the other side.
        for rounding in (ROUND_CEILING, ROUND_FLOOR):
            shown = f"{Context(prec=digits, rounding=rounding).create_decimal_from_float(exact):f}"
            found = replace(task, threshold=float(shown)).measure(items, answers)
            if found.values["f1"] >= measured.values["best_f1"] - 1e-9:
                return shown
    return repr(exact)


def _write(path: Path, records: Sequence[dict[str, Any]], overwrite: bool) -> None:
    from clozeworks.storage.atomic import atomic_file

    with atomic_file(path, "w", overwrite=overwrite) as file:
        for record in records:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")


def _object(
    model: str, labelled: "Labelled", task: EvaluatedTask, measured: "Measured", details: Details
) -> dict[str, Any]:
    known = measured.to_dict()
    # JSON has no word for what is not a number.
    known["values"] = {n: v if math.isfinite(v) else None for n, v in measured.values.items()}
    known["intervals"] = {n: e for n, e in known["intervals"].items() if all(map(math.isfinite, e))}
    return {"model": model, "task": task, "files": labelled.files, **known, **details.to_dict()}


def _print(
    model: str,
    labelled: "Labelled",
    task: EvaluatedTask,
    measured: "Measured",
    found: Evaluation,
) -> None:
    import shlex

    from clozeworks.cli.display.evaluation_page import number, page

    unit = {"compare": "pair", "answer": "question"}.get(task, "text")
    amount = counted(measured.count, unit)
    title = f"{task}, {model} on {', '.join(labelled.files)}: {amount}"
    print(page(title, measured, found.details))
    if found.threshold is not None:
        print(
            f"\nThe best F1, {number(measured.values['best_f1'])}, is reached with the threshold "
            f"{found.threshold}; it was chosen by these questions, so this F1 is a little too "
            "good: measure it on others.\n"
            f"Use it: clozeworks answer {shlex.quote(model)} … --threshold {found.threshold}"
        )
    elif task == "answer" and "best_f1" not in measured.values:
        impossible = sum(getattr(item, "impossible", False) for item in labelled.items)
        if impossible:
            print(
                f"\n{counted(impossible, 'of the questions has', 'of the questions have')} no "
                "answer, and the model always gives one; measure with --threshold 0 to let "
                "it give none, and to find the best threshold."
            )
