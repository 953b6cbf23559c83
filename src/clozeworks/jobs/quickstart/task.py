"""What pre-training bought: the small BERT of the quick start on a labelled set of the same text.

Three ways with few labels and with all: fine-tuned from the pre-trained weights, fine-tuned from
fresh ones, and a regression on the vectors of the pre-trained model as it is. Whatever comes out is
shown.
"""

import csv
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from clozeworks.data.labelled.splitting import split
from clozeworks.engine.callbacks import Callback
from clozeworks.jobs.finetune.job import finetune
from clozeworks.jobs.probe.job import probe
from clozeworks.jobs.quickstart.python_areas import area_items
from clozeworks.language_model import LanguageModel, load
from clozeworks.storage.atomic import atomic_file
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.task import read_labelled

AREAS, FRESH = "areas", "fresh"
FEW = 300
SEEDS = (0, 1, 2)
_DEV_SHARE = 0.2
# How often the rows are seen, and after how many steps a model is judged.
_EPOCHS = {"few": 20.0, "all": 3.0}
_EVERY = {"few": 125, "all": 200}


@dataclass(frozen=True)
class Bought:
    """One way of learning, at one number of labels."""

    way: str
    """What it began from."""
    labels: int
    """How many labelled texts it learned from."""
    values: tuple[float, ...]
    """The accuracy of each seed; one for the regression."""

    def __str__(self) -> str:
        mean = statistics.mean(self.values)
        if len(self.values) == 1:
            return f"{mean:.3f}"
        return f"{mean:.3f} ± {statistics.stdev(self.values):.3f}"


def what_it_bought(
    folder: Path,
    model: Path,
    fresh: LanguageModel,
    *,
    callback: Callback,
    seeds: Sequence[int],
    device: str | None = None,
) -> list[Bought] | None:
    """Compares the three ways; goes on where it was stopped.

    Returns:
        What came out; None if it was stopped.
    """
    sets = _sets(folder)
    if not (folder / FRESH).exists():
        fresh.save(folder / FRESH)
    found = []
    for name, train in sets.items():
        if name == "dev":
            continue
        rows = read_labelled(train, "classify")
        for way, start in (("pre-trained", model), ("fresh weights", folder / FRESH)):
            recipe = _recipe(folder, name, way, start, train, sets["dev"], seeds)
            done = finetune(recipe, callback=callback, device=device)
            if done.model is None:
                return None
            values = tuple(result.measured.values["accuracy"] for result in done.results)
            found.append(Bought(way, len(rows.items), values))
        dev = read_labelled(sets["dev"], "classify", rows.reading)
        frozen = probe(load(model), rows, dev, layers=["last"])
        value = frozen.rows[0].measured.values["accuracy"]
        found.append(Bought("pre-trained, frozen", len(rows.items), (value,)))
    return found


def _recipe(
    folder: Path, name: str, way: str, start: Path, train: Path, dev: Path, seeds: Sequence[int]
) -> dict[str, Any]:
    return {
        "run": str(folder / f"{name}, {way}"),
        "model": str(start),
        "task": {"kind": "classify"},
        "data": {"train": [str(train)], "dev": [str(dev)]},
        "training": {"epochs": _EPOCHS[name], "batch_size": 16, "learning_rate": 1e-3},
        "evaluation": {"every_steps": _EVERY[name]},
        "seeds": list(seeds),
    }


def _sets(folder: Path) -> dict[str, Path]:
    """Files of all training rows, of few of them, and of those to be judged by."""
    folder.mkdir(exist_ok=True)
    paths = {name: folder / f"{name}.csv" for name in ("few", "all", "dev")}
    if not all(index.exists() for index in paths.values()):
        train, dev = split(area_items(), _DEV_SHARE, seed=0)
        _, few = split(train, min(0.5, FEW / len(train)), seed=0)
        for name, items in (("few", few), ("all", train), ("dev", dev)):
            with atomic_file(paths[name], "w") as file:
                csv.writer(file).writerows([("text", "label"), *map(_row, items)])
    return paths


def _row(item: TextItem) -> tuple[str, str]:
    return item.text, str(item.label)
