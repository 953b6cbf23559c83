"""Generated text: token by token, up to the strings that end it, and as a whole."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from clozeworks.generate.sampling import Ended
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class Token:
    """One token of a text that was written."""

    text: str
    """The vocabulary's entry."""
    log: float
    """The natural logarithm of the share that the model gave it."""
    others: tuple[tuple[str, float], ...] = ()
    """The likeliest entries and theirs, if asked for."""


@dataclass(frozen=True)
class WrittenText:
    """What was written behind a prompt."""

    prompt: str
    text: str
    tokens: tuple[Token, ...] = field(repr=False)
    """Its tokens, one that ends it or belongs to a stop string among them."""
    ended: Ended | None
    """`end`: the model ended it. `stop`: a stop string came. `length`: there was no more room.
    None: it was interrupted."""
    score: float
    """The sum of the logs; in beam search what texts are ranked by."""


@dataclass(frozen=True)
class StreamChunk:
    """What one more token brought, or a search that ended."""

    prompt: int
    """The number of the prompt, from 0."""
    number: int
    """Which of the prompt's texts."""
    text: str
    """What is certain since; empty where a character is not whole, where a stop string may have
    begun, and with a text's end if nothing was held back."""
    so_far: Callable[[], WrittenText] = field(repr=False, compare=False)
    """Gives all that is written of the text when it is called, what is held back with it: who is
    interrupted keeps that."""
    whole: WrittenText | None = None
    """The whole text, if it has ended."""


@dataclass(frozen=True)
class StopCondition:
    """What is written before a stop string counts.

    Attributes:
        least: So many tokens.
        words: These runs of tokens.
    """

    least: int = 0
    words: tuple[tuple[int, ...], ...] = ()

    def behind(self, written: Sequence[int], tokenizer: Tokenizer) -> int | None:
        """Behind how many tokens of a text everything is there; None if it is not."""
        ends = [self.least if len(written) >= self.least else None]
        for word in self.words:
            size, positions = len(word), range(len(written))
            found = (at + size for at in positions if tuple(written[at : at + size]) == word)
            ends.append(next(found, None))
        if None in ends:
            return None
        # What comes within a run of bytes is no text of its own.
        return tokenizer.end_of_run(written, max(end for end in ends if end is not None))


class Stops:
    """Whether a text holds a stop string since its last token.

    Args:
        tokenizer: Knows what tokens read as.
        strings: The stop strings.
        before: The tokens before each text, which decide whether it begins with a space.
        due: What comes first, if anything.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        strings: Sequence[str],
        before: Sequence[Sequence[int]],
        due: StopCondition | None = None,
    ) -> None:
        self._due = due or StopCondition()
        self._tokenizer = tokenizer
        self._strings = strings
        self._before = before
        # A token of text is at least a byte; one more on each side for spaces that join.
        self._tokens = max(len(string.encode()) for string in strings) + 2

    def __call__(self, prompt: int, written: list[int]) -> bool:
        """Looks at the last tokens that stand for text."""
        first = self._due.behind(written, self._tokenizer)
        if first is None:
            return False
        begin = max(self._tokenizer.begin_of_last(written, self._tokens), first)
        before = written[:begin] or self._before[prompt]
        last = self._tokenizer.continued(before, written[begin:])
        return any(string in last for string in self._strings)


class StreamDecoder:
    """Text that becomes certain token by token.

    Args:
        tokenizer: Knows what tokens read as.
        before: The tokens before the first one.
        stop: Strings that end the text; what may be the beginning of one is held back.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int], stop: Sequence[str]) -> None:
        self._step = tokenizer.unfolding(before)
        self._stop = stop
        self._held = ""
        self._length = 0
        self._over = False

    def add(self, token: int, *, stops: bool = True) -> str:
        """One more token: the text that is certain since.

        Args:
            token: The token.
            stops: Whether stop strings count already.
        """
        self._held += self._step(token)
        if self._over:
            return ""
        if not stops:
            certain, self._held = self._held, ""
            self._length += len(certain)
            return certain
        end = first_stop(self._held, self._stop)
        if end is not None:
            self._over = True
        else:
            end = len(self._held) - max(
                (_begun(self._held, stop) for stop in self._stop), default=0
            )
        certain, self._held = self._held[:end], self._held[end:]
        self._length += len(certain)
        return certain

    def rest(self, whole: str) -> str:
        """What of the whole text, which begins with what was given, was held back to the end."""
        return whole[self._length :]


def first_stop(text: str, stop: Sequence[str]) -> int | None:
    """Where the first stop string begins; None if there is none."""
    return min((text.find(string) for string in stop if string in text), default=None)


def _begun(text: str, stop: str) -> int:
    """How many characters at the end of a text are a stop string's beginning."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if stop.startswith(text[-size:])), 0)
