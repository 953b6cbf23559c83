"""`clozeworks init`: write a recipe to begin with."""

import json
import re
import shlex
from pathlib import Path

from cyclopts import App

app = App(name="clozeworks init", help_format="plaintext", version_flags=[])

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
    from clozeworks.errors import OutputError
    from clozeworks.jobs.pretrain.recipe import read_recipe
    from clozeworks.jobs.recipe_text import recipe_text
    from clozeworks.storage.atomic import atomic_file

    if file.exists() or file.is_symlink():
        raise OutputError(f"{file} exists; name another file, or remove it first.")
    if like is not None:
        _write_like(file, like, corpus, size, objective, run)
        return
    corpus, run = corpus or Path("corpus"), run or Path("run")
    size, objective = size or "bert-tiny", objective or "bert"
    _check_size(size)
    recipe = read_recipe(
        {
            "run": str(run),
            "model": {"start": size},
            "data": {"corpus": str(corpus)},
            "objective": objective,
            "training": {"steps": STEPS},
        }
    )
    with atomic_file(file, "w", overwrite=False) as opened:
        opened.write(recipe_text(recipe, objective))
    print(f"{file}: {size} on {corpus} with the objective of {objective}, {STEPS:,} steps.")
    if not corpus.exists():
        quoted = shlex.quote(str(corpus))
        print(f"Make the corpus: clozeworks corpus build TEXTS --tokenizer DIR --out {quoted}")
    print(f"Train with: clozeworks pretrain {shlex.quote(str(file))}")


def _write_like(
    file: Path,
    like: str,
    corpus: Path | None,
    size: str | None,
    objective: str | None,
    run: Path | None,
) -> None:
    """Writes a recipe that comes with the package, with another corpus and run folder if given."""
    from clozeworks.errors import SettingError
    from clozeworks.jobs.pretrain.recipe import read_recipe
    from clozeworks.recipes import recipe_file
    from clozeworks.storage.atomic import atomic_file

    for name, value in (("--size", size), ("--objective", objective)):
        if value is not None:
            rule = f"--like {like} states its own"
            advice = "leave one of the two out, or change the file afterwards"
            raise SettingError(name, value, rule, advice)
    path = recipe_file(like)
    text = path.read_text(encoding="utf-8").replace(f"recipes/{path.name}", str(file))
    for key, index in (("run", run), ("corpus", corpus)):
        if index is not None:
            written = json.dumps(str(index))  # a string of JSON is one of TOML
            line = f"{key} = {written}".replace("\\", r"\\")
            text = re.sub(rf"(?m)^{key} = .*$", line, text)
    with atomic_file(file, "w", overwrite=False) as opened:
        opened.write(text)
    recipe = read_recipe(file)
    print(f"{file}: as {like}, {recipe.model.start} on {recipe.data.corpus}.")
    print(f"Train with: clozeworks pretrain {shlex.quote(str(file))}")


def _check_size(size: str) -> None:
    from clozeworks.errors import UnknownName
    from clozeworks.families.family import published_sizes

    known = published_sizes()
    if size not in known and not Path(size).is_dir() and "/" not in size:
        raise UnknownName("size", size, known)
