"""Texts written by a model, many prompts at a time: the likeliest tokens, or a search.

The only place where a task meets `generate/`.

Shapes: B prompts.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import groupby

import torch

from clozeworks.core.model import Model
from clozeworks.core.side_by_side import side_by_side, workers
from clozeworks.core.spec import spec
from clozeworks.data.batch import by_budget
from clozeworks.errors import InputError, SettingError
from clozeworks.generate.beams import Beams, search
from clozeworks.generate.reading import Reader
from clozeworks.generate.rules import Known
from clozeworks.generate.writing import Limits, Written, write
from clozeworks.tasks.embed import default_budget
from clozeworks.tasks.packing import check_finite, device_of, evaluating

USUAL = 128
Progress = Callable[[int, int], None]


@spec
class Writing:
    """How texts are written."""

    tokens: int | None = None
    """The most tokens; as many as the longest target has where a model is trained, else 128."""
    beams: int = 1
    """How many beginnings of a text a search keeps; 1 takes the likeliest token each time."""
    length_penalty: float = 1.0
    """Of a search: above 0 long texts gain, below 0 short ones."""

    def __post_init__(self) -> None:
        if self.tokens is not None and self.tokens < 1:
            raise SettingError(f"writing.tokens is {self.tokens}; it must be at least 1.")
        if self.beams < 1:
            raise SettingError(f"writing.beams is {self.beams}; it must be at least 1.")
        if self.beams == 1 and self.length_penalty != 1.0:
            raise SettingError(
                f"writing.length_penalty is {self.length_penalty} and writing.beams is 1; it has "
                "no effect without a search; set writing.beams, or leave it out."
            )


@dataclass(frozen=True)
class Prompt:
    """What a model reads before it writes.

    Attributes:
        ids: Its tokens.
        ends: The tokens that end what is written.
        place: Where it came from, for messages.
    """

    ids: list[int]
    ends: tuple[int, ...]
    place: str = ""


def write_all(
    model: Model,
    prompts: Sequence[Prompt],
    writing: Writing,
    *,
    most: int | None,
    start: int | None,
    tokens: int,
    budget: int | None = None,
    progress: Progress | None = None,
) -> list[Written]:
    """What a model writes behind each prompt.

    Args:
        model: A model that writes.
        prompts: What it reads.
        writing: How it writes.
        most: The most tokens of a prompt and what follows it; None without a limit.
        start: What the answers of an encoder-decoder begin with; None for one tower.
        tokens: Entries of the vocabulary; the model may have rows for more, and never writes those.
        budget: Tokens per batch; chosen for the device if not given.
        progress: Called with tokens done and tokens in all.

    Raises:
        InputError: A prompt leaves no room.
    """
    device = device_of(model)
    budget = default_budget(device) if budget is None else budget
    rooms = [_room(prompt, writing, most if start is None else None) for prompt in prompts]
    lengths = [
        len(prompt.ids) + room * writing.beams for prompt, room in zip(prompts, rooms, strict=True)
    ]
    keys = [(room, prompt.ends) for prompt, room in zip(prompts, rooms, strict=True)]
    batches: list[list[int]] = []
    # What may be written does not depend on neighbours: those with the same limits go together.
    order = sorted(range(len(prompts)), key=lambda number: keys[number])
    for _, same in groupby(order, key=lambda number: keys[number]):
        own = list(same)
        made = by_budget([lengths[number] for number in own], budget, workers(device))
        batches += [[own[place] for place in batch] for batch in made]
    found: list[Written] = [Written() for _ in prompts]
    done = 0

    def run(batch: list[int]) -> list[Written]:
        room, ends = keys[batch[0]]
        texts = _written(model, [prompts[n].ids for n in batch], writing, room, ends, start, tokens)
        sums = torch.tensor([[sum(text.logs)] for text in texts])
        check_finite(model, sums, batch, "a score", [prompt.place for prompt in prompts])
        return texts

    with evaluating(model):
        for batch, texts in side_by_side(run, batches, device):
            for number, text in zip(batch, texts, strict=True):
                found[number] = text
            done += sum(lengths[number] for number in batch)
            if progress is not None:
                progress(done, sum(lengths))
    return found


def _room(prompt: Prompt, writing: Writing, most: int | None) -> int:
    """How many tokens may be written behind a prompt."""
    wanted = writing.tokens or USUAL
    room = wanted if most is None else min(wanted, most - len(prompt.ids))
    if room < 1:
        raise InputError(
            f"{prompt.place or 'the text'} has {len(prompt.ids):,} tokens; the model takes "
            f"{most:,}, and what it writes counts too; shorten it."
        )
    return room


def _written(
    model: Model,
    prompts: Sequence[Sequence[int]],
    writing: Writing,
    most: int,
    ends: tuple[int, ...],
    start: int | None,
    tokens: int,
) -> list[Written]:
    rules = [Known(count=tokens)]
    reader = Reader(model, prompts, most, start)
    limits = Limits(most=most, ends=ends)
    given = [list(prompt) if start is None else [start] for prompt in prompts]
    if writing.beams > 1:
        beams = Beams(width=writing.beams, length_penalty=writing.length_penalty)
        return [
            texts[0] for texts in search(reader, given, beams=beams, limits=limits, rules=rules)
        ]
    found = [Written() for _ in prompts]
    for pieces in write(reader, given, limits=limits, rules=rules):
        for piece in pieces:
            found[piece.row].add(piece)
    return found


def sureness(text: Written) -> float:
    """How likely a token of a text was, by the mean of the logs: from 0 to 1."""
    return math.exp(sum(text.logs) / len(text.logs)) if text.logs else 1.0
