"""Asks a model about many items: windows in batches of equal cost, side by side."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from clozeworks.arrays import Float32Array
from clozeworks.core.model import Model
from clozeworks.data.examples.batch import by_budget
from clozeworks.data.labelled.items import ItemLocations
from clozeworks.inference.embed import default_budget
from clozeworks.inference.packing import check_finite, device_of, evaluating, pack
from clozeworks.runtime.progress import Progress
from clozeworks.runtime.workers import side_by_side, workers
from clozeworks.tasks.spans.windows import TokenWindow, by_item
from clozeworks.tasks.task import Task
from clozeworks.text.tokenizer.tokenizer import Tokenizer

__all__ = ["Progress", "answers", "scored_answers", "window_scores"]


def answers(
    task: Task[Any, Any],
    model: Model,
    tokenizer: Tokenizer,
    items: Sequence[Any],
    *,
    most: int | None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> list[Any]:
    """An answer for every item.

    Args:
        task: What is asked.
        model: A model with the head the task needs.
        tokenizer: Its tokenizer.
        items: What it is asked about.
        most: The most tokens the model takes.
        budget: Tokens per batch; chosen for the device if not given.
        progress: Called with tokens done and tokens in all.
    """
    if not items:
        return []
    asked = [task.as_asked(item) for item in items]
    return task.answered(model, tokenizer, asked, most=most, budget=budget, progress=progress)


def scored_answers(
    task: Task[Any, Any],
    model: Model,
    tokenizer: Tokenizer,
    items: Sequence[Any],
    *,
    most: int | None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> list[Any]:
    """An answer for every item by the scores of its windows; the arguments are those above."""
    windows = task.windows_of(items, tokenizer, most)
    found = window_scores(
        task, model, windows, budget=budget, progress=progress, places=ItemLocations(items)
    )
    rows, decode = iter(found), task.decoder(model)
    return [
        decode(item, own, [next(rows) for _ in own])
        for item, own in zip(items, by_item(windows), strict=True)
    ]


def window_scores(
    task: Task[Any, Any],
    model: Model,
    windows: Sequence[TokenWindow],
    *,
    places: Sequence[str] | None = None,
    budget: int | None = None,
    progress: Progress | None = None,
) -> list[Float32Array]:
    """The scores of every window: (C,), or (asked tokens, C)."""
    device = device_of(model)
    lengths = [len(window) for window in windows]
    total, done = sum(lengths), 0
    found: list[Float32Array] = [np.zeros(0, np.float32)] * len(windows)

    def run(batch: list[int]) -> list[Float32Array]:
        own = [windows[number] for number in batch]
        packed = pack([window.encoded for window in own], device)
        hidden = packed.hidden(model)
        asked, sizes = None, [1] * len(own)
        if task.per_token:
            starts = packed.layout.starts
            chosen = [window.wanted + start for window, start in zip(own, starts, strict=True)]
            asked, sizes = torch.from_numpy(np.concatenate(chosen)).to(device), [*map(len, chosen)]
        scores = task.scores(model, hidden, packed.layout, asked).float()
        owners = [window.item for window, size in zip(own, sizes, strict=True) for _ in range(size)]
        check_finite(model, scores, owners, "a score", places)
        pieces = np.split(scores.cpu().numpy(), np.cumsum(sizes)[:-1])
        return pieces if task.per_token else [piece[0] for piece in pieces]

    budget = default_budget(device) if budget is None else budget
    with evaluating(model):
        for batch, pieces in side_by_side(run, by_budget(lengths, budget, workers(device)), device):
            for number, piece in zip(batch, pieces, strict=True):
                found[number] = piece
            done += sum(lengths[number] for number in batch)
            if progress is not None:
                progress(done, total)
    return found
