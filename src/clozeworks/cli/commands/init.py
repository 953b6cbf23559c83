"""`clozeworks init`: write a recipe to begin with."""

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
    corpus: Path = Path("corpus"),
    size: str = "bert-tiny",
    objective: str = "bert",
    run: Path = Path("run"),
) -> None:
    """Write a recipe for pre-training, with every setting, its help and its default.

    Args:
        file: The file to write.
        corpus: The corpus to train on.
        size: A published size for fresh weights, or a model folder to go on from.
        objective: bert, roberta, t5, gpt2 or another paper's name.
        run: The folder of the run.
    """
    from clozeworks.errors import OutputError
    from clozeworks.jobs.pretrain.recipe import read_recipe
    from clozeworks.jobs.recipe_text import recipe_text
    from clozeworks.storage.atomic import atomic_file

    if file.exists() or file.is_symlink():
        raise OutputError(f"{file} exists; name another file, or remove it first.")
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
        place = shlex.quote(str(corpus))
        print(f"Make the corpus: clozeworks corpus build TEXTS --tokenizer DIR --out {place}")
    print(f"Train with: clozeworks pretrain {shlex.quote(str(file))}")


def _check_size(size: str) -> None:
    from clozeworks.errors import UnknownName
    from clozeworks.families.family import published_sizes

    known = published_sizes()
    if size not in known and not Path(size).is_dir() and "/" not in size:
        raise UnknownName("size", size, known)
