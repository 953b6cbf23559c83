"""What a program says in a call of `cw.finetune`, as a recipe and the objects that go with it."""

import dataclasses
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

from clozeworks import config, registry
from clozeworks.checkpoints.hub import resolve
from clozeworks.data.labelled.columns import named_columns
from clozeworks.data.labelled.in_memory import (
    DEV_SPLITS,
    TRAIN,
    DataSource,
    InMemory,
    data_sources,
    split_data,
    value_in_words,
)
from clozeworks.engine.callbacks import Callback
from clozeworks.errors import MISSING, InputError, OutputError, SettingError, Stated
from clozeworks.jobs.finetune.objects import RunObjects, file_names
from clozeworks.jobs.finetune.recipe import FinetuneRecipe
from clozeworks.jobs.pretrain.recipe import changed
from clozeworks.jobs.short_forms import FINETUNE_KEYWORDS, lay_over, written_out
from clozeworks.language_model import LanguageModel
from clozeworks.storage import locks
from clozeworks.storage.checksums import read_notes
from clozeworks.tasks.task import command_name, named_class, task_class, task_classes

# Where runs go that no folder is named for.
RUNS = Path("runs")
# What a call states by arguments of their own.
_ARGUMENTS = {"run": "out", "data.train": "data", "data.dev": "dev"}
_OWN = ("run", "model", "task", "data")
_OWN_ARGUMENTS = ("callbacks", "data", "dev", "loss", "out", "quiet", "task")
# What a task settles from the data.
_SETTLED = ("labels", "problem", "standardization")


@dataclasses.dataclass(frozen=True)
class FinetuneCall:
    """A call of `cw.finetune`, as a recipe and objects."""

    recipe: dict[str, Any]
    """The recipe as plain data; it may have a table `search`."""
    objects: RunObjects
    """What the recipe cannot hold."""
    names: dict[str, str]
    """What settings are called in the call, by their path in the recipe."""


def is_recipe(model: Any) -> bool:
    """Whether the first argument of a call is a recipe, and not a model."""
    if isinstance(model, str | Path):
        return Path(model).suffix == ".toml"
    return isinstance(model, FinetuneRecipe | Mapping)


def recipe_call(
    recipe: Any, changes: Sequence[Any], settings: Mapping[str, Any], objects: RunObjects
) -> FinetuneCall:
    """A call with a recipe: a file, plain data or a `FinetuneRecipe`, with settings changed."""
    advice = "say in the recipe where the data is, or give a model instead of a recipe"
    _check_changes(changes, "data", "a recipe", advice)
    if isinstance(recipe, FinetuneRecipe):
        recipe = config.plain(recipe)
    data = changed(dict(recipe) if isinstance(recipe, Mapping) else recipe, changes)
    lay_over(data, _written_out(settings))
    return FinetuneCall(data, objects, _names(settings))


def model_call(
    model: Any,
    data: Any,
    changes: Sequence[str],
    *,
    task: Any,
    dev: Any,
    out: Path,
    settings: Mapping[str, Any],
    objects: RunObjects,
) -> FinetuneCall:
    """A call with a model and data."""
    settings = dict(settings)
    advice = 'give texts and labels together: {"text": texts, "label": labels}'
    _check_changes(changes, "the third argument", "the data", advice)
    stated, labels = task_settings(task, model)
    train, dev_sources, unused = _sources(data, dev)
    columns = settings.pop("columns", None)
    recipe: dict[str, Any] = {"task": stated}
    lay_over(recipe, _written_out(settings))
    if columns is not None:
        options = [f"task.{name}={value}" for name, value in recipe["task"].items()]
        item = task_class(stated["kind"]).item_read(options)
        recipe.setdefault("data", {})["columns"] = named_columns(columns, item)
    files = {TRAIN: file_names(out, TRAIN, train), "dev": file_names(out, "dev", dev_sources)}
    name = model.name if isinstance(model, LanguageModel) else str(model)
    recipe = changed({**recipe, "run": str(out), "model": name}, changes)
    recipe["data"] = {**files, **recipe.get("data", {})}
    if any(isinstance(source, InMemory) for source in (*train, *dev_sources)):
        objects = dataclasses.replace(objects, train=tuple(train), dev=tuple(dev_sources))
    held = model if isinstance(model, LanguageModel) else None
    objects = dataclasses.replace(objects, model=held, labels=labels, unused_splits=unused)
    names = {**_ARGUMENTS, **_names({**settings, "columns": columns})}
    return FinetuneCall(recipe, objects, names)


def check_model(model: Any) -> None:
    """Insists on a model or the name of one.

    Raises:
        SettingError: If it is something else.
    """
    if not isinstance(model, LanguageModel | str | Path):
        rule = "it must be a model, a model folder or a hub name"
        raise SettingError("model", Stated(value_in_words(model)), rule)


def checked_callbacks(callbacks: Any) -> Sequence[Callback]:
    """Callbacks of a program: one, or several.

    Raises:
        SettingError: If one of them is something else.
    """
    several = [callbacks] if isinstance(callbacks, Callback) else callbacks
    if isinstance(several, Sequence) and not isinstance(several, str):
        wrong = next((each for each in several if not isinstance(each, Callback)), None)
        if wrong is None:
            return several
        callbacks = wrong
    rule = "it must be a list of callbacks, which are objects of classes derived from cw.Callback"
    raise SettingError("callbacks", Stated(value_in_words(callbacks)), rule)


def checked_function(name: str, function: Any, takes: str) -> Callable[..., Any] | None:
    """A function of the program's, or None.

    Raises:
        SettingError: If it cannot be called.
    """
    if function is None or callable(function):
        return function  # type: ignore[no-any-return]
    raise SettingError(name, Stated(value_in_words(function)), f"it must be a function of {takes}")


@contextmanager
def run_folder(out: Any, task: str) -> Iterator[Path]:
    """The folder of a run: as named, or the next free one below `runs`.

    One that was made for a run that was refused is removed again.

    Raises:
        SettingError: If it is not a path, or several processes would each choose one.
    """
    if out is not None:
        if not isinstance(out, str | Path) or not str(out):
            raise SettingError("out", Stated(value_in_words(out)), "it must be a folder")
        yield Path(out)
        return
    if os.environ.get("WORLD_SIZE", "1") != "1":
        rule = "several processes share this run, and each would choose another folder"
        raise SettingError("out", MISSING, rule, "name one")
    folder = _next_folder(task)
    try:
        yield folder
    finally:
        with suppress(OSError):  # it holds something
            if [path.name for path in folder.iterdir()] == [locks.FILE]:
                (folder / locks.FILE).unlink()
            folder.rmdir()
            RUNS.rmdir()


def task_settings(task: Any, model: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
    """A task as a recipe has it, and the labels it names.

    Args:
        task: Its name, a table with its `kind`, its class, or the task itself; None for what the
            model was trained for.
        model: The model, or its name.

    Raises:
        SettingError: If it is something else, or the model does not say it.
        UnknownName: If there is no task of that name.
    """
    if task is None:
        return {"kind": _trained_for(model)}, ()
    if isinstance(task, Mapping):
        return dict(task), ()
    cls = named_class(task)
    kind = registry.kind(cls)
    if cls.__dict__.get("is_slot") or not dataclasses.is_dataclass(cls):
        rule, advice = "a task is a frozen dataclass", "write @spec, of clozeworks.spec, above it"
        raise SettingError("task", Stated(f"the class {cls.__name__}"), rule, advice)
    if task_classes()[kind] is not cls:
        rule = f"another task is called {kind!r}, too"
        raise SettingError("task", Stated(f"the class {cls.__name__}"), rule, "rename the class")
    if isinstance(task, str | type):
        return {"kind": kind}, ()
    stated = {
        field.name: config.plain(getattr(task, field.name))
        for field in dataclasses.fields(task)
        if field.name not in _SETTLED and getattr(task, field.name) != field.default
    }
    try:
        json.dumps(stated)
    except TypeError as error:
        rule = "its fields must be plain data, which a model folder can hold"
        advice = "keep anything else in its methods, or give a function as `loss`"
        raise SettingError("task", Stated(f"a {cls.__name__}"), rule, advice) from error
    return {"kind": kind, **stated}, tuple(getattr(task, "labels", ()))


def _trained_for(model: Any) -> str:
    if isinstance(model, LanguageModel):
        notes: Mapping[str, Any] = model.checkpoint.notes
    else:
        notes = read_notes(resolve(model))
    stated = notes.get("task")
    if not isinstance(stated, dict) or not isinstance(stated.get("kind"), str):
        rule = "the model does not say what it was trained for"
        names = ", ".join(map(command_name, task_classes()))
        raise SettingError("task", MISSING, rule, f"name one of: {names}")
    return str(stated["kind"])


def _sources(data: Any, dev: Any) -> tuple[list[DataSource], list[DataSource], tuple[str, ...]]:
    """What is learned from and what is measured on; data in splits has both, and may have more."""
    if data is None:
        rule = "it must be a file, a frame, a dataset, or rows"
        raise SettingError("data", MISSING, rule, "give labelled data after the model")
    unused: tuple[str, ...] = ()
    if (splits := split_data(data)) is not None:
        if TRAIN not in splits:
            raise InputError(
                f"data has the splits {', '.join(map(str, splits))}, and none is called 'train'; "
                f"name the one to learn from, such as data[{next(iter(splits))!r}]."
            )
        held_out = None if dev is not None else next(filter(splits.__contains__, DEV_SPLITS), None)
        unused = tuple(str(name) for name in splits if name not in (TRAIN, held_out))
        data, dev = splits[TRAIN], dev if held_out is None else splits[held_out]
    return data_sources(data, "data"), [] if dev is None else data_sources(dev, "dev"), unused


def _next_folder(task: str) -> Path:
    for number in count(1):
        folder = RUNS / f"{command_name(task)}-{number}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError:
            continue
        except OSError as error:
            raise OutputError(
                f"{folder} cannot be made ({error.strerror}); name a folder with out."
            ) from error
        return folder
    raise AssertionError


def _check_changes(changes: Sequence[Any], name: str, after: str, advice: str) -> None:
    for change in changes:
        if not isinstance(change, str):
            rule = f"after {after}, settings to change follow, such as 'training.epochs=5'"
            raise SettingError(name, Stated(value_in_words(change)), rule, advice)


def _written_out(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recipe that a call states by name."""
    names = {field.name for field in dataclasses.fields(FinetuneRecipe)} - {*_OWN} | {"search"}
    return written_out(
        settings, FINETUNE_KEYWORDS, names, "An argument of finetune", _OWN_ARGUMENTS
    )


def _names(settings: Mapping[str, Any]) -> dict[str, str]:
    forms = FINETUNE_KEYWORDS
    return {forms[name]: name for name in settings if name in forms}
