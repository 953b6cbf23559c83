"""GPT's way of writing text: words of characters, joined by byte pair encoding.

Paper: Sennrich et al. 2016; Radford et al. 2018.
The idea: the last piece of a word is marked, so that words can be told apart when they are joined
again; a word always ends with such a piece.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer as Backend
from tokenizers import decoders, models, normalizers, pre_tokenizers

from clozeworks.text.tokenizer.special import GPT_TOKENS, SpecialTokens


@dataclass(frozen=True, kw_only=True)
class CharacterPairStyle:
    """GPT: BERT's words in small letters, then byte pair encoding over characters.

    Compat: the release repaired texts with ftfy and cut them with spaCy; transformers, which this
    follows, cuts them as BERT does.

    Attributes:
        special: Names of the special tokens; nothing is put around a text.
        ending: Marks a piece that ends a word.
    """

    special: SpecialTokens = GPT_TOKENS
    ending: str = "</w>"

    kind = "bpe"

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        return self.special.names()

    def trailing(self) -> tuple[str, ...]:
        """Names the special tokens that take the last ids of a new vocabulary."""
        return ()

    def normalizer(self) -> normalizers.Normalizer:
        """Makes the step that cleans the characters."""
        return normalizers.BertNormalizer(lowercase=True)

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Makes the step that cuts the text into words."""
        return pre_tokenizers.BertPreTokenizer()

    def build(
        self, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]] = ()
    ) -> Backend:
        """Joins the style with a vocabulary and its merges.

        Args:
            vocabulary: Id of each piece, special tokens among them.
            merges: Pairs of pieces in the order in which they are joined.
        """
        unknown = self.special.unknown
        pieces = models.BPE(
            dict(vocabulary),
            list(merges),
            unk_token=unknown if unknown in vocabulary else None,
            end_of_word_suffix=self.ending,
        )
        backend = Backend(pieces)
        backend.normalizer = self.normalizer()
        backend.pre_tokenizer = self.pre_tokenizer()
        backend.decoder = decoders.BPEDecoder(suffix=self.ending)
        backend.add_special_tokens([name for name in self.special.names() if name in vocabulary])
        return backend
