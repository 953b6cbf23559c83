"""Where a tokenizer puts its special tokens around one text or two."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

from clozeworks.errors import TokenizerError


@dataclass(frozen=True)
class Template:
    """Special tokens before, between and after texts, and the type of everything.

    BERT: `[CLS] A [SEP] B [SEP]` with types `0 0 0 1 1`. RoBERTa: `<s> A </s></s> B </s>`, all 0.
    """

    special: tuple[tuple[int, ...], ...]
    """The special ids before the first text, after it, and so on: one more than texts."""
    special_types: tuple[tuple[int, ...], ...]
    """The type of each of these ids."""
    text_types: tuple[int, ...]
    """The type of each text's tokens."""

    @property
    def added(self) -> int:
        """How many special tokens it adds."""
        return sum(map(len, self.special))


def template(tokenizer: "Tokenizer", texts: int) -> Template:
    """Reads the template for one text or two off an example.

    Raises:
        TokenizerError: If the tokenizer cannot write a single letter.
    """
    item = tokenizer.encode(["a"], ["a"] if texts == 2 else None, offsets=True)[0]
    assert item.part is not None
    if texts - 1 not in item.part:
        raise TokenizerError(
            "the tokenizer makes no token of the letter a; it must be able to write letters; train "
            "it on text, or give it an unknown token."
        )
    special: list[list[int]] = [[] for _ in range(texts + 1)]
    special_types: list[list[int]] = [[] for _ in range(texts + 1)]
    text_types = [0] * texts
    position = 0
    for token, kind, part in zip(item.ids, item.types, item.part, strict=True):
        if part is None:
            special[position].append(token)
            special_types[position].append(kind)
        else:
            position = part + 1
            text_types[part] = kind
    return Template(tuple(map(tuple, special)), tuple(map(tuple, special_types)), tuple(text_types))
