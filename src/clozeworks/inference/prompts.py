"""What a model generates for many prompts, in parallel batches.

The idea: a text does not depend on its neighbours, so prompts with the same limits and rules share
a batch.

Shapes: B prompts.
"""

from collections.abc import Sequence
from contextlib import closing
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
from clozeworks.generate.prompts import GenerationRequest
from clozeworks.generate.sampling import Limits, Written, write
from clozeworks.generate.session import DecoderSession
from clozeworks.inference.loop import BatchOptions, device_of, in_order
from clozeworks.inference.packing import check_finite
from clozeworks.runtime.memory import available
from clozeworks.tasks.classify import TextItem
from clozeworks.wording import counted, size_in_words

# The maximum number of texts of a batch.
ROWS = 32
# The fraction of the available memory that the cache of a batch may take.
_MEMORY_FRACTION = 0.5


@dataclass(frozen=True, slots=True)
class PromptItem(TextItem):
    """A text that a model continues or answers."""

    command: ClassVar[str] = "generate"
    roles: ClassVar[tuple[Role, ...]] = (
        Role("text", ("prompt", "prompts", "instruction", *TEXT_COLUMNS), holds="text"),
    )


def write_all(
    model: Model, request: GenerationRequest, options: BatchOptions | None = None
) -> list[Any]:
    """Generates for each prompt, greedily or by beam search, and returns what the request reads."""
    prompts, start = request.prompts, request.start
    width = 1 if request.beams is None else request.beams.num_beams
    source_locations = [
        prompt.source_location or f"prompt {n:,}" for n, prompt in enumerate(prompts, start=1)
    ]

    def forward(batch: list[int]) -> list[list[Written]]:
        ids = [prompts[number].ids for number in batch]
        most, own = prompts[batch[0]].max_new_tokens, prompts[batch[0]]
        rules = [Known(count=request.tokens), *own.rules]
        limits = Limits(max_new_tokens=most, ends=own.ends)
        prompt_ids = ids if start is None else [[start]] * len(ids)
        texts = [[Written()] for _ in batch]
        session = CheckedSession(model, ids, most, start, batch, source_locations, width)
        with closing(session):
            if request.beams is not None:
                return search(session, prompt_ids, beams=request.beams, limits=limits, rules=rules)
            for sampled in write(session, prompt_ids, limits=limits, rules=rules):
                for token in sampled:
                    texts[token.row][0].add(token)
        return texts

    costs = [len(prompt.ids) + prompt.max_new_tokens * width for prompt in prompts]
    alike = [(prompt.max_new_tokens, prompt.ends, prompt.rules) for prompt in prompts]
    written = in_order(model, costs, forward, options, groups=alike)
    return [request.read(number, texts) for number, texts in enumerate(written)]


class CheckedSession(DecoderSession):
    """A session that checks its logits, where damaged weights and overflows show.

    `numbers` are the indices of its prompts in `source_locations`, where all prompts came from.
    """

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        max_new_tokens: int,
        start: int | None,
        numbers: Sequence[int],
        source_locations: Sequence[str] | None = None,
        width: int = 1,
    ) -> None:
        super().__init__(model, prompts, max_new_tokens, start, width)
        self._numbers = numbers
        self._source_locations = source_locations

    def prefill(self) -> Tensor:
        """The logits after the prompts, (B, V).

        Raises:
            CheckpointError: If a logit is not finite.
        """
        return self._checked(super().prefill())

    def step(self, tokens: Tensor) -> Tensor:
        """The logits after one more token of every row, (n,) to (n, V); checked as in `prefill`."""
        return self._checked(super().step(tokens))

    def reorder_prompts(self, prompts: Sequence[int]) -> None:
        """Goes on with these prompts alone, in this order."""
        super().reorder_prompts(prompts)
        self._numbers = [self._numbers[prompt] for prompt in prompts]

    def _checked(self, logits: Tensor) -> Tensor:
        if not logits.isfinite().all():
            each = len(logits) // len(self._numbers)  # several rows of a prompt in a search
            owners = [number for number in self._numbers for _ in range(each)]
            check_finite(self.model, logits, owners, "a logit", self._source_locations)
        return logits


def memory_batches(
    model: Model, lengths: Sequence[int], max_new_tokens: Sequence[int], each: int, first: int = 1
) -> list[tuple[list[int], int]]:
    """The indices of prompts that share a batch, and the maximum number of new tokens of each.

    The length of a text must not depend on its neighbours, so all prompts of a batch have the same
    maximum.

    Args:
        model: The model.
        lengths: Tokens of each prompt.
        max_new_tokens: The maximum number of new tokens of each.
        each: Texts of a prompt, or beams.
        first: The number of the first prompt, for messages.

    Raises:
        SettingError: If a prompt alone takes too much memory.
    """
    of_token, have = cache_bytes(model), available(device_of(model))
    batches: list[tuple[list[int], int]] = []
    for number in sorted(
        range(len(lengths)), key=lambda number: (-max_new_tokens[number], -lengths[number])
    ):
        limit = max_new_tokens[number]
        # The first of a batch is its longest.
        size = (lengths[number] + limit + 1) * each * of_token
        if have is not None and size > have * _MEMORY_FRACTION:
            beside = f" and {counted(each, 'text')} side by side" if each > 1 else ""
            raise SettingError(
                "max_new_tokens",
                limit,
                f"prompt {number + first:,} with {counted(limit, 'new token')}{beside} takes "
                f"{size_in_words(size)}, and {size_in_words(have)} are available",
                "lower it, `num_return_sequences` or `num_beams`",
            )
        if batches and batches[-1][1] == limit:
            batch = batches[-1][0]
            longest = lengths[batch[0]] + limit + 1
            rows = (len(batch) + 1) * each
            fits = have is None or rows * longest * of_token <= have * _MEMORY_FRACTION
            if rows <= max(ROWS, each) and fits:
                batch.append(number)
                continue
        batches.append(([number], limit))
    return batches


def cache_bytes(model: Model) -> int:
    """The size of the keys and values of one token, over all layers."""
    tower = model.decoder or model.encoder
    parts = [part for part in tower.modules() if isinstance(part, AttentionModule)]
    widths = sum(part.key.out_features for part in parts)
    return 2 * widths * next(model.parameters()).element_size()
