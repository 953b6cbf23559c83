"""How a family writes text as tokens: its normaliser, splitting, special tokens and template.

A style is a value. It says nothing about which pieces exist; `build` joins it with a vocabulary
and gives a ready tokenizer of the Rust library.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from clozeworks.text.tokenizer.character_pairs import CharacterPairStyle
from clozeworks.text.tokenizer.special import (
    BERT_TOKENS,
    GPT2_TOKENS,
    LLAMA_TOKENS,
    ROBERTA_TOKENS,
    T5_TOKENS,
    UNIGRAM_TOKENS,
    XLNET_TOKENS,
    SpecialTokens,
)

StyleKind = Literal["wordpiece", "bpe", "unigram"]


def _present(names: Sequence[str | None], vocabulary: Mapping[str, int]) -> list[str]:
    return [name for name in dict.fromkeys(names) if name is not None and name in vocabulary]


def _bert_template(
    special: SpecialTokens, vocabulary: Mapping[str, int]
) -> processors.TemplateProcessing | None:
    first, last = special.first, special.last
    if first is None or last is None or first not in vocabulary or last not in vocabulary:
        return None
    return processors.TemplateProcessing(
        single=f"{first}:0 $A:0 {last}:0",
        pair=f"{first}:0 $A:0 {last}:0 $B:1 {last}:1",
        special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])],
    )


@dataclass(frozen=True, kw_only=True)
class WordPieceStyle:
    """BERT: words of letters, single punctuation marks, single Chinese characters, then pieces.

    Attributes:
        lowercase: Whether letters are lowered first.
        strip_accents: Whether accents are dropped; None follows `lowercase`.
        chinese_characters: Whether each Chinese character is a word of its own.
        special: Names of the special tokens.
        prefix: Marks a piece that continues a word.
        longest_word: Words of more characters become the unknown token.
    """

    lowercase: bool = True
    strip_accents: bool | None = None
    chinese_characters: bool = True
    special: SpecialTokens = BERT_TOKENS
    prefix: str = "##"
    longest_word: int = 100

    kind = "wordpiece"

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        s = self.special
        order = (s.pad, s.unknown, s.first, s.last, s.mask, *s.extra)
        return tuple(dict.fromkeys(name for name in order if name is not None))

    def trailing(self) -> tuple[str, ...]:
        """Names the special tokens that take the last ids of a new vocabulary."""
        return ()

    def normalizer(self) -> normalizers.Normalizer:
        """Makes the step that cleans the characters."""
        return normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.chinese_characters,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Makes the step that cuts the text into words."""
        return pre_tokenizers.BertPreTokenizer()

    def build(self, vocabulary: Mapping[str, int]) -> Backend:
        """Joins the style with a vocabulary.

        Args:
            vocabulary: Id of each piece, special tokens among them.
        """
        backend = Backend(
            models.WordPiece(
                dict(vocabulary),
                unk_token=self.special.unknown or "[UNK]",
                continuing_subword_prefix=self.prefix,
                max_input_chars_per_word=self.longest_word,
            )
        )
        backend.normalizer = self.normalizer()
        backend.pre_tokenizer = self.pre_tokenizer()
        backend.decoder = decoders.WordPiece(prefix=self.prefix)
        template = _bert_template(self.special, vocabulary)
        if template is not None:
            backend.post_processor = template
        backend.add_special_tokens(_present(self.special.names(), vocabulary))
        return backend


@dataclass(frozen=True, kw_only=True)
class ByteLevelStyle:
    """RoBERTa and GPT-2: byte pair encoding over bytes; no text is ever unknown.

    Attributes:
        add_prefix_space: Whether a text is read as if a space stood before it.
        special: Names of the special tokens.
        frame: Whether a text is written `<s> A </s>`, a pair `<s> A </s></s> B </s>` (RoBERTa);
            without it nothing is added (GPT-2).
    """

    add_prefix_space: bool = False
    special: SpecialTokens = ROBERTA_TOKENS
    frame: bool = True

    kind = "bpe"

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        s = self.special
        order = (s.first, s.pad, s.last, s.unknown, *s.extra)
        return tuple(dict.fromkeys(name for name in order if name is not None))

    def trailing(self) -> tuple[str, ...]:
        """Names the special tokens that take the last ids of a new vocabulary."""
        mask = self.special.mask
        return () if mask is None else (mask,)

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Makes the step that cuts the text into words of bytes."""
        return pre_tokenizers.ByteLevel(add_prefix_space=self.add_prefix_space)

    def build(
        self, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]] = ()
    ) -> Backend:
        """Joins the style with a vocabulary and its merges.

        Args:
            vocabulary: Id of each piece, special tokens among them.
            merges: Pairs of pieces in the order in which they are joined.
        """
        backend = Backend(models.BPE(dict(vocabulary), list(merges)))
        backend.pre_tokenizer = self.pre_tokenizer()
        backend.decoder = decoders.ByteLevel()
        backend.post_processor = self.processor(vocabulary)
        backend.add_special_tokens(
            [
                # Compat: RoBERTa's mask swallows the space before it, as a word's piece would.
                AddedToken(name, lstrip=name == self.special.mask, normalized=False, special=True)
                for name in _present(self.special.names(), vocabulary)
            ]
        )
        return backend

    def processor(self, vocabulary: Mapping[str, int]) -> processors.PostProcessor:
        """Makes the step that puts special tokens around texts and leaves spaces out of words."""
        first, last = self.special.first, self.special.last
        if self.frame and first is not None and last is not None:
            return processors.RobertaProcessing(
                (last, vocabulary[last]),
                (first, vocabulary[first]),
                trim_offsets=True,
                add_prefix_space=self.add_prefix_space,
            )
        return processors.ByteLevel(trim_offsets=True, add_prefix_space=self.add_prefix_space)


@dataclass(frozen=True, kw_only=True)
class BertByteLevelStyle(ByteLevelStyle):
    """ModernBERT: the same bytes, with BERT's special tokens and frame.

    Attributes:
        special: Names of the special tokens; a text is written `[CLS] A [SEP]`, a pair
            `[CLS] A [SEP] B [SEP]`, all of one type.
    """

    special: SpecialTokens = BERT_TOKENS

    def processor(self, vocabulary: Mapping[str, int]) -> processors.PostProcessor:
        """Makes the step that puts special tokens around texts and leaves spaces out of words."""
        first, last = self.special.first, self.special.last
        trimmed = processors.ByteLevel(trim_offsets=True, add_prefix_space=self.add_prefix_space)
        if first is None or last is None:
            return trimmed
        framed = processors.TemplateProcessing(
            single=f"{first} $A {last}",
            pair=f"{first} $A {last} $B {last}",
            special_tokens=[(first, vocabulary[first]), (last, vocabulary[last])],
        )
        return processors.Sequence([trimmed, framed])


@dataclass(frozen=True, kw_only=True)
class UnigramStyle:
    """ALBERT and T5: spaces become `▁`, words are cut into their likeliest pieces.

    Attributes:
        special: Names of the special tokens; a text is written `[CLS] A [SEP]`.
    """

    special: SpecialTokens = UNIGRAM_TOKENS

    kind = "unigram"

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        s = self.special
        order = (s.pad, s.unknown, s.first, s.last, s.mask, *s.extra)
        return tuple(dict.fromkeys(name for name in order if name is not None))

    def trailing(self) -> tuple[str, ...]:
        """Names the special tokens that take the last ids of a new vocabulary."""
        return ()

    def normalizer(self) -> normalizers.Normalizer:
        """Makes the step that cleans the characters and joins runs of white space."""
        return normalizers.Sequence(
            [
                normalizers.NFKC(),
                normalizers.Replace(Regex(r"\s+"), " "),
                normalizers.Strip(),
            ]
        )

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Makes the step that cuts the text at spaces and writes them as `▁`."""
        return pre_tokenizers.Metaspace()

    def build(self, pieces: Sequence[tuple[str, float]]) -> Backend:
        """Joins the style with a vocabulary.

        Args:
            pieces: Each piece with its log probability; the place in the list is its id.
        """
        vocabulary = {piece: index for index, (piece, _) in enumerate(pieces)}
        unknown = vocabulary.get(self.special.unknown or "")
        backend = Backend(models.Unigram(list(pieces), unk_id=unknown))
        backend.normalizer = self.normalizer()
        backend.pre_tokenizer = self.pre_tokenizer()
        backend.decoder = decoders.Metaspace()
        template = self.template(vocabulary)
        if template is not None:
            backend.post_processor = template
        backend.add_special_tokens(_present(self.special.names(), vocabulary))
        return backend

    def template(self, vocabulary: Mapping[str, int]) -> processors.TemplateProcessing | None:
        """Makes the step that puts special tokens around texts."""
        return _bert_template(self.special, vocabulary)


@dataclass(frozen=True, kw_only=True)
class ClosedUnigramStyle(UnigramStyle):
    """XLNet: the same pieces, and all special tokens after the text.

    Attributes:
        special: Names of the special tokens; a text is written `A <sep> <cls>`.
    """

    special: SpecialTokens = XLNET_TOKENS

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        s = self.special
        # Compat: the published vocabulary has `<unk> <s> </s> <cls> <sep> <pad> <mask>` first.
        order = (s.unknown, *s.extra[:2], s.first, s.last, s.pad, s.mask, *s.extra[2:])
        return tuple(dict.fromkeys(name for name in order if name is not None))

    def template(self, vocabulary: Mapping[str, int]) -> processors.TemplateProcessing | None:
        """Makes the step that puts special tokens after texts; the last has a type of its own."""
        close, last = self.special.last, self.special.first
        if close is None or last is None or close not in vocabulary or last not in vocabulary:
            return None
        return processors.TemplateProcessing(
            single=f"$A:0 {close}:0 {last}:2",
            pair=f"$A:0 {close}:0 $B:1 {close}:1 {last}:2",
            special_tokens=[(close, vocabulary[close]), (last, vocabulary[last])],
        )


@dataclass(frozen=True, kw_only=True)
class AnsweringUnigramStyle(UnigramStyle):
    """T5: the same pieces, an end after every text, and sentinels at the end of the vocabulary.

    Attributes:
        special: Names of the special tokens; a text is written `A </s>`, a pair `A </s> B </s>`.
    """

    special: SpecialTokens = T5_TOKENS

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        s = self.special
        return tuple(name for name in (s.pad, s.last, s.unknown) if name is not None)

    def trailing(self) -> tuple[str, ...]:
        """The sentinels; the first of them has the very last id."""
        return self.special.extra[::-1]

    def template(self, vocabulary: Mapping[str, int]) -> processors.TemplateProcessing | None:
        """Makes the step that puts an end after texts."""
        last = self.special.last
        if last is None or last not in vocabulary:
            return None
        return processors.TemplateProcessing(
            single=f"$A:0 {last}:0",
            pair=f"$A:0 {last}:0 $B:0 {last}:0",
            special_tokens=[(last, vocabulary[last])],
        )


@dataclass(frozen=True, kw_only=True)
class BeginningByteLevelStyle(ByteLevelStyle):
    """LLaMA 3: bytes, and a token that says where a text begins.

    Attributes:
        special: Names of the special tokens; a text is written `<|begin_of_text|> A`.
    """

    special: SpecialTokens = LLAMA_TOKENS

    def processor(self, vocabulary: Mapping[str, int]) -> processors.PostProcessor:
        """Makes the step that puts the beginning before texts and leaves spaces out of words."""
        trimmed = processors.ByteLevel(trim_offsets=True, add_prefix_space=self.add_prefix_space)
        first = self.special.first
        if first is None:
            return trimmed
        framed = processors.TemplateProcessing(
            single=f"{first} $A",
            pair=f"{first} $A {first} $B",
            special_tokens=[(first, vocabulary[first])],
        )
        return processors.Sequence([trimmed, framed])


Style = WordPieceStyle | ByteLevelStyle | UnigramStyle | CharacterPairStyle

GPT_STYLE = CharacterPairStyle()
GPT2_STYLE = ByteLevelStyle(special=GPT2_TOKENS, frame=False)
LLAMA_STYLE = BeginningByteLevelStyle()
T5_STYLE = AnsweringUnigramStyle()
