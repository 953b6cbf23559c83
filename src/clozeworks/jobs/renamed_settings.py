"""Settings that have another name now: a recipe that uses an old one is told the new one."""

from collections.abc import Iterator, Mapping
from typing import Any

from clozeworks.errors import SettingError, Stated

# Old paths and new ones; `[]` stands for each entry of a list. A path stands for all below it.
RENAMED = {
    "training.tokens": "training.batch_tokens",
    "training.items": "training.batch_size",
    "training.piece": "training.micro_batch_tokens",
    "training.clip": "training.max_grad_norm",
    "training.rate": "training.learning_rate",
    "training.optimizer.rate": "training.learning_rate",
    "training.optimizer.decay": "training.optimizer.weight_decay",
    "training.optimizer.clip": "training.optimizer.clip_threshold",
    "training.optimizer.scaled": "training.optimizer.scale_parameter",
    "training.schedule.warmup": "training.schedule.warmup_steps",
    "training.update.optimizer": "training.optimizer.kind",
    "training.update.schedule": "training.schedule.kind",
    "training.update.warmup": "training.schedule.warmup_fraction",
    "training.update.decay": "training.optimizer.weight_decay",
    "training.update.precision": "training.precision",
    "training.rates.layer_decay": "training.layer_decay",
    "training.rates.freeze": "training.freezing.layers",
    "training.rates.heads_only": "training.freezing.heads_only",
    "training.rates.thaw": "training.freezing.unfreeze_every_steps",
    "task.writing.tokens": "task.writing.max_new_tokens",
    "task.writing.beams": "task.writing.num_beams",
    "training.lora": "lora",
    "training.augment": "augment",
    "training.adversarial": "adversarial",
    "training.sampling": "scheduled_sampling",
    "watching.every": "logging.every_steps",
    "watching.tensorboard": 'logging.trackers=["tensorboard"]',
    "logging.tensorboard": 'logging.trackers=["tensorboard"]',
    "watching.evaluate": "evaluation.every_steps",
    "watching.tokens": "evaluation.tokens",
    "snapshots.minutes": "checkpointing.every_minutes",
    "snapshots.every": "checkpointing.every_steps",
    "snapshots.keep": "checkpointing.keep",
    "snapshots.when_unwritable": "checkpointing.when_unwritable",
    "choosing.evaluations": "evaluation.per_epoch",
    "choosing.every": "evaluation.every_steps",
    "choosing.patience": "selection.patience",
    "data.stages[].share": "data.stages[].fraction",
    "data.stages[].tokens": "data.stages[].batch_tokens",
    "data.dev_share": "data.dev_fraction",
    "search.rates": "search.learning_rates",
    "search.items": "search.batch_sizes",
}
# Keys that were renamed wherever they stand below a table.
RENAMED_BELOW = {
    "objective": {
        "arrangement": "examples",
        "share": "fraction",
        "most": "max_count",
        "told": "teacher_forcing",
    },
    "augment": {"share": "probability", "rate": "fraction", "most": "top_k"},
    "scheduled_sampling": {"told": "teacher_forcing"},
}


def refuse_renamed(recipe: Mapping[str, Any]) -> None:
    """Names the new setting for each one that is written as it was called before.

    Raises:
        SettingError: If the recipe uses an old name.
    """
    renamed = {path: new for path in _paths(recipe) if (new := _new_name(path))}
    if renamed:
        (first, new), *others = renamed.items()
        rule = "; ".join(f"{old} is called {name} now" for old, name in others)
        advice = "rename them" if others else "rename it"
        raise SettingError(first, Stated(f"called {new} now"), rule, advice)


def _new_name(path: str) -> str | None:
    table, (above, _, key) = path.partition(".")[0], path.rpartition(".")
    below = RENAMED_BELOW.get(table, {})
    return RENAMED.get(path) or (f"{above}.{below[key]}" if key in below else None)


def _paths(data: Any, path: str = "") -> Iterator[str]:
    if isinstance(data, Mapping):
        for key, value in data.items():
            below = f"{path}.{key}" if path else str(key)
            yield below
            yield from _paths(value, below)
    elif isinstance(data, list | tuple):
        for value in data:
            yield from _paths(value, f"{path}[]")
