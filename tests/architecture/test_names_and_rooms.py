"""Names are unique, folders not crowded, everything is used, and tasks own what is theirs."""

import ast
from collections import Counter
from pathlib import Path

import clozeworks

SOURCE = Path(clozeworks.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in SOURCE.rglob("*.py")}
OUTSIDE_TASKS = {
    path: tree for path, tree in TREES.items() if not path.is_relative_to(SOURCE / "tasks")
}
KINDS = {"classify", "compare", "tag", "answer", "text_to_text", "text-to-text"}


def test_public_class_and_alias_names_are_unique():
    names = Counter(
        name for tree in TREES.values() for name in map(_class_or_alias, tree.body) if name
    )
    assert not {name for name, times in names.items() if times > 1}


def _class_or_alias(node):
    """The name of a public class or of a public alias of a type; None for anything else."""
    if isinstance(node, ast.ClassDef):
        name = node.name
    elif isinstance(node, ast.Assign | ast.AnnAssign):
        target = node.targets[0] if isinstance(node, ast.Assign) else node.target
        name = target.id if isinstance(target, ast.Name) else "_"
        # Types are written in camel case; T and the like are type variables, CAPITALS constants.
        if len(name) == 1 or name.isupper() or not name[0].isupper() or "_" in name:
            return None
    else:
        return None
    return None if name.startswith("_") else name


def test_no_folder_level_is_crowded():
    levels = Counter(str(path.parent.relative_to(SOURCE)) for path in TREES)
    assert not {folder for folder, files in levels.items() if files > 24}


# Offered to users in Python, and used by nothing inside the package.
OFFERED = {"load_adapter", "retrieval"}


def test_every_public_function_and_class_is_used():
    used = Counter(_name(node) for tree in TREES.values() for node in ast.walk(tree))
    unused = {
        node.name
        for tree in TREES.values()
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not node.decorator_list  # commands and specs are found by those who list them
        and not (isinstance(node, ast.ClassDef) and node.bases)  # so are parts of a slot
        and not used[node.name]
    }
    assert unused <= OFFERED


def _name(node):
    """The name that a node refers to; "" if it refers to none."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.alias) and node.asname:
        return node.name
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.split("[")[0]  # a quoted annotation, an entry of `__all__`
    return ""


def test_classes_of_tasks_are_rarely_asked_for_outside_tasks():
    inside = {
        node.name
        for path, tree in TREES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.ClassDef)
        and (path not in OUTSIDE_TASKS or node.name.endswith("Item"))
    } | {"Classified", "Tagged", "Answered", "Composed", "Filled"}
    asked = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, tree in OUTSIDE_TASKS.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and _name(node.func) == "isinstance"
        and any(isinstance(part, ast.Name) and part.id in inside for part in ast.walk(node.args[1]))
    ]
    assert len(asked) <= 15, asked


def test_kinds_of_tasks_are_rarely_named_outside_tasks():
    named = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path, tree in OUTSIDE_TASKS.items()
        if not path.is_relative_to(SOURCE / "serve" / "dialects")  # which speaks as others do
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and node.value in KINDS
    ]
    assert len(named) <= 20, named
