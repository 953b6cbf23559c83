"""Tokens as clients see them: the text of each, where it stands, and its alternatives.

A token that is only a part of a character has no text of its own; it is written as its bytes.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from clozeworks.errors import InputError
from clozeworks.inference.prompt_logprobs import TokenChance
from clozeworks.text.tokenizer.bytes import BYTES
from clozeworks.text.tokenizer.tokenizer import Tokenizer

_BROKEN = "\ufffd"
_BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>")
# Compat: JSON has no infinity; vLLM writes this for what is impossible.
_IMPOSSIBLE = -9999.0


@dataclass(frozen=True)
class PlacedToken:
    """A token, and where it stands in an answer."""

    text: str
    raw: bytes
    log: float | None
    others: tuple[tuple[str, bytes, float], ...]
    """The text, the bytes and the number of each alternative."""
    offset: int
    """How many characters stand before it."""
    end: int
    """How many are certain with it."""


class TokenTexts:
    """The texts of tokens that follow each other.

    Args:
        tokenizer: The model's tokenizer.
        before: The tokens before the first one.
        offset: How many characters of the answer stand before it.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int] = (), offset: int = 0) -> None:
        self._tokenizer = tokenizer
        self._ids, self._end = list(before), offset
        self._step = tokenizer.unfolding(before)

    def add(self, chance: TokenChance) -> PlacedToken:
        """The next token."""
        text, raw = self._read(chance.token)
        others = tuple((*self._read(other), _finite(log)) for other, log in chance.others)
        self._ids.append(chance.token)
        begin = self._end
        self._end += len(self._step(chance.token))
        log = None if chance.log is None else _finite(chance.log)
        return PlacedToken(text, raw, log, others, begin, self._end)

    def _read(self, token: int) -> tuple[str, bytes]:
        """What a token adds after those before it, as text and as bytes."""
        tokenizer = self._tokenizer
        if token in tokenizer.special_ids:
            name = tokenizer.token_of(token)
            return name, name.encode()
        text = tokenizer.continued(self._ids, [token])
        if text and _BROKEN not in text:
            return text, text.encode()
        try:
            entry = tokenizer.token_of(token)
        except InputError:  # a model expects some of what its vocabulary leaves empty, too
            return text, b""
        byte = _BYTE.fullmatch(entry)
        if byte is not None:
            raw = bytes([int(byte[1], 16)])
        elif all(sign in BYTES for sign in entry):
            raw = bytes(BYTES[sign] for sign in entry)
        else:
            return text, text.encode()
        return "bytes:" + "".join(f"\\x{each:02x}" for each in raw), raw


def _finite(log: float) -> float:
    return max(log, _IMPOSSIBLE)


def completion_logprobs(tokens: Sequence[PlacedToken], count: int) -> dict[str, list[Any]]:
    """Tokens in the shape of completions, each with so many alternatives and itself."""
    return {
        "text_offset": [each.offset for each in tokens],
        "token_logprobs": [each.log for each in tokens],
        "tokens": [each.text for each in tokens],
        "top_logprobs": [_by_text(each, count) for each in tokens],
    }


def _by_text(token: PlacedToken, count: int) -> dict[str, float] | None:
    """Alternatives by their texts; of those with equal ones the likeliest."""
    if token.log is None:
        return None
    found: dict[str, float] = {}
    for text, _, log in token.others[:count]:
        found.setdefault(text, log)
    found.setdefault(token.text, token.log)
    return found


def chat_logprobs(tokens: Sequence[PlacedToken], count: int) -> dict[str, Any]:
    """Tokens in the shape of chats."""
    return {
        "content": [
            {
                **_chat_token(each.text, each.raw, each.log or 0.0),
                "top_logprobs": [_chat_token(*other) for other in each.others[:count]],
            }
            for each in tokens
        ],
        "refusal": None,
    }


def _chat_token(text: str, raw: bytes, log: float) -> dict[str, Any]:
    return {"token": text, "bytes": list(raw), "logprob": log}
