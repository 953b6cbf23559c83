"""`clozeworks init`: write a recipe to begin with."""

import json
import re
import shlex
from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from clozeworks import registry
from clozeworks.cli.inputs import task_parameter

app = App(
    name="clozeworks init",
    help="Write a recipe to start from: a TOML file with every setting.",
    help_format="plaintext",
    version_flags=[],
)

# A run of this many steps is short enough to try and long enough to learn something.
STEPS = 10_000


@app.command
def pretrain(
    file: Path = Path("recipe.toml"),
    /,
    *,
    like: str | None = None,
    corpus: Path | None = None,
    size: str | None = None,
    objective: str | None = None,
    run: Path | None = None,
) -> None:
    """Write a recipe for pre-training, with every setting, its help and its default.

    Args:
        file: The file to write.
        like: A recipe that comes along, written as it is; `clozeworks recipes` lists them.
        corpus: The corpus to train on; corpus if not given.
        size: A published size for fresh weights, or a model folder to continue from; bert-tiny if
            not given.
        objective: bert, roberta, t5, gpt2 or another paper's name; bert if not given.
        run: The folder of the run; run if not given.
    """
    from clozeworks.errors import SettingError, UnknownName
    from clozeworks.families.family import published_sizes
    from clozeworks.jobs.pretrain.recipe import read_recipe
    from clozeworks.jobs.recipe_text import recipe_text
    from clozeworks.storage.atomic import atomic_file

    _check_new(file)
    if like is not None:
        for name, value in (("--size", size), ("--objective", objective)):
            if value is not None:
                rule = f"--like {like} states its own"
                advice = "leave one of the two out, or change the file afterwards"
                raise SettingError(name, value, rule, advice)
        text = _text_like(file, like, run, corpus)
    else:
        size, objective = size or "bert-tiny", objective or "bert"
        known = published_sizes()
        if size not in known and not Path(size).is_dir() and "/" not in size:
            raise UnknownName("size", size, known)
        settings = {
            "run": str(run or "run"),
            "model": {"start": size},
            "data": {"corpus": str(corpus or "corpus")},
            "objective": objective,
            "training": {"steps": STEPS},
        }
        text = recipe_text(read_recipe(settings), objective)
    with atomic_file(file, "w", overwrite=False) as opened:
        opened.write(text)
    recipe = read_recipe(file)
    target = Path(recipe.data.corpus)
    if like is not None:
        print(f"{file}: as {like}, {recipe.model.start} on {target}.")
    else:
        print(f"{file}: {size} on {target} with the objective of {objective}, {STEPS:,} steps.")
        if not target.exists():
            quoted = shlex.quote(str(target))
            print(f"Make the corpus: clozeworks corpus build TEXTS --tokenizer DIR --out {quoted}")
    print(f"Train with: clozeworks pretrain {shlex.quote(str(file))}")


@app.command
def finetune(
    task: Annotated[str, task_parameter("The task")] = "classify",
    file: Path = Path("recipe.toml"),
    /,
    *,
    model: str = "model",
    train: Annotated[list[str] | None, Parameter(negative="")] = None,
    run: Path | None = None,
) -> None:
    """Write a recipe for fine-tuning, with every setting of a task, its help and its default.

    Args:
        task: The task.
        file: The file to write.
        model: The model folder or hub name to fine-tune.
        train: A labelled file to train on; train.csv if not given. May be given several times.
        run: The folder of the run; TASK-run if not given.
    """
    from clozeworks.jobs.finetune.recipe import read_finetune_recipe
    from clozeworks.jobs.recipe_text import finetune_text
    from clozeworks.storage.atomic import atomic_file
    from clozeworks.tasks.task import task_class

    _check_new(file)
    kind = registry.kind(task_class(task))
    settings = {
        "run": str(run or f"{task}-run"),
        "model": model,
        "task": {"kind": kind},
        "data": {"train": train or ["train.csv"]},
    }
    recipe = read_finetune_recipe(settings)
    with atomic_file(file, "w", overwrite=False) as opened:
        opened.write(finetune_text(recipe))
    print(f"{file}: {task} with {model} on {', '.join(recipe.data.train)}; every setting is there.")
    print(f"Train with: clozeworks finetune {shlex.quote(str(file))}")


def _check_new(file: Path) -> None:
    from clozeworks.errors import OutputError

    if file.exists() or file.is_symlink():
        raise OutputError(f"{file} exists; name another file, or remove it first.")


def _text_like(file: Path, like: str, run: Path | None, corpus: Path | None) -> str:
    """The text of a packaged recipe, with another run folder and corpus if given."""
    from clozeworks.recipes import recipe_file

    path = recipe_file(like)
    text = path.read_text(encoding="utf-8").replace(f"recipes/{path.name}", str(file))
    for key, value in (("run", run), ("corpus", corpus)):
        if value is not None:
            written = json.dumps(str(value))  # a string of JSON is one of TOML
            line = f"{key} = {written}".replace("\\", r"\\")
            text = re.sub(rf"(?m)^{key} = .*$", line, text)
    return text
