"""Generated text: token by token, up to the strings that end it, and as a whole."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from clozeworks.generate.sampling import FinishReason
from clozeworks.text.tokenizer.tokenizer import Tokenizer


@dataclass(frozen=True)
class Token:
    """One generated token."""

    text: str
    """The vocabulary's entry."""
    log: float
    """The natural logarithm of the probability that the model gave it."""
    others: tuple[tuple[str, float], ...] = ()
    """The likeliest entries and theirs, if requested."""


@dataclass(frozen=True)
class WrittenText:
    """What was generated for a prompt."""

    prompt: str
    text: str
    tokens: tuple[Token, ...] = field(repr=False)
    """Its tokens, including one that ends it or belongs to a stop string."""
    finish_reason: FinishReason | None
    """`end`: the model ended it. `stop`: a stop string came. `length`: there was no more room.
    None: it was interrupted."""
    score: float
    """The sum of the logs; in beam search what texts are ranked by."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON can hold it."""
        tokens = [
            {"text": each.text, "log": each.log, "others": [list(one) for one in each.others]}
            for each in self.tokens
        ]
        return {
            "prompt": self.prompt,
            "text": self.text,
            "tokens": tokens,
            "finish_reason": self.finish_reason,
            "score": self.score,
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> "WrittenText":
        """The same from what `to_dict` wrote."""
        tokens = (
            Token(each["text"], each["log"], tuple((name, log) for name, log in each["others"]))
            for each in record["tokens"]
        )
        return cls(
            record["prompt"],
            record["text"],
            tuple(tokens),
            record["finish_reason"],
            record["score"],
        )


@dataclass(frozen=True)
class StreamChunk:
    """What one more token added, or the result of a search."""

    prompt: int
    """The index of the prompt."""
    number: int
    """Which of the prompt's texts."""
    text: str
    """The text that became certain; empty inside a character, where a stop string may have begun,
    and at the end of a text if nothing was held back."""
    so_far: Callable[[], WrittenText] = field(repr=False, compare=False)
    """Returns the text up to now, including what is held back; for use after an interruption."""
    whole: WrittenText | None = None
    """The whole text, if it has ended."""


@dataclass(frozen=True)
class StopCondition:
    """What must be generated before a stop string counts."""

    min_new_tokens: int = 0
    words: tuple[tuple[int, ...], ...] = ()
    """Runs of tokens, each of which must occur."""

    def after(self, written: Sequence[int], tokenizer: Tokenizer) -> int | None:
        """After how many tokens of a text the condition holds; None if it does not."""
        ends = [self.min_new_tokens if len(written) >= self.min_new_tokens else None]
        for word in self.words:
            size, positions = len(word), range(len(written))
            matches = (at + size for at in positions if tuple(written[at : at + size]) == word)
            ends.append(next(matches, None))
        if None in ends:
            return None
        # A position within a run of bytes is not a position in the text.
        return tokenizer.end_of_run(written, max(end for end in ends if end is not None))


class Stops:
    """Whether the last token of a text completes a stop string.

    Args:
        tokenizer: The tokenizer.
        strings: The stop strings.
        before: The tokens before each text, which decide whether it begins with a space.
        condition: What must come first, if anything.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        strings: Sequence[str],
        before: Sequence[Sequence[int]],
        condition: StopCondition | None = None,
    ) -> None:
        self._condition = condition or StopCondition()
        self._tokenizer, self._strings, self._before = tokenizer, strings, before
        # A token of text is at least a byte; one more on each side for spaces that join.
        self._tokens = max(len(string.encode()) for string in strings) + 2

    def __call__(self, prompt: int, written: list[int]) -> bool:
        """Looks at the last tokens that stand for text."""
        first = self._condition.after(written, self._tokenizer)
        if first is None:
            return False
        begin = max(self._tokenizer.begin_of_last(written, self._tokens), first)
        before = written[:begin] or self._before[prompt]
        last = self._tokenizer.continued(before, written[begin:])
        return any(string in last for string in self._strings)


class StreamDecoder:
    """Text that becomes certain token by token.

    Args:
        tokenizer: The tokenizer.
        before: The tokens before the first one.
        stop: Strings that end the text; what may be the beginning of one is held back.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int], stop: Sequence[str]) -> None:
        self._step = tokenizer.unfolding(before)
        self._stop = stop
        self._held, self._length, self._over = "", 0, False

    def add(self, token: int, *, stops: bool = True) -> str:
        """Adds a token and returns the text that became certain; `stops`: stop strings count."""
        self._held += self._step(token)
        if self._over:
            return ""
        end = first_stop(self._held, self._stop) if stops else None
        if end is not None:
            self._over = True
        else:
            begun = (_begun(self._held, stop) for stop in self._stop if stops)
            end = len(self._held) - max(begun, default=0)
        certain, self._held = self._held[:end], self._held[end:]
        self._length += len(certain)
        return certain

    def rest(self, whole: str) -> str:
        """The end of the whole text, which was held back until now."""
        return whole[self._length :]


def first_stop(text: str, stop: Sequence[str]) -> int | None:
    """Where the first stop string begins, if there is one."""
    return min((text.find(string) for string in stop if string in text), default=None)


def _begun(text: str, stop: str) -> int:
    """How many characters at the end of a text are a stop string's beginning."""
    longest = min(len(text), len(stop) - 1)
    return next((size for size in range(longest, 0, -1) if stop.startswith(text[-size:])), 0)
