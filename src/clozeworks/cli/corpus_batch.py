"""What `clozeworks corpus batch` prints: the examples of a step, readable."""

from collections.abc import Iterator

import numpy as np

from clozeworks.cli.corpus_page import count, visible
from clozeworks.data.arranged import Arranged
from clozeworks.objectives.draft import ANSWERS, Batch
from clozeworks.text.tokenizer import Tokenizer

LABELS = {
    "next_sentence": ("the second text follows", "the second text is a random one"),
    "sentence_order": ("the texts stand in order", "the texts were swapped, or one is random"),
}


def lines(clean: Arranged, batch: Batch, tokenizer: Tokenizer, most: int) -> Iterator[str]:
    """The first examples of a batch: tokens, what is hidden, what is asked, labels.

    Args:
        clean: The examples before anything was hidden.
        batch: The same with what is hidden hidden.
        tokenizer: Names the tokens.
        most: How many examples are shown, each with all its views.
    """
    for number in range(min(most * batch.views, len(clean))):
        begin, length = int(clean.starts[number]), int(clean.lengths[number])
        example, view = divmod(number, batch.views)
        of_several = f", view {view + 1} of {batch.views}" if batch.views > 1 else ""
        yield (
            f"example {example + 1} (epoch {clean.epochs[number]}, "
            f"number {clean.indices[number] // batch.views:,}{of_several}): "
            f"{count(length, 'token')}"
        )
        yield f"  {_tokens(clean, batch, tokenizer, begin, begin + length)}"
        yield from _asked(clean, batch, tokenizer, number)
        yield ""


def _tokens(clean: Arranged, batch: Batch, tokenizer: Tokenizer, begin: int, end: int) -> str:
    asked = set(batch.parts.get("masked_lm", {}).get("places", np.zeros(0)).tolist())
    words = []
    for place in range(begin, end):
        shown = _token(tokenizer, batch.ids[place])
        if place not in asked:
            words.append(shown)
        elif batch.ids[place] == clean.ids[place]:
            words.append(f"⟨{shown}⟩")
        else:
            words.append(f"⟨{_token(tokenizer, clean.ids[place])}→{shown}⟩")
    return " ".join(words)


def _token(tokenizer: Tokenizer, number: np.int64) -> str:
    return visible(tokenizer.token_of(int(number)))


def _asked(clean: Arranged, batch: Batch, tokenizer: Tokenizer, number: int) -> Iterator[str]:
    begin, end = clean.starts[number], clean.starts[number] + clean.lengths[number]
    for name, part in batch.parts.items():
        if name == "masked_lm":
            chosen = part["places"][(part["places"] >= begin) & (part["places"] < end)]
            kept = int((batch.ids[chosen] == clean.ids[chosen]).sum())
            masked = int((batch.ids[chosen] == tokenizer.mask_id).sum())
            are = "is" if len(chosen) == 1 else "are"
            yield (
                f"  {name}: {count(len(chosen), 'token')} {are} asked, {masked} of them shown as "
                f"{tokenizer.special.mask}, {len(chosen) - masked - kept} as another token, {kept} "
                "as they are"
            )
        elif name == "span_boundary":
            chosen = (part["left"] >= begin) & (part["left"] < end)
            spans = sorted(set(zip(part["left"][chosen], part["right"][chosen], strict=True)))
            said = [
                f"{_token(tokenizer, clean.ids[left])} … {_token(tokenizer, clean.ids[right])}"
                for left, right in spans
            ]
            are = "is" if len(spans) == 1 else "are"
            between = " between " + "; ".join(said) if said else ""
            yield f"  {name}: {count(len(spans), 'span')} {are} asked{between}"
        elif len(part[ANSWERS]) == len(clean):
            answer = int(part[ANSWERS][number])
            meaning = LABELS[name][answer] if name in LABELS else ""
            yield f"  {name}: {answer}" + (f" ({meaning})" if meaning else "")
        elif number % batch.views == 0:
            positive = int(part[ANSWERS][number // batch.views])
            yield f"  {name}: its positive is candidate {positive + 1}"
