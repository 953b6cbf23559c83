"""The names of the tokens that are not text, as the families write them."""

import re
from dataclasses import dataclass
from pathlib import Path

from clozeworks.errors import TokenizerError

SENTINEL = re.compile(r"<extra_id_\d+>")
# T5 has 100 sentinels and ByT5 125; a number far above is a mistake that would fill the memory.
MOST_SENTINELS = 10_000


def sentinel_name(number: int) -> str:
    """The token that stands for a gap, counted from 0 (`SENTINEL` matches it)."""
    return f"<extra_id_{number}>"


def distinct(*names: str | None) -> tuple[str, ...]:
    """The names of tokens that exist, each once."""
    return tuple(dict.fromkeys(name for name in names if name is not None))


@dataclass(frozen=True, kw_only=True)
class SpecialTokens:
    """The names of the tokens that are not text."""

    pad: str | None = None
    """Fills a row after its text."""
    unknown: str | None = None
    """Stands for what the vocabulary cannot write."""
    mask: str | None = None
    """Stands for a gap."""
    first: str | None = None
    """Opens a text (`[CLS]`, `<s>`), or speaks for it at its end (`<cls>`)."""
    last: str | None = None
    """Closes a text (`[SEP]`, `</s>`)."""
    extra: tuple[str, ...] = ()
    """Further special tokens, such as T5's sentinels."""

    def names(self) -> tuple[str, ...]:
        """Lists the tokens that exist, each once, in the order of the fields."""
        return distinct(self.pad, self.unknown, self.mask, self.first, self.last, *self.extra)


BERT_TOKENS = SpecialTokens(
    pad="[PAD]", unknown="[UNK]", mask="[MASK]", first="[CLS]", last="[SEP]"
)
ROBERTA_TOKENS = SpecialTokens(
    pad="<pad>", unknown="<unk>", mask="<mask>", first="<s>", last="</s>"
)
GPT_TOKENS = SpecialTokens(unknown="<unk>")
GPT2_TOKENS = SpecialTokens(unknown="<|endoftext|>", first="<|endoftext|>", last="<|endoftext|>")
UNIGRAM_TOKENS = SpecialTokens(
    pad="<pad>", unknown="<unk>", mask="[MASK]", first="[CLS]", last="[SEP]"
)
XLNET_TOKENS = SpecialTokens(
    pad="<pad>",
    unknown="<unk>",
    mask="<mask>",
    first="<cls>",
    last="<sep>",
    extra=("<s>", "</s>", "<eod>", "<eop>"),
)
T5_TOKENS = SpecialTokens(
    pad="<pad>", unknown="<unk>", last="</s>", extra=tuple(map(sentinel_name, range(100)))
)
# Two sets of special tokens, and three entries that nobody uses.
CAMEMBERT_TOKENS = SpecialTokens(
    pad="<pad>",
    unknown="<unk>",
    mask="<mask>",
    first="<s>",
    last="</s>",
    extra=("<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"),
)
MISTRAL_TOKENS = SpecialTokens(unknown="<unk>", first="<s>", last="</s>")
QWEN2_TOKENS = SpecialTokens(
    pad="<|endoftext|>", last="<|endoftext|>", extra=("<|im_start|>", "<|im_end|>")
)
SMOLLM3_TOKENS = SpecialTokens(last="<|end_of_text|>", extra=("<|im_start|>", "<|im_end|>"))
LLAMA_TOKENS = SpecialTokens(first="<|begin_of_text|>", last="<|end_of_text|>")


def check_sentinels(count: int, source_location: Path | str) -> None:
    """Refuses an `extra_ids` in `tokenizer_config.json` that would fill the memory."""
    if count > MOST_SENTINELS:
        raise TokenizerError(
            f"{source_location}: extra_ids is {count:,}; it must be at most {MOST_SENTINELS:,}; "
            "correct it."
        )
