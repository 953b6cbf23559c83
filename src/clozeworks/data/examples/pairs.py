"""Pairs of texts, with a label that says how the second relates to the first.

Paper: Devlin et al. 2019 (BERT: does B follow A?); Lan et al. 2020 (ALBERT: which comes first?).
The idea: a model that has to tell whether one text follows another must look beyond single
sentences. BERT's wrong answers come from another document and can be told by topic alone; ALBERT's
are the same two texts swapped, which takes order to tell.
Where paper and official code differ: the code makes more than half of BERT's second texts random,
because a chunk of a single sentence has nothing that could follow, and ALBERT's code does the same
with such chunks. Both are followed here; `pure` leaves them out of ALBERT's.
Where the official code and this differ: documents are visited in order, because the loader shuffles
the pairs; empty documents are left out as there.
Used by: BERT, ALBERT.
"""

from collections.abc import Callable
from pathlib import Path
from typing import ClassVar

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples import Examples, ExamplesSpec, Stretches, TextBounds, room_within
from clozeworks.data.examples.index import ExampleIndex
from clozeworks.data.examples.outline import Outline
from clozeworks.data.examples.pair_loop import (
    NextSentenceLoop,
    PairLoop,
    PureSentenceOrderLoop,
    SentenceOrderLoop,
)
from clozeworks.rng import RandomStream
from clozeworks.spec import PositiveInt, Probability, spec
from clozeworks.text.tokenizer.templates import Template, template
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@spec
class NextSentencePairs(ExamplesSpec):
    """Two texts; label 0 if the second follows the first, 1 if it comes from another document."""

    paper: ClassVar[str] = "Devlin et al. 2019"

    short: Probability = 0.1
    """The fraction of documents that are cut to a random shorter length."""
    copies: PositiveInt = 10
    """How many times the split is paired anew before epochs repeat."""

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Examples:
        """Pairs the tokens of a split."""
        return _arrange(self, NextSentenceLoop, split, tokenizer, seed, cache)


@spec
class SentenceOrderPairs(ExamplesSpec):
    """Two texts that follow one another; label 0 if they stand in order, 1 if they are swapped."""

    paper: ClassVar[str] = "Lan et al. 2020"

    short: Probability = 0.1
    """The fraction of documents that are cut to a random shorter length."""
    copies: PositiveInt = 10
    """How many times the split is paired anew before epochs repeat."""
    pure: bool = False
    """Whether chunks of one sentence, which cannot be swapped, are left out. Otherwise they get a
    random second text and label 1, as in the official code."""

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Examples:
        """Pairs the tokens of a split."""
        if not self.pure:
            return _arrange(self, SentenceOrderLoop, split, tokenizer, seed, cache)
        return _arrange(self, PureSentenceOrderLoop, split, tokenizer, seed, cache).checked(
            "no two sentences of a document fit together; raise length, or set pure to false."
        )


def _arrange(
    settings: NextSentencePairs | SentenceOrderPairs,
    loop: Callable[[Outline, int, float, RandomStream, int], PairLoop],
    split: Split,
    tokenizer: Tokenizer,
    seed: int,
    cache: Path | None,
) -> "_PairExamples":
    around = template(tokenizer, 2)
    room = room_within(settings.length, around.added, texts=2)
    rng = RandomStream(seed, "pairs")
    index = ExampleIndex(
        settings,
        {"split": split.identity, "room": room, "seed": seed},
        lambda copy: loop(Outline.of(split), room, settings.short, rng, copy).build(),
        cache,
    )
    return _PairExamples(split, around, settings.length, settings.copies, index)


class _PairExamples(Stretches):
    def __init__(
        self, split: Split, around: Template, longest: int, copies: int, index: ExampleIndex
    ) -> None:
        super().__init__(split, around, longest)
        self.copies = copies
        self._index = index

    @property
    def mean_length(self) -> float:
        arrays = self._index.copy(0)
        sizes = float(arrays["first_size"].mean()) + float(arrays["second_size"].mean())
        return sizes + self._template.added

    def size(self, epoch: int) -> int:
        return self._index.size(epoch % self.copies)

    def documents(self, epoch: int, indices: Int64Array) -> Int64Array:
        self._check(epoch, indices)
        arrays = self._index.copy(epoch % self.copies)
        begins = np.stack([arrays[name][indices] for name in ("first", "second")], axis=1)
        # Trap: a document without tokens begins where the next one does; the last of them counts.
        offsets = self._split.sentence_offsets[self._split.document_offsets]
        return np.searchsorted(offsets, begins.astype(np.int64), side="right") - 1

    def _texts(self, epoch: int, indices: Int64Array) -> TextBounds:
        arrays = {
            name: array[indices].astype(np.int64)
            for name, array in self._index.copy(epoch % self.copies).items()
        }
        begins = np.stack([arrays["first"], arrays["second"]], axis=1)
        sizes = np.stack([arrays["first_size"], arrays["second_size"]], axis=1)
        return begins, begins + sizes, arrays["label"]
