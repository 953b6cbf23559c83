"""The examples of a step, readable: as lines, and as plain data for a page."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.examples import Examples
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.objectives.batch import ANSWERS, Batch, TargetArrays
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted, visible

LABELS = {
    "next_sentence": ("the second text follows", "the second text is a random one"),
    "sentence_order": ("the texts stand in order", "the texts were swapped, or one is random"),
}
# Objectives whose target is another text.
ANSWERING = {"span_corruption", "prefix_lm", "denoisers"}
# If it is known from which documents the texts come: from one, or from two.
WRONG_ORDER = ("the texts were swapped", "the second text is a random one")


# What became of tokens that are asked for.
_ASKED = ("masked", "replaced", "kept")


@dataclass(frozen=True)
class SeenToken:
    """A token as a step sees it."""

    shown: str
    """What the model reads."""
    state: str = ""
    """`masked`, `replaced` by another token or `kept` as it is, if it is asked for; `gap` if it
    stands for hidden tokens, `special` if it is no text; otherwise empty."""
    original: str | None = None
    """What is asked for, if it is not what the model reads."""


@dataclass(frozen=True)
class SeenExample:
    """An example as a step sees it."""

    number: int
    """Its place in the step."""
    epoch: int
    """How often the text was seen before."""
    index: int
    """Its number among all examples."""
    tokens: tuple[SeenToken, ...]
    """What the model reads."""
    written: tuple[SeenToken, ...]
    """What it is to write, if that is another text."""
    targets: tuple[str, ...]
    """What is asked, a sentence for each loss."""


def lines(
    clean: ExampleArrays,
    batch: Batch,
    tokenizer: Tokenizer,
    limit: int,
    examples: Examples | None,
) -> Iterator[str]:
    """The first `limit` examples of a batch: tokens, masked ones marked, and targets.

    `examples` tells which documents they come from; None if that would not help.
    """
    for number in range(min(limit * batch.views, len(clean))):
        begin, length = int(clean.starts[number]), int(clean.lengths[number])
        example, view = divmod(number, batch.views)
        of_several = f", view {view + 1} of {batch.views}" if batch.views > 1 else ""
        shown = int(batch.lengths[number])
        others = f", {shown:,} shown" if shown != length else ""
        yield (
            f"example {example + 1} (epoch {clean.epochs[number]}, "
            f"number {clean.indices[number] // batch.views:,}{of_several}): "
            f"{counted(length, 'token')}{others}"
        )
        if ANSWERING & set(batch.targets):
            yield f"  {_row(batch.ids, batch.lengths, tokenizer, number)}"
        else:
            yield f"  {_tokens(clean, batch, tokenizer, begin, begin + length)}"
        yield from _targets(clean, batch, tokenizer, number, examples)
        yield ""


def _tokens(clean: ExampleArrays, batch: Batch, tokenizer: Tokenizer, begin: int, end: int) -> str:
    words = []
    for token in _marked(clean, batch, tokenizer, begin, end):
        if token.state not in _ASKED:
            words.append(token.shown)
        elif token.original is None:
            words.append(f"⟨{token.shown}⟩")
        else:
            words.append(f"⟨{token.original}→{token.shown}⟩")
    return " ".join(words)


def _marked(
    clean: ExampleArrays, batch: Batch, tokenizer: Tokenizer, begin: int, end: int
) -> Iterator[SeenToken]:
    """The tokens of a text at their positions in the batch, and what became of each."""
    targets = set(batch.targets.get("masked_lm", {}).get("positions", np.zeros(0)).tolist())
    special = tokenizer.special_ids
    for position in range(begin, end):
        shown, original = int(batch.ids[position]), int(clean.ids[position])
        text = _token(tokenizer, batch.ids[position])
        if position not in targets:
            yield SeenToken(text, "special" if shown in special else "")
        elif shown == original:
            yield SeenToken(text, "kept")
        else:
            state = "masked" if shown == tokenizer.mask_id else "replaced"
            yield SeenToken(text, state, _token(tokenizer, clean.ids[position]))


def seen_examples(
    clean: ExampleArrays,
    batch: Batch,
    tokenizer: Tokenizer,
    limit: int,
    examples: Examples | None,
) -> Iterator[SeenExample]:
    """The first `limit` examples of a batch, as `lines` shows them, as plain data."""
    for number in range(min(limit * batch.views, len(clean))):
        begin, length = int(clean.starts[number]), int(clean.lengths[number])
        answering = [name for name in batch.targets if name in ANSWERING]
        if answering:
            tokens = tuple(_seen_row(batch.ids, batch.lengths, tokenizer, number))
        else:
            tokens = tuple(_marked(clean, batch, tokenizer, begin, begin + length))
        written: tuple[SeenToken, ...] = ()
        for name in answering[:1]:
            part = batch.targets[name]
            written = tuple(_seen_row(part[ANSWERS], part["lengths"], tokenizer, number))
        lines = (line.strip() for line in _targets(clean, batch, tokenizer, number, examples))
        sentences = tuple(
            line for line in lines if any(line.startswith(f"{name}: ") for name in batch.targets)
        )
        yield SeenExample(
            number // batch.views,
            int(clean.epochs[number]),
            int(clean.indices[number] // batch.views),
            tokens,
            written,
            sentences,
        )


def _seen_row(
    ids: Int64Array, lengths: Int64Array, tokenizer: Tokenizer, number: int
) -> Iterator[SeenToken]:
    """The tokens of one text of several; what stands for a hidden span is one of its own."""
    end = int(lengths[: number + 1].sum())
    for token in ids[end - int(lengths[number]) : end]:
        text = _token(tokenizer, token)
        stands_for_span = text.startswith("<extra_id_")
        special = int(token) in tokenizer.special_ids
        yield SeenToken(text, "gap" if stands_for_span else "special" if special else "")


def _row(ids: Int64Array, lengths: Int64Array, tokenizer: Tokenizer, number: int) -> str:
    """The tokens of one text of several."""
    end = int(lengths[: number + 1].sum())
    return " ".join(_token(tokenizer, token) for token in ids[end - int(lengths[number]) : end])


def _token(tokenizer: Tokenizer, number: np.int64) -> str:
    return visible(tokenizer.token_of(int(number)))


def _targets(
    clean: ExampleArrays,
    batch: Batch,
    tokenizer: Tokenizer,
    number: int,
    examples: Examples | None,
) -> Iterator[str]:
    begin, end = clean.starts[number], clean.starts[number] + clean.lengths[number]
    for name, part in batch.targets.items():
        if name == "masked_lm":
            chosen = part["positions"][(part["positions"] >= begin) & (part["positions"] < end)]
            kept = int((batch.ids[chosen] == clean.ids[chosen]).sum())
            masked = int((batch.ids[chosen] == tokenizer.mask_id).sum())
            yield (
                f"  {name}: {counted(len(chosen), 'token is', 'tokens are')} asked, {masked} "
                f"of them shown as {tokenizer.special.mask}, {len(chosen) - masked - kept} as "
                f"another token, {kept} as they are"
            )
        elif name == "span_boundary":
            chosen = (part["left"] >= begin) & (part["left"] < end)
            spans = sorted(set(zip(part["left"][chosen], part["right"][chosen], strict=True)))
            ends = [
                f"{_token(tokenizer, clean.ids[left])} … {_token(tokenizer, clean.ids[right])}"
                for left, right in spans
            ]
            between = " between " + "; ".join(ends) if ends else ""
            yield f"  {name}: {counted(len(spans), 'span is', 'spans are')} asked{between}"
        elif name == "replaced_tokens":
            chosen = (part["judged"] >= begin) & (part["judged"] < end)
            tokens = counted(int(chosen.sum()), "token is", "tokens are")
            yield f"  {name}: {tokens} judged, once the generator has filled the gaps"
        elif name in ANSWERING or name == "causal_lm":
            count = counted(int(part["lengths"][number]), "token is", "tokens are")
            each = ", each from those before it" if name == "causal_lm" else ""
            yield f"  {name}: {count} asked{each}"
            if not each:
                yield f"  {_row(part[ANSWERS], part['lengths'], tokenizer, number)}"
        elif name == "permuted_lm":
            yield f"  {name}: {_in_order(clean, part, tokenizer, number)}"
        elif len(part[ANSWERS]) == len(clean):
            answer = int(part[ANSWERS][number])
            meaning = LABELS[name][answer] if name in LABELS else ""
            if name == "sentence_order" and answer == 1:
                meaning = _wrong_order(clean, number, examples) or meaning
            yield f"  {name}: {answer}" + (f" ({meaning})" if meaning else "")
        elif number % batch.views == 0:
            positive = int(part[ANSWERS][number // batch.views])
            yield f"  {name}: its positive is candidate {positive + 1}"


def _in_order(clean: ExampleArrays, part: TargetArrays, tokenizer: Tokenizer, number: int) -> str:
    """The tokens that are asked for, the first of the order first, and how long the memory is."""
    ends = np.cumsum(clean.lengths - part["before"])  # of the texts without their memories
    begin = int(ends[number] - clean.lengths[number] + part["before"][number])
    targets = part["targets"][(part["targets"] >= begin) & (part["targets"] < ends[number])]
    ranked = targets[np.argsort(part["sees"][targets], kind="stable")]
    before = int(part["before"][number])
    positions = ranked - begin + clean.starts[number] + before
    words = " ".join(_token(tokenizer, clean.ids[position]) for position in positions)
    memory = f"; the first {counted(before, 'token is', 'tokens are')} memory" if before else ""
    return (
        f"{counted(len(targets), 'token is', 'tokens are')} asked, in this order: {words}{memory}"
    )


def _wrong_order(clean: ExampleArrays, number: int, examples: Examples | None) -> str:
    """What is wrong with the order of two texts; empty if it is not known.

    A random text comes from another document; ten draws look for one.
    """
    if examples is None:
        return ""
    documents = examples.documents(int(clean.epochs[number]), clean.indices[number : number + 1])
    if documents is None:
        return ""
    return WRONG_ORDER[int(len(set(documents[0].tolist())) > 1)]
