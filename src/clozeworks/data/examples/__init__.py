"""What stands side by side: examples of a split by number, in any order. One file per idea.

An arrangement gives example i of epoch e without looking at those before it. What cannot be
computed on the spot is a few flat arrays, built once per copy and kept in a cache folder.

| the objective wants | arrangement |
|---|---|
| fixed windows over everything | `Blocks` |
| the same with what comes before each | `RememberedBlocks` |
| pieces of documents, each of one alone | `DocumentPieces` |
| whole sentences, RoBERTa's way | `FullSentences`, `DocSentences` |
| one document's sentences in a row, SpanBERT's way | `SingleSequences` |
| two texts and whether the second follows | `NextSentencePairs` |
| two texts and which comes first | `SentenceOrderPairs` |
| a sentence twice, with its neighbour, with given ones | `Twice`, `Neighbours`, `Given` |
"""

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from clozeworks.data.corpus.corpus import Split
from clozeworks.data.examples.examples import Examples
from clozeworks.spec import Slot

if TYPE_CHECKING:
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

__all__ = ["Examples", "ExamplesSpec"]


class ExamplesSpec(Slot):
    """Slot: what stands side by side."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.data.examples"

    def arrange(
        self, split: Split, tokenizer: "Tokenizer", seed: int, cache: Path | None = None
    ) -> Examples:
        """Arranges the tokens of a split.

        Args:
            split: Where the tokens are.
            tokenizer: The tokenizer that made them; it says which special tokens are added.
            seed: Decides every random choice.
            cache: A folder for index files. One that cannot be written is not an error.

        Raises:
            SettingError: If a setting cannot be used, such as a length without room for a token.
            InputError: If the split holds nothing that can be arranged.
        """
        raise NotImplementedError
