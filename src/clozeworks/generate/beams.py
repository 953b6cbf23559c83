"""Beam search: several beginnings of each text are kept, the likeliest together.

Paper: Graves 2012; Wu et al. 2016 (length); Vijayakumar et al. 2018 (groups that differ).
The idea: at every step the best continuations of all kept beginnings become the next ones. Those
that end are set aside with a score by length; the search is over when nothing that still grows can
do better.
Compat: lengths count written tokens, the end among them, and a score is the sum of logs divided by
length ** penalty, as Hugging Face's library has it; T5 and GNMT divide by
((5 + length) / 6) ** penalty.
Only continuations among the best `width` may end; twice as many are looked at, so that enough are
left that do not.
Groups: a group's scores are lowered for tokens that groups before it chose at the same step.

Shapes: B prompts, G groups, w beams of a group, V vocabulary, K candidates.
"""

from collections.abc import Sequence
from typing import Annotated, Literal

import torch
from torch import Tensor

from clozeworks.errors import SettingError
from clozeworks.generate.logits_processors import NEVER, History, LogitsProcessorSpec, applied
from clozeworks.generate.sampling import Limits, Written
from clozeworks.generate.session import DecoderSession
from clozeworks.spec import FINITE, AtLeast, AtMost, PositiveInt, spec

# What no sum of logs ever reaches, and what it means: a beam that is not there yet.
NOWHERE = -1e9


@spec
class Beams:
    """How wide the search is, and when it ends."""

    num_beams: PositiveInt
    """How many beginnings of each text the search keeps."""
    # Long texts to a much higher power overflow.
    length_penalty: Annotated[float, AtLeast(-10), AtMost(10)] = 1.0
    """Above 0 long texts gain, below 0 short ones."""
    early_stopping: Literal[True, False, "never"] = False
    """True: as soon as `num_beams` texts ended. False: when the best that grows is, at the length
    it has, below the worst that ended. Never: when it could not pass that at any length."""
    num_beam_groups: PositiveInt = 1
    """Searches of num_beams / num_beam_groups that must differ."""
    diversity_penalty: Annotated[float, FINITE] = 0.0
    """What a token costs for each group before that chose it at the same step."""

    def __post_init__(self) -> None:
        if self.num_beams % self.num_beam_groups:
            rule = f"it must be divisible by `num_beam_groups`, {self.num_beam_groups}"
            raise SettingError("num_beams", self.num_beams, rule)
        if self.num_beam_groups == 1 and self.diversity_penalty:
            rule = "it has no effect on one group of beams"
            raise SettingError(
                "diversity_penalty", self.diversity_penalty, rule, "set `num_beam_groups`"
            )


class _Prompt:
    """The search for the texts of one prompt, within one group."""

    def __init__(self, number: int, width: int) -> None:
        self.number = number
        self.scores = [0.0] + [NOWHERE] * (width - 1)
        """The sum of logs of each beam."""
        self.texts = [Written() for _ in range(width)]
        self.ended: list[Written] = []
        self.over = False

    def grows(self) -> bool:
        """Whether any beam is there that has not ended."""
        return max(self.scores) > NOWHERE / 2


def search(
    session: DecoderSession,
    prompt_ids: Sequence[Sequence[int]],
    *,
    beams: Beams,
    limits: Limits,
    rules: Sequence[LogitsProcessorSpec] = (),
) -> list[list[Written]]:
    """The texts that ended for each prompt, the best first; `beams.num_beams` of each at most.

    Args:
        session: Computes the logits of the next token.
        prompt_ids: The tokens before each text, for rules about repetition.
        beams: The search.
        limits: When a text ends.
        rules: What changes log probabilities before continuations are compared.
    """
    width, each = beams.num_beams, beams.num_beams // beams.num_beam_groups
    logits = session.prefill()
    open_prompts = list(range(len(prompt_ids)))
    rows = [prompt for prompt in open_prompts for _ in range(width)]
    session.reorder(rows)
    logits = logits[rows]
    history = History([prompt_ids[row] for row in rows], limits.max_new_tokens, logits.device)
    states = [
        [_Prompt(number, each) for _ in range(beams.num_beam_groups)] for number in open_prompts
    ]
    length = 0
    while open_prompts:
        length += 1
        raw = logits.log_softmax(dim=1)
        logs = applied(rules, raw, history, limits.ends).view(
            len(open_prompts), beams.num_beam_groups, each, -1
        )
        parents: list[int] = []
        tokens: list[int] = []
        for position, prompt in enumerate(open_prompts):
            chosen: list[int] = []  # tokens of the groups before
            for group, state in enumerate(states[prompt]):
                first = (position * beams.num_beam_groups + group) * each
                grown = _advance(
                    state, _diverse(logs[position, group], chosen, beams.diversity_penalty),
                    raw[first : first + each], beams, each, limits, length,
                )  # fmt: skip
                parents += [first + beam for beam, _ in grown]
                tokens += [token for _, token in grown]
                chosen += [token for _, token in grown]
        staying = [
            position for position, prompt in enumerate(open_prompts)
            if not all(state.over for state in states[prompt])
        ]  # fmt: skip
        if length == limits.max_new_tokens or not staying:
            break
        keep = [position * width + beam for position in staying for beam in range(width)]
        parents, tokens = [parents[row] for row in keep], [tokens[row] for row in keep]
        session.reorder(parents)
        session.reorder_prompts(staying)
        history.choose(parents)
        following = torch.tensor(tokens, device=logits.device)
        history.add(following)
        open_prompts = [open_prompts[position] for position in staying]
        logits = session.step(following)
    ended = [[text for state in groups for text in state.ended] for groups in states]
    return [sorted(texts, key=lambda text: -text.score)[:width] for texts in ended]


def _diverse(logs: Tensor, chosen: Sequence[int], diversity: float) -> Tensor:
    """The log probabilities of a group (w, V), less what groups before it chose."""
    if not chosen or not diversity:
        return logs
    counts = torch.bincount(torch.tensor(chosen), minlength=logs.shape[1])
    return logs - diversity * counts.to(logs)


def _advance(
    state: _Prompt,
    logs: Tensor,
    raw: Tensor,
    beams: Beams,
    each: int,
    limits: Limits,
    length: int,
) -> list[tuple[int, int]]:
    """One step of one group: beam and token of each beam to go on with."""
    if state.over:
        return [(beam, 0) for beam in range(each)]
    totals = (logs + logs.new_tensor(state.scores)[:, None]).flatten()
    count = min(max(2, 1 + len(limits.ends)) * each, len(totals))
    values, positions = totals.topk(count)
    candidates = [
        (value, position // logs.shape[1], position % logs.shape[1])
        for value, position in zip(values.tolist(), positions.tolist(), strict=True)
    ]
    growing: list[tuple[float, int, int, Written]] = []
    for rank, (value, beam, token) in enumerate(candidates):
        before = state.texts[beam]
        text = Written(
            [*before.tokens, token], [*before.logs, raw[beam, token].item()], [*before.others, ()]
        )
        text.score, text.finish_reason = value, limits.reason(state.number, text.tokens)
        if text.finish_reason is None:
            growing.append((value, beam, token, text))
        else:
            # A beam that is not there yet would end with what another one wrote; what a rule
            # forbids is an end only where there is no more room.
            allowed = value > NEVER or text.finish_reason == "length"
            if rank < each and allowed and (value > NOWHERE / 2 or not state.ended):
                _set_aside(state, text, value / length**beams.length_penalty, each)
            growing.append((value + NOWHERE, beam, token, text))
    growing = sorted(growing, key=lambda candidate: -candidate[0])[:each]
    state.scores = [value for value, *_ in growing]
    state.texts = [text for *_, text in growing]
    state.over = _is_over(state, beams, each, limits, length)
    return [(beam, token) for _, beam, token, _ in growing]


def _set_aside(state: _Prompt, text: Written, score: float, each: int) -> None:
    """Keeps a text that ended, if it is among the best."""
    text.score = score
    state.ended = sorted([*state.ended, text], key=lambda ended: -ended.score)[:each]


def _is_over(state: _Prompt, beams: Beams, each: int, limits: Limits, length: int) -> bool:
    """Whether nothing that still grows can be better than what ended."""
    if not state.grows():
        return True
    if len(state.ended) < each:
        return False
    if beams.early_stopping is True:
        return True
    hopeful = length
    if beams.early_stopping == "never" and beams.length_penalty > 0:
        hopeful = limits.max_new_tokens
    best: float = max(state.scores) / hopeful**beams.length_penalty
    return best <= state.ended[-1].score
