"""`clozeworks finetune`: train a model for a task on labelled files."""

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, Parameter

from clozeworks import registry
from clozeworks.cli.commands.pretrain import check_finished, resume_command, say, training
from clozeworks.cli.inputs import FILE_OPTIONS, FileOptions, check_minimum, option_name
from clozeworks.cli.training import FinetuneOptions, respelled
from clozeworks.data.labelled.items import Item
from clozeworks.errors import SET, InputError, SettingError, nearest
from clozeworks.tasks.task import Task, command_name, task_class, task_classes

if TYPE_CHECKING:
    from clozeworks.jobs.finetune.job import Finetuned
    from clozeworks.jobs.finetune.search import Searched

app = App(
    name="clozeworks finetune",
    help="Fine-tune a model on labelled files. Run it again to resume.",
    help_format="plaintext",
    version_flags=[],
)

Files = Annotated[list[str] | None, Parameter(negative="")]


def check_words(words: Sequence[str]) -> None:
    """Insists that the first word is a task or a recipe.

    Raises:
        InputError: If it is something else; of its options the parser knows none.
    """
    tasks = list(map(command_name, task_classes()))
    first = words[0] if words else "-"
    if first.startswith("-") or first in tasks or Path(first).suffix == ".toml":
        return
    near = nearest(first, tasks)
    raise InputError(
        f"{first} is neither a task nor a recipe; write finetune {'|'.join(tasks)} MODEL TRAIN, or "
        f"name a .toml file.{f' Did you mean {near!r}?' if near else ''}"
    )


@app.default
def recipe(file: Path, /, *changes: str, training: FinetuneOptions | None = None) -> None:
    """Fine-tune as a recipe says.

    Args:
        file: A TOML file with run, model, task, data and what else differs from the defaults, which
            `clozeworks init finetune` writes.
        changes: Settings to change, for example training.layer_decay=0.9.
        training: Settings that have an option of their own.
    """
    training = training or FinetuneOptions()
    _run(file, changes, ["finetune", str(file), *changes, *training.words()], training)


def _command(kind: type[Task[Any, Any]]) -> None:
    """Adds the command of a task."""
    task = kind.item_type.command
    roles = [role.name for role in kind.item_type.roles if role.required or role.holds]
    example = ",".join(f"{name}=column_{number}" for number, name in enumerate(roles, start=1))

    def run(
        model: str,
        /,
        *train: Annotated[str, Parameter(required=True)],
        dev: Files = None,
        out: Annotated[Path | None, Parameter(alias="-o")] = None,
        columns: str | None = None,
        dev_columns: str | None = None,
        seeds: int = 1,
        skip_bad_rows: Annotated[bool, Parameter(negative="")] = False,
        probe: Annotated[bool, Parameter(negative="")] = False,
        training: FinetuneOptions | None = None,
        reading: FileOptions | None = None,
    ) -> None:
        # The parser reads the help from here.
        from clozeworks.data.labelled.columns import parse_columns

        given = (reading or FileOptions()).given()
        training = training or FinetuneOptions()
        words = ["finetune", task, model, *train]
        options: dict[str, Any] = {
            "--dev": dev or [],
            "--out": [str(out)] if out else [],
            "--columns": [columns] if columns else [],
            "--dev-columns": [dev_columns] if dev_columns else [],
            "--seeds": [str(seeds)] if seeds != 1 else [],
            **{option_name(name): [str(value)] for name, value in given.items()},
        }
        for name, values in options.items():
            words += [part for value in values for part in (name, value)]
        words += ["--skip-bad-rows"] if skip_bad_rows else []
        words += ["--probe"] if probe else []
        words += training.words()
        files = [word for word in train if "=" not in word or Path(word).exists()]
        changes = [word for word in train if word not in files]
        if not files:
            raise InputError("no labelled file was named; give at least one after the model.")
        check_minimum(1, seeds=seeds)
        _check_named_once(changes, options)
        data: dict[str, Any] = {"train": files, "dev": dev or []}
        for name, named in (("columns", columns), ("dev_columns", dev_columns)):
            if named:
                data[name] = parse_columns(named, kind.item_read(changes))
        data |= {"skip_bad_rows": True} if skip_bad_rows else {}
        data |= given
        recipe = {
            "run": str(out or f"{task}-run"),
            "model": model,
            "task": {"kind": task.replace("-", "_")},
            "data": data,
            "seeds": list(range(seeds)),
        }
        # What has an option here is named by it; the rest as in a recipe.
        own = ("dev", "columns", "dev_columns", "skip_bad_rows", *FILE_OPTIONS)
        spelled = {f"data.{name}": option_name(name) for name in own}
        spelled |= {"run": "--out", "seeds": "--seeds", "data.train": "TRAIN", "model": "MODEL"}
        _run(recipe, changes, words, training, spelled, probe=probe)

    rows = "".join(f"\n    - {have}: {get}" for have, get in kind.teaches.items())
    table = f"\n\n    What your columns are, and the loss you get (task.loss.kind):{rows}"
    run.__doc__ = f"""Fine-tune a model to {kind.summary}.{table if rows else ""}

    Args:
        model: A model folder or hub name.
        train: Labelled files (csv, tsv, jsonl, parquet, CoNLL columns, CoNLL-U, SQuAD json;
            compressed or not), and settings to change, for example training.layer_decay=0.9; with
            search.learning_rates=[2e-5,5e-5] (also epochs, batch_sizes, trials) several are tried.
            `clozeworks init finetune {task}` writes all settings to a file.
        dev: A file to evaluate on; a part of the training files if not given. May be given several
            times.
        out: The folder of the run; TASK-run if not given.
        columns: Which column is what, for example {example}; detected if not given.
        dev_columns: The same of the files named by --dev; as --columns says if not given.
        seeds: How many models are trained, with seeds from 0; the best one is kept.
        skip_bad_rows: Drop and count rows that cannot be used.
        probe: Also measure what the frozen model's layers are worth, on the same items.
        training: Settings that have an option of their own.
        reading: How files are read.
    """
    app.command(run, name=task)


# Options that are a setting of the recipe, too.
_SETTINGS = {
    "run": "--out",
    "seeds": "--seeds",
    "data.dev": "--dev",
    "data.columns": "--columns",
    "data.dev_columns": "--dev-columns",
}


def _check_named_once(changes: Sequence[str], options: Mapping[str, Sequence[str]]) -> None:
    """Refuses a setting that is given by its option and by its name."""
    for change in changes:
        name, _, value = change.partition("=")
        if name in _SETTINGS and options[_SETTINGS[name]]:
            rule = f"{_SETTINGS[name]} says the same thing"
            raise SettingError(name, value, rule, "leave one of them out")


def _run(
    source: Path | dict[str, Any],
    changes: Sequence[str],
    words: list[str],
    options: FinetuneOptions,
    spelled: Mapping[str, str] | None = None,
    *,
    probe: bool = False,
) -> None:
    """Trains as a recipe says, with settings changed by words and by options.

    `spelled` are the options of settings that the recipe was made from.
    """
    from clozeworks.jobs.pretrain.recipe import changed

    with respelled({**(spelled or {}), **options.spelled()}):
        every = options.changes(changes)
        _train(changed(source, every), words, probe=probe)


def _train(data: dict[str, Any], words: list[str], *, probe: bool) -> None:
    from clozeworks.jobs.finetune import job
    from clozeworks.jobs.finetune.recipe import read_finetune_recipe
    from clozeworks.jobs.finetune.search import search

    searches = "search" in data
    settled = read_finetune_recipe({key: data[key] for key in data if key != "search"})
    kind = task_class(settled.task["kind"])
    if probe and not kind.can_probe:
        from clozeworks.cli.commands.probe import TASKS

        raise SettingError("--probe", SET, f"it is for {', '.join(TASKS)}", "leave it out")
    if probe and searches:
        rule = "it cannot be combined with a search"
        raise SettingError("--probe", SET, rule, "use clozeworks probe instead")
    command = resume_command(words)
    with training(command) as progress:
        trained = (
            search(data, callback=progress)
            if searches
            else job.finetune(settled, callback=progress)
        )
    _report(trained, kind.item_type, command)
    if probe and isinstance(trained, job.Finetuned) and trained.model is not None:
        _probe(trained, settled.model)


def _probe(trained: "Finetuned", model: str) -> None:
    """What the frozen model's vectors are worth on the same items."""
    from clozeworks.cli.commands.probe import page
    from clozeworks.display.progress import ProgressBar
    from clozeworks.jobs.probe.job import probe
    from clozeworks.language_model import load

    with ProgressBar("tokens") as progress:
        frozen = probe(load(model, dtype="float32"), *trained.data.files, progress=progress)
    print("\nWithout training the encoder:")
    print("\n".join(page(frozen, model, "", 0)))
    best, tuned = frozen.best.measured, trained.best.measured
    print(
        f"Fine-tuned: {tuned.primary} {tuned.value:.3f}; frozen, best layers: {best.value:.3f}; "
        f"baseline: {frozen.baseline.measured.value:.3f}."
    )


def _report(trained: "Finetuned | Searched", item: type[Item], command: str) -> None:
    if trained.outcome is not None:
        check_finished(trained.outcome, command)
    if trained.model is None:
        return  # another rank reports
    if trained.outcome is None:
        say("This run was finished before, and nothing was trained now; its results:")
    for line in trained.summary():
        print(line)
    model = shlex.quote(str(trained.model))
    example = f"clozeworks {item.command} {model} {' '.join(map(repr, item.example))}"
    if trained.chats:  # it was trained on texts of a chat template only
        example = f"clozeworks generate {model} 'a text of yours' --chat"
    print(f"The model is in {model}; try it: {example}")


def make_app() -> App:
    """The command, with a command of its own for every task there is."""
    for kind in task_classes().values():
        if command_name(registry.kind(kind)) not in app:
            _command(kind)
    return app
