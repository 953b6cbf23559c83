"""Where sentences and documents begin, without those that have no tokens."""

from dataclasses import dataclass

import numpy as np

from clozeworks.arrays import Int64Array
from clozeworks.data.corpus.corpus import Split


@dataclass(frozen=True)
class Outline:
    """The sentences and documents of a split that have tokens; their numbers count only these.

    Attributes:
        sentences: The first token of every sentence, and the end, (S + 1,).
        documents: The first sentence of every document, and the end, (D + 1,).
    """

    sentences: Int64Array
    documents: Int64Array

    @classmethod
    def of(cls, split: Split) -> "Outline":
        """Leaves out what is empty; shares the arrays of the split if nothing is."""
        sentences, documents = split.sentence_offsets, split.document_offsets
        filled = sentences[1:] > sentences[:-1]
        if not filled.all():
            before = np.concatenate([np.zeros(1, np.int64), np.cumsum(filled)])
            sentences = np.concatenate([sentences[:-1][filled], sentences[-1:]])
            documents = before[documents]
        some = documents[1:] > documents[:-1]
        if not some.all():
            documents = np.concatenate([documents[:-1][some], documents[-1:]])
        return cls(sentences, documents)

    def document_of(self, sentences: Int64Array) -> Int64Array:
        """The document each sentence stands in."""
        return np.searchsorted(self.documents, sentences, side="right") - 1
