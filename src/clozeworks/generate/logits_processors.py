"""Logits processors: what may not come next, or should come less, one rule after the other.

Paper: Keskar et al. 2019 (repetition); Paulus et al. 2018 (n-grams); Holtzman et al. 2020 (top-p);
Fan et al. 2018 (top-k); Nguyen et al. 2024 (min-p); Meister et al. 2023 (typical).
The order is fixed: repetition, presence and frequency, n-grams, bad words, minimum length; then, if
tokens are sampled, temperature, top-k, top-p, min-p, typical.

Shapes: n rows, V vocabulary, L columns (tokens of the longest row).
"""

from collections.abc import Sequence
from typing import Annotated, ClassVar

import torch
from torch import Tensor

from clozeworks.spec import (
    FINITE,
    Above,
    Advice,
    AtLeast,
    AtMost,
    PositiveFloat,
    PositiveInt,
    Slot,
    spec,
)

NEVER = -torch.inf
# Colder, and divided logits may overflow; heavier, and penalties of many tokens may.
SamplingTemperature = Annotated[float, FINITE, AtLeast(1e-3), Advice("set 0 for greedy decoding")]
Penalty = Annotated[float, AtLeast(-10_000), AtMost(10_000)]
ProbabilityMass = Annotated[float, Above(0), AtMost(1)]


class History:
    """The tokens of every row, those of its prompt first; rows end in the same column."""

    def __init__(
        self, texts: Sequence[Sequence[int]], max_new_tokens: int, device: torch.device
    ) -> None:
        """Takes the prompt of each row, and how many tokens may follow."""
        longest = max((len(text) for text in texts), default=0)
        self.prompt_lengths = [len(text) for text in texts]
        self.used = longest
        self._tokens = torch.zeros(len(texts), longest + max_new_tokens, dtype=torch.long)
        for row, text in enumerate(texts):
            self._tokens[row, longest - len(text) : longest] = torch.tensor(text, dtype=torch.long)
        self._prompt_end = longest
        self._device = device

    @property
    def written(self) -> int:
        """How many tokens were generated so far; the same for every row."""
        return self.used - self._prompt_end

    def add(self, tokens: Tensor) -> None:
        """One more token of every row, (n,)."""
        self._tokens[:, self.used] = tokens.cpu()
        self.used += 1

    def choose(self, rows: Sequence[int]) -> None:
        """Goes on with these rows, in this order."""
        self._tokens = self._tokens[list(rows)]
        self.prompt_lengths = [self.prompt_lengths[row] for row in rows]

    def tokens(self) -> Tensor:
        """All tokens, (n, L); a row shorter than others repeats its last token before its first."""
        begins = torch.tensor([self._prompt_end - length for length in self.prompt_lengths])
        columns = torch.arange(self.used)
        shown = self._tokens[:, : self.used]
        if begins.any():
            shown = torch.where(columns >= begins[:, None], shown, shown[:, -1:])
        return shown.to(self._device)

    def written_tokens(self) -> Tensor:
        """The generated tokens, (n, written)."""
        return self._tokens[:, self._prompt_end : self.used].to(self._device)

    def row(self, row: int) -> list[int]:
        """All tokens of one row."""
        begin = self._prompt_end - self.prompt_lengths[row]
        tokens: list[int] = self._tokens[row, begin : self.used].tolist()
        return tokens

    def written_row(self, row: int) -> list[int]:
        """The generated tokens of one row."""
        tokens: list[int] = self._tokens[row, self._prompt_end : self.used].tolist()
        return tokens


class LogitsProcessorSpec(Slot):
    """Slot: changes logits (n, V) by what the rows hold so far."""

    is_slot: ClassVar[bool] = True

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """The changed logits."""
        raise NotImplementedError


@spec
class RepetitionPenalty(LogitsProcessorSpec):
    """Logits of tokens that a row holds are divided, or multiplied where they are below 0.

    Once for each token, however often it occurs. In beam search the logits are log probabilities,
    all below 0, and the same number means something else.
    """

    paper: ClassVar[str] = "Keskar et al. 2019"

    penalty: PositiveFloat

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """Logits with those of held tokens made smaller."""
        held = history.tokens()
        if not held.shape[1]:
            return logits
        own = logits.gather(1, held)
        smaller = torch.where(own < 0, own * self.penalty, own / self.penalty)
        return logits.scatter(1, held, smaller)


@spec
class Occurrence(LogitsProcessorSpec):
    """Subtracts `presence` once per generated token, `frequency` for each time it occurred."""

    presence: Penalty = 0.0
    frequency: Penalty = 0.0

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """Logits with those of generated tokens lowered."""
        written = history.written_tokens()
        counts = torch.zeros_like(logits).scatter_add_(
            1, written, torch.ones_like(written, dtype=logits.dtype)
        )
        return logits - self.frequency * counts - self.presence * (counts > 0)


@spec
class NoRepeatedNGrams(LogitsProcessorSpec):
    """No run of `size` tokens comes twice in a row."""

    paper: ClassVar[str] = "Paulus et al. 2018"

    size: PositiveInt

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """Logits without tokens that would complete a run again."""
        logits = logits.clone()
        for row in range(len(logits)):
            tokens = history.row(row)
            ahead = len(tokens) - self.size + 1
            if ahead < 1:
                continue
            last = tokens[ahead:]
            banned = [
                tokens[position + self.size - 1]
                for position in range(ahead)
                if tokens[position : position + self.size - 1] == last
            ]
            logits[row, banned] = NEVER
        return logits


@spec
class BadWords(LogitsProcessorSpec):
    """None of these runs of tokens is ever completed."""

    words: tuple[tuple[int, ...], ...]

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """Logits without tokens that would complete a bad word."""
        logits = logits.clone()
        for word in self.words:
            *before, last = word
            if not before:
                logits[:, last] = NEVER
                continue
            for row in range(len(logits)):
                if history.row(row)[-len(before) :] == before:
                    logits[row, last] = NEVER
        return logits


@spec
class Known(LogitsProcessorSpec):
    """Only tokens of the vocabulary: published tables are often longer, up to a round number."""

    count: int

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """Logits without rows that no token has."""
        logits = logits.clone()
        logits[:, self.count :] = NEVER
        return logits


@spec
class RequiredWords(LogitsProcessorSpec):
    """Each of these runs of tokens is generated before a text ends.

    The model may place them where it likes. As soon as there is just enough room left for those
    that are missing, they are forced.
    """

    words: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...]
    max_new_tokens: int

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """Logits without an end while a word is missing; at last, of a word's next token alone."""
        logits = logits.clone()
        for row in range(len(logits)):
            written = history.written_row(row)
            missing = [word for word in self.words if not _holds(written, word)]
            if not missing:
                continue
            begun, word = max((_begun(written, word), word) for word in missing)
            logits[row, list(self.ends)] = NEVER
            if self.max_new_tokens - len(written) <= sum(map(len, missing)) - begun:
                kept = logits[row, word[begun]].clone()
                logits[row] = NEVER
                logits[row, word[begun]] = kept if kept > NEVER else 0.0
        return logits


@spec
class FirstTokens(LogitsProcessorSpec):
    """Each text begins with these tokens."""

    tokens: tuple[int, ...]

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """Logits of the next of them alone, until all have come."""
        if history.written >= len(self.tokens):
            return logits
        token = self.tokens[history.written]
        kept = logits[:, token]
        only = torch.full_like(logits, NEVER)
        only[:, token] = torch.where(kept > NEVER, kept, 0.0)
        return only


@spec
class InTurn(LogitsProcessorSpec):
    """These tokens come once each, in this order, the first at once; then texts may end.

    At least one other token follows each. As soon as there is just enough room left for those that
    are missing, the next one is forced.
    """

    tokens: tuple[int, ...]
    ends: tuple[int, ...]
    max_new_tokens: int

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """Logits without tokens whose turn it is not."""
        logits = logits.clone()
        kept = logits[:, list(self.tokens)]
        logits[:, list(self.tokens)] = NEVER
        for row in range(len(logits)):
            written = history.written_row(row)
            done = sum(token in self.tokens for token in written)
            missing = len(self.tokens) - done
            fresh = bool(written) and written[-1] in self.tokens
            if missing or fresh:
                logits[row, list(self.ends)] = NEVER
            if not missing or fresh:
                continue
            if not written or self.max_new_tokens - len(written) <= 2 * missing:
                logits[row] = NEVER
            logits[row, self.tokens[done]] = kept[row, done]
        return logits


@spec
class MinNewTokens(LogitsProcessorSpec):
    """No text ends before so many tokens."""

    tokens: int
    ends: tuple[int, ...]

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """Logits without an end, if it is too early."""
        if history.written >= self.tokens:
            return logits
        return logits.index_fill(1, torch.tensor(self.ends, device=logits.device), NEVER)


@spec
class Temperature(LogitsProcessorSpec):
    """Divides logits: below 1 the likely become likelier, above 1 all more alike."""

    value: SamplingTemperature

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """The divided logits."""
        return logits / self.value


@spec
class TopK(LogitsProcessorSpec):
    """The `count` highest logits, and those equal to the last of them."""

    paper: ClassVar[str] = "Fan et al. 2018"

    count: PositiveInt

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """The highest logits; the others never."""
        lowest = logits.topk(min(self.count, logits.shape[1]), dim=1).values[:, -1:]
        return logits.masked_fill(logits < lowest, NEVER)


@spec
class TopP(LogitsProcessorSpec):
    """The smallest set of likeliest tokens with a probability of at least `mass`."""

    paper: ClassVar[str] = "Holtzman et al. 2020"

    mass: ProbabilityMass

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """The logits of the set, including the one that crosses the mass."""
        ascending, positions = logits.sort(dim=1)
        left_out = ascending.softmax(dim=1).cumsum(dim=1) <= 1 - self.mass
        left_out[:, -1] = False
        return logits.masked_fill(left_out.scatter(1, positions, left_out), NEVER)


@spec
class MinP(LogitsProcessorSpec):
    """Tokens at least `p` times as likely as the likeliest."""

    paper: ClassVar[str] = "Nguyen et al. 2024"

    p: ProbabilityMass

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """The logits of those tokens."""
        probabilities = logits.softmax(dim=1)
        return logits.masked_fill(
            probabilities < self.p * probabilities.amax(dim=1, keepdim=True), NEVER
        )


@spec
class Typical(LogitsProcessorSpec):
    """Tokens about as surprising as expected, nearest first, until they have the mass."""

    paper: ClassVar[str] = "Meister et al. 2023"

    mass: ProbabilityMass

    def __call__(self, logits: Tensor, history: History) -> Tensor:
        """The logits of those tokens."""
        logs = logits.log_softmax(dim=1)
        probabilities = logs.exp()
        surprise = -(logs * probabilities).nansum(dim=1, keepdim=True)
        ordered, positions = ((-logs) - surprise).abs().sort(dim=1)
        mass = logits.gather(1, positions).softmax(dim=1).cumsum(dim=1)
        last = (mass < self.mass).sum(dim=1).clamp(max=logits.shape[1] - 1)
        left_out = ordered > ordered.gather(1, last[:, None])
        return logits.masked_fill(left_out.scatter(1, positions, left_out), NEVER)


def _holds(tokens: list[int], word: tuple[int, ...]) -> bool:
    """Whether a run stands somewhere among tokens."""
    size = len(word)
    return any(tuple(tokens[position : position + size]) == word for position in range(len(tokens)))


def _begun(tokens: list[int], word: tuple[int, ...]) -> int:
    """How many tokens of a word the last tokens already are."""
    sizes = range(min(len(word) - 1, len(tokens)), 0, -1)
    return next((size for size in sizes if tuple(tokens[-size:]) == word[:size]), 0)


def applied(
    rules: Sequence[LogitsProcessorSpec], logits: Tensor, history: History, ends: Sequence[int]
) -> Tensor:
    """The logits after all rules, one after the other; (n, V).

    Where no token is allowed, a text may end; without an end token the rules no longer count.
    """
    if not rules:
        return logits
    changed = logits
    for rule in rules:
        changed = rule(changed, history)
    stuck = changed.amax(dim=1) == NEVER
    if stuck.any():
        for rule in rules:
            if isinstance(rule, Known):  # a row without a token stays forbidden
                logits = rule(logits, history)
        changed = changed.clone()
        positions = torch.tensor(ends) if ends else torch.arange(logits.shape[1])
        rows = stuck.nonzero().to("cpu")
        changed[rows, positions] = logits[rows, positions]
    return changed
