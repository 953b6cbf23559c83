"""A text that every Python brings along: its reference documentation and its docstrings.

About two million characters of English about one subject, enough for a small model to learn
something from in minutes, and no download. Source files are read, not imported: some modules of the
standard library open windows or browsers.
"""

import ast
import sys
import sysconfig
import warnings
from collections.abc import Iterator
from importlib import import_module
from inspect import cleandoc
from pathlib import Path
from types import FunctionType

# Tests and programs that come with the library are not about it.
_LEFT_OUT = {"test", "tests", "idlelib", "lib2to3", "turtledemo", "site-packages", "__pycache__"}
# A shorter docstring says nothing.
_LEAST = 60


def python_documentation() -> list[str]:
    """The documents: a topic of the reference or the docstrings of a module's parts, each once."""
    found = dict.fromkeys(document for _, document in documents())
    return list(found)


def documents() -> Iterator[tuple[str, str]]:
    """Where a document comes from, and its text, in an order that never changes."""
    import pydoc_data.topics as reference

    for name, text in sorted(reference.topics.items()):
        yield f"reference.{name}", text.strip()
    library = Path(sysconfig.get_path("stdlib"))
    for path in sorted(library.rglob("*.py")):
        inside = path.relative_to(library)
        if not _LEFT_OUT.intersection(inside.parts):
            module = ".".join(inside.with_suffix("").parts)
            for name, text in _docstrings(path):
                yield f"{module}{name}", text
    for module in sorted(sys.builtin_module_names):
        for name, text in _of_builtin(module):
            yield f"{module}{name}", text


def _docstrings(path: Path) -> Iterator[tuple[str, str]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # old escapes in other people's strings
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return  # a file that is broken on purpose
    waiting: list[tuple[str, ast.AST]] = [("", tree)]
    while waiting:
        name, node = waiting.pop(0)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node)
            if text and len(text) >= _LEAST:
                yield name, text
            waiting += [
                (f"{name}.{child.name}", child)
                for child in node.body
                if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
            ]


def _of_builtin(module: str) -> Iterator[tuple[str, str]]:
    for name, value in sorted(vars(import_module(module)).items()):
        if isinstance(value, FunctionType):  # a program's own hook, such as sys.excepthook
            continue
        text = getattr(value, "__doc__", None)
        if callable(value) and isinstance(text, str) and len(text) >= _LEAST:
            yield f".{name}", cleandoc(text)
