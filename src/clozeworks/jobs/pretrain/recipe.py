"""A recipe: everything that decides a pre-training run, in one TOML file.

A recipe may name an objective (`objective = "bert"`) or write it out as a table; what is saved with
the run is always written out, so that a name that means something else one day changes nothing.
"""

import dataclasses
import tomllib
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any

from clozeworks import config
from clozeworks.engine.settings import Checkpointing, Logging, Training, at_least
from clozeworks.errors import InputError, SettingError
from clozeworks.families.family import published_sizes
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.published import published
from clozeworks.spec import spec

# What may change while a run is stopped: it changes nothing about the result.
FREE = ("run", "watching", "snapshots")


@spec
class Start:
    """The model before the first step."""

    start: str
    """A published size, such as bert-base, for fresh weights; or a model folder or hub name, to go
    on from its weights."""
    config: dict[str, Any] = dataclasses.field(default_factory=dict)
    """Entries of the size's config.json to change, for example hidden_size = 256."""

    @property
    def fresh(self) -> bool:
        """Whether it is a published size, so that the weights are fresh."""
        return self.start in published_sizes()


@spec
class StageSettings:
    """Some steps on texts of one length."""

    length: int
    """The most tokens of an example."""
    share: float = 1.0
    """The share of the steps; the shares of all stages add up to 1."""
    tokens: int | None = None
    """Tokens of a step, if not those of training.tokens. BERT has 256 texts a step in both of its
    stages, which are 32768 tokens at length 128 and 131072 at 512."""

    def __post_init__(self) -> None:
        at_least("stages.length", self.length, 1)
        if self.tokens is not None:
            at_least("stages.tokens", self.tokens, 1)
        if not 0 < self.share <= 1:
            raise SettingError(f"stages.share is {self.share}; it must be above 0 and at most 1.")


@spec
class Data:
    """Where the text is, and how much of it is seen at once."""

    corpus: str
    """A corpus folder that `clozeworks corpus build` made."""
    stages: tuple[StageSettings, ...] = ()
    """Lengths one after the other: BERT has 90 % of its steps at 128 tokens, the rest at 512. If
    none is given, all steps have the length that the objective says."""

    def __post_init__(self) -> None:
        total = sum(stage.share for stage in self.stages)
        if self.stages and abs(total - 1) > 1e-6:
            raise SettingError(
                f"data.stages have shares of {total:g} together; they must add up to 1; change one."
            )


@spec
class Recipe:
    """A pre-training run."""

    run: str
    """The folder of the run: snapshots, metrics, curves, and the model at the end."""
    model: Start
    data: Data
    objective: Objective
    """What is learned: bert, roberta, t5, gpt2 or another paper's name, or a table."""
    training: Training
    watching: Logging = Logging()
    snapshots: Checkpointing = Checkpointing()
    seed: int = 0
    """Decides everything random: first weights, order, masks, dropout."""

    def __post_init__(self) -> None:
        if not 0 <= self.seed < 2**63:
            raise SettingError(f"seed is {self.seed}; it must be at least 0 and below 2**63.")
        if not self.run:
            raise SettingError("run is ''; it must name the folder of the run.")

    def objectives(self) -> list[tuple[Objective, int, int]]:
        """The objective of each stage, its length, and how many steps it has."""
        stages = self.data.stages
        if not stages:
            length = _length(self.objective)
            return [(self.objective, length, self.training.steps)]
        found, before, share = [], 0, 0.0
        for stage in stages:
            share += stage.share
            end = round(self.training.steps * share)
            found.append((of_length(self.objective, stage.length), stage.length, end - before))
            before = end
        return found

    def tokens(self) -> list[int]:
        """The tokens of a step of each stage."""
        usual = self.training.tokens
        return [stage.tokens or usual for stage in self.data.stages] or [usual]


def read_recipe(source: Path | str | dict[str, Any], changes: Sequence[str] = ()) -> Recipe:
    """A recipe from a file or from plain data, with some settings changed.

    Args:
        source: A TOML file, or what it would hold.
        changes: Settings as a command line has them: `training.steps=2000`.

    Raises:
        SettingError: A setting has a value it may not have.
        UnknownName: There is no such setting; the nearest is shown.
    """
    data = changed(source, changes)
    named = data.get("objective")
    if isinstance(named, str):
        text: Data = config.read(Data, data.get("data", {}), "data")
        length = text.stages[0].length if text.stages else None
        data = {**data, "objective": config.plain(published(named, length))}
    recipe: Recipe = config.read(Recipe, data)
    return recipe


def changed(source: Path | str | dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """What a TOML file or plain data holds, with some settings changed; the data stay as they are.

    Raises:
        InputError: The file cannot be read, or is no TOML.
        SettingError: A change is none.
    """
    data = deepcopy(source) if isinstance(source, dict) else read_toml(Path(source))
    for change in changes:
        config.override(data, change)
    return data


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file holds.

    Raises:
        InputError: It cannot be read, or is no TOML.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is no TOML: {error}; mend the file.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8; save it as UTF-8.") from error
    except FileNotFoundError as error:
        raise InputError(
            f"{path} does not exist; write one with: clozeworks init pretrain {path}"
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error


def differences(old: Any, new: Any, path: str = "") -> list[str]:
    """What differs between two recipes as plain data, a line for each setting."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = [*old, *(key for key in new if key not in old)]
        pairs = [(f"{path}.{key}" if path else key, old.get(key), new.get(key)) for key in keys]
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = [(f"{path}[{i}]", old[i], new[i]) for i in range(len(old))]
    else:
        return [] if old == new else [f"{path} was {old!r}, now {new!r}"]
    return [line for where, before, after in pairs for line in differences(before, after, where)]


def of_length(objective: Objective, length: int) -> Objective:
    """The same objective on examples of another length."""
    found: Objective = config.read(
        Objective, _relengthed(config.plain(objective), length), "objective"
    )
    return found


def _relengthed(data: Any, length: int) -> Any:
    if isinstance(data, list):
        return [_relengthed(item, length) for item in data]
    if not isinstance(data, dict):
        return data
    return {
        key: {**value, "length": length}
        if key == "arrangement" and isinstance(value, dict)
        else _relengthed(value, length)
        for key, value in data.items()
    }


def _length(objective: Objective) -> int:
    length: int = config.plain(objective.arranged())["length"]
    return length
