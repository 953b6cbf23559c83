"""What an attribution is about: a number that a model computes of a text, as a function of ids.

The idea: the target is a logit, or the logarithm of a probability, never a probability, which
saturates. It is a function of ids, so that the same code attributes a label, an answer, a word that
is filled in or written, and how near two texts are.

Shapes: B copies of a text, n tokens, W width.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from clozeworks.core.context import AttentionSource
from clozeworks.core.heads.sentence_vectors import SentenceVectorsModule
from clozeworks.core.heads.vocabulary import NAME as VOCABULARY
from clozeworks.core.layout import Layout
from clozeworks.core.model import Model, hidden_states_at
from clozeworks.errors import (
    ClozeworksError,
    InputError,
    SettingError,
    UnknownName,
    UnsupportedError,
)
from clozeworks.inference.logits import TextOrPair
from clozeworks.inference.loop import Computation, compute_in_order, device_of
from clozeworks.inference.predict import window_logits
from clozeworks.look.pieces import ShownPiece, encode_pieces, written_pieces
from clozeworks.tasks.spans.windows import TokenWindow
from clozeworks.tasks.task import Task
from clozeworks.text.tokenizer.encoding import Encoded
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.wording import counted, shortened

# From a model and the ids of B copies (B, n) to what is attributed, (B,).
TargetScore = Callable[[Model, Tensor], Tensor]
# Tokens of an answer at most.
_LONGEST_ANSWER = 30
# Tokens that are named.
_LISTED = 4


_NAMES = {
    "label": "the logit of {about}",
    "word_label": "the logit of {about} for {where}",
    "span": "the logits of the answer {about!r}",
    "gap": "log p of {about} in gap {where}",
    "follows": "log p of {about}, which follows",
    "written": "log p of {about}, which is written",
    "cosine": "the cosine with {about!r}",
}


@dataclass(frozen=True)
class AttributionTarget:
    """A number that a model computes of a text."""

    kind: str
    """label, word_label, span, gap, follows, written or cosine."""
    about: str
    """The label, the answer, the words or the other text."""
    texts: tuple[str, ...]
    pieces: tuple[ShownPiece, ...]
    """The tokens it depends on; those that a decoder writes are of part 1."""
    moves: tuple[bool, ...]
    """Which of them are varied: not the special ones, nor a gap."""
    score: TargetScore
    where: str = ""
    """The word that has the label, or the number of the gap."""

    @property
    def name(self) -> str:
        """What it is, for people: the logit of good."""
        return _NAMES[self.kind].format(about=self.about, where=self.where)

    @property
    def ids(self) -> list[int]:
        """The ids of the pieces."""
        return [each.id for each in self.pieces]


def label_target(
    task: Task[Any, Any],
    model: Model,
    tokenizer: Tokenizer,
    text: TextOrPair,
    *,
    label: str | None = None,
    word: int | None = None,
    max_length: int | None = None,
) -> AttributionTarget:
    """The logit of a label, or the logits of the beginning and the end of an answer.

    Args:
        task: A task of the model's head.
        model: The model.
        tokenizer: Its tokenizer.
        text: A text, or a pair: two texts, or a question and its context.
        label: The label; the one with the highest logit if not given.
        word: The number of a word, from 0, where each word has a label.
        max_length: The most tokens the model takes.

    Raises:
        InputError: If the text does not fit into one window.
        UnsupportedError: If the task's logits are not those of labels, or of an answer.
    """
    try:
        item = task.as_asked(task.from_input(task.item_from(text, "the text")))
    except ClozeworksError:
        raise
    except ValueError as error:  # such as one text for a task that reads two
        raise InputError(f"the text cannot be used: {str(error).removesuffix('.')}.") from error
    windows = task.windows_of([item], tokenizer, max_length)
    if len(windows) != 1:
        raise InputError(
            f"the text is read through {counted(len(windows), 'window')}, and an attribution is "
            "of one; shorten it."
        )
    window = windows[0]
    texts = item.texts if task.item_type.text_names else (item.text,)
    first, *second = texts
    encoded, pieces = encode_pieces(tokenizer, (first, second[0]) if second else first)
    if encoded.ids != window.encoded.ids:
        raise UnsupportedError(
            "the task reads its texts in a way of its own, so tokens cannot be told from words; "
            "ask for a written or filled word, or for the similarity of two texts."
        )
    logits = window_logits(task, model, windows)[0]
    labels = task.head_labels
    if task.per_token and len(texts) > 1:  # a question and what it is asked about
        kind, where = "span", ""
        about, columns, at = _answer(logits, window, texts[-1])
    elif task.per_token:
        assert labels is not None
        kind = "word_label"
        about, where, columns, at = _tag(logits, labels, label, word, pieces, window)
    else:
        known = labels or tuple(str(n) for n in range(logits.shape[-1]))
        chosen = _chosen(known, label, logits)
        kind, about, where, columns, at = "label", known[chosen], "", [chosen], None
    score = _of_task(task, window, columns, at)
    return AttributionTarget(kind, about, tuple(texts), pieces, _moving(pieces), score, where)


def _of_task(
    task: Task[Any, Any], window: TokenWindow, columns: list[int], at: list[int] | None
) -> TargetScore:
    """The sum of some logits of a window: columns of its row, or of the rows of wanted tokens."""
    real, types, wanted = window.encoded.ids, window.encoded.types, window.wanted

    def score(model: Model, ids: Tensor) -> Tensor:
        count, length = ids.shape
        layout = Layout([length] * count)
        kinds = torch.tensor(types, device=ids.device).repeat(count)
        states, read = task.hidden_states(model, ids.flatten(), layout, kinds)
        positions = None
        if task.per_token:
            starts = torch.arange(count, device=ids.device)[:, None] * length
            positions = (torch.from_numpy(wanted).to(ids.device) + starts).flatten()
        known = torch.tensor(real, device=ids.device).repeat(count)
        logits = task.logits(model, states, read, positions, known)
        if at is None:
            return logits[:, columns].sum(dim=1)
        rows = logits.view(count, len(wanted), -1)
        return sum((rows[:, row, column] for row, column in zip(at, columns, strict=True)),
                   start=rows.new_zeros(count))  # fmt: skip

    return score


def _chosen(labels: Sequence[str], label: str | None, logits: Any) -> int:
    if label is None:
        return int(np.argmax(logits))
    if label not in labels:
        raise UnknownName("label", label, labels)
    return [*labels].index(label)


def _tag(
    logits: Any,
    labels: Sequence[str],
    label: str | None,
    word: int | None,
    pieces: Sequence[ShownPiece],
    window: TokenWindow,
) -> tuple[str, str, list[int], list[int]]:
    """The label, the word that has it, the column and the row."""
    count = len(window.wanted)
    if word is None or not 0 <= word < count:
        rule = f"each of {counted(count, 'word')} has a label"
        raise SettingError("word", word, rule, f"give the number of one, from 0 to {count - 1}")
    column = _chosen(labels, label, logits[word])
    shown = pieces[int(window.wanted[word])].text.strip()
    return labels[column], shown, [column], [word]


def _answer(logits: Any, window: TokenWindow, context: str) -> tuple[str, list[int], list[int]]:
    """The best beginning and end within the context."""
    if logits.shape[-1] != 2:
        raise UnsupportedError(
            "the model finds an end for each beginning of an answer, which is no one number; use a "
            "model with one logit for each beginning and each end."
        )
    where = [
        n for n, p in enumerate(window.wanted) if window.moving.start <= p < window.moving.stop
    ]
    begins, ends = logits[where, 0], logits[where, 1]
    sums = begins[:, None] + ends[None]
    away = np.subtract.outer(range(len(where)), range(len(where)))
    sums[(away > 0) | (away <= -_LONGEST_ANSWER)] = -np.inf
    first, last = (where[each] for each in np.unravel_index(int(sums.argmax()), sums.shape))
    offsets = window.encoded.offsets
    assert offsets is not None
    answer = context[offsets[window.wanted[first]][0] : offsets[window.wanted[last]][1]]
    return shortened(answer.strip(), 60), [0, 1], [first, last]


def _moving(pieces: Sequence[ShownPiece]) -> tuple[bool, ...]:
    return tuple(not piece.special for piece in pieces)


def word_target(
    model: Model,
    tokenizer: Tokenizer,
    text: str,
    *,
    word: str | None = None,
    gap: int = 0,
    target: str | None = None,
    token: int | None = None,
    start: int | None = None,
    max_length: int | None = None,
) -> AttributionTarget:
    """Log p of a word in a gap, of what follows a text, or of what is written for it.

    Args:
        model: A model with a vocabulary head.
        tokenizer: Its tokenizer.
        text: The text.
        word: The word in a gap; the likeliest if not given.
        gap: Which gap, from 0.
        target: What follows the text, or is written for it. A decoder's likeliest token if not
            given.
        token: Which token of the target, from 0; all of them if not given.
        start: The decoder start token.
        max_length: The most tokens of a text.

    Raises:
        InputError: If there is no gap, or an argument does not fit.
        UnsupportedError: If there is no vocabulary head.
    """
    if VOCABULARY not in model.heads:
        raise UnsupportedError(
            "the model has no vocabulary head and no task; attribute the similarity of two texts "
            "instead (other)."
        )
    if model.decoder is not None:
        return _written(model, tokenizer, text, target, token, start, max_length)
    if model.blueprint.can_generate:
        return _following(model, tokenizer, text, target, token, max_length)
    if target is not None:
        raise InputError("the model writes nothing for a text; leave out target, or give word.")
    return _filled(model, tokenizer, text, word, gap, max_length)


def _filled(
    model: Model, tokenizer: Tokenizer, text: str, word: str | None, gap: int, limit: int | None
) -> AttributionTarget:
    text = tokenizer.mark_gaps(text)
    encoded, pieces = encode_pieces(tokenizer, text, max_length=limit)
    gaps = [n for n, each in enumerate(encoded.ids) if each == tokenizer.mask_id]
    if not 0 <= gap < len(gaps):
        raise InputError(
            f"the text has {counted(len(gaps), 'gap')}, and gap is {gap}; write [MASK] where a "
            "word is missing."
        )
    logits = _logits_at(encoded, [gaps[gap]])
    if word is None:
        chosen = _likeliest(model, tokenizer, encoded, logits)
    else:
        found = tokenizer.single_id(word)
        if found is None:
            raise InputError(
                f"the word {word!r} is not one token of this model; a gap takes one; choose a word "
                "from the vocabulary."
            )
        chosen = found

    def score(model: Model, ids: Tensor) -> Tensor:
        return logits(model, ids)[:, 0].float().log_softmax(dim=-1)[:, chosen]

    moves = tuple(not p.special and p.id != tokenizer.mask_id for p in pieces)
    about = _shown(tokenizer, chosen)
    return AttributionTarget("gap", about, (text,), pieces, moves, score, str(gap + 1))


def _logits_at(encoded: Encoded, positions: list[int]) -> Callable[[Model, Tensor], Tensor]:
    """The vocabulary head's logits at some positions of each copy, (B, p, V)."""

    def logits(model: Model, ids: Tensor) -> Tensor:
        count, length = ids.shape
        at = torch.tensor(positions, device=ids.device)
        flat = (at + torch.arange(count, device=ids.device)[:, None] * length).flatten()
        types = torch.tensor(encoded.types, device=ids.device).repeat(count)
        layout = Layout([length] * count)
        states = hidden_states_at(model, ids.flatten(), layout, types, flat)
        found: Tensor = model.vocabulary(states)
        return found.view(count, len(positions), -1)

    return logits


def _likeliest(
    model: Model,
    tokenizer: Tokenizer,
    encoded: Encoded,
    logits: Callable[[Model, Tensor], Tensor],
) -> int:
    """The token with the highest logit that is not special."""
    device = device_of(model)

    def forward(batch: list[int]) -> list[int]:
        row = logits(model, torch.tensor([encoded.ids], device=device))[0, 0].clone()
        row[list(tokenizer.special_ids)] = -torch.inf
        return [int(row[: tokenizer.size].argmax())]

    computation = Computation(("likeliest", object()), forward)
    return compute_in_order(model, [0], [len(encoded)], computation)[0]


def _shown(tokenizer: Tokenizer, token: int) -> str:
    return repr(tokenizer.decode([token], skip_special=False).strip() or tokenizer.token_of(token))


def _following(
    model: Model,
    tokenizer: Tokenizer,
    text: str,
    target: str | None,
    token: int | None,
    limit: int | None,
) -> AttributionTarget:
    before, pieces = encode_pieces(tokenizer, text, max_length=limit)
    if not len(before):
        raise InputError("the text is empty; give what comes before.")
    whole, first = text, len(pieces)
    if target is None:
        chosen = [_likeliest(model, tokenizer, before, _logits_at(before, [first - 1]))]
    else:
        whole = text + target
        _, pieces = encode_pieces(tokenizer, whole, max_length=limit)
        first = next((n for n, p in enumerate(pieces) if p.end > len(text)), first)
        chosen = [each.id for each in pieces[first:] if not each.special]
        if not chosen or not first:
            raise InputError("target adds no token to the text; give what follows it.")
    asked = _asked_tokens(token, len(chosen))
    kept = pieces[: first + asked[-1]]
    ids = Encoded([p.id for p in kept], [0] * len(kept), [p.special for p in kept])
    logits = _logits_at(ids, [first + each - 1 for each in asked])

    def score(model: Model, ids: Tensor) -> Tensor:
        exact = logits(model, ids).float().log_softmax(dim=-1)
        right = torch.tensor([chosen[each] for each in asked], device=ids.device)
        return exact.gather(2, right[None, :, None].expand(len(ids), -1, -1)).sum(dim=(1, 2))

    about = _shown_together(tokenizer, [chosen[each] for each in asked])
    return AttributionTarget("follows", about, (whole,), kept, _moving(kept), score)


def _shown_together(tokenizer: Tokenizer, tokens: Sequence[int]) -> str:
    more = ", …" if len(tokens) > _LISTED else ""
    return ", ".join(_shown(tokenizer, each) for each in tokens[:_LISTED]) + more


def _asked_tokens(token: int | None, count: int) -> list[int]:
    if token is None:
        return [*range(count)]
    if not 0 <= token < count:
        rule = f"the target has {counted(count, 'token')}"
        raise SettingError("token", token, rule, f"use 0 to {count - 1}")
    return [token]


def _written(
    model: Model,
    tokenizer: Tokenizer,
    text: str,
    target: str | None,
    token: int | None,
    start: int | None,
    limit: int | None,
) -> AttributionTarget:
    if target is None:
        raise InputError(
            "the model writes a text for the one it reads; give what it writes as target."
        )
    assert start is not None, "a decoder has a token it starts from"
    _, read = encode_pieces(tokenizer, text, max_length=limit)
    answer = tokenizer.encode([target], max_length=limit)[0].ids
    asked = _asked_tokens(token, len(answer))
    written = [start, *answer[: asked[-1]]]
    pieces = written_pieces(tokenizer, written, target)
    own = tuple(replace(each, part=1, group=each.group + 2 * len(read)) for each in pieces)
    count = len(read)

    def score(model: Model, ids: Tensor) -> Tensor:
        copies = len(ids)
        layout, answers = Layout([count] * copies), Layout([len(written)] * copies)
        states = model(ids[:, :count].flatten(), layout, None)
        source = AttentionSource(states, layout)
        decoded = model.decode(ids[:, count:].flatten(), answers, source)
        rows = decoded.view(copies, len(written), -1)[:, asked]
        exact = model.vocabulary(rows.flatten(0, 1)).float().log_softmax(dim=-1)
        right = torch.tensor([answer[each] for each in asked], device=ids.device)
        exact = exact.view(copies, len(asked), -1)
        total: Tensor = exact.gather(2, right[None, :, None].expand(copies, -1, -1)).sum(dim=(1, 2))
        return total

    about = _shown_together(tokenizer, [answer[each] for each in asked])
    every = (*read, *own)
    return AttributionTarget("written", about, (text, target), every, _moving(every), score)


def cosine_target(
    model: Model,
    tokenizer: Tokenizer,
    text: str,
    other: str,
    *,
    chain: SentenceVectorsModule,
    max_length: int | None = None,
) -> AttributionTarget:
    """The cosine of the vectors of two texts; only the first is varied.

    Raises:
        InputError: If a text is too long.
    """
    encoded, pieces = encode_pieces(tokenizer, text, max_length=max_length)
    second = tokenizer.encode([other], max_length=max_length)[0]

    def vectors(model: Model, ids: Tensor, real: Sequence[int], types: Sequence[int]) -> Tensor:
        count, length = ids.shape
        layout = Layout([length] * count)
        kinds = torch.tensor(types, device=ids.device).repeat(count)
        states = model.encode(ids.flatten(), layout, kinds)
        known = torch.tensor(real, device=ids.device).repeat(count)
        made: Tensor = chain(states, layout, 0, known)
        return made

    def score(model: Model, ids: Tensor) -> Tensor:
        with torch.no_grad():
            fixed = torch.tensor([second.ids], device=ids.device)
            there = vectors(model, fixed, second.ids, second.types)
        here = vectors(model, ids, encoded.ids, encoded.types)
        return torch.nn.functional.cosine_similarity(here.float(), there.float(), dim=-1)

    about = shortened(other, 60)
    return AttributionTarget("cosine", about, (text,), pieces, _moving(pieces), score)
