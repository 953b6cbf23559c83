"""Recipes for pre-training that come with the package: as published, and for a laptop."""

from functools import cache
from pathlib import Path

from clozeworks.errors import UnknownName

FOLDER = Path(__file__).parent


@cache
def recipe_files() -> dict[str, Path]:
    """The file of every recipe, by name."""
    return {path.stem: path for path in sorted(FOLDER.glob("*.toml"))}


def recipe_file(name: str) -> Path:
    """The file of a recipe.

    Raises:
        UnknownName: If there is no such recipe.
    """
    files = recipe_files()
    if name not in files:
        raise UnknownName("recipe", name, files)
    return files[name]


def about(path: Path) -> str:
    """What a recipe says of itself: the first paragraph of its comment."""
    lines = []
    for line in path.read_text(encoding="utf-8").splitlines():
        words = line.removeprefix("#").strip()
        if not line.startswith("#") or not words:
            break
        lines.append(words)
    return " ".join(lines)
