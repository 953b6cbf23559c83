"""The text that ids add after others, whole or token by token.

The idea: a decoder looks at more than one token, so a text that grows is decoded again and again in
short windows, and what stands in a window's end and may still become something else is held back: a
character whose last bytes are to come, and tokens of bytes (`<0xE4>`), which decoders with byte
fallback read as one run, all of it valid or none.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

# Tokens before a text that decide how it begins: an open character has at most three bytes.
_JOINED = 8
_BROKEN = "\ufffd"
_BYTE = re.compile(r"<0x[0-9A-Fa-f]{2}>")


class Continuation:
    """Text after other text.

    Args:
        decode: Turns ids into text, and leaves special tokens out.
        decoder: What `tokenizer.json` says of the decoder.
        vocabulary: The id of every token.
        silent: Special tokens.
    """

    def __init__(
        self,
        decode: Callable[[Sequence[int]], str],
        decoder: Mapping[str, Any] | None,
        vocabulary: Mapping[str, int],
        silent: Collection[int],
    ) -> None:
        steps = _steps(decoder)
        falls_back = any(step["type"] == "ByteFallback" for step in steps)
        byte_tokens = filter(_BYTE.fullmatch, vocabulary) if falls_back else ()
        self._decode = decode
        self._silent = frozenset(silent)
        self._bytes = frozenset(vocabulary[token] for token in byte_tokens) - self._silent
        # A cut beside one of these may lie within a run.
        self._inner = self._bytes | self._silent
        self._rewrites = _rewrite(steps)

    def begin_of_last(self, ids: Sequence[int], count: int) -> int:
        """Where the last `count` text tokens begin; earlier if a run of bytes is cut there."""
        begin = len(ids)
        while begin and (count > 0 or ids[begin - 1] in self._inner):
            begin -= 1
            count -= ids[begin] not in self._silent
        return begin

    def end_of_run(self, ids: Sequence[int], position: int) -> int:
        """The first position from this one on where a cut does not lie within a run of bytes."""
        while 0 < position < len(ids) and {ids[position - 1], ids[position]} <= self._inner:
            position += 1
        return position

    def whole(self, before: Sequence[int], ids: Sequence[int]) -> str:
        """The text that ids add after others, the space between them with it."""
        before = self._context(before)
        known, whole = self._decode(before), self._decode([*before, *ids])
        return whole[len(known) :] if whole.startswith(known) else self._decode(ids)

    def unfolding(self, before: Sequence[int]) -> Callable[[int], str]:
        """A function that takes ids one by one and gives the text that is certain with each.

        What it gives is always the beginning of `whole`.
        """
        window = self._context(before)
        known = self._decode(window)
        context, shown = len(window), len(known)

        def step(token: int) -> str:
            nonlocal window, known, shown
            if token in self._silent:
                return ""
            window.append(token)
            if token in self._bytes or self._rewrites:
                return ""
            text = self._certain(window)
            if len(text) < shown:
                return ""
            if not text.startswith(known):
                # The first token changes what the text before it reads as.
                window, shown = window[context:], 0
                text = self._certain(window)
            known = ""
            new = text[shown:]
            if new and len(window) >= 2 * _JOINED:
                window = window[-_JOINED:]
                text = self._certain(window)
            shown = len(text)
            return new

        return step

    def _context(self, before: Sequence[int]) -> list[int]:
        begin = self.begin_of_last(before, _JOINED)
        return [token for token in before[begin:] if token not in self._silent]

    def _certain(self, ids: Sequence[int]) -> str:
        """What ids read as without the character that is open at their end."""
        return self._decode(ids).removesuffix(_BROKEN)


def _steps(decoder: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    """The steps of a decoder in their order."""
    if decoder is None:
        return []
    if decoder["type"] != "Sequence":
        return [decoder]
    return [step for part in decoder["decoders"] for step in _steps(part)]


def _rewrite(steps: Sequence[Mapping[str, Any]]) -> bool:
    """Says whether a decoder edits tokens that it has joined: all of them may change with more."""
    kinds = [step["type"] for step in steps]
    joins = next((n for n, kind in enumerate(kinds) if kind in ("Fuse", "ByteLevel")), len(kinds))
    return "CTC" in kinds or any(kind not in ("Fuse", "Strip") for kind in kinds[joins + 1 :])
