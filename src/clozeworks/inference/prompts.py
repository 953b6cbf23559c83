"""What a model writes behind many prompts, batches of them side by side.

The idea: a text does not depend on its neighbours, so prompts with the same limits and rules are
written together, whatever else is asked.

Shapes: B prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor

from clozeworks.core.attention.attention import AttentionModule
from clozeworks.core.model import Model
from clozeworks.data.labelled.columns import TEXT_COLUMNS
from clozeworks.data.labelled.items import Role
from clozeworks.errors import SettingError
from clozeworks.generate.beams import search
from clozeworks.generate.logits_processors import Known
from clozeworks.generate.prompts import EncodedPrompt, GenerationRequest
from clozeworks.generate.sampling import Limits, Written, write
from clozeworks.generate.session import DecoderSession
from clozeworks.inference.loop import BatchOptions, device_of, in_order
from clozeworks.inference.packing import check_finite
from clozeworks.runtime.memory import available
from clozeworks.tasks.classify import TextItem
from clozeworks.wording import counted, size_in_words

# The most texts that are written side by side.
ROWS = 32
# The share of the memory at hand that a batch may take for what it has read.
_SHARE = 0.5


@dataclass(frozen=True, slots=True)
class PromptItem(TextItem):
    """A text that a model goes on with or answers."""

    command: ClassVar[str] = "generate"
    roles: ClassVar[tuple[Role, ...]] = (
        Role("text", ("prompt", "prompts", "instruction", *TEXT_COLUMNS), holds="text"),
    )


def write_all(
    model: Model, request: GenerationRequest, options: BatchOptions | None = None
) -> list[Any]:
    """What a model writes for each prompt: the likeliest token each time, or a search.

    Args:
        model: A model that can generate.
        request: The prompts, and how they are answered.
        options: Batch size, progress, cancellation.

    Returns:
        An answer for each prompt, as the request reads what was written.
    """
    prompts = request.prompts
    width = 1 if request.beams is None else request.beams.width
    source_locations = [
        prompt.source_location or f"prompt {n:,}" for n, prompt in enumerate(prompts, start=1)
    ]

    def forward(batch: list[int]) -> list[list[Written]]:
        own = [prompts[number] for number in batch]
        ids = [prompt.ids for prompt in own]
        reader = CheckedReader(
            model, ids, own[0].max_new_tokens, request.start, batch, source_locations
        )
        return _written(reader, own, request)

    costs = [len(prompt.ids) + prompt.max_new_tokens * width for prompt in prompts]
    alike = [(prompt.max_new_tokens, prompt.ends, prompt.rules) for prompt in prompts]
    written = in_order(model, costs, forward, options, groups=alike)
    return [request.read(number, texts) for number, texts in enumerate(written)]


class CheckedReader(DecoderSession):
    """A reader whose scores are looked at: damaged weights and too large numbers show there.

    Args:
        model: A model that writes.
        prompts: Token numbers, at least one each.
        most: The most tokens that may be added to each.
        start: What the answers of an encoder-decoder begin with.
        numbers: The number of each prompt, for messages.
        positions: Where all prompts came from.
    """

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        start: int | None,
        numbers: Sequence[int],
        source_locations: Sequence[str] | None = None,
    ) -> None:
        super().__init__(model, prompts, max_new_tokens, start)
        self._numbers = numbers
        self._source_locations = source_locations

    def prefill(self) -> Tensor:
        """What comes behind the prompts, (B, V).

        Raises:
            CheckpointError: A score is not finite.
        """
        return self._checked(super().prefill())

    def step(self, tokens: Tensor) -> Tensor:
        """What comes behind one more token of every row, (n,) to (n, V).

        Raises:
            CheckpointError: A score is not finite.
        """
        return self._checked(super().step(tokens))

    def reorder_prompts(self, prompts: Sequence[int]) -> None:
        """Goes on with the answers to these prompts alone, in this order."""
        super().reorder_prompts(prompts)
        self._numbers = [self._numbers[prompt] for prompt in prompts]

    def _checked(self, scores: Tensor) -> Tensor:
        if not scores.isfinite().all():
            each = len(scores) // len(self._numbers)  # several rows of a prompt in a search
            owners = [number for number in self._numbers for _ in range(each)]
            check_finite(self.model, scores, owners, "a logit", self._source_locations)
        return scores


def _written(
    reader: DecoderSession, prompts: Sequence[EncodedPrompt], request: GenerationRequest
) -> list[list[Written]]:
    """The texts of prompts with the same limits and rules."""
    first = prompts[0]
    rules = [Known(count=request.tokens), *first.rules]
    limits = Limits(max_new_tokens=first.max_new_tokens, ends=first.ends)
    start = request.start
    given = [prompt.ids if start is None else [start] for prompt in prompts]
    if request.beams is not None:
        return search(reader, given, beams=request.beams, limits=limits, rules=rules)
    found = [[Written()] for _ in prompts]
    for pieces in write(reader, given, limits=limits, rules=rules):
        for piece in pieces:
            found[piece.row][0].add(piece)
    return found


def memory_batches(
    model: Model, lengths: Sequence[int], max_new_tokens: Sequence[int], each: int, first: int = 1
) -> list[tuple[list[int], int]]:
    """Prompts to be written together, and the most tokens each of them may get.

    What a text may have must not depend on its neighbours: prompts with less room than asked for
    are among their like.

    Args:
        model: The model.
        lengths: Tokens of each prompt.
        max_new_tokens: The most tokens behind each.
        each: Texts of a prompt, or beams.
        first: The number of the first prompt, for messages.

    Raises:
        SettingError: A prompt alone takes too much memory.
    """
    of_token, have = _cache_bytes(model), available(device_of(model))
    batches: list[tuple[list[int], int]] = []
    for number in sorted(
        range(len(lengths)), key=lambda number: (-max_new_tokens[number], -lengths[number])
    ):
        # The first of a batch is its longest.
        size = (lengths[number] + max_new_tokens[number] + 1) * each * of_token
        if have is not None and size > have * _SHARE:
            beside = f" and {counted(each, 'text')} side by side" if each > 1 else ""
            raise SettingError(
                "max_new_tokens",
                max_new_tokens[number],
                f"prompt {number + first:,} with "
                f"{counted(max_new_tokens[number], 'new token')}{beside} takes "
                f"{size_in_words(size)}, and {size_in_words(have)} are available",
                "lower it, `num_return_sequences` or `num_beams`",
            )
        if batches and batches[-1][1] == max_new_tokens[number]:
            batch = batches[-1][0]
            longest = lengths[batch[0]] + max_new_tokens[number] + 1
            rows = (len(batch) + 1) * each
            fits = have is None or rows * longest * of_token <= have * _SHARE
            if rows <= max(ROWS, each) and fits:
                batch.append(number)
                continue
        batches.append(([number], max_new_tokens[number]))
    return batches


def _cache_bytes(model: Model) -> int:
    """What keys and values of one token take, over all layers."""
    tower = model.decoder or model.encoder
    parts = [part for part in tower.modules() if isinstance(part, AttentionModule)]
    widths = sum(part.key.out_features for part in parts)
    return 2 * widths * next(model.parameters()).element_size()
