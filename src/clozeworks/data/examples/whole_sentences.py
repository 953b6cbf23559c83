"""Whole sentences, as many as fit, with separators between them.

Paper: Liu et al. 2019 (RoBERTa: FULL-SENTENCES and DOC-SENTENCES).
The idea: fill each block with whole sentences up to the length. FULL-SENTENCES goes on into the
next document, with a separator between the two; DOC-SENTENCES begins a new block with each
document.
Where paper and official code differ: the paper puts a separator between documents only; the code
(fairseq `complete` and `complete_doc`) closes every sentence with one and has a lone one between
documents. `separators` chooses; "sentences" is what the published models were trained on.
Where the official code and this differ: fairseq gives a sentence that is too long a block of its
own beyond the length, which later filters drop. Here it is cut into sentences that fill a block
each, and its rest goes on as a sentence: no block is longer than the length, and no token is lost.
A block that would hold nothing but a separator is left out.
Used by: RoBERTa and what follows it.

Shapes: B blocks, M tokens of text in all of them.
"""

from pathlib import Path
from typing import ClassVar, Literal

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples import ExamplesSpec, room_within
from clozeworks.data.examples.index import ExampleIndex, IndexArrays, narrow
from clozeworks.data.examples.outline import Outline, chain, cut_long
from clozeworks.data.examples.separated import Separated, Separators, no_last_id
from clozeworks.spec import spec
from clozeworks.text.tokenizer.templates import template
from clozeworks.text.tokenizer.tokenizer import Tokenizer

Between = Literal["sentences", "documents"]


@spec
class FullSentences(ExamplesSpec):
    """Whole sentences up to the length, going on from document to document."""

    paper: ClassVar[str] = "Liu et al. 2019"
    crosses_documents: ClassVar[bool] = True

    separators: Between = "sentences"
    """"sentences" closes each sentence with a separator and puts a lone one between documents;
    "documents" puts one between documents only."""

    def arrange(
        self, split: Split, tokenizer: Tokenizer, seed: int, cache: Path | None = None
    ) -> Separated:
        """Makes blocks of the sentences of a split; nothing is random."""
        around = template(tokenizer, 1)
        if tokenizer.last_id is None:
            raise no_last_id("whole sentences are separated by it", "BERT's or RoBERTa's")
        every = self.separators == "sentences"
        # The separator that closes the last sentence closes the block; it is not doubled.
        closing = (tokenizer.last_id,) if every else around.special[1]
        room = room_within(self.length, len(around.special[0]) + len(closing))
        separators = Separators(
            tokenizer.last_id,
            front=around.special[0],
            closing=closing,
            after_sentences=every,
            between_documents=self.crosses_documents,
        )
        blocks = _full if self.crosses_documents else _within
        index = ExampleIndex(
            self,
            {"split": split.identity, "room": room},
            lambda _: blocks(Outline.of(split), room, int(every)),
            cache,
        )
        return Separated(split, separators, self.length, index, around.text_types[0])


@spec
class DocSentences(FullSentences):
    """Whole sentences of one document up to the length.

    fairseq drops blocks of at most one token, the separator that closes them among it. Such a
    block is an empty line, and empty sentences are left out here in any case. With the separators
    "documents" there is one at the end of the block only.
    """

    crosses_documents: ClassVar[bool] = False


def _pieces(outline: Outline, room: int) -> tuple[Int64Array, Int64Array]:
    """Sentences with the long ones cut: where they begin, and where documents begin among them."""
    sentences, documents = outline.sentences, outline.documents
    if (np.diff(sentences) <= room).all():
        return sentences, documents
    counts, within = cut_long(np.diff(sentences), room)
    pieces = np.repeat(sentences[:-1], counts) + within * room
    return np.append(pieces, sentences[-1]), np.concatenate([[0], np.cumsum(counts)])[documents]


def _full(outline: Outline, room: int, closing: int) -> IndexArrays:
    """Blocks that go on from document to document."""
    bounds, documents = _pieces(outline, room)
    # Items are sentences and, between documents, separators: sentences without tokens.
    tokens = np.insert(np.diff(bounds), documents[1:-1], 0)
    separator = tokens == 0
    costs = np.concatenate([[0], np.cumsum(tokens + closing if closing else tokens + separator)])

    def after(positions: Int64Array) -> Int64Array:
        return np.searchsorted(costs, costs[positions] + room + closing, side="right") - 1

    first = chain(len(tokens), after)
    positions = np.concatenate([[0], np.cumsum(tokens)])
    begins, last = positions[first], np.append(first[1:], len(tokens)) - 1
    sizes = np.diff(np.append(begins, positions[-1]))
    edges = separator[first] + 2 * separator[last]
    filled = sizes > 0
    return {
        "begins": narrow(begins[filled]),
        "sizes": narrow(sizes[filled]),
        "edges": narrow(edges[filled]),
    }


def _within(outline: Outline, room: int, closing: int) -> IndexArrays:
    """Blocks that end with their document."""
    bounds, documents = _pieces(outline, room)
    costs = bounds + closing * np.arange(len(bounds))

    def after(positions: Int64Array) -> Int64Array:
        fitting = np.searchsorted(costs, costs[positions] + room + closing, side="right") - 1
        ends = documents[np.searchsorted(documents, positions, side="right")]
        return np.minimum(fitting, ends)

    first = chain(len(bounds) - 1, after)
    begins = bounds[first]
    sizes = np.diff(np.append(begins, bounds[-1]))
    return {
        "begins": narrow(begins),
        "sizes": narrow(sizes),
        "edges": np.zeros(len(begins), np.uint8),
    }
