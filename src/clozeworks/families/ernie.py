"""ERNIE 1 to 3: BERT that learned from masked phrases and entities, and from several tasks.

Paper: Sun et al. 2019 (phrases and entities are masked as a whole); Sun et al. 2020 (tasks are
learned one after the other); Sun et al. 2021.
The idea: what belongs together is masked together, so that the model must know it and cannot guess
it from its own parts.
Where paper and code differ: since ERNIE 2 every token has a vector for the task it is read for.
Published checkpoints are used with task 0 alone, so here its vector is part of every position's.
This file states only what differs from BERT.
"""

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

from torch import Tensor, nn

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.layout import Layout
from clozeworks.core.positions.learned import Learned, LearnedModule
from clozeworks.families import bert
from clozeworks.families.family import Config, Parts
from clozeworks.families.weights import rules
from clozeworks.spec import spec


@spec
class PositionsOfTasks(Learned):
    """Learned positions, and a vector for the task, which is always the first one."""

    paper: ClassVar[str] = "Sun et al. 2020"

    tasks: int
    """Rows of the table of tasks."""

    def build(self, width: int) -> "PositionsOfTasksModule":
        """Makes the module."""
        return PositionsOfTasksModule(width, self.count, self.offset, self.tasks)


class PositionsOfTasksModule(LearnedModule):
    """Looks up one vector per position and adds that of the first task."""

    def __init__(self, width: int, count: int, offset: int, tasks: int) -> None:
        super().__init__(width, count, offset)
        self.tasks = nn.Embedding(tasks, width)

    def forward(self, layout: Layout) -> Tensor:
        """One vector per token, (N, W)."""
        return super().forward(layout) + self.tasks.weight[0]


def read(config: Config, parts: Parts) -> Blueprint:
    """The blueprint of an ERNIE config."""
    blueprint = bert.read(config, parts)
    if not config.truth("use_task_id", False):
        return blueprint
    positions = PositionsOfTasks(
        count=config.whole("max_position_embeddings", 512),
        tasks=config.whole("task_type_vocab_size", 3),
    )
    return replace(blueprint, embeddings=replace(blueprint.embeddings, positions=positions))


def write(blueprint: Blueprint) -> dict[str, Any]:
    """The config of an ERNIE blueprint."""
    positions = blueprint.embeddings.positions
    config = {**bert.write(blueprint), "use_task_id": isinstance(positions, PositionsOfTasks)}
    if isinstance(positions, PositionsOfTasks):
        config["task_type_vocab_size"] = positions.tasks
    return config


TASKS = rules(("embeddings.positions.tasks.weight", "embeddings.task_type_embeddings.weight"))

# ERNIE 3, made small by distillation: twelve heads whatever the width.
_size = partial(
    bert.size,
    vocab=40_000,
    num_attention_heads=12,
    max_position_embeddings=2048,
    type_vocab_size=4,
    use_task_id=True,
    task_type_vocab_size=3,
    layer_norm_eps=1e-5,
)

FAMILY = replace(
    bert.FAMILY,
    model_type="ernie",
    paper="Sun et al. 2019",
    prefix="ernie.",
    base="ErnieModel",
    architectures={
        name.replace("BertLMHeadModel", "ErnieForCausalLM").replace("Bert", "Ernie"): shape
        for name, shape in bert.FAMILY.architectures.items()
    },
    body=(*bert.FAMILY.body, *TASKS),
    sizes={
        "ernie-3.0-nano": _size(4, 312),
        "ernie-3.0-micro": _size(4, 384),
        "ernie-3.0-mini": _size(6, 384),
        "ernie-3.0-medium": _size(6, 768),
        "ernie-3.0-base": _size(12, 768),
        "ernie-1.0-base": bert.size(
            12, 768, 18_000, max_position_embeddings=513, hidden_act="relu", layer_norm_eps=1e-5
        ),
    },
    read=read,
    write=write,
)
