"""Asks a task of a model about many items: the logits of their windows, or what it generates."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from clozeworks.arrays import Float32Array
from clozeworks.core.model import Model
from clozeworks.data.labelled.items import ItemLocations
from clozeworks.inference.loop import BatchOptions, device_of, in_order
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
    most: int | None,
    options: BatchOptions | None = None,
) -> list[Any]:
    """An answer for every item.

    Args:
        task: What is asked.
        model: A model with the head the task needs.
        tokenizer: Its tokenizer.
        items: What it is asked about.
        most: The most tokens the model takes.
        options: Batch size, progress, cancellation.
    """
    if not items:
        return []
    asked = [task.as_asked(item) for item in items]
    request = task.generation(model, tokenizer, asked, most)
    if request is not None:
        return write_all(model, request, options)
    windows = task.windows_of(asked, tokenizer, most)
    logits = iter(window_scores(task, model, windows, places=ItemLocations(asked), options=options))
    decode = task.decoder(model)
    return [
        decode(item, own, [next(logits) for _ in own])
        for item, own in zip(asked, by_item(windows), strict=True)
    ]


def window_scores(
    task: Task[Any, Any],
    model: Model,
    windows: Sequence[TokenWindow],
    *,
    places: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> list[Float32Array]:
    """The logits of every window: (C,), or (asked tokens, C)."""
    device = device_of(model)

    def forward(batch: list[int]) -> list[Float32Array]:
        own = [windows[number] for number in batch]
        packed = pack([window.encoded for window in own], device)
        hidden = packed.hidden(model)
        asked, sizes = None, [1] * len(own)
        if task.per_token:
            starts = packed.layout.starts
            chosen = [window.wanted + start for window, start in zip(own, starts, strict=True)]
            asked, sizes = torch.from_numpy(np.concatenate(chosen)).to(device), [*map(len, chosen)]
        logits = task.scores(model, hidden, packed.layout, asked).float()
        owners = [window.item for window, size in zip(own, sizes, strict=True) for _ in range(size)]
        check_finite(model, logits, owners, "a score", places)
        pieces = np.split(logits.cpu().numpy(), np.cumsum(sizes)[:-1])
        return pieces if task.per_token else [piece[0] for piece in pieces]

    return in_order(model, [len(window) for window in windows], forward, options)
