"""`clozeworks evaluate`: measure how good a model is on labelled data."""

import math
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import LabelledOptions, task_parameter
from clozeworks.display.evaluation_page import with_small_confusion
from clozeworks.errors import InputError, SettingError
from clozeworks.wording import as_json, counted

if TYPE_CHECKING:
    from clozeworks.language_model.evaluated import EvaluatedModel

app = App(
    name="clozeworks evaluate",
    usage="Usage: clozeworks evaluate [OPTIONS] MODEL [OTHER_MODEL] FILE",
    help_format="plaintext",
    version_flags=[],
)


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class EvaluateOptions(LabelledOptions):
    """How labelled files are read.

    Attributes:
        labels: One label per row, several, or numbers; as the model was trained if not given.
    """


_TASK = task_parameter("What is measured; as the model folder says if not given. One of", "fill")


@app.default
def evaluate(
    model: str,
    /,
    *file: Annotated[str, Parameter(required=True)],
    task: Annotated[str | None, _TASK] = None,
    skip_bad_rows: Annotated[bool, Parameter(negative="")] = False,
    metric: str | None = None,
    threshold: float | None = None,
    rerank: str | None = None,
    truncate_dim: int | None = None,
    predictions: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
    options: EvaluateOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Measure how good a model is on labelled data, with 95 % intervals.

    With two models, say whether one is better than the other, or chance may explain the difference:
    both are measured again and again on the same draws of the data (paired bootstrap).

    Args:
        model: A model folder or hub name; another one may follow, to compare it with.
        file: Labelled data: .csv, .tsv, .jsonl, .json, .parquet, CoNLL columns, compressed or not.
            For fill: texts with [MASK], and the right words as label. For vectors: pairs with a
            score, pairs with 0 or 1, triplets, or texts with a class. Or a folder in BEIR's layout
            (corpus.jsonl, queries.jsonl, qrels/test.tsv), or one of its files of judgements.
        task: What is measured.
        skip_bad_rows: Drop rows that cannot be used, and count them.
        metric: The main metric, or a GLUE task such as mrpc; for found documents such as recall@20.
        threshold: For questions: give no answer if "none" is ahead by more than this. For vectors
            of pairs with 0 or 1: pairs of at least this cosine count as similar.
        rerank: For a folder in BEIR's layout: a model that compares two texts; it scores the best
            100 documents of each query again.
        truncate_dim: For vectors: measure their first dimensions alone, so many of them.
        predictions: Write each item with what is right and what the model says to this file
            (.jsonl).
        overwrite: Replace the file of predictions if it exists.
        json_text: Print one JSON object.
        options: How labelled files are read.
        computing: Where the model computes.
    """
    from clozeworks.cli.predict import closing, how_read
    from clozeworks.data.files.vectors import check_output
    from clozeworks.display.progress import ProgressBar
    from clozeworks.tasks.classify import TextItem
    from clozeworks.tasks.results.records import write_records

    if len(file) > 2:
        shown = " ".join([model, *file])
        advice = "write evaluate MODEL FILE, or evaluate MODEL OTHER_MODEL FILE"
        raise InputError(f"{shown}: these are {len(file):,} models and a file; {advice}.")
    if predictions is not None and len(file) == 2:
        rule = "it holds what one model says, and two are compared"
        raise SettingError("--predictions", predictions, rule, "leave it out")
    if predictions is not None:
        check_output(predictions, overwrite=overwrite, suffixes=(".jsonl",), name="predictions")

    from clozeworks.language_model.evaluated import EvaluationSettings
    from clozeworks.language_model.evaluation import evaluate as measure

    options = options or EvaluateOptions()
    settings = EvaluationSettings(
        task=task,
        columns=options.columns,
        reading=replace(options, columns=None).reading(TextItem),
        skip_bad_rows=skip_bad_rows,
        metric=metric,
        threshold=threshold,
        rerank=None if rerank is None else (computing or ComputingOptions()).load(rerank),
    )

    def measured(model: str) -> "EvaluatedModel":
        loaded = (computing or ComputingOptions()).load(model)
        if truncate_dim is not None:
            loaded.pooling = loaded.pooling.truncated(truncate_dim)
        with ProgressBar("tokens") as progress:
            return measure(loaded, Path(file[-1]), settings, tell=_tell, progress=progress)

    if len(file) == 2:
        _compare((model, file[0]), [measured(each) for each in (model, file[0])], json_text)
        return
    result = measured(model)
    result = replace(result, details=with_small_confusion(result.details))
    if json_text:
        print(as_json(_record(model, result), ascii_only=True))
    else:
        _print(model, result)
    if predictions is not None:
        write_records(predictions, result.records, overwrite=overwrite)
    long = sum(record.get("windows", 1) > 1 for record in result.records)
    cut = sum(record.get("truncated", False) for record in result.records)
    read = [] if result.task is None else how_read(result.task, long, cut)
    item, bad = result.labelled.item, result.labelled.bad
    count = len(result.labelled.items)
    line = closing(count, item.asked_unit, result.seconds, read, bad, predictions)
    print(line, file=sys.stderr)


def _compare(models: tuple[str, str], results: "list[EvaluatedModel]", json_text: bool) -> None:
    """Prints what two models reach on the same data, and whether they differ."""
    from clozeworks.display.evaluation_page import comparison

    first, second = results
    found = first.differences(second)
    if json_text:
        records = [_record(*each) for each in zip(models, results, strict=True)]
        found_json = {"differences": [each.to_dict() for each in found]}
        print(as_json({"models": records, **found_json}, ascii_only=True))
        return
    amount = counted(len(first.labelled.items), first.labelled.item.asked_unit)
    print(f"{first.command} on {', '.join(first.labelled.files)}: {amount}\n")
    print(f"A  {models[0]}\nB  {models[1]}\n")
    print(comparison(found))
    notes = [each.measured.remarks for each in results]
    for name, own, others in zip("AB", notes, notes[::-1], strict=True):
        for note in own:
            if note not in others:
                print(f"note, {name}: {note}")
            elif name == "A":
                print(f"note: {note}")


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _record(model: str, result: "EvaluatedModel") -> dict[str, Any]:
    from clozeworks.display.evaluation_page import labels_json

    values = result.measured.to_dict()
    # JSON has no word for what is not a number.
    values["values"] = {n: v if math.isfinite(v) else None for n, v in values["values"].items()}
    finite = {n: e for n, e in values["intervals"].items() if all(map(math.isfinite, e))}
    values |= {"intervals": finite, **labels_json(result.details)}
    return {"model": model, "task": result.command, "files": result.labelled.files, **values}


def _print(model: str, result: "EvaluatedModel") -> None:
    import shlex

    from clozeworks.display.evaluation_page import number, page

    measured, labelled = result.measured, result.labelled
    amount = counted(len(labelled.items), labelled.item.asked_unit)
    title = f"{result.command}, {model} on {', '.join(labelled.files)}: {amount}"
    print(page(title, measured, result.details))
    if result.threshold is not None:
        print(
            f"\nThe best F1, {number(measured.values['best_f1'])}, is reached with the threshold "
            f"{result.threshold}; it was chosen by these questions, so this F1 is a little too "
            "good: measure it on others.\n"
            f"Use it: clozeworks answer {shlex.quote(model)} … --threshold {result.threshold}"
        )
    elif "best_f1_threshold" in measured.values and "threshold" not in measured.values:
        print(
            "\nThe best accuracy and F1 are a little too good: their thresholds were chosen by "
            "these pairs. On others, measure with --threshold "
            f"{number(measured.values['best_f1_threshold'])}."
        )
    elif result.task is not None and "best_f1" not in measured.values:
        impossible = sum(getattr(item, "impossible", False) for item in labelled.items)
        if impossible:
            print(
                f"\n{counted(impossible, 'of the questions has', 'of the questions have')} no "
                "answer, and the model always gives one; measure with --threshold 0 to let "
                "it give none, and to find the best threshold."
            )
