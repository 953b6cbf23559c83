"""Predictions of a task for many items: from the logits of their windows, or generated."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from clozeworks.arrays import Float32Array
from clozeworks.core.model import Model
from clozeworks.data.labelled.items import ItemLocations
from clozeworks.inference.loop import BatchOptions, Computation, compute_in_order, device_of
from clozeworks.inference.packing import check_finite, pack
from clozeworks.inference.prompts import write_all
from clozeworks.tasks.spans.windows import TokenWindow, by_item
from clozeworks.tasks.task import Task
from clozeworks.text.tokenizer.tokenizer import Tokenizer


def answers(
    task: Task[Any, Any],
    model: Model,
    tokenizer: Tokenizer,
    items: Sequence[Any],
    *,
    max_length: int | None,
    options: BatchOptions | None = None,
) -> list[Any]:
    """The prediction for every item, from a model with the head the task needs."""
    if not items:
        return []
    inputs = [task.as_asked(item) for item in items]
    request = task.generation(model, tokenizer, inputs, max_length)
    if request is not None:
        return write_all(model, request, options)
    windows = task.windows_of(inputs, tokenizer, max_length)
    logits = iter(
        window_logits(task, model, windows, source_locations=ItemLocations(inputs), options=options)
    )
    decode = task.decoder(model)
    return [
        decode(item, several, [next(logits) for _ in several])
        for item, several in zip(inputs, by_item(windows), strict=True)
    ]


def window_logits(
    task: Task[Any, Any],
    model: Model,
    windows: Sequence[TokenWindow],
    *,
    source_locations: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> list[Float32Array]:
    """The logits of every window: (C,), or (target tokens, C) of a task that judges tokens.

    Raises:
        CheckpointError: If a logit is not finite.
    """
    device = device_of(model)

    def forward(several: list[TokenWindow]) -> list[Float32Array]:
        packed = pack([window.encoded for window in several], device)
        ids = packed.ids
        hidden_states, layout = task.hidden_states(model, ids, packed.layout, packed.types)
        positions, sizes = None, [1] * len(several)
        if task.per_token:
            positions = packed.positions([window.wanted for window in several])
            sizes = [len(window.wanted) for window in several]
        logits = task.logits(model, hidden_states, layout, positions, ids).float()
        owners = [
            window.item for window, size in zip(several, sizes, strict=True) for _ in range(size)
        ]
        check_finite(model, logits, owners, "a logit", source_locations)
        split = np.split(logits.cpu().numpy(), np.cumsum(sizes)[:-1])
        return split if task.per_token else [rows[0] for rows in split]

    costs = [len(window) for window in windows]
    return compute_in_order(model, windows, costs, Computation(("logits", task), forward), options)
