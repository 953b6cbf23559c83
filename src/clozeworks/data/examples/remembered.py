"""Fixed windows over the flat stream of tokens, each with the tokens just before it.

Paper: Dai et al. 2019 (Transformer-XL); Yang et al. 2019 (XLNet).
The idea: a window is read better by one who remembers what came before. An example is a window and
the tokens that stand before it; these are there to be remembered, not asked for.
Where paper and code differ: there the memory is what was computed for the window of the step
before, so that a run has rows that must follow each other. Here it is computed anew from the tokens
(decision 18), so that examples may stand in any order, as everywhere else.
Used by: permuted language models.
"""

from pathlib import Path
from typing import Annotated, ClassVar

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples import Examples, ExamplesSpec, TextBounds, room_within
from clozeworks.data.examples.blocks import TokenWindows
from clozeworks.spec import Above, Advice, Below, spec
from clozeworks.text.tokenizer.templates import Template, template
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@spec
class RememberedBlocks(ExamplesSpec):
    """Fixed windows over the flat stream of tokens, and before each what comes before it.

    The label of an example is the number of its first tokens that are memory.
    """

    paper: ClassVar[str] = "Dai et al. 2019"

    memory: Annotated[
        float, Above(0), Below(1), Advice("for windows without a memory use blocks")
    ] = 0.5
    """The fraction of the length that is memory."""

    @property
    def window(self) -> int:
        """The most tokens of a window, special tokens among them."""
        return self.length - round(self.length * self.memory)

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Examples:
        """Makes windows of the tokens of a split; nothing is random and no index is needed."""
        around = template(tokenizer, 1)
        room = room_within(self.window, around.added)
        # Two texts: the memory with nothing around it, and the window as a text of its own.
        two = Template(((), *around.special), ((), *around.special_types), around.text_types * 2)
        return _RememberedWindows(split, two, self.length, room)


class _RememberedWindows(TokenWindows):
    @property
    def _memory(self) -> int:
        return self.longest - self._room - self._template.added

    @property
    def mean_length(self) -> float:
        begins = np.arange(self._size) * self._room
        before = int(np.minimum(begins, self._memory).sum())
        return (self._split.tokens + before) / self._size + self._template.added

    def _texts(self, epoch: int, indices: Int64Array) -> TextBounds:
        begins = indices * self._room
        before = np.maximum(begins - self._memory, 0)
        ends = np.minimum(begins + self._room, self._split.tokens)
        texts = np.stack([before, begins, ends], axis=1)
        return texts[:, :2], texts[:, 1:], begins - before
