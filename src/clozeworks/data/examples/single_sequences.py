"""Whole sentences of one document in a row, without pairs.

Paper: Joshi et al. 2020 (SpanBERT).
The idea: take whole sentences of a document while they fit. One long text per example teaches more
than two halves and a guess about whether they belong together.
Where the official code and this differ: a sentence too long to fit is left out in both, and ends
the text before it, so that no example has a hole. When it is the last of its document, the code
loses the text before it, and it loses the last document of the file; here neither is lost.
Used by: SpanBERT.
"""

from pathlib import Path
from typing import ClassVar

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples import Examples, ExamplesSpec, Stretches, TextBounds, room_within
from clozeworks.data.examples.index import ExampleIndex, IndexArrays, narrow
from clozeworks.data.examples.outline import Outline, chain
from clozeworks.spec import spec
from clozeworks.text.tokenizer.templates import Template, template
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@spec
class SingleSequences(ExamplesSpec):
    """Whole sentences of one document in a row, as many as fit."""

    paper: ClassVar[str] = "Joshi et al. 2020"

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Examples:
        """Makes sequences of the tokens of a split; nothing is random."""
        around = template(tokenizer, 1)
        room = room_within(self.length, around.added)
        index = ExampleIndex(
            self,
            {"split": split.identity, "room": room},
            lambda _: _build(Outline.of(split), room),
            cache,
        )
        return _SentenceRuns(split, around, self.length, index).checked(
            f"every sentence has more than {room} tokens, the room that a length of "
            f"{self.length} leaves; raise length."
        )


class _SentenceRuns(Stretches):
    def __init__(self, split: Split, around: Template, longest: int, index: ExampleIndex) -> None:
        super().__init__(split, around, longest)
        self._index = index

    @property
    def mean_length(self) -> float:
        return float(self._index.copy(0)["sizes"].mean()) + self._template.added

    def size(self, epoch: int) -> int:
        return self._index.size(0)

    def _texts(self, epoch: int, indices: Int64Array) -> TextBounds:
        arrays = self._index.copy(0)
        begins = arrays["begins"][indices].astype(np.int64)[:, None]
        return begins, begins + arrays["sizes"][indices][:, None], None


def _build(outline: Outline, room: int) -> IndexArrays:
    sentences, documents = outline.sentences, outline.documents

    def after(positions: Int64Array) -> Int64Array:
        # A sentence that does not fit is a step of its own: no end lies within its room.
        fitting = np.searchsorted(sentences, sentences[positions] + room, side="right") - 1
        ends = documents[outline.document_of(positions) + 1]
        return np.minimum(np.maximum(fitting, positions + 1), ends)

    visited = chain(len(sentences) - 1, after)
    bounds = sentences[np.append(visited, len(sentences) - 1)]
    begins, sizes = bounds[:-1], np.diff(bounds)
    fits = sizes <= room
    return {"begins": narrow(begins[fits]), "sizes": narrow(sizes[fits])}
