"""Finds parts by name. The folder is the list: adding a file adds its parts."""

import importlib
import pkgutil
import re
from functools import cache
from types import ModuleType


def kind(cls: type) -> str:
    """Names a spec class in settings and in JSON: `LayerNorm` is `layer_norm`."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()


@cache
def files(folder: str) -> dict[str, str]:
    """Lists the modules of a package folder without importing them."""
    package = importlib.import_module(folder)
    return {
        module.name: f"{folder}.{module.name}" for module in pkgutil.iter_modules(package.__path__)
    }


def modules(folder: str, marker: str) -> dict[str, ModuleType]:
    """Imports the files of a folder and keeps those that define `marker`."""
    found = {name: importlib.import_module(path) for name, path in files(folder).items()}
    return {name: module for name, module in found.items() if hasattr(module, marker)}


def specs(slot: type) -> dict[str, type]:
    """Collects every concrete spec of a slot by kind.

    A slot is a base class. If it names a `folder`, the files there are imported first; specs
    defined elsewhere (a test, a notebook) count as soon as they exist. A narrower slot with a
    folder of its own has a list of its own. Of two of one name the newer counts: a notebook may
    define a class again.
    """
    folder = getattr(slot, "folder", None)
    for name in files(folder).values() if folder else ():
        importlib.import_module(name)
    found: dict[str, type] = {}
    waiting: list[type] = list(slot.__subclasses__())
    while waiting:
        cls = waiting.pop()
        if cls.__dict__.get("folder", folder) != folder:
            continue
        waiting += cls.__subclasses__()
        if not cls.__dict__.get("is_slot"):  # a narrower slot is not a spec itself
            found.setdefault(kind(cls), cls)  # the newest of a base's subclasses come first
    return found
