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
from clozeworks.data.examples import Examples, ExamplesSpec, Stretches, TextBounds, room_within
from clozeworks.spec import spec
from clozeworks.text.tokenizer.templates import Template, template
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@spec
class Blocks(ExamplesSpec):
    """Fixed windows over the flat stream of tokens; the last one may be shorter."""

    paper: ClassVar[str] = "Radford et al. 2018"

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Examples:
        """Makes windows of the tokens of a split; nothing is random and no index is needed."""
        around = template(tokenizer, 1)
        return TokenWindows(split, around, self.length, room_within(self.length, around.added))


class TokenWindows(Stretches):
    """TokenWindows with room for some tokens of text each."""

    def __init__(self, split: Split, around: Template, longest: int, room: int) -> None:
        super().__init__(split, around, longest)
        self._room = room
        self._size = -(-split.tokens // room)

    @property
    def mean_length(self) -> float:
        """Tokens of a window with special tokens, on average."""
        return self._split.tokens / self._size + self._template.added

    def size(self, epoch: int) -> int:
        """How many windows an epoch has."""
        return self._size

    def _texts(self, epoch: int, indices: Int64Array) -> TextBounds:
        begins = indices[:, None] * self._room
        return begins, np.minimum(begins + self._room, self._split.tokens), None
