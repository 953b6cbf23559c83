"""`clozeworks probe`: linear probes on the layers of a frozen model."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import LabelledOptions
from clozeworks.display.table import aligned
from clozeworks.errors import UnknownName
from clozeworks.tasks.task import command_name, task_class, task_classes
from clozeworks.wording import as_json, counted

if TYPE_CHECKING:
    from clozeworks.jobs.probe.job import Probed, ProbeRow

app = App(name="clozeworks probe", help_format="plaintext", version_flags=[])


TASKS = [command_name(kind) for kind, each in task_classes().items() if each.can_probe]


@app.default
def probe(
    task: Annotated[str, Parameter(help=f"The task of the data: {', '.join(TASKS)}.")],
    model: str,
    /,
    *train: Annotated[Path, Parameter(required=True)],
    dev: Annotated[list[Path] | None, Parameter(negative="")] = None,
    layers: str | None = None,
    pooling: str | None = None,
    skip_bad_rows: Annotated[bool, Parameter(negative="")] = False,
    limit: int | None = None,
    seed: int = 0,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
    options: LabelledOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Measure what a frozen model's layers are worth for a task, with linear probes.

    Args:
        task: The task of the data.
        model: A model folder or hub name. It is not changed.
        train: Labelled files to train on, as clozeworks data check takes them.
        dev: Files to measure on; a fifth of train, which is then not trained on, if not given.
        layers: Which layers are probed, separated by commas: last, sum_last_four,
            concatenate_last_four, mix (a learned weighted sum of all), or numbers, 0 for the
            embeddings. All named ones that the model has if not given.
        pooling: How tokens are pooled: first, mean, max; mean if not given. Not for tag.
        skip_bad_rows: Drop rows that cannot be used instead of stopping at them.
        limit: The maximum number of items of train, and of dev, drawn at random.
        seed: Decides what is drawn and what is held out.
        out: A folder to create: the model with the probe on its last layer as its head.
        overwrite: Replace that folder if it has content.
        json_text: Print one JSON object.
        options: How labelled files are read.
        computing: Where the model computes.
    """
    from clozeworks.checkpoints.whole_folder import check_target
    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.data.labelled.reading import read_items

    kind = task_class(task)
    if not kind.can_probe:
        raise UnknownName("task", task, TASKS)
    if out is not None:
        check_target(out, overwrite=overwrite)
    layer_names = None if layers is None else [name.strip() for name in layers.split(",")]
    options = options or LabelledOptions()
    reading = options.reading(kind.item_type)
    known = read_items(train, kind.item_type, reading, bad=BadRows(skip=skip_bad_rows))
    judged = None
    if dev:
        judged = read_items(dev, kind.item_type, known.reading, bad=BadRows(skip=skip_bad_rows))

    from clozeworks.display.progress import ProgressBar
    from clozeworks.jobs.probe import job
    from clozeworks.jobs.probe import model as probed_model

    if out is not None:
        probed_model.check_written(layer_names)
    loaded = (computing or ComputingOptions()).load(model, usual="float32")
    if out is not None:
        probed_model.check_head(loaded, known.task)
    with ProgressBar("tokens") as progress:
        result = job.probe(
            loaded,
            known,
            judged,
            layers=layer_names,
            pooling=pooling,
            limit=limit,
            seed=seed,
            progress=progress,
        )
    if out is not None:
        probed_model.with_probe(loaded, result).save(out, overwrite=overwrite)
    if json_text:
        print(as_json(result.to_dict()))
        return
    dropped = [*known.bad.rows, *(judged.bad.rows if judged else ())]
    print("\n".join(page(result, model, known.description, len(dropped))))
    if out is not None:
        print(f"\n{out}: the model with the probe on the last layer as its head.")
        if result.long and task != "tag":
            print(
                "A long text gets the mean of its windows' probabilities there; here it had the "
                "mean of their vectors."
            )
        print(f"Use it: clozeworks {task} {shlex.quote(str(out))} …")
    words = [task, model, *map(str, train), *(["--dev", *map(str, dev)] if dev else [])]
    words += ["--columns", options.columns] if options.columns else []
    print(f"\nTrain the whole model: clozeworks finetune {shlex.join(words)}")


def page(result: "Probed", model: str, columns: str, dropped: int) -> list[str]:
    """The results as lines of text."""
    pooling = getattr(result.task, "pooling", None)
    how = f"{pooling} pooling" if pooling else "the first token of each word"
    lines = [columns] if columns else []
    if dropped:
        lines.append(f"{counted(dropped, 'bad row was', 'bad rows were')} dropped.")
    lines += [
        *result.notes,
        f"{model}, frozen; {how}; {counted(result.train, 'item')} to train on, "
        f"{result.dev:,} to measure on.",
        f"The encoder took {result.seconds:.1f} s for all layers.",
    ]
    if result.long:
        read = counted(result.long, "item was", "items were")
        lines.append(f"{read} read through several windows.")
    head = ["layers", result.baseline.measured.primary, "95 %", "strength", "seconds"]
    lines += ["", *aligned([head, *map(_cells, (result.baseline, *result.rows))]), ""]
    for row in result.rows:
        if row.layer_weights:
            weights = ", ".join(f"{weight:.2f}" for weight in row.layer_weights)
            lines.append(f"{row.layers}, from the embeddings to the last layer: {weights}.")
    best = result.best
    if len(result.rows) > 1:
        lines.append(
            f"Best here: {best.layers}. It was chosen on these items, so its value is slightly "
            "optimistic; measure it on others."
        )
    return [*lines, _verdict(result)]


def _verdict(result: "Probed") -> str:
    """Whether the best layers beat the baseline."""
    best, baseline = result.best.measured, result.baseline.measured
    if not best.better_than(baseline):
        return "No layers beat the baseline, which reads nothing."
    verdict = (
        f"{result.best.layers} beats the baseline, which reads nothing: {best.primary} "
        f"{best.value:.3f} instead of {baseline.value:.3f}"
    )
    one, other = (each.intervals.get(best.primary) for each in (best, baseline))
    if one and other and max(one[0], other[0]) <= min(one[1], other[1]):
        items = counted(result.dev, "item")
        return f"{verdict}; but their intervals overlap: with {items} it may be chance."
    return f"{verdict}."


def _cells(row: "ProbeRow") -> list[str]:
    measured = row.measured
    low, high = measured.intervals.get(measured.primary, (float("nan"),) * 2)
    strength = f"{row.strength:g}" if row.strength is not None else ""
    seconds = f"{row.seconds:.1f}" if row.strength is not None else ""
    return [row.layers, f"{measured.value:.3f}", f"{low:.3f} to {high:.3f}", strength, seconds]
