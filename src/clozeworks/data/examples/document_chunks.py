"""Pieces of documents: no text holds tokens of two of them.

Paper: Radford et al. 2018 (contiguous stretches of long documents).
The idea: cut each document into pieces of up to the length. A token says where a document ends,
another one, in families that have it, where it begins; in the middle of a document stands neither.
Where papers and this differ: GPT-2, GPT-3 and LLaMA fill every window to the end, with the end
token between documents, and tokens look across it. In packed batches short texts cost nothing, so
documents need not share a window and no token can see a stranger's text. Their windows are
`full_sentences` with `separators = "documents"`, or `blocks`.
Used by: causal language models.

Shapes: D documents, B pieces.
"""

from pathlib import Path
from typing import ClassVar

import numpy as np

from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples import ExamplesSpec, room_within
from clozeworks.data.examples.index import ExampleIndex, IndexArrays, narrow
from clozeworks.data.examples.outline import Outline, cut_long
from clozeworks.data.examples.separated import LEADING, TRAILING, Separated, Separators, no_last_id
from clozeworks.spec import spec
from clozeworks.text.tokenizer.templates import template
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@spec
class DocumentPieces(ExamplesSpec):
    """Pieces of one document each, ended by the end token where the document ends."""

    paper: ClassVar[str] = "Radford et al. 2018"

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Separated:
        """Cuts the documents of a split into pieces; nothing is random."""
        end = tokenizer.last_id
        if end is None:
            raise no_last_id("it says where a document ends", "GPT-2's")
        around = template(tokenizer, 1)
        front = around.special[0][:1]
        room = room_within(self.length, len(front) + 1)
        separators = Separators(end, opening=front[0] if front else None)
        index = ExampleIndex(
            self,
            {"split": split.identity, "room": room, "opened": bool(front)},
            lambda _: _pieces(Outline.of(split), room, opened=bool(front)),
            cache,
        )
        return Separated(split, separators, self.length, index, around.text_types[0])


def _pieces(outline: Outline, room: int, *, opened: bool) -> IndexArrays:
    """Where pieces begin, their sizes, and which begin or end a document."""
    documents = outline.sentences[outline.documents]
    sizes = np.diff(documents)
    counts, within = cut_long(sizes, room)  # pieces of each document, (D,); their numbers, (B,)
    first, last = within == 0, within == np.repeat(counts, counts) - 1
    edges = last * TRAILING + (first * LEADING if opened else 0)
    return {
        "begins": narrow(np.repeat(documents[:-1], counts) + within * room),
        "sizes": narrow(np.minimum(np.repeat(sizes, counts) - within * room, room)),
        "edges": edges.astype(np.uint8),
    }
