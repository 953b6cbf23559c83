"""Writes docs/map.md: a line for every file, taken from the first line of its docstring.

python tools/map.py           # writes the page
python tools/map.py --check   # exits with 1 if the page is not up to date
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "map.md"
OPENING = """# The map

A line for every file: the first sentence of what the file says about itself. `python tools/map.py`
writes this page. Which folder may import which is stated in `pyproject.toml` and checked by
import-linter; [walk.md](walk.md) follows a batch and a question through these files.

"""


def main() -> None:
    """Writes the page, or checks that it is up to date."""
    page = map_page()
    if "--check" not in sys.argv[1:]:
        PAGE.write_text(page, encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page:
        sys.exit("docs/map.md is not up to date; run: python tools/map.py")


def map_page() -> str:
    """The whole page."""
    return OPENING + "\n".join(_section(ROOT / "src" / "clozeworks")) + "\n"


def _section(folder: Path, depth: int = 2) -> Iterator[str]:
    name = str(folder.relative_to(ROOT / "src"))
    yield f"{'#' * min(depth, 4)} {name}/\n"
    yield f"{_summary(folder / '__init__.py')}\n"
    files = [path for path in sorted(folder.glob("*.py")) if path.name != "__init__.py"]
    if files:
        yield "| file | what is in it |\n|---|---|"
        for path in files:
            summary = _summary(path).replace("|", "\\|")
            yield f"| [{path.name}](../{path.relative_to(ROOT)}) | {summary} |"
        yield ""
    for inner in sorted(folder.iterdir()):
        if (inner / "__init__.py").exists():
            yield from _section(inner, depth + 1)


def _summary(path: Path) -> str:
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n")[0]


if __name__ == "__main__":
    main()
