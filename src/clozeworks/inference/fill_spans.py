"""Fill gaps with any number of words: an encoder reads the text, a decoder writes what is missing.

Paper: Raffel et al. 2020 (T5).
The idea: a sentinel stands for each gap, and the answer names each of them before what belongs
there. Here the answer must name them in order and put at least a token behind each, so there is a
guess for every gap whatever the model would rather say.
Several guesses are those of a search: the first guesses for all gaps of a text belong together, the
others are what other answers have there.
Where paper and code differ: ByT5's published sentinels are the last bytes, not the tokens called
`<extra_id_0>` and so on; see `text/byte_tokens.py`.

Shapes: none.
"""

import math
import re
from collections.abc import Sequence
from itertools import pairwise

from clozeworks.core.model import Model
from clozeworks.errors import InputError, SettingError
from clozeworks.generate.beams import Beams
from clozeworks.generate.logits_processors import BadWords, InTurn
from clozeworks.generate.prompts import EncodedPrompt, GenerationRequest
from clozeworks.generate.sampling import Written
from clozeworks.inference.fill import FillCandidate, Filled, joined
from clozeworks.inference.loop import BatchOptions
from clozeworks.inference.prompts import write_all
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.span_targets import Sentinels, sentinel_ids
from clozeworks.text.tokenizer.bytes import are_bytes
from clozeworks.text.tokenizer.special import SENTINEL, sentinel_name
from clozeworks.text.tokenizer.tokenizer import GAPS, Tokenizer

# ByT5's tokens of the bytes 0xF5 to 0xFF, which no text has.
_NO_TEXT = range(0xF5 + 3, 0xFF + 3 + 1)
# The most tokens of a gap, on average over the gaps of a text.
TOKENS = 32
_ANY_GAP = re.compile(f"{GAPS.pattern}|{SENTINEL.pattern}")


def fill_spans(
    model: Model,
    tokenizer: Tokenizer,
    texts: Sequence[str],
    *,
    start: int,
    ends: Sequence[int],
    top: int = 5,
    sentinels: Sentinels | None = None,
    options: BatchOptions | None = None,
) -> list[Filled]:
    """What a decoder writes into the gaps of every text.

    Args:
        model: An encoder-decoder that learned by span corruption.
        tokenizer: Its tokenizer.
        texts: Texts with `[MASK]` or sentinels where something is missing.
        start: What answers begin with.
        ends: The tokens that end them.
        top: How many guesses per gap, at most; a search finds as many answers.
        sentinels: What the model learned to read for a gap; as published models of its vocabulary
            did if not given.
        options: Batch size, progress, cancellation.

    Raises:
        InputError: A text has no gap, or more than there are sentinels.
    """
    if top < 1:
        raise SettingError(f"top is {top}; it must be at least 1.")
    if top > tokenizer.size:
        raise SettingError(
            f"top is {top:,}; the vocabulary has {tokenizer.size:,} entries; a search cannot be "
            f"wider; lower it."
        )
    gaps = _Gaps(tokenizer, ends, sentinels)
    prompts = [gaps.prompt(text, number) for number, text in enumerate(texts, start=1)]
    beams = Beams(width=top, length_penalty=0.0) if top > 1 else None
    request = GenerationRequest(
        prompts, start, tokenizer.size, beams, lambda n, written: gaps.filled(texts[n], written)
    )
    return write_all(model, request, options)


class _Gaps:
    """How gaps are shown, and how what was written for them is read."""

    def __init__(
        self, tokenizer: Tokenizer, ends: Sequence[int], sentinels: Sentinels | None
    ) -> None:
        self.tokenizer = tokenizer
        self.ends = tuple(ends)
        self.bytes = are_bytes(tokenizer.state)
        source = Vocabularies.of(tokenizer)
        self.named: list[int] = source.sentinels.tolist()
        kind = sentinels or ("bytes" if self.bytes else "named")
        self.sentinels: list[int] = sentinel_ids(kind, source).tolist()

    def prompt(self, text: str, number: int) -> EncodedPrompt:
        """A text with a sentinel for each gap, and how its answer must look."""
        count = len(_ANY_GAP.findall(text))
        most = min(len(self.sentinels), len(self.named))
        if not count:
            shown = text if len(text) <= 40 else text[:39] + "…"
            raise InputError(
                f"text {number:,} ({shown!r}) has no gap; write [MASK] where something is missing."
            )
        if count > most:
            raise InputError(
                f"text {number:,} has {count:,} gaps; the tokenizer has sentinels for {most:,}; "
                f"cut the text into several."
            )
        numbers = iter(range(count))
        marked = _ANY_GAP.sub(lambda _: sentinel_name(next(numbers)), text)
        shown_as = dict(zip(self.named, self.sentinels, strict=False))
        ids = [shown_as.get(token, token) for token in self.tokenizer.encode([marked])[0].ids]
        # A sentinel behind the last gap closes an answer as well as the end does.
        ends = (*self.ends, *self.sentinels[count : count + 1])
        own = self.sentinels[:count]
        room = TOKENS * count
        # Bytes that stand for gaps also begin characters; only those that never do are forbidden.
        unwritten = {*self.tokenizer.special_ids, *self.named, *(_NO_TEXT if self.bytes else ())}
        never = sorted(unwritten - {*own, *ends})
        rules = (
            BadWords(words=tuple((token,) for token in never)),
            InTurn(tokens=tuple(own), ends=ends, most=room),
        )
        return EncodedPrompt(ids, room, ends, rules, f"text {number:,}")

    def filled(self, text: str, written: Sequence[Written]) -> Filled:
        """The guesses that answers hold, each once."""
        count = len(_ANY_GAP.findall(text))
        gaps: list[dict[str, FillCandidate]] = [{} for _ in range(count)]
        for answer in written:
            for gap, guess in zip(gaps, self._guesses(answer, count), strict=True):
                gap.setdefault(guess.word, guess)
        best = [next(iter(gap.values())) for gap in gaps]
        return Filled(text, [list(gap.values()) for gap in gaps], self._best(text, best))

    def _guesses(self, answer: Written, count: int) -> list[FillCandidate]:
        """What stands behind each sentinel, with the share of its tokens and of what ends it."""
        places = [
            place for place, token in enumerate(answer.tokens) if token in self.sentinels[:count]
        ]
        found = []
        for begin, stop in pairwise([*places, len(answer.tokens)]):
            tokens = answer.tokens[begin + 1 : stop]
            logs = answer.logs[begin + 1 : stop + 1]
            if stop == len(answer.tokens) and answer.ended == "end":
                tokens = tokens[:-1]
            word = self.tokenizer.decode(tokens)
            names = " ".join(self.tokenizer.token_of(token) for token in tokens)
            found.append(
                FillCandidate(word if self.bytes else word.strip(), names, math.exp(sum(logs)))
            )
        return found

    def _best(self, text: str, guesses: Sequence[FillCandidate]) -> str:
        """The text with a guess in every gap, spaced as the tokenizer writes it."""
        first, *parts = _ANY_GAP.split(text)
        best = first
        for guess, part in zip(guesses, parts, strict=True):
            # Bytes are written to the letter, their spaces among them.
            best = best + guess.word if self.bytes else joined(self.tokenizer, best, guess)
            best += part
        return best
