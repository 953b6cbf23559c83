"""What is checked before the first step, in plain sentences.

Most runs that fail could have been stopped here: too little room, a mask rate that is not what was
meant, a first loss that says the model and the tokenizer do not fit.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.checkpoints.generation import max_positions_of
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads.mask_decoder import NAME as DECODER
from clozeworks.core.heads.mask_decoder import MaskDecoder
from clozeworks.core.heads.second_network import SecondNetwork
from clozeworks.core.model import Model
from clozeworks.engine.callbacks import Callback
from clozeworks.engine.gradients import StepResult
from clozeworks.engine.stages import MicroBatches, Stages
from clozeworks.errors import SettingError
from clozeworks.jobs.disk import check_disk
from clozeworks.jobs.pretrain.baseline import Baseline
from clozeworks.jobs.pretrain.recipe import Recipe
from clozeworks.objectives.batch import ANSWERS
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.span_corruption import MERGED
from clozeworks.runtime.memory import available
from clozeworks.runtime.workers import WorkerPool
from clozeworks.wording import counted, size_in_words

# Bytes for each parameter: the weight, its two running means.
_SAVED = 12
# Pairs are meant to be half and half; what is further off than this is worth a word.
_UNEVEN = 0.1
# Examples whose rates are checked, and the most steps that are read for it.
_EXAMPLES, _MOST_STEPS = 1_000, 16
# A first loss above this multiple of guessing every token alike is no accident.
_FAR = 1.2
_PAIRS = ("next_sentence", "sentence_order")


def preflight(
    recipe: Recipe,
    folder: Path,
    network: Model,
    stages: Stages,
    workers: WorkerPool,
    callback: Callback,
) -> None:
    """Says what a run is about to do, and refuses what cannot go well.

    Raises:
        OutputError: If there is no room for the snapshots.
    """
    count = sum(parameter.numel() for parameter in network.parameters())
    steps = stages.steps
    each = [
        tokens or round(stage.loader.batch_size * stage.loader.examples.mean_length)
        for tokens, stage in zip(recipe.batch_tokens(), stages.stages, strict=True)
    ]
    total = sum(size * stage.steps for size, stage in zip(each, stages.stages, strict=True))
    sizes = " and then ".join(f"{size:,}" for size in dict.fromkeys(each))
    loader = stages.stages[0].loader
    start = recipe.model
    weights = "fresh weights" if start.fresh else f"weights of {start.start}"
    callback.on_message(
        f"{count:,} parameters, {weights}; {counted(steps, 'step')} of {sizes} tokens, "
        f"{total / 1e6:,.1f} million in all, "
        f"{stages.epoch_of(steps):,.1f} epochs; {counted(loader.batch_size, 'example')} a step on "
        f"{counted(workers.count, 'thread')}."
    )
    if recipe.objective.couples_examples and loader.ranks > 1:
        callback.on_message(
            f"Each of the {loader.ranks} processes compares its own examples alone: this is not "
            "the run that one process would make."
        )
    callback.on_message(check_disk(folder, _SAVED * count, recipe.checkpointing.keep, 4 * count))
    _check_memory(count, recipe, workers.count, callback)
    # Rates of a few examples say little.
    steps_read = min(_MOST_STEPS, math.ceil(_EXAMPLES / loader.batch_size))
    micro_batches = [
        micro_batch for step in range(steps_read) for micro_batch in loader.batch(step)
    ]
    for sentence in target_messages(micro_batches, steps_read, loader.ranks):
        callback.on_message(sentence)


def first_loss(
    measured: StepResult | None, baseline: Baseline | None, callback: Callback, *, fresh: bool
) -> None:
    """Says what the first loss means, and warns of one that cannot be right."""
    if measured is None or baseline is None:
        return
    part = baseline.part
    loss = measured.parts[part].loss
    callback.on_message(
        f"Guessing every token alike costs {baseline.uniform:.3f}, guessing by frequency "
        f"{baseline.loss:.3f}."
    )
    if fresh and loss > _FAR * baseline.uniform:
        callback.on_message(
            f"{part} begins at {loss:.3f}, far above that: the first weights are too large; lower "
            "model.config.initializer_range."
        )
    if not fresh and loss > baseline.loss:
        callback.on_message(
            f"{part} begins at {loss:.3f}, above guessing by frequency: a trained model should do "
            "better; is the text in its language, and is the head among its weights?"
        )


def target_messages(micro_batches: MicroBatches, steps: int, ranks: int = 1) -> list[str]:
    """What the targets of some steps are, a sentence for each loss."""
    tokens = sum(len(micro_batch.ids) for micro_batch in micro_batches)
    sentences = []
    for name in micro_batches[0].targets:
        answers = [micro_batch.targets[name][ANSWERS] for micro_batch in micro_batches]
        count = sum(map(len, answers))
        if name in _PAIRS:
            ones = sum(int(array.sum()) for array in answers) / max(count, 1)
            # With n pairs, half and half means within about 3 / (2 sqrt(n)).
            if abs(ones - 0.5) > max(_UNEVEN, 1.5 / math.sqrt(max(count, 1))):
                sentences.append(
                    f"{name}: {ones:.0%} of {counted(count, 'pair')} are negatives; half are "
                    "meant to be; short documents may leave no second sentence to follow."
                )
            else:
                sentences.append(f"{name}: {ones:.0%} of {counted(count, 'pair')} are negatives.")
        elif "positions" in micro_batches[0].targets[name]:
            sentences.append(f"{name}: {count / tokens:.1%} of the tokens are asked.")
        else:
            each = counted(round(count * ranks / steps), "question")
            about = "" if ranks == 1 and count % steps == 0 else "about "
            sentences.append(f"{name}: {about}{each} a step.")
        if MERGED in micro_batches[0].targets[name]:
            sentences += _merged(
                name,
                np.concatenate(
                    [micro_batch.targets[name][MERGED] for micro_batch in micro_batches]
                ),
            )
    return sentences


def _merged(name: str, spans: Int64Array) -> list[str]:
    """A word about examples that have more spans than there are sentinels."""
    many = int((spans > 0).sum())
    if not many:
        return []
    has = counted(many, "example has", "examples have")
    return [
        f"{name}: {has} more spans than there are sentinels, of {len(spans):,}; what is left over "
        "is one with the last span; shorten the examples, or hide longer spans."
    ]


def _check_memory(count: int, recipe: Recipe, workers: int, callback: Callback) -> None:
    # The weight, two means, and a gradient for each worker; what a micro-batch needs comes on top.
    needed = count * (4 + 8 + 4 * workers)
    have = available()
    free = f", {size_in_words(have)} are available" if have else ""
    callback.on_message(
        f"Weights, gradients and optimizer need {size_in_words(needed)} of memory{free}."
    )
    if have and needed > have:
        callback.on_message(
            "This will not fit: use a smaller model, or a machine with more memory."
        )


def check_lengths(
    model: Blueprint,
    objective: Objective,
    length: int,
    published: Mapping[str, Any] | None = None,
    *,
    max_positions: str | None = None,
) -> None:
    """Complains about examples that are longer than a table of positions, or than a config states.

    Args:
        model: The model to be saved.
        published: The config that is saved with it.
        objective: What it learns, which may add tables.
        length: The most tokens of an example.
        max_positions: The key of a config that says how many tokens are taken; None if the model is
            trained already, so that nothing in it can be changed.

    Raises:
        SettingError: If the examples are too long.
    """
    kept = "start from a size, as a trained model keeps its positions"
    config = kept if max_positions is None else f"raise model.config.{max_positions}"
    tables = [("the model takes at most", max_positions_of(model, published or {}), config)]
    used = objective.required_heads(model.heads) | objective.heads(model).keys()
    heads = objective.equip(model).heads
    for head in (heads[name] for name in used if name in heads):
        if isinstance(head, MaskDecoder):
            advice = config if DECODER in model.heads else "raise objective.positions"
            tables.append(("the mask decoder takes at most", head.count, advice))
        own = head.network.heads.get(DECODER) if isinstance(head, SecondNetwork) else None
        if isinstance(own, MaskDecoder):
            advice = "raise objective.generator.positions"
            tables.append(("the generator's mask decoder takes at most", own.count, advice))
    for who, limit, advice in tables:
        if limit is not None and length > limit:
            advice = f"shorten them (`data.stages`), or {advice}"
            raise SettingError("the length of examples", length, f"{who} {limit:,}", advice)
