"""A tokenizer whose tokens are bytes.

Paper: Xue et al. 2022 (ByT5).
The idea: no vocabulary to learn, nothing unknown, no language preferred; texts are longer instead.
The id of a byte is its value and 3 more; before them stand padding, end and unknown, behind them
the 125 tokens that the published vocabulary has and its pre-training never used.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import pre_tokenizers, processors

from clozeworks.text.style import ByteLevelStyle, SpecialTokens
from clozeworks.text.tokenizer import Tokenizer

BYT5_TOKENS = SpecialTokens(
    pad="<pad>",
    unknown="<unk>",
    last="</s>",
    extra=tuple(f"<extra_id_{number}>" for number in range(125)),
)


@dataclass(frozen=True, kw_only=True)
class AnsweringByteStyle(ByteLevelStyle):
    """ByT5: single bytes, and an end behind every text.

    Attributes:
        special: Names of the special tokens; a text is written `A </s>`, a pair `A </s> B </s>`.
    """

    special: SpecialTokens = BYT5_TOKENS

    def leading(self) -> tuple[str, ...]:
        """Names the special tokens that take the first ids of a new vocabulary, in order."""
        s = self.special
        return tuple(name for name in (s.pad, s.last, s.unknown) if name is not None)

    def trailing(self) -> tuple[str, ...]:
        """The tokens behind the bytes."""
        return self.special.extra

    def processor(self, vocabulary: Mapping[str, int]) -> processors.PostProcessor:
        """Makes the step that puts an end behind texts."""
        trimmed = processors.ByteLevel(trim_offsets=True, add_prefix_space=self.add_prefix_space)
        last = self.special.last
        if last is None:
            return trimmed
        framed = processors.TemplateProcessing(
            single=f"$A {last}",
            pair=f"$A {last} $B {last}",
            special_tokens=[(last, vocabulary[last])],
        )
        return processors.Sequence([trimmed, framed])


def byte_tokenizer() -> Tokenizer:
    """The tokenizer of ByT5."""
    style = AnsweringByteStyle()
    names = [*style.leading(), *_symbols(), *style.trailing()]
    vocabulary = {name: number for number, name in enumerate(names)}
    return Tokenizer(style.build(vocabulary), special=style.special)


def _symbols() -> list[str]:
    """What the library writes each byte as."""
    # Compat: as in GPT-2, bytes that can be seen stand for themselves, the others for letters
    # from 256 on, in their order.
    alphabet = set(pre_tokenizers.ByteLevel.alphabet())
    others = iter(sorted(letter for letter in alphabet if ord(letter) > 255))
    return [chr(byte) if chr(byte) in alphabet else next(others) for byte in range(256)]
