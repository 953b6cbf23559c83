"""The task a folder's model was trained for: read from its config, and given to another model.

Published configs say what a head's labels are called and which kind of problem it solves. What they
cannot say (how windows overlap, the threshold for "no answer", a pooling of our own) stands in
`clozeworks.json`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch

from clozeworks import config as settings
from clozeworks.checkpoints.folder import Checkpoint
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.initialize import initialize
from clozeworks.core.model import Model
from clozeworks.errors import CheckpointError, ClozeworksError, UnsupportedError
from clozeworks.families.family import Config, Family, parts_of
from clozeworks.tasks import answer, classify, tag
from clozeworks.tasks.labels import labels_of
from clozeworks.tasks.task import Task

AnyTask = Task[Any, Any]
# What a config says of a head. Of another head it would be wrong: question answering elsewhere has
# as many outputs as there are labels.
_OF_HEADS = frozenset({"id2label", "label2id", "num_labels", "problem_type"})


def task_of(checkpoint: Checkpoint, place: str) -> AnyTask | None:
    """The task a checkpoint can answer; None if it has no head for one.

    Raises:
        CheckpointError: What its config and `clozeworks.json` say does not fit its head.
    """
    heads, config = checkpoint.model.blueprint.heads, checkpoint.config
    noted = _noted(checkpoint.notes, place)
    for head in (classify.OWN_HEAD, classify.FAMILY_HEAD, tag.HEAD, answer.HEAD):
        if head in heads:
            break
    else:
        return None
    if head == answer.HEAD:
        return noted if isinstance(noted, answer.Answer) else answer.Answer()
    labels = labels_of(config, getattr(heads[head], "count", 0), place)
    if head == tag.HEAD:
        if isinstance(noted, tag.Tag):
            return dataclasses.replace(noted, labels=labels)
        return tag.Tag(labels=labels)
    if isinstance(noted, classify.Classify):
        return dataclasses.replace(noted, labels=labels)
    return classify.Classify(labels=labels, problem=_problem(config, len(labels), place))


def _noted(notes: Mapping[str, Any], place: str) -> AnyTask | None:
    if "task" not in notes:
        return None
    try:
        found: AnyTask = settings.read(Task, notes["task"])
    except Exception as error:
        raise CheckpointError(
            f"{place}: clozeworks.json describes a task that cannot be read ({error}); restore "
            "the file."
        ) from error
    return found


def _problem(config: Mapping[str, Any], labels: int, place: str) -> classify.Problem:
    """What a published config says it solves; without a word one label is a number."""
    stated = config.get("problem_type")
    if stated is None:
        return "number" if labels == 1 else "one"
    for problem, published in classify.PUBLISHED_PROBLEMS.items():
        if stated == published:
            return problem
    known = ", ".join(classify.PUBLISHED_PROBLEMS.values())
    raise CheckpointError(
        f"{place}: problem_type is {stated!r}; known: {known}; correct config.json."
    )


def with_task(checkpoint: Checkpoint, task: AnyTask, *, seed: int = 0) -> Checkpoint:
    """The same encoder with the head of a task; what it lacked is fresh.

    Heads of other tasks are left out. A head of the same task stays if it has the same labels, in
    whatever order; with other labels it begins anew.

    Args:
        checkpoint: A checkpoint of any kind. It is left as it is.
        task: What the new one is for.
        seed: Decides fresh weights.

    Raises:
        UnsupportedError: The family has no head for the task.
    """
    family, old = checkpoint.family, checkpoint.model
    parts = task.needs(family.paths)
    missing = sorted(parts - family.paths.keys())
    if missing:
        raise UnsupportedError(
            f"{family.model_type} has no {missing[0]!r} head, which {task.name} needs; use another "
            "family."
        )
    kept = {key: value for key, value in checkpoint.config.items() if key not in _OF_HEADS}
    config = {**kept, **task.settings()}
    made = family.blueprint(Config(config), parts)
    blueprint = dataclasses.replace(old.blueprint, pooler=made.pooler, heads=made.heads)
    network = task.equip(blueprint).build()
    known = _copy(family, old, network, _old_rows(checkpoint, task))
    initialize(network, seed=seed, known=known)
    config.pop("architectures", None)
    notes = {**checkpoint.notes, "task": settings.plain(task)}
    return dataclasses.replace(
        checkpoint, model=network.train(old.training), config=config, notes=notes
    )


def _old_rows(checkpoint: Checkpoint, task: AnyTask) -> list[int] | None:
    """Where each label of a task stood in the head of a checkpoint; None if it had others."""
    wanted = task.settings().get("id2label")
    try:
        before = task_of(checkpoint, checkpoint.family.model_type) if wanted else None
    except ClozeworksError:  # a head that cannot be used is left out anyway
        before = None
    if wanted is None or before is None:
        return None
    have, labels = before.settings().get("id2label", {}), list(wanted.values())
    if sorted(have.values()) != sorted(labels):
        return None
    return [list(have.values()).index(label) for label in labels]


def _copy(family: Family, old: Model, new: Model, rows: list[int] | None) -> set[str]:
    """Takes over every weight that means the same in both, and gives their names.

    Args:
        family: Knows the published names, which decide what means the same.
        old: Where weights are taken from.
        new: Where they go.
        rows: Where the labels of a labelled head stood; None if they are others.
    """
    theirs, ours = _published(family, old.blueprint), _published(family, new.blueprint)
    have, taken = dict(old.named_parameters()), set()
    with torch.no_grad():
        for name, parameter in new.named_parameters():
            before: torch.Tensor | None = have.get(name)
            # Trap: RoBERTa's classifier has a pooler of its own; only the name tells.
            if before is None or theirs.get(name) != ours.get(name):
                continue
            if name.startswith("heads.") and not name.startswith(f"heads.{answer.HEAD}."):
                if rows is None:
                    continue
                if ".project." in name or name.startswith(f"heads.{tag.TRANSITIONS}."):
                    before = before[rows]
                if name == f"heads.{tag.TRANSITIONS}.move_bias":
                    before = before[:, rows]
            if before.shape == parameter.shape:
                parameter.copy_(before)
                taken.add(name)
    return taken


def _published(family: Family, blueprint: Blueprint) -> dict[str, str]:
    """The published name of every weight."""
    parts = parts_of(blueprint) & family.paths.keys()
    names = family.names(family.fitting(parts))
    meta = blueprint.build("meta")
    return {ours: names.theirs(ours, prefixed=True) for ours in meta.state_dict()}
