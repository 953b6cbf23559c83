"""`clozeworks recipes`: lists the recipes that come with the package, and what each needs."""

from typing import Annotated

from cyclopts import App, Parameter

from clozeworks.wording import as_json

app = App(name="clozeworks recipes", help_format="plaintext", version_flags=[])


@app.default
def recipes(
    *names: str,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """List the recipes that come with Clozeworks: settings as published, and for a laptop.

    Args:
        names: Only these recipes; all if not given.
        json_text: Print one JSON object per recipe.
    """
    from clozeworks.recipes import about, recipe_file, recipe_files

    for name in names or recipe_files():
        path = recipe_file(name)
        if json_text:
            facts = {"name": name, "about": about(path), "file": str(path), **_needs(name)}
            print(as_json(facts))
        else:
            needs = ", ".join(f"{what} {value}" for what, value in _needs(name).items())
            print(f"{name}\n  {about(path)}\n  {needs}\n")
    if not json_text:
        print("Write one of them to change it: clozeworks init pretrain recipe.toml --like NAME")


def _needs(name: str) -> dict[str, str]:
    """The model, the objective, and how much text the training reads."""
    from clozeworks.jobs.pretrain.recipe import read_recipe
    from clozeworks.recipes import recipe_file

    recipe = read_recipe(recipe_file(name))
    training = recipe.training
    amount = (
        f"{training.batch_tokens:,} tokens"
        if training.batch_tokens is not None
        else f"{training.batch_size:,} texts"
    )
    return {
        "model": recipe.model.start,
        "objective": ", ".join(recipe.objective.loss_names),
        "steps": f"{training.steps:,} of {amount}",
    }
