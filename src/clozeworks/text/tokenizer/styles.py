"""How a family writes text as tokens: its normaliser, splitting, special tokens and template.

A style is a value. It says nothing about which pieces exist; `build` joins it with a vocabulary
and gives a ready tokenizer of the Rust library.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from clozeworks.text.tokenizer.special import (
    BERT_TOKENS,
    CAMEMBERT_TOKENS,
    GPT2_TOKENS,
    GPT_TOKENS,
    LLAMA_TOKENS,
    MISTRAL_TOKENS,
    QWEN2_TOKENS,
    ROBERTA_TOKENS,
    SMOLLM3_TOKENS,
    T5_TOKENS,
    UNIGRAM_TOKENS,
    XLNET_TOKENS,
    SpecialTokens,
    distinct,
)

StyleKind = Literal["wordpiece", "bpe", "unigram"]

# How newer decoders cut text before it becomes bytes: contractions, words, so many digits, other
# signs with the line feeds after them, white space.
_NEWER_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)


@dataclass(frozen=True, kw_only=True)
class _Style:
    """What all styles have."""

    special: SpecialTokens

    kind: ClassVar[StyleKind]
    order: ClassVar[tuple[str, ...]] = ("pad", "unknown", "first", "last", "mask")
    """The special tokens that take the first ids of a new vocabulary, before further ones."""
    single: ClassVar[str] = "{first}:0 $A:0 {last}:0"
    pair: ClassVar[str] = "{first}:0 $A:0 {last}:0 $B:1 {last}:1"
    """Where special tokens stand around a text, and around two."""

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        return distinct(*(getattr(self.special, role) for role in self.order), *self.special.extra)

    def trailing(self) -> tuple[str, ...]:
        """Names the special tokens that take the last ids of a new vocabulary."""
        return ()

    def template(self, vocabulary: Mapping[str, int]) -> processors.TemplateProcessing | None:
        """Makes the step that puts special tokens around texts; None if one of them is missing."""
        names = {role: getattr(self.special, role) for role in ("first", "last")}
        used = [name for role, name in names.items() if f"{{{role}}}" in self.pair]
        if not all(name in vocabulary for name in used):
            return None
        return processors.TemplateProcessing(
            single=self.single.format(**names),
            pair=self.pair.format(**names),
            special_tokens=[(name, vocabulary[name]) for name in used],
        )

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Makes the step that cuts the text into words."""
        return pre_tokenizers.BertPreTokenizer()

    def _joined(
        self,
        model: models.Model,
        decoder: decoders.Decoder,
        vocabulary: Mapping[str, int],
        processor: processors.PostProcessor | None = None,
    ) -> Backend:
        backend = Backend(model)
        backend.pre_tokenizer = self.pre_tokenizer()
        backend.decoder = decoder
        if processor is not None:
            backend.post_processor = processor
        backend.add_special_tokens(
            [self._added(name) for name in self.special.names() if name in vocabulary]
        )
        return backend

    def _added(self, name: str) -> AddedToken:
        return AddedToken(name, normalized=False, special=True)


@dataclass(frozen=True, kw_only=True)
class WordPieceStyle(_Style):
    """BERT: words of letters, single punctuation marks, single Chinese characters, then pieces."""

    lowercase: bool = True
    """Whether letters are lowered first."""
    strip_accents: bool | None = None
    """Whether accents are dropped; None follows `lowercase`."""
    chinese_characters: bool = True
    """Whether each Chinese character is a word of its own."""
    special: SpecialTokens = BERT_TOKENS
    """Names of the special tokens."""
    prefix: str = "##"
    """Marks a piece that continues a word."""
    longest_word: int = 100
    """Words of more characters become the unknown token."""

    kind = "wordpiece"

    def normalizer(self) -> normalizers.Normalizer:
        """Makes the step that cleans the characters."""
        return normalizers.BertNormalizer(
            clean_text=True,
            handle_chinese_chars=self.chinese_characters,
            strip_accents=self.strip_accents,
            lowercase=self.lowercase,
        )

    def build(self, vocabulary: Mapping[str, int]) -> Backend:
        """Joins the style with a vocabulary: the id of each piece, special tokens among them."""
        model = models.WordPiece(
            dict(vocabulary),
            unk_token=self.special.unknown or "[UNK]",
            continuing_subword_prefix=self.prefix,
            max_input_chars_per_word=self.longest_word,
        )
        template = self.template(vocabulary)
        backend = self._joined(model, decoders.WordPiece(prefix=self.prefix), vocabulary, template)
        backend.normalizer = self.normalizer()
        return backend


@dataclass(frozen=True, kw_only=True)
class ByteLevelStyle(_Style):
    """RoBERTa and GPT-2: byte pair encoding over bytes; no text is ever unknown."""

    add_prefix_space: bool = False
    """Whether a text is read as if a space stood before it."""
    special: SpecialTokens = ROBERTA_TOKENS
    """Names of the special tokens."""
    frame: bool = True
    """Whether a text is written `<s> A </s>`, a pair `<s> A </s></s> B </s>` (RoBERTa); without it
    nothing is added (GPT-2)."""

    kind = "bpe"
    order = ("first", "pad", "last", "unknown")
    single = pair = ""  # RoBERTa's frame is a step of its own

    def trailing(self) -> tuple[str, ...]:
        """Names the special token that takes the last id of a new vocabulary."""
        return distinct(self.special.mask)

    def normalizer(self) -> normalizers.Normalizer | None:
        """Makes the step that cleans the characters, if there is one."""
        return None

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Makes the step that cuts the text into words of bytes."""
        return pre_tokenizers.ByteLevel(add_prefix_space=self.add_prefix_space)

    def build(
        self, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]] = ()
    ) -> Backend:
        """Joins the style with a vocabulary and its merges, in the order in which they act."""
        model = models.BPE(dict(vocabulary), list(merges))
        processor = self.processor(vocabulary)
        backend = self._joined(model, decoders.ByteLevel(), vocabulary, processor)
        if (normalizer := self.normalizer()) is not None:
            backend.normalizer = normalizer
        return backend

    def _added(self, name: str) -> AddedToken:
        # Compat: RoBERTa's mask swallows the space before it, as a word's piece would.
        return AddedToken(name, lstrip=name == self.special.mask, normalized=False, special=True)

    def processor(self, vocabulary: Mapping[str, int]) -> processors.PostProcessor:
        """Makes the step that puts special tokens around texts and leaves spaces out of words."""
        first, last = self.special.first, self.special.last
        trimmed = processors.ByteLevel(trim_offsets=True, add_prefix_space=self.add_prefix_space)
        if self.pair:
            template = self.template(vocabulary)
            return trimmed if template is None else processors.Sequence([trimmed, template])
        if self.frame and first is not None and last is not None:
            return processors.RobertaProcessing(
                (last, vocabulary[last]),
                (first, vocabulary[first]),
                trim_offsets=True,
                add_prefix_space=self.add_prefix_space,
            )
        return trimmed


@dataclass(frozen=True, kw_only=True)
class BertByteLevelStyle(ByteLevelStyle):
    """ModernBERT: the same bytes, with BERT's special tokens and frame."""

    special: SpecialTokens = BERT_TOKENS
    """Names of the special tokens; a text is written `[CLS] A [SEP]`, a pair `[CLS] A [SEP] B
    [SEP]`, all of one type."""

    single = "{first} $A {last}"
    pair = "{first} $A {last} $B {last}"


@dataclass(frozen=True, kw_only=True)
class UnigramStyle(_Style):
    """ALBERT and T5: spaces become `▁`, words are cut into their likeliest pieces."""

    special: SpecialTokens = UNIGRAM_TOKENS
    """Names of the special tokens; a text is written `[CLS] A [SEP]`."""

    kind = "unigram"

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
        """Joins the style with pieces and their log probabilities, in the order of their ids."""
        vocabulary = {piece: index for index, (piece, _) in enumerate(pieces)}
        model = models.Unigram(list(pieces), unk_id=vocabulary.get(self.special.unknown or ""))
        template = self.template(vocabulary)
        backend = self._joined(model, decoders.Metaspace(), vocabulary, template)
        backend.normalizer = self.normalizer()
        return backend


@dataclass(frozen=True, kw_only=True)
class ClosedUnigramStyle(UnigramStyle):
    """XLNet: the same pieces, and all special tokens after the text."""

    special: SpecialTokens = XLNET_TOKENS
    """Names of the special tokens; a text is written `A <sep> <cls>`, whose last token has a type
    of its own."""

    single = "$A:0 {last}:0 {first}:2"
    pair = "$A:0 {last}:0 $B:1 {last}:1 {first}:2"

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        s = self.special
        # Compat: the published vocabulary has `<unk> <s> </s> <cls> <sep> <pad> <mask>` first.
        return distinct(s.unknown, *s.extra[:2], s.first, s.last, s.pad, s.mask, *s.extra[2:])


@dataclass(frozen=True, kw_only=True)
class AnsweringUnigramStyle(UnigramStyle):
    """T5: the same pieces, an end after every text, and sentinels at the end of the vocabulary."""

    special: SpecialTokens = T5_TOKENS
    """Names of the special tokens; a text is written `A </s>`, a pair `A </s> B </s>`."""

    single = "$A:0 {last}:0"
    pair = "$A:0 {last}:0 $B:0 {last}:0"

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        s = self.special
        return distinct(s.pad, s.last, s.unknown)

    def trailing(self) -> tuple[str, ...]:
        """The sentinels; the first of them has the very last id."""
        return self.special.extra[::-1]


@dataclass(frozen=True, kw_only=True)
class BeginningByteLevelStyle(ByteLevelStyle):
    """LLaMA 3: bytes, and a token that says where a text begins."""

    special: SpecialTokens = LLAMA_TOKENS
    """Names of the special tokens; a text is written `<|begin_of_text|> A`."""

    single = "{first} $A"
    pair = "{first} $A {first} $B"


@dataclass(frozen=True, kw_only=True)
class SplitByteLevelStyle(ByteLevelStyle):
    """Qwen2 and SmolLM3: bytes of words that a newer rule cuts; nothing is put around a text."""

    digits: str = ""
    """How many digits stay together, as a regular expression says it: one, or `{1,3}`."""
    composed: bool = False
    """Whether letters and their accents become one character where there is one (NFC)."""
    special: SpecialTokens = QWEN2_TOKENS
    """Names of the special tokens; a chat is written between `<|im_start|>` and `<|im_end|>`."""
    frame: bool = False

    def trailing(self) -> tuple[str, ...]:
        """Names the special tokens that take the last ids of a new vocabulary."""
        return self.special.names()

    def normalizer(self) -> normalizers.Normalizer | None:
        """Makes the step that cleans the characters, if there is one."""
        return normalizers.NFC() if self.composed else None

    def leading(self) -> tuple[str, ...]:
        """No special token stands before the bytes."""
        return ()

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Makes the step that cuts the text into words of bytes."""
        pattern = Regex(_NEWER_WORDS % self.digits)
        space = self.add_prefix_space
        return pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(pattern, behavior="isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=space, use_regex=False),
            ]
        )


@dataclass(frozen=True, kw_only=True)
class FramedUnigramStyle(UnigramStyle):
    """XLM-RoBERTa and CamemBERT: the same pieces, with RoBERTa's special tokens and frame."""

    special: SpecialTokens = ROBERTA_TOKENS
    """Names of the special tokens; a text is written `<s> A </s>`, a pair `<s> A </s></s> B </s>`,
    all of one type."""
    order: ClassVar[tuple[str, ...]] = ("first", "pad", "last", "unknown")

    single = "{first} $A {last}"
    pair = "{first} $A {last} {last} $B {last}"

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        s = self.special
        # Compat: CamemBERT's vocabulary begins `<s>NOTUSED <pad> </s>NOTUSED <unk> <unk>NOTUSED`.
        unused = dict(zip(("first", "last", "unknown"), s.extra, strict=False))
        ids = [unused.get(role) or getattr(s, role) for role in ("first", "pad", "last")]
        return distinct(*ids, s.unknown, *s.extra, s.first, s.last)

    def trailing(self) -> tuple[str, ...]:
        """Names the special token that takes the last id of a new vocabulary."""
        return distinct(self.special.mask)

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Makes the step that cuts the text at white space and writes it as `▁`."""
        return pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
        )

    def _added(self, name: str) -> AddedToken:
        # Compat: the mask swallows the space before it, as a word's piece would.
        return AddedToken(name, lstrip=name == self.special.mask, normalized=False, special=True)


@dataclass(frozen=True, kw_only=True)
class FallbackPairStyle(_Style):
    """Mistral and the first LLaMAs: byte pair encoding over characters, with bytes for the rest.

    Paper: Kudo & Richardson 2018. Spaces become `▁`, one stands before the text, and what no piece
    can write becomes bytes (`<0xE5>`), so no text is ever unknown.
    """

    special: SpecialTokens = MISTRAL_TOKENS
    """Names of the special tokens; a text is written `<s> A`."""

    kind = "bpe"
    order = ("unknown", "first", "last", "pad", "mask")
    single = "{first} $A"
    pair = "{first} $A {first} $B"

    def leading(self) -> tuple[str, ...]:
        """Names what takes the first ids of a new vocabulary: special tokens, then the bytes."""
        return (*super().leading(), *(f"<0x{byte:02X}>" for byte in range(256)))

    def normalizer(self) -> normalizers.Normalizer:
        """Makes the step that writes spaces as `▁`."""
        return normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])

    def pre_tokenizer(self) -> pre_tokenizers.PreTokenizer:
        """Makes the step that cuts the text into words, for training alone."""
        return pre_tokenizers.Split("▁", behavior="merged_with_next")

    def build(
        self, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]] = ()
    ) -> Backend:
        """Joins the style with a vocabulary and its merges, in the order in which they act."""
        model = models.BPE(
            dict(vocabulary),
            list(merges),
            unk_token=self.special.unknown,
            fuse_unk=True,
            byte_fallback=True,
        )
        joining = decoders.Sequence(
            [
                decoders.Replace("▁", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
        backend = self._joined(model, joining, vocabulary, self.template(vocabulary))
        backend.normalizer = self.normalizer()
        # Compat: published tokenizers read the whole text as one word, which gives the same pieces.
        backend.pre_tokenizer = None
        return backend


@dataclass(frozen=True, kw_only=True)
class CharacterPairStyle(_Style):
    """GPT: BERT's words in small letters, then byte pair encoding over characters.

    Paper: Sennrich et al. 2016; Radford et al. 2018. The last piece of a word is marked, so that
    words can be told apart when they are joined again.
    Compat: the release repaired texts with ftfy and cut them with spaCy; transformers, which this
    follows, cuts them as BERT does.
    """

    special: SpecialTokens = GPT_TOKENS
    """Names of the special tokens; nothing is put around a text."""
    ending: str = "</w>"
    """Marks a piece that ends a word."""

    kind = "bpe"

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        return self.special.names()

    def normalizer(self) -> normalizers.Normalizer:
        """Makes the step that cleans the characters."""
        return normalizers.BertNormalizer(lowercase=True)

    def build(
        self, vocabulary: Mapping[str, int], merges: Sequence[tuple[str, str]] = ()
    ) -> Backend:
        """Joins the style with a vocabulary and its merges, in the order in which they act."""
        unknown = self.special.unknown
        model = models.BPE(
            dict(vocabulary),
            list(merges),
            unk_token=unknown if unknown in vocabulary else None,
            end_of_word_suffix=self.ending,
        )
        backend = self._joined(model, decoders.BPEDecoder(suffix=self.ending), vocabulary)
        backend.normalizer = self.normalizer()
        return backend


Style = WordPieceStyle | ByteLevelStyle | UnigramStyle | CharacterPairStyle | FallbackPairStyle

CAMEMBERT_STYLE = FramedUnigramStyle(special=CAMEMBERT_TOKENS)
GPT_STYLE = CharacterPairStyle()
GPT2_STYLE = ByteLevelStyle(special=GPT2_TOKENS, frame=False)
LLAMA_STYLE = BeginningByteLevelStyle()
MISTRAL_STYLE = FallbackPairStyle()
QWEN2_STYLE = SplitByteLevelStyle(composed=True)
SMOLLM3_STYLE = SplitByteLevelStyle(digits="{1,3}", special=SMOLLM3_TOKENS)
T5_STYLE = AnsweringUnigramStyle()
XLM_ROBERTA_STYLE = FramedUnigramStyle()
