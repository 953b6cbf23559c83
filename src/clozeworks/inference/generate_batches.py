"""Which prompts are written side by side, within the memory there is."""

from collections.abc import Sequence

from clozeworks.core.attention.attention import AttentionModule
from clozeworks.core.model import Model
from clozeworks.errors import SettingError
from clozeworks.inference.loop import device_of
from clozeworks.runtime.memory import available
from clozeworks.wording import counted, size_in_words

# The most texts that are written side by side.
ROWS = 32
# The share of the memory at hand that a batch may take for what it has read.
_SHARE = 0.5


def side_by_side(
    model: Model, lengths: Sequence[int], most: Sequence[int], each: int, first: int = 1
) -> list[tuple[list[int], int]]:
    """Prompts to be written together, and the most tokens each of them may get.

    What a text may have must not depend on its neighbours: prompts with less room than asked for
    are among their like.

    Args:
        model: The model.
        lengths: Tokens of each prompt.
        most: The most tokens behind each.
        each: Texts of a prompt, or beams.
        first: The number of the first prompt, for messages.

    Raises:
        SettingError: A prompt alone takes too much memory.
    """
    of_token, have = _cache_bytes(model), available(device_of(model))
    batches: list[tuple[list[int], int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: (-most[number], -lengths[number])):
        # The first of a batch is its longest.
        size = (lengths[number] + most[number] + 1) * each * of_token
        if have is not None and size > have * _SHARE:
            beside = f" and {counted(each, 'text')} side by side" if each > 1 else ""
            raise SettingError(
                f"prompt {number + first:,} with {counted(most[number], 'new token')}{beside} "
                f"takes {size_in_words(size)}, and {size_in_words(have)} are at hand; lower "
                "max_new_tokens, num_return_sequences or num_beams."
            )
        if batches and batches[-1][1] == most[number]:
            batch = batches[-1][0]
            longest = lengths[batch[0]] + most[number] + 1
            rows = (len(batch) + 1) * each
            fits = have is None or rows * longest * of_token <= have * _SHARE
            if rows <= max(ROWS, each) and fits:
                batch.append(number)
                continue
        batches.append(([number], most[number]))
    return batches


def _cache_bytes(model: Model) -> int:
    """What keys and values of one token take, over all layers."""
    tower = model.decoder or model.encoder
    parts = [part for part in tower.modules() if isinstance(part, AttentionModule)]
    widths = sum(part.key.out_features for part in parts)
    return 2 * widths * next(model.parameters()).element_size()
