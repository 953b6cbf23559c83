"""Fill gaps with any number of words: an encoder reads the text, a decoder generates the spans.

Paper: Raffel et al. 2020 (T5).
The idea: a sentinel stands for each gap, and the output names each sentinel before the tokens that
belong there. Here the output must name them in order and put at least a token after each, so there
is a candidate for every gap whatever the model would rather generate.
Several candidates are those of a beam search: the first candidates for all gaps of a text belong
together, the others are what other beams have there.
Where paper and code differ: ByT5's published sentinels are the last bytes, not the tokens called
`<extra_id_0>` and so on; see `text/tokenizer/bytes.py`.
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
from clozeworks.objectives.span_corruption import Sentinels, sentinel_ids
from clozeworks.spec import PositiveInt, check
from clozeworks.text.tokenizer.bytes import are_bytes
from clozeworks.text.tokenizer.special import SENTINEL, sentinel_name
from clozeworks.text.tokenizer.tokenizer import GAPS, Tokenizer
from clozeworks.text.valid import location_of
from clozeworks.wording import shortened

# ByT5's tokens of the bytes 0xF5 to 0xFF, which no text has.
_NO_TEXT = range(0xF5 + 3, 0xFF + 3 + 1)
# The maximum number of tokens of a gap, on average over the gaps of a text.
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
    source_locations: Sequence[str] | None = None,
    options: BatchOptions | None = None,
) -> list[Filled]:
    """Generates what is missing in every text, where it has `[MASK]` or a sentinel.

    A beam search keeps `top` outputs, so a gap has at most as many candidates. Outputs begin with
    `start` and end with one of `ends`. `sentinels` says which tokens the model was trained to read
    for a gap; by default those of published models with its vocabulary. `source_locations` are for
    messages.

    Raises:
        InputError: If a text has no gap, or more gaps than there are sentinels.
        SettingError: If `top` is below 1 or above the size of the vocabulary.
    """
    check("top", top, PositiveInt)
    if top > tokenizer.size:
        rule = f"the vocabulary has {tokenizer.size:,} entries, and a search cannot be wider"
        raise SettingError("top", top, rule, "lower it")
    gaps = _Gaps(tokenizer, ends, sentinels)
    prompts = [
        gaps.prompt(text, location_of(number, source_locations))
        for number, text in enumerate(texts)
    ]
    beams = Beams(num_beams=top, length_penalty=0.0) if top > 1 else None
    request = GenerationRequest(
        prompts, start, tokenizer.size, beams, lambda n, written: gaps.filled(texts[n], written)
    )
    return write_all(model, request, options)


class _Gaps:
    """How gaps are shown to the model, and how its output for them is read."""

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

    def prompt(self, text: str, location: str) -> EncodedPrompt:
        """A text with a sentinel for each gap, and the constraints on its output."""
        count = len(_ANY_GAP.findall(text))
        available = min(len(self.sentinels), len(self.named))
        if not count:
            raise InputError(
                f"{location} ({shortened(text, 40)!r}) has no gap; write [MASK] where "
                "something is missing."
            )
        if count > available:
            raise InputError(
                f"{location} has {count:,} gaps; the tokenizer has sentinels for "
                f"{available:,}; split the text."
            )
        numbers = iter(range(count))
        marked = _ANY_GAP.sub(lambda _: sentinel_name(next(numbers)), text)
        shown_as = dict(zip(self.named, self.sentinels, strict=False))
        ids = [shown_as.get(token, token) for token in self.tokenizer.encode([marked])[0].ids]
        # A sentinel after the last gap ends an output as the end token does.
        ends = (*self.ends, *self.sentinels[count : count + 1])
        sentinels = self.sentinels[:count]
        room = TOKENS * count
        # Bytes that stand for gaps also begin characters; only those that never do are forbidden.
        unwritten = {*self.tokenizer.special_ids, *self.named, *(_NO_TEXT if self.bytes else ())}
        never = sorted(unwritten - {*sentinels, *ends})
        rules = (
            BadWords(words=tuple((token,) for token in never)),
            InTurn(tokens=tuple(sentinels), ends=ends, max_new_tokens=room),
        )
        return EncodedPrompt(ids, room, ends, rules, location)

    def filled(self, text: str, written: Sequence[Written]) -> Filled:
        """The distinct candidates of all outputs."""
        count = len(_ANY_GAP.findall(text))
        gaps: list[dict[str, FillCandidate]] = [{} for _ in range(count)]
        for output in written:
            for gap, candidate in zip(gaps, self._candidates(output, count), strict=True):
                gap.setdefault(candidate.word, candidate)
        best = [next(iter(gap.values())) for gap in gaps]
        return Filled(text, [list(gap.values()) for gap in gaps], self._best(text, best))

    def _candidates(self, output: Written, count: int) -> list[FillCandidate]:
        """The tokens after each sentinel, with their probability and that of what ends them."""
        sentinels = self.sentinels[:count]
        positions = [n for n, token in enumerate(output.tokens) if token in sentinels]
        candidates = []
        for begin, stop in pairwise([*positions, len(output.tokens)]):
            tokens = output.tokens[begin + 1 : stop]
            score = math.exp(sum(output.logs[begin + 1 : stop + 1]))
            if stop == len(output.tokens) and output.finish_reason == "end":
                tokens = tokens[:-1]
            word = self.tokenizer.decode(tokens)
            names = " ".join(map(self.tokenizer.token_of, tokens))
            candidates.append(FillCandidate(word if self.bytes else word.strip(), names, score))
        return candidates

    def _best(self, text: str, candidates: Sequence[FillCandidate]) -> str:
        """The text with a candidate in every gap, spaced as the tokenizer writes it."""
        first, *parts = _ANY_GAP.split(text)
        best = first
        for candidate, part in zip(candidates, parts, strict=True):
            # Bytes include their spaces.
            best = best + candidate.word if self.bytes else joined(self.tokenizer, best, candidate)
            best += part
        return best
