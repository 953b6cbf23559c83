"""What may not come next, or should come less: rules about scores, one after the other.

Paper: Keskar et al. 2019 (repetition); Paulus et al. 2018 (n-grams); Holtzman et al. 2020 (top-p);
Fan et al. 2018 (top-k); Nguyen et al. 2024 (min-p); Meister et al. 2023 (typical).
The order is fixed: repetition, presence and frequency, n-grams, bad words, the least length; then,
if tokens are drawn, temperature, top-k, top-p, min-p, typical.

Shapes: n rows, V vocabulary, L tokens of a row.
"""

from collections.abc import Sequence
from math import isfinite
from typing import ClassVar

import torch
from torch import Tensor

from clozeworks.errors import SettingError
from clozeworks.generate.history import History
from clozeworks.spec import Slot, spec

NEVER = -torch.inf
# Below this temperature scores divided may be no numbers any more.
COLDEST = 1e-3
# What is taken off scores more than this often enough is no number any more.
_HEAVIEST = 10_000


class LogitsProcessorSpec(Slot):
    """Slot: changes scores (n, V) by what the rows hold so far."""

    is_slot: ClassVar[bool] = True

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """The scores, changed."""
        raise NotImplementedError


@spec
class RepetitionPenalty(LogitsProcessorSpec):
    """Scores of tokens that a row holds are divided, or multiplied where they are below 0.

    Once for each token, however often it occurs. In beam search scores are log shares, all below 0,
    and the same number means something else.
    """

    paper: ClassVar[str] = "Keskar et al. 2019"

    penalty: float

    def __post_init__(self) -> None:
        _above("repetition_penalty", self.penalty, 0)

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Scores of held tokens, made smaller."""
        held = history.tokens()
        if not held.shape[1]:
            return scores
        found = scores.gather(1, held)
        smaller = torch.where(found < 0, found * self.penalty, found / self.penalty)
        return scores.scatter(1, held, smaller)


@spec
class Occurrence(LogitsProcessorSpec):
    """`presence` is taken off the score of each written token, `frequency` each time it was."""

    presence: float = 0.0
    frequency: float = 0.0

    def __post_init__(self) -> None:
        for name, value in (("presence", self.presence), ("frequency", self.frequency)):
            check_finite(f"{name}_penalty", value)
            if abs(value) > _HEAVIEST:
                rule = f"it must be from {-_HEAVIEST:,} to {_HEAVIEST:,}"
                raise SettingError(f"{name}_penalty", value, rule)

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Scores of written tokens, less something."""
        written = history.written_tokens()
        counts = torch.zeros_like(scores).scatter_add_(
            1, written, torch.ones_like(written, dtype=scores.dtype)
        )
        return scores - self.frequency * counts - self.presence * (counts > 0)


@spec
class NoRepeatedNGrams(LogitsProcessorSpec):
    """No run of `size` tokens comes twice in a row."""

    paper: ClassVar[str] = "Paulus et al. 2018"

    size: int

    def __post_init__(self) -> None:
        _above("no_repeat_ngram_size", self.size, 0)

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Scores without tokens that would complete a run again."""
        scores = scores.clone()
        for row in range(len(scores)):
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
            scores[row, banned] = NEVER
        return scores


@spec
class BadWords(LogitsProcessorSpec):
    """None of these runs of tokens is ever written to its end."""

    words: tuple[tuple[int, ...], ...]

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Scores without tokens that would complete a bad word."""
        scores = scores.clone()
        for word in self.words:
            *before, last = word
            if not before:
                scores[:, last] = NEVER
                continue
            for row in range(len(scores)):
                if history.row(row)[-len(before) :] == before:
                    scores[row, last] = NEVER
        return scores


@spec
class Known(LogitsProcessorSpec):
    """Only tokens of the vocabulary: published tables are often longer, up to a round number."""

    count: int

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Scores without rows that no token has."""
        scores = scores.clone()
        scores[:, self.count :] = NEVER
        return scores


@spec
class RequiredWords(LogitsProcessorSpec):
    """Each of these runs of tokens is written: no text ends before.

    The model may write them where it likes. As soon as there is just enough room left for those
    that are missing, they are written whatever the model says.
    """

    words: tuple[tuple[int, ...], ...]
    ends: tuple[int, ...]
    max_new_tokens: int
    """How many tokens may be written."""

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Scores without an end while a word is missing; at last, of a word's next token alone."""
        scores = scores.clone()
        for row in range(len(scores)):
            written = history.written_row(row)
            missing = [word for word in self.words if not _holds(written, word)]
            if not missing:
                continue
            begun, word = max((_begun(written, word), word) for word in missing)
            scores[row, list(self.ends)] = NEVER
            if self.max_new_tokens - len(written) <= sum(map(len, missing)) - begun:
                kept = scores[row, word[begun]].clone()
                scores[row] = NEVER
                scores[row, word[begun]] = kept if kept > NEVER else 0.0
        return scores


@spec
class InTurn(LogitsProcessorSpec):
    """These tokens are written each once, in this order and the first at once; then texts may end.

    At least one other token follows each. As soon as there is just enough room left for those that
    are missing, the next one is written whatever the model says.
    """

    tokens: tuple[int, ...]
    ends: tuple[int, ...]
    max_new_tokens: int
    """How many tokens may be written."""

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Scores without tokens that are not in their turn."""
        scores = scores.clone()
        kept = scores[:, list(self.tokens)]
        scores[:, list(self.tokens)] = NEVER
        for row in range(len(scores)):
            written = history.written_row(row)
            done = sum(token in self.tokens for token in written)
            missing = len(self.tokens) - done
            fresh = bool(written) and written[-1] in self.tokens
            if missing or fresh:
                scores[row, list(self.ends)] = NEVER
            if not missing or fresh:
                continue
            if not written or self.max_new_tokens - len(written) <= 2 * missing:
                scores[row] = NEVER
            scores[row, self.tokens[done]] = kept[row, done]
        return scores


@spec
class MinNewTokens(LogitsProcessorSpec):
    """No text ends before so many tokens were written."""

    tokens: int
    ends: tuple[int, ...]

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Scores without an end, if it is too early."""
        if history.written >= self.tokens:
            return scores
        return scores.index_fill(1, torch.tensor(self.ends, device=scores.device), NEVER)


@spec
class Temperature(LogitsProcessorSpec):
    """Scores divided: below 1 the likely become likelier, above 1 all more alike."""

    value: float

    def __post_init__(self) -> None:
        _above("temperature", self.value, 0)
        if self.value < COLDEST:
            rule = f"below {COLDEST} nothing is left to sample from"
            raise SettingError("temperature", self.value, rule, "set 0 for greedy decoding")

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """Scores, divided."""
        return scores / self.value


@spec
class TopK(LogitsProcessorSpec):
    """The `count` highest scores, and those equal to the last of them."""

    paper: ClassVar[str] = "Fan et al. 2018"

    count: int

    def __post_init__(self) -> None:
        _above("top_k", self.count, 0)

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """The highest scores; the others never."""
        least = scores.topk(min(self.count, scores.shape[1]), dim=1).values[:, -1:]
        return scores.masked_fill(scores < least, NEVER)


@spec
class TopP(LogitsProcessorSpec):
    """The smallest set of likeliest tokens that together have at least the share `mass`."""

    paper: ClassVar[str] = "Holtzman et al. 2020"

    mass: float

    def __post_init__(self) -> None:
        _probability("top_p", self.mass)

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """The scores of the set, the one that crosses the share among them."""
        ascending, positions = scores.sort(dim=1)
        left_out = ascending.softmax(dim=1).cumsum(dim=1) <= 1 - self.mass
        left_out[:, -1] = False
        return scores.masked_fill(left_out.scatter(1, positions, left_out), NEVER)


@spec
class MinP(LogitsProcessorSpec):
    """Tokens at least `p` times as likely as the likeliest."""

    paper: ClassVar[str] = "Nguyen et al. 2024"

    p: float

    def __post_init__(self) -> None:
        _probability("min_p", self.p)

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """The scores of those tokens."""
        probabilities = scores.softmax(dim=1)
        return scores.masked_fill(
            probabilities < self.p * probabilities.amax(dim=1, keepdim=True), NEVER
        )


@spec
class Typical(LogitsProcessorSpec):
    """Tokens as surprising as one expects, nearest first, until they have the share `mass`."""

    paper: ClassVar[str] = "Meister et al. 2023"

    mass: float

    def __post_init__(self) -> None:
        _probability("typical", self.mass)

    def __call__(self, scores: Tensor, history: History) -> Tensor:
        """The scores of those tokens."""
        logs = scores.log_softmax(dim=1)
        probabilities = logs.exp()
        surprise = -(logs * probabilities).nansum(dim=1, keepdim=True)
        ordered, positions = ((-logs) - surprise).abs().sort(dim=1)
        mass = scores.gather(1, positions).softmax(dim=1).cumsum(dim=1)
        last = (mass < self.mass).sum(dim=1).clamp(max=scores.shape[1] - 1)
        left_out = ordered > ordered.gather(1, last[:, None])
        return scores.masked_fill(left_out.scatter(1, positions, left_out), NEVER)


def _holds(tokens: list[int], word: tuple[int, ...]) -> bool:
    """Whether a run stands somewhere among tokens."""
    size = len(word)
    return any(tuple(tokens[position : position + size]) == word for position in range(len(tokens)))


def _begun(tokens: list[int], word: tuple[int, ...]) -> int:
    """How many tokens of a word the last tokens already are."""
    sizes = range(min(len(word) - 1, len(tokens)), 0, -1)
    return next((size for size in sizes if tuple(tokens[-size:]) == word[:size]), 0)


def check_finite(name: str, value: float) -> None:
    """Complains about a setting that is not a finite number."""
    if not isfinite(value):
        raise SettingError(name, value, "it must be a finite number")


def _above(name: str, value: float, least: float) -> None:
    check_finite(name, value)
    if not value > least:
        raise SettingError(name, value, f"it must be above {least}")


def _probability(name: str, value: float) -> None:
    if not 0 < value <= 1:
        raise SettingError(name, value, "it must be above 0 and at most 1")


def applied(
    rules: Sequence[LogitsProcessorSpec], scores: Tensor, history: History, ends: Sequence[int]
) -> Tensor:
    """The scores after all rules, one after the other; (n, V).

    Where nothing may come any more, a text may end; without an end token rules count no longer.
    """
    if not rules:
        return scores
    changed = scores
    for rule in rules:
        changed = rule(changed, history)
    stuck = changed.amax(dim=1) == NEVER
    if stuck.any():
        for rule in rules:
            if isinstance(rule, Known):  # what is no token is none in any case
                scores = rule(scores, history)
        changed = changed.clone()
        positions = torch.tensor(ends) if ends else torch.arange(scores.shape[1])
        rows = stuck.nonzero().to("cpu")
        changed[rows, positions] = scores[rows, positions]
    return changed
