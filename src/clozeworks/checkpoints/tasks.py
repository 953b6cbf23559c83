"""The task a checkpoint was trained for, read from its config; and a checkpoint for another task.

Published configs say what a head's labels are called and which kind of problem it solves. What they
cannot say (how windows overlap, the threshold for "no answer", a pooling of our own) is in
`clozeworks.json`.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

import torch
from torch import nn

from clozeworks import config as settings
from clozeworks.checkpoints.folder import Checkpoint
from clozeworks.core.blueprint import BESIDE, Blueprint
from clozeworks.core.heads.sentence_vectors import NAME as SENTENCE
from clozeworks.core.heads.vocabulary import NAME as VOCABULARY
from clozeworks.core.initialize import initialize
from clozeworks.core.model import Model
from clozeworks.errors import CheckpointError, ClozeworksError, SettingError, UnsupportedError
from clozeworks.families.family import Config, Family
from clozeworks.families.weights import Names
from clozeworks.tasks.labels.activation import NEWER, OLDER
from clozeworks.tasks.tag import TRANSITIONS
from clozeworks.tasks.task import PublishedHeads, Task, task_classes

AnyTask = Task[Any, Any]
OldHead = Literal["fit", "remap", "fresh", "refuse"]
# What a config says of a head. Of another head it would be wrong: question answering elsewhere has
# as many outputs as there are labels.
_OF_HEADS = frozenset({"id2label", "label2id", "num_labels", "problem_type", NEWER, OLDER})


def task_of(checkpoint: Checkpoint, source_location: str) -> AnyTask | None:
    """The task a checkpoint can answer; None if it has no head for one.

    Raises:
        CheckpointError: If its config or `clozeworks.json` does not fit its head.
    """
    heads = checkpoint.model.blueprint.heads
    published = PublishedHeads(checkpoint.config, heads, source_location)
    noted = noted_task(checkpoint.notes, source_location)
    if noted is not None and (fitted := noted.fitted(published)) is not None:
        return fitted
    # A task that another is derived from speaks for itself alone.
    for kind in (each for each in task_classes().values() if "from_checkpoint" in vars(each)):
        if (task := kind.from_checkpoint(published)) is not None:
            return task
    return None


def noted_task(notes: Mapping[str, Any], source_location: str) -> AnyTask | None:
    """The task in the notes of `clozeworks.json`, if there is one.

    Raises:
        CheckpointError: If it cannot be read.
    """
    if "task" not in notes:
        return None
    stated = notes["task"].get("kind") if isinstance(notes["task"], dict) else None
    if isinstance(stated, str) and stated not in task_classes():
        raise CheckpointError(
            f"{source_location} was trained for the task {stated!r}, which is not known here; "
            "import the module that defines its class first, or ask for what needs no task."
        )
    try:
        task: AnyTask = settings.read(Task, notes["task"])
    except Exception as error:
        raise CheckpointError(
            f"{source_location}: clozeworks.json describes a task that cannot be read ({error}); "
            "restore the file."
        ) from error
    return task


def with_task(
    checkpoint: Checkpoint, task: AnyTask, *, seed: int = 0, head: OldHead = "fit"
) -> Checkpoint:
    """The same encoder with the head of a task; what it lacked is fresh.

    Heads of other tasks are left out; what the published encoder holds stays.

    Args:
        checkpoint: A checkpoint of any kind. It is left as it is.
        task: What the new one is for.
        seed: Decides fresh weights.
        head: What becomes of a head of the same task. `fit`: it stays if it has the same labels, in
            whatever order, and begins anew otherwise. `remap`: labels it knows keep their rows,
            others are fresh. `fresh`: it begins anew. `refuse`: it must have the same labels.

    Raises:
        UnsupportedError: If the family has no head for the task.
        SettingError: If `head` is refuse, and there is no head with the same labels.
    """
    family, old = checkpoint.family, checkpoint.model
    config = _config_for(checkpoint, task)
    network = blueprint_for(checkpoint, task).build()
    rows = _old_rows(checkpoint, task, head)
    known = _copy(family, Config(config), old, network, rows)
    initialize(network, seed=seed, known=known)
    if rows and None in rows:
        _remap(old, network, rows)
    elif rows and (before := task_of(checkpoint, family.model_type)) is not None:
        for name, module in network.heads[task.head].named_modules():
            if isinstance(module, nn.Linear) and name.rpartition(".")[2] == "project":
                task.standardization.restate(module, before.standardization)
    config.pop("architectures", None)
    notes = {**checkpoint.notes, "task": settings.plain(task)}
    return dataclasses.replace(
        checkpoint, model=network.train(old.training), config=config, notes=notes
    )


def blueprint_for(checkpoint: Checkpoint, task: AnyTask) -> Blueprint:
    """The parts of a checkpoint with the head of a task.

    Raises:
        UnsupportedError: If the family has no head for the task.
    """
    family, old = checkpoint.family, checkpoint.model.blueprint
    parts = task.required_heads(family.paths)
    missing = sorted(parts - family.paths.keys())
    if missing:
        raise UnsupportedError(
            f"{family.model_type} has no {missing[0]!r} head, which {task.name} needs; use another "
            "family."
        )
    config = Config(_config_for(checkpoint, task))
    # What else the published class of the head has: a pooler, a decoder that reads the text again.
    parts |= family.architectures[family.fitting(parts)].parts & frozenset(BESIDE)
    fresh = family.blueprint(config, parts | (old.parts & family.inside))
    decoder = (old.decoder or fresh.decoder) if fresh.decoder else None
    fitted = dataclasses.replace(old, decoder=decoder, rereads=fresh.rereads)
    return task.equip(dataclasses.replace(fitted, pooler=fresh.pooler, heads=fresh.heads))


def _config_for(checkpoint: Checkpoint, task: AnyTask) -> dict[str, Any]:
    kept = {key: value for key, value in checkpoint.config.items() if key not in _OF_HEADS}
    return {**kept, **task.settings()}


def about_head(checkpoint: Checkpoint, task: AnyTask, head: OldHead = "fit") -> str:
    """What becomes of the head a checkpoint has, in a sentence; empty if it has none for the task.

    Raises:
        SettingError: If `head` is refuse, and there is no head with the same labels.
    """
    rows, have = _old_rows(checkpoint, task, head), _old_labels(checkpoint, task)
    if have is None or task.head_labels is None:
        return ""
    if not task.settings().get("id2label"):  # its rows mean the same for every model
        fate = "begins anew, as asked" if rows is None else "is kept and trained further"
        return f"The checkpoint's head for this task {fate}."
    named = f"{', '.join(have[:5])}{', …' if len(have) > 5 else ''}"
    if rows is None:
        why = "begins anew, as asked" if head == "fresh" else "has other labels, and begins anew"
        return f"The checkpoint's head ({named}) {why}."
    if None in rows:
        count = sum(row is not None for row in rows)
        return (
            f"The checkpoint's head ({named}) knows {count} of {len(rows)} labels; these keep what "
            "was learned, the others are fresh."
        )
    if len(rows) < len(have):
        return (
            f"The checkpoint's head ({named}) has all labels and {len(have) - len(rows)} more; the "
            "others go, and it is trained further."
        )
    return f"The checkpoint's head has the same labels ({named}); it is kept and trained further."


def _old_labels(checkpoint: Checkpoint, task: AnyTask) -> list[str] | None:
    """The labels of a checkpoint's head for the same kind of task; None if there is none."""
    try:
        before = task_of(checkpoint, checkpoint.family.model_type)
    except ClozeworksError:  # a head that cannot be used is left out anyway
        return None
    if before is None or before.head != task.head or before.head_labels is None:
        return None
    return list(before.head_labels)


def _old_rows(checkpoint: Checkpoint, task: AnyTask, head: OldHead) -> list[int | None] | None:
    """Where each label of a task stood in the head of a checkpoint; None if it begins anew."""
    if task.head_labels is None:
        if head != "fit":
            rule = "it has no effect on a model that generates, which keeps its vocabulary"
            raise SettingError("head", head, rule, "leave it out")
        return None
    have, labels = _old_labels(checkpoint, task), task.head_labels
    same = have is not None and sorted(have) == sorted(labels)
    if head == "refuse" and not same:
        old = f"has {', '.join(have)}" if have else "has no head for the task"
        rule = f"the labels are {', '.join(labels)}, and the checkpoint {old}"
        raise SettingError("head", head, rule, "name another checkpoint, or leave it out")
    if have is None or head == "fresh" or not (same or head == "remap"):
        return None
    rows = [have.index(label) if label in have else None for label in labels]
    return rows if any(row is not None for row in rows) else None


def _copy(
    family: Family, config: Config, old: Model, new: Model, rows: list[int | None] | None
) -> set[str]:
    """Copies every weight that means the same in both, by its published name; returns their names.

    `rows` are the old rows of the labels of a head; None if they are others. A head that knows only
    some of them is not copied here.
    """
    # Without what stands before the names of a body, which is another before some heads.
    theirs, ours = (
        {name: names.theirs(name, prefixed=False) for name in blueprint.build("meta").state_dict()}
        for blueprint in (old.blueprint, new.blueprint)
        for names in [published_names(family, config, blueprint)]
    )
    # Heads may publish a layer under one name: ModernBERT's classifiers begin with the one that was
    # trained to name tokens. Rows of labels are another matter, whatever they are called.
    layers = {published: name for name, published in theirs.items() if ".project." not in name}
    have, taken = dict(old.named_parameters()), set()
    with torch.no_grad():
        counted = dict(old.named_buffers())
        for name, buffer in new.named_buffers():
            if name.startswith(f"heads.{SENTENCE}.") and name in counted:
                buffer.copy_(counted[name])
        for name, parameter in new.named_parameters():
            from_another = name not in have and ".project." not in name
            source = layers.get(ours[name], name) if from_another else name
            before: torch.Tensor | None = have.get(source)
            # Trap: RoBERTa's classifier has a pooler of its own; only the name tells.
            if before is None or theirs.get(source) != ours[name]:
                continue
            # A vocabulary has no labels: it is the same whatever is written.
            unlabelled = (*family.inside, VOCABULARY)
            is_inside = any(name.startswith(family.paths.get(part, "-")) for part in unlabelled)
            is_inside |= name.startswith(f"heads.{SENTENCE}.")
            if name.startswith("heads.") and not from_another and not is_inside:
                if rows is None or None in rows:
                    continue
                if ".project." in name or name.startswith(f"heads.{TRANSITIONS}."):
                    before = before[rows]
                if name == f"heads.{TRANSITIONS}.move_bias":
                    before = before[:, rows]
            if before.shape == parameter.shape:
                parameter.copy_(before)
                taken.add(name)
    return taken


def _remap(old: Model, new: Model, rows: list[int | None]) -> None:
    """Copies the rows of labels that a head knew, and its other weights."""
    have = dict(old.named_parameters())
    positions = [position for position, row in enumerate(rows) if row is not None]
    from_rows = [row for row in rows if row is not None]
    with torch.no_grad():
        for name, parameter in new.named_parameters():
            before = have.get(name)
            if before is None or not name.startswith("heads."):
                continue
            if name.startswith(f"heads.{TRANSITIONS}."):
                continue  # what follows what is of all labels together
            if ".project." in name:
                parameter[positions] = before[from_rows]
            elif before.shape == parameter.shape:
                parameter.copy_(before)


def published_names(family: Family, config: Mapping[str, Any], blueprint: Blueprint) -> Names:
    """The weight names of the architecture that fits a blueprint."""
    parts = blueprint.parts & family.paths.keys()
    return family.names(family.fitting(parts), Config(config))
