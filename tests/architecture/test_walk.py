"""docs/walk.md is true: every file it names is there, and holds the functions named after it."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WALK = (ROOT / "docs" / "walk.md").read_text(encoding="utf-8")
CODE = re.compile(r"`([^`]+)`")
NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)?(?<!\.json)")
# Words in code type that are not defined by us, or belong to no file.
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
NOT_OURS = {"scaled_dot_product_attention", "hide", "Trainer", "Classified"}


def stations():
    """Each file with the names that follow it, up to the next file or the end of its paragraph."""
    found = []
    for paragraph in re.split(r"\n(?=\n|\d+\. |\| )", WALK):
        path = None
        for code in CODE.findall(paragraph):
            if code.startswith("src/"):
                path = code
                found.append((path, []))
            elif path and NAME.fullmatch(code) and code not in NOT_OURS:
                found[-1][1].append(code)
    return found


def defined(path):
    """Functions, classes, methods, fields and constants of a file; methods as Class.method."""
    names = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef | FUNCTIONS):
            names.add(node.name)
        for inner in node.body if isinstance(node, ast.ClassDef) else []:
            if isinstance(inner, FUNCTIONS):
                names.add(f"{node.name}.{inner.name}")
            if isinstance(inner, ast.AnnAssign):
                names.add(f"{node.name}.{inner.target.id}")
    return names


@pytest.mark.parametrize("path", sorted({path for path, _ in stations()}))
def test_what_the_walk_names_is_there(path):
    file = ROOT / path
    assert file.exists(), f"docs/walk.md names {path}, which is not there"
    if file.is_dir():
        return
    named = {name for place, names in stations() if place == path for name in names}
    missing = named - defined(file)
    assert not missing, f"docs/walk.md: {path} has no {', '.join(sorted(missing))}"


def test_the_walk_shows_what_people_look_for():
    for words in ("80/10/10", "attention masks", "learning rate", "csv row"):
        assert words in WALK
    assert len(stations()) > 40


def test_the_glossary_names_what_exists():
    """Every class in the first two columns, which are about our words, is defined somewhere."""
    glossary = (ROOT / "docs" / "glossary.md").read_text(encoding="utf-8")
    rows = [line.split(" | ")[:2] for line in glossary.splitlines() if line.startswith("| **")]
    assert len(rows) > 10
    source = "\n".join(
        path.read_text(encoding="utf-8") for path in (ROOT / "src" / "clozeworks").rglob("*.py")
    )
    for name in set(re.findall(r"`([A-Z]\w+)", str(rows))):
        assert re.search(rf"^class {name}\b", source, re.MULTILINE), name


def test_the_guide_to_a_new_task_names_what_a_task_and_its_item_have():
    from clozeworks.data.labelled.items import Item
    from clozeworks.tasks.task import Task

    guide = (ROOT / "docs" / "guides" / "new-task.md").read_text(encoding="utf-8")
    known = {"Item": Item, "Task": Task}
    named = set(re.findall(r"`(Item|Task)\.(\w+)`", guide))
    assert len(named) > 20
    for owner, name in named:
        declared = {
            name for each in known[owner].__mro__ for name in vars(each).get("__annotations__", ())
        }
        assert hasattr(known[owner], name) or name in declared, f"{owner}.{name}"
