"""Fixed windows over the flat stream of tokens.

Paper: Radford et al. 2018 (contiguous sequences); fairseq calls it `none`.
The idea: cut everything into windows of one length. No token is lost and every window but the last
is full; sentences and documents are cut where a window happens to end.
Used by: causal and permuted language models, and wherever sentences are not known.
"""

from pathlib import Path
from typing import ClassVar

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples import Examples, ExamplesSpec
from clozeworks.data.examples.example_arrays import ExampleArrays, assemble
from clozeworks.data.examples.examples import check_tokens, room_within
from clozeworks.spec import spec
from clozeworks.text.tokenizer.templates import Template, template
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@spec
class Blocks(ExamplesSpec):
    """Fixed windows over the flat stream of tokens; the last one may be shorter.

    Attributes:
        length: The most tokens of a sequence, special tokens among them.
    """

    paper: ClassVar[str] = "Radford et al. 2018"

    length: int

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Examples:
        """Arranges the tokens of a split; nothing is random and no index is needed."""
        around = template(tokenizer, 1)
        room = room_within(self.length, around.added)
        check_tokens(split)
        return _Windows(split, around, room)


class _Windows(Examples):
    def __init__(self, split: Split, around: Template, room: int) -> None:
        self.longest = room + around.added
        self._split = split
        self._template = around
        self._room = room
        self._size = -(-split.tokens // room)

    @property
    def mean_length(self) -> float:
        return self._split.tokens / self._size + self._template.added

    def size(self, epoch: int) -> int:
        return self._size

    def take(self, epoch: int, indices: Int64Array) -> ExampleArrays:
        self._check(epoch, indices)
        begins = indices[:, None] * self._room
        return assemble(
            self._split,
            self._template,
            begins,
            np.minimum(begins + self._room, self._split.tokens),
            epochs=np.full(len(indices), epoch, dtype=np.int64),
            indices=indices,
        )
