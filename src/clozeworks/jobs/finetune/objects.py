"""What a program hands to a run beside its recipe: data, a model, a loss, a metric.

A recipe cannot hold them. So a run writes down what they were: rows are written into its folder,
and of a model, a loss and a metric the run remembers which ones they were. It goes on only with
the same ones.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import torch

from clozeworks.data.labelled.in_memory import DataSource, InMemory
from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.reading import places_of
from clozeworks.language_model import LanguageModel, load
from clozeworks.objectives.custom_loss import LabelLossFunction, function_name
from clozeworks.storage.atomic import write_text
from clozeworks.tasks.metrics.custom import Metric

# Where rows are written that came from a program, below the folder of a run.
DATA = "data"


@dataclass(frozen=True)
class RunObjects:
    """What a program hands to a run; nothing of it is changed."""

    model: LanguageModel | None = None
    """The model to begin with; the one the recipe names if None."""
    train: tuple[DataSource, ...] = ()
    """What is learned from, in place of the recipe's files; those if empty."""
    dev: tuple[DataSource, ...] = ()
    """What it is measured on; as the recipe says if both are empty."""
    loss: LabelLossFunction | None = None
    """What is learned by; the task's own loss if None."""
    metric: Metric | None = None
    """What decides which weights are best; the task's own if None."""
    labels: tuple[str, ...] = ()
    """The labels that the data must have; any if empty."""
    unused_splits: tuple[str, ...] = ()
    """The splits of its data that are neither learned from nor measured on."""

    def start(self, name: str) -> LanguageModel:
        """The model to begin with, by itself or by its name."""
        if self.model is None:
            return load(name, dtype=torch.float32)
        # A task may write notes down with the model: not with that of the program.
        return LanguageModel(replace(self.model.checkpoint), self.model.name)

    @cached_property
    def identity(self) -> dict[str, str]:
        """What changes when one of them does."""
        found: dict[str, str] = {}
        if self.model is not None:
            found["model"] = weights_identity(self.model)
        for name, function in (("loss", self.loss), ("metric", self.metric)):
            if function is not None:
                found[name] = f"{function.__module__}.{function_name(function)}"
        return found

    def written(self, recipe: dict[str, Any]) -> dict[str, Any]:
        """A recipe as plain data, whatever folder its run is in."""
        given = {"train": self.train, "dev": self.dev}
        names = {name: _names(name, sources) for name, sources in given.items() if sources}
        return {**recipe, "data": {**recipe["data"], **names}}

    def write(self, folder: Path, item: type[Item]) -> None:
        """Writes the rows that a program holds as JSON lines, if they are not there yet."""
        for name, sources in (("train", self.train), ("dev", self.dev)):
            for source, file in zip(sources, _names(name, sources), strict=True):
                if isinstance(source, InMemory) and not (folder / file).exists():
                    lines = [json.dumps(row, ensure_ascii=False) for row in _rows(source, item)]
                    (folder / DATA).mkdir(exist_ok=True)
                    write_text(folder / file, "\n".join(lines) + "\n")


def file_names(folder: Path, name: str, sources: Sequence[DataSource]) -> list[str]:
    """The files of a recipe for data of any form: where a run writes what is not in files."""
    return [
        str(folder / file) if isinstance(source, InMemory) else file
        for source, file in zip(sources, _names(name, sources), strict=True)
    ]


def weights_identity(model: LanguageModel) -> str:
    """Changes when a weight of a model does, or its config."""
    digest = sha256(json.dumps(model.checkpoint.config, sort_keys=True, default=str).encode())
    for name, tensor in sorted(model.model.state_dict().items()):
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy())
    return f"sha256 {digest.hexdigest()}"


def _names(name: str, sources: Sequence[DataSource]) -> list[str]:
    several = sum(isinstance(source, InMemory) for source in sources) > 1
    return [
        f"{DATA}/{name}{f'-{number}' if several else ''}.jsonl"
        if isinstance(source, InMemory)
        else str(source)
        for number, source in enumerate(sources, start=1)
    ]


def _rows(source: InMemory, item: type[Item]) -> Iterator[dict[str, Any]]:
    """Rows with names, to be read again as they are; values of tuples have that of their place."""
    if source.table is None:
        for each in source.items:
            yield each.to_dict()
        return
    names = source.table.names
    if not any(names):
        places = places_of(item)
        names = tuple(
            places[number] if number < len(places) else f"column_{number + 1}"
            for number in range(len(names))
        )
    for _, cells in source.table.rows:
        yield dict(zip(names, cells, strict=True))
