"""What a model reads and what it is to write, as tokens: in two towers, or one after the other.

Paper: Raffel et al. 2020 (an encoder reads, a decoder writes); Ouyang et al. 2022 (one tower that
reads the prompt and goes on, with what it reads outside the loss).
The idea: a row is all tokens of an item, and which of them are targets. An encoder-decoder parts
them: the rest goes to the encoder, the targets to the decoder. One tower keeps them together;
each target token is named from the position before it, the first one from the end of the prompt.
Used by: `TextToText`.

Shapes: N tokens, n target tokens, B rows, W width.
"""

from dataclasses import dataclass
from typing import Annotated, Any, Protocol

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from clozeworks.core.model import Model
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import InputError, TokenizerError
from clozeworks.objectives.batch import (
    ANSWERS,
    BatchBuilder,
    BatchTensors,
    TargetArrays,
    Vocabularies,
)
from clozeworks.objectives.teacher_forcing import LENGTHS, READ, RUNS, answer_part, decoded
from clozeworks.spec import AtLeast, spec
from clozeworks.tasks.text_to_text.items import ASSISTANT, ChatItem, Writable, messages
from clozeworks.text.tokenizer.encoding import Encoded
from clozeworks.text.tokenizer.tokenizer import Tokenizer

POSITIONS = "positions"
TokenLimit = Annotated[int, AtLeast(2)]


@spec
class TextLengths:
    """The most tokens of what is read and of what is written."""

    source: TokenLimit | None = None
    """Of a source; what the model takes if not given."""
    target: TokenLimit | None = None
    """Of a target, its end among them; no limit but the model's if not given."""
    cut: bool = False
    """Whether longer ones are cut at their end; otherwise they are refused."""


@dataclass(frozen=True)
class TokenRow:
    """The tokens of an item."""

    ids: list[int]
    is_target: list[bool]
    """Which tokens the model is to write."""
    cut: bool = False
    """Whether tokens were left out."""

    def encoded(self) -> Encoded:
        """As windows hold it."""
        return Encoded(self.ids, [0] * len(self.ids), [False] * len(self.ids))


class RowBuilder(Protocol):
    """Slot: how items become rows, and how a model is asked about them."""

    def row(self, item: Writable, text: str, reading: "RowSettings", *, answer: bool) -> TokenRow:
        """The tokens of an item, with those of its target if `answer` and if it has one."""

    def collate(self, builder: BatchBuilder, tokens: Any, source: Vocabularies) -> TargetArrays:
        """The targets; `tokens` are those to write and -1 for others, (N,)."""

    def vectors(self, model: Model, tensors: BatchTensors, part: Any, read: Tensor) -> Tensor:
        """The vectors that name the target tokens, (n, W), after what is read before each, (n,)."""


@dataclass(frozen=True)
class RowSettings:
    """What is needed to make rows."""

    tokenizer: Tokenizer
    lengths: TextLengths
    """The most tokens."""
    max_length: int | None
    """The most tokens the model takes."""

    @property
    def end(self) -> int:
        """The token after everything that is written.

        Raises:
            TokenizerError: If there is no such token.
        """
        if self.tokenizer.last_id is None:
            raise TokenizerError(
                "the tokenizer's end token is None; a model that writes must know where a text "
                "ends; use a tokenizer with one, such as </s> or <|endoftext|>."
            )
        return self.tokenizer.last_id

    def target(self, item: Writable) -> tuple[list[int], bool]:
        """The tokens of what is to be written with the end after them, and whether it was cut."""
        assert item.target is not None
        ids = self.tokenizer.encode([item.target], special=False)[0].ids
        max_length = self.lengths.target
        long = max_length is not None and len(ids) + 1 > max_length
        if long:
            assert max_length is not None
            self.refuse_unless_cut(item, "target", len(ids) + 1, max_length, "as task.lengths says")
            ids = ids[: max_length - 1]
        return [*ids, self.end], long

    def refuse_unless_cut(
        self, item: Writable, what: str, count: int, max_length: int, why: str
    ) -> None:
        """Complains about a text that is too long and may not be cut."""
        if self.lengths.cut:
            return
        raise InputError(
            f"{item.source_location or 'the item'}: the {what} has {count:,} tokens; it may have "
            f"{max_length:,}, {why}; shorten it, have it cut with task.lengths.cut=true, or drop "
            "such rows with --skip-bad-rows."
        )


@dataclass(frozen=True)
class Apart:
    """An encoder reads the source, a decoder writes the target."""

    def row(self, item: Writable, text: str, reading: RowSettings, *, answer: bool) -> TokenRow:
        """The source as the tokenizer writes it, and after it the target with its end.

        Of a chat the last turn of the assistant is the target.
        """
        if isinstance(item, ChatItem):
            text = reading.tokenizer.chat.render(
                messages(item.prompt), asks=True, source_location=item.source_location or "the chat"
            )
        source = reading.tokenizer.encode([text])[0]
        max_length = reading.lengths.source or reading.max_length
        long = max_length is not None and len(source) > max_length
        if long:
            assert max_length is not None
            why = "as task.lengths says" if reading.lengths.source else "as the tokenizer says"
            reading.refuse_unless_cut(item, "source", len(source), max_length, why)
            source = reading.tokenizer.encode([text], max_length=max_length, truncate=True)[0]
        if not answer or item.target is None:
            return TokenRow(source.ids, [False] * len(source), long)
        ids, cut = reading.target(item)
        is_target = [False] * len(source) + [True] * len(ids)
        return TokenRow([*source.ids, *ids], is_target, long or cut)

    def collate(self, builder: BatchBuilder, tokens: Any, source: Vocabularies) -> TargetArrays:
        """The encoder is shown the source, the decoder the target."""
        clean, is_target = builder.clean, tokens >= 0
        counts = _counts(clean, is_target)
        builder.rewrite(clean.ids[~is_target], clean.lengths - counts)
        return answer_part(tokens[is_target], counts, source.start())

    def vectors(self, model: Model, tensors: BatchTensors, part: Any, read: Tensor) -> Tensor:
        """Those of the decoder, (n, W)."""
        return decoded(model, tensors, part, read)


@dataclass(frozen=True)
class PrefixRows:
    """One tower reads the source and goes on with the target."""

    between: str

    def row(self, item: Writable, text: str, reading: RowSettings, *, answer: bool) -> TokenRow:
        """The prompt, and after it the target with its end; of a chat, turn by turn."""
        if isinstance(item, ChatItem):
            return self._chat(item, reading, answer=answer)
        prompt = self._prompt(text + self.between, reading.tokenizer)
        ids, cut = reading.target(item) if answer and item.target is not None else ([], False)
        if reading.max_length is not None and ids:
            # Where texts are cut, at least a quarter is the source's if it is as long.
            kept = min(len(prompt), max(reading.max_length // 4, 1)) if reading.lengths.cut else 1
            longest = max(reading.max_length - kept, 1)
            if len(ids) > longest:
                why = f"since the model takes {reading.max_length:,} with the source"
                reading.refuse_unless_cut(item, "target", len(ids), longest, why)
                ids, cut = [*ids[: longest - 1], ids[-1]], True
        limit, max_length = reading.lengths.source, reading.lengths.source
        if reading.max_length is not None:
            left = max(reading.max_length - max(len(ids), 1), 0)
            max_length = left if limit is None else min(limit, left)
        if max_length is not None and len(prompt) > max_length:
            why = "as task.lengths says" if max_length == limit else "which is left"
            reading.refuse_unless_cut(item, "source", len(prompt), max_length, why)
            prompt, cut = self._shorter(text, max_length, reading.tokenizer), True
        _check_any(prompt, item)
        is_target = [False] * len(prompt) + [True] * len(ids)
        return TokenRow([*prompt, *ids], is_target, cut)

    def _prompt(self, text: str, tokenizer: Tokenizer) -> list[int]:
        encoded = tokenizer.encode([text])[0]
        ids, special = encoded.ids, encoded.special
        # What a template puts after a text would say that nothing follows.
        while ids and special[len(ids) - 1]:
            ids = ids[:-1]
        return ids

    def _shorter(self, text: str, max_length: int, tokenizer: Tokenizer) -> list[int]:
        """The beginning of the source, and whole what stands between it and the target."""
        after = tokenizer.encode([self.between], special=False)[0].ids if self.between else []
        before = self._prompt(text, tokenizer)[: max(max_length - len(after), 0)]
        return [*before, *after][:max_length]

    def _chat(self, item: ChatItem, reading: RowSettings, *, answer: bool) -> TokenRow:
        source_location = item.source_location or "the chat"
        tokenizer, chat = reading.tokenizer, reading.tokenizer.chat
        ids: list[int] = []
        is_target: list[bool] = []
        if not answer or item.target is None:
            text = chat.render(messages(item.prompt), asks=True, source_location=source_location)
            ids = tokenizer.encode([text], special=False)[0].ids
            is_target = [False] * len(ids)
        else:
            for piece in chat.pieces(messages(item.turns), source_location):
                more = tokenizer.encode([piece.text], special=False)[0].ids
                if piece.by_assistant:
                    more, count = turn_end(more, reading)
                    is_target += [True] * count + [False] * (len(more) - count)
                else:
                    is_target += [False] * len(more)
                ids += more
        if reading.max_length is not None and len(ids) > reading.max_length:
            raise InputError(
                f"{source_location} has {len(ids):,} tokens; the model takes "
                f"{reading.max_length:,}; leave out turns, or drop such rows with --skip-bad-rows."
            )
        _check_any(ids, item)
        return TokenRow(ids, is_target)

    def collate(self, builder: BatchBuilder, tokens: Any, source: Vocabularies) -> TargetArrays:
        """Each target token is named from the position before it."""
        is_target = tokens >= 0
        positions = np.flatnonzero(is_target) - 1
        # Two rows never touch: before the first target token of a row stands its prompt.
        begins = np.flatnonzero(np.diff(positions, prepend=-2) != 1)
        return {
            ANSWERS: tokens[is_target],
            READ: builder.ids[positions],
            LENGTHS: _counts(builder.clean, is_target),
            RUNS: np.diff(begins, append=len(positions)),
            POSITIONS: positions,
        }

    def vectors(self, model: Model, tensors: BatchTensors, part: Any, read: Tensor) -> Tensor:
        """Those of the positions before, (n, W)."""
        ids = tensors.ids.index_put((part[POSITIONS],), read)
        hidden_states: Tensor = model(ids, tensors.layout, tensors.types)
        return hidden_states[part[POSITIONS]]


def turn_end(ids: list[int], reading: RowSettings) -> tuple[list[int], int]:
    """What the assistant says as tokens, and how many of them are targets.

    That is everything up to the first special token, with it; after it stands only what a template
    puts between turns. Where a template marks no end, one is put there.
    """
    special = reading.tokenizer.special_ids
    first = next((index for index, token in enumerate(ids) if token in special), None)
    if first is None:
        return [*ids, reading.end], len(ids) + 1
    return ids, first + 1


def chat_end(reading: RowSettings) -> int:
    """The token that ends a turn of the assistant, as the template writes it."""
    turns = [{"role": "user", "content": "a"}, {"role": ASSISTANT, "content": "b"}]
    text = reading.tokenizer.chat.pieces(turns)[-1].text
    ids, count = turn_end(reading.tokenizer.encode([text], special=False)[0].ids, reading)
    return ids[count - 1]


def _counts(clean: ExampleArrays, is_target: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many tokens of each row are targets, (B,)."""
    owners = np.repeat(np.arange(len(clean)), clean.lengths)
    return np.bincount(owners[is_target], minlength=len(clean))


def _check_any(ids: list[int], item: Writable) -> None:
    if not ids:
        raise InputError(
            f"{item.source_location or 'the item'}: nothing is left of the source as tokens; a "
            "text is written after another; give it words the tokenizer knows, or raise "
            "task.lengths."
        )
