"""What a server takes on, and for whom."""

import hmac
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from clozeworks.errors import InputError
from clozeworks.serve.scheduler import MOST_TOKENS

# Trap: a key may hold the sign, and its beginning alone must not open the door.
_COMMENT = re.compile(r"(?:^|\s)#")


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """How much may come at a time, and how long it may take.

    Attributes:
        body_bytes: The most bytes of a request; more is refused with 413.
        inputs: The most texts of a request; more are refused with 413.
        requests: The most requests that are answered at a time; more are refused with 429.
        tokens: The most tokens of work in hand; more is refused with 429, unless it is alone.
        timeout: Seconds that a request may take; later it is refused with 504.
        body_timeout: Seconds in which the body must have come; later it is refused with 408.
        patience: Seconds that the head of a request may take, and that a client may take nothing of
            an answer; later its connection is closed.
        unread_bytes: The most bytes of a stream that a client may leave unread; then it ends.
        drain: Seconds that requests have to end once the server is asked to.
        token_ids: Whether clients of OpenAI may send token ids; those of another tokenizer cannot
            be told from a model's own.
    """

    body_bytes: int = 8 << 20
    inputs: int = 10_000
    requests: int = 256
    tokens: int = MOST_TOKENS
    timeout: float = 120.0
    body_timeout: float = 30.0
    patience: float = 30.0
    unread_bytes: int = 4 << 20
    drain: float = 60.0
    token_ids: bool = True

    @property
    def bytes_in_hand(self) -> int:
        """The most bytes of requests in hand; more is refused with 429, unless it is alone."""
        return 2 * self.body_bytes


class Keys:
    """Who may ask: keys, of which only hashes are kept.

    Args:
        hashes: The sha256 of each key, in hexadecimal digits; everybody may ask if there are none.
    """

    def __init__(self, hashes: Sequence[str] = ()) -> None:
        self._hashes = tuple(each.encode() for each in hashes)

    @classmethod
    def read(cls, path: Path) -> "Keys":
        """The keys of a file: a sha256 in each line, or a key after `key:`; ` #` begins a comment.

        Raises:
            InputError: If a line is neither.
        """
        hashes = []
        try:
            lines = path.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path} cannot be read ({error}); name a file of keys.") from error
        for number, line in enumerate(lines, 1):
            text = _COMMENT.split(line, maxsplit=1)[0].strip()
            if not text:
                continue
            if text.startswith("key:") and text[4:].strip():
                hashes.append(digest(text[4:].strip()))
            elif len(text) == 64 and all(each in "0123456789abcdef" for each in text.lower()):
                hashes.append(text.lower())
            else:
                raise InputError(
                    f"{path}, line {number:,}: this is not a sha256 of 64 hexadecimal digits; "
                    "write one (printf %s KEY | sha256sum), or the key itself after key:."
                )
        if not hashes:
            raise InputError(f"{path} holds no key; nobody could ask; write one in a line.")
        return cls(hashes)

    @property
    def are_needed(self) -> bool:
        """Whether not everybody may ask."""
        return bool(self._hashes)

    def allow(self, authorization: str, other: str = "") -> bool:
        """Whether one of two headers holds a key: `Bearer KEY`, or the key alone."""
        if not self._hashes:
            return True
        word, _, rest = authorization.strip().partition(" ")
        given = [rest.strip() if word.lower() == "bearer" else authorization.strip(), other.strip()]
        found = False
        for key in filter(None, given):
            own = digest(key).encode()
            for known in self._hashes:  # all of them, whatever was found: time tells nothing
                found |= hmac.compare_digest(own, known)
        return found


def digest(key: str) -> str:
    """The sha256 of a key in hexadecimal digits."""
    return sha256(key.encode("utf-8", "surrogatepass")).hexdigest()
