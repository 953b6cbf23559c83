"""A recipe: everything that decides a pre-training run, in one TOML file.

A recipe may name an objective (`objective = "bert"`) or write it out as a table; what is saved with
the run is always written out, so that a name that means something else one day changes nothing.
"""

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from clozeworks import config
from clozeworks.engine.settings import Checkpointing, Evaluation, Logging, Training
from clozeworks.errors import MISSING, InputError, SettingError
from clozeworks.families.family import published_sizes
from clozeworks.jobs.renamed_settings import refuse_renamed
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.published import published
from clozeworks.spec import NOT_EMPTY, Above, AtMost, PositiveInt, RandomSeed, spec

# What is settled where a recipe is silent. Paper: Raffel et al. 2020 for steps that are relative.
_LEARNING_RATE, _RELATIVE_LEARNING_RATE = 1e-4, 1e-2
_BATCH_TOKENS = 4096
_LOG_EVERY, _EVALUATE_EVERY, _EVALUATION_TOKENS = 10, 500, 65536

# Settings of a table of which each decides the other.
_EITHER_OR = (
    ("training", "steps", "epochs"),
    ("training", "batch_tokens", "batch_size"),
    ("training.schedule", "warmup_steps", "warmup_fraction"),
    ("evaluation", "every_steps", "per_epoch"),
)


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

    length: PositiveInt
    """The most tokens of an example."""
    fraction: Annotated[float, Above(0), AtMost(1)] = 1.0
    """The fraction of the steps; the fractions of all stages add up to 1."""
    batch_tokens: PositiveInt | None = None
    """Tokens of a step, if not those of training.batch_tokens. BERT has 256 texts a step in both of
    its stages, which are 32768 tokens at length 128 and 131072 at 512."""


@spec
class Data:
    """Where the text is, and how much of it is seen at once."""

    corpus: str
    """A corpus folder that `clozeworks corpus build` made."""
    stages: tuple[StageSettings, ...] = ()
    """Lengths one after the other: BERT has 90 % of its steps at 128 tokens, the rest at 512. If
    none is given, all steps have the length that the objective says."""

    def __post_init__(self) -> None:
        total = sum(stage.fraction for stage in self.stages)
        if self.stages and abs(total - 1) > 1e-6:
            fractions = [stage.fraction for stage in self.stages]
            rule = f"they must add up to 1, not {total:g}"
            raise SettingError("stages[].fraction", fractions, rule)


@spec
class Recipe:
    """A pre-training run."""

    run: Annotated[str, NOT_EMPTY]
    """The folder of the run: snapshots, metrics, curves, and the model at the end."""
    model: Start
    data: Data
    objective: Objective
    """What is learned: bert, roberta, t5, gpt2 or another paper's name, or a table."""
    training: Training
    logging: Logging = Logging()
    evaluation: Evaluation = Evaluation()
    checkpointing: Checkpointing = Checkpointing()
    seed: RandomSeed = 0
    """Decides everything random: first weights, order, masks, dropout."""
    device: Annotated[str, NOT_EMPTY] = "auto"
    """Where to compute: cpu, cuda, cuda:1, mps, or auto for the best one that is available."""

    def __post_init__(self) -> None:
        training = self.training
        if training.epochs is not None:
            rule = "pre-training counts steps"
            raise SettingError(
                "training.epochs", training.epochs, rule, "set `training.steps` instead"
            )
        if training.steps is None:
            raise SettingError("training.steps", MISSING, "pre-training needs it")
        if training.batch_size and any(stage.batch_tokens for stage in self.data.stages):
            rule, advice = "a stage has batch_tokens", "leave one of them out"
            raise SettingError("training.batch_size", training.batch_size, rule, advice)

    @property
    def steps(self) -> int:
        """How many steps the run has."""
        assert self.training.steps is not None
        return self.training.steps

    def settled(self) -> "Recipe":
        """The same recipe with a value for everything it left open."""
        training, logging, evaluation = self.training, self.logging, self.evaluation
        if training.batch_size is None and training.batch_tokens is None:
            training = replace(training, batch_tokens=_BATCH_TOKENS)
        if training.learning_rate is None:
            relative = training.optimizer.relative_steps
            usual = _RELATIVE_LEARNING_RATE if relative else _LEARNING_RATE
            training = replace(training, learning_rate=usual)
        if training.schedule.warmup_steps is None and training.schedule.warmup_fraction is None:
            schedule = replace(training.schedule, warmup_steps=0)
            training = replace(training, schedule=schedule)
        if logging.every_steps is None:
            logging = replace(logging, every_steps=_LOG_EVERY)
        if evaluation.every_steps is None and evaluation.per_epoch is None:
            evaluation = replace(evaluation, every_steps=_EVALUATE_EVERY)
        if evaluation.tokens is None:
            evaluation = replace(evaluation, tokens=_EVALUATION_TOKENS)
        return replace(self, training=training, logging=logging, evaluation=evaluation)

    def objectives(self) -> list[tuple[Objective, int, int]]:
        """The objective of each stage, its length, and how many steps it has."""
        stages = self.data.stages
        if not stages:
            length = _length(self.objective)
            return [(self.objective, length, self.steps)]
        found, before, fraction = [], 0, 0.0
        for stage in stages:
            fraction += stage.fraction
            end = round(self.steps * fraction)
            found.append((of_length(self.objective, stage.length), stage.length, end - before))
            before = end
        return found

    def batch_tokens(self) -> list[int | None]:
        """The tokens of a step of each stage; None if the batch size is given in examples."""
        usual = self.training.batch_tokens
        return [stage.batch_tokens or usual for stage in self.data.stages] or [usual]


def read_recipe(source: Path | str | dict[str, Any], changes: Sequence[str] = ()) -> Recipe:
    """A recipe from a file or from plain data, with some settings changed and all settled.

    Raises:
        SettingError: If a setting has a value it may not have.
        UnknownName: If there is no such setting; the nearest is shown.
    """
    data = changed(source, changes)
    named = data.get("objective")
    if isinstance(named, str):
        text: Data = config.read(Data, data.get("data", {}), "data")
        length = text.stages[0].length if text.stages else None
        data = {**data, "objective": config.plain(published(named, length))}
    recipe: Recipe = config.read(Recipe, data)
    return recipe.settled()


def changed(source: Path | str | dict[str, Any], changes: Sequence[str]) -> dict[str, Any]:
    """What a TOML file or plain data holds, with some settings changed; the data stay as they are.

    Raises:
        InputError: If the file cannot be read, or is not TOML.
        SettingError: If a change is not `path=value`, or a setting has an old name.
    """
    data = deepcopy(source) if isinstance(source, dict) else read_toml(Path(source))
    changes_alone: dict[str, Any] = {}
    for change in changes:  # by themselves first: an old name may not fit to what is there
        _override(changes_alone, change)
    refuse_renamed(changes_alone)
    make_way(data, changes_alone)
    for change in changes:
        _override(data, change)
    logging = data.get("logging")
    if isinstance(logging, dict) and logging.get("tensorboard") is False:
        del logging["tensorboard"]  # Compat: recipes that `init` wrote before state this default
    refuse_renamed(data)
    return data


def make_way(data: dict[str, Any], over: Mapping[str, Any]) -> None:
    """Takes out of plain data what cannot stand beside settings that are put over it.

    Who asks for a batch size does not want the batch of the recipe in tokens, too.
    """
    for path, *pair in _EITHER_OR:
        table: Any = data
        given: Any = over
        for name in path.split("."):
            table = table.get(name) if isinstance(table, dict) else None
            given = given.get(name) if isinstance(given, Mapping) else None
        if isinstance(table, dict) and isinstance(given, Mapping):
            stated = [name for name in pair if given.get(name) is not None]
            for name in pair if len(stated) == 1 else ():
                if name not in given:
                    table.pop(name, None)


def _override(data: dict[str, Any], change: str) -> None:
    """Changes a setting; an objective that has a name is written out if a part of it changes.

    The length of its examples can be changed even where it has several parts, which share them.
    """
    path, _, value = change.partition("=")
    named = data.get("objective")
    if isinstance(named, str) and path == "objective.examples.length" and value.isdecimal():
        data["objective"] = config.plain(published(named, int(value)))
        return
    if isinstance(named, str) and path.startswith("objective."):
        data["objective"] = config.plain(published(named))
    config.override(data, change)


def read_toml(path: Path) -> dict[str, Any]:
    """What a TOML file holds.

    Raises:
        InputError: If it cannot be read, or is not TOML.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{path} is not a TOML file: {error}; fix it.") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8; save it as UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{path}: a number is too long or the nesting too deep to read; fix it."
        ) from error
    except FileNotFoundError as error:
        raise InputError(
            f"{path} does not exist; write one with: clozeworks init pretrain {path} (or finetune "
            f"TASK {path})"
        ) from error
    except OSError as error:
        raise InputError(f"{path} cannot be read ({error.strerror}).") from error


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
        if key == "examples" and isinstance(value, dict)
        else _relengthed(value, length)
        for key, value in data.items()
    }


def _length(objective: Objective) -> int:
    length: int = config.plain(objective.chosen_examples())["length"]
    return length
