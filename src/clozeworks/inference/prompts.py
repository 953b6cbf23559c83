"""What a model writes behind many prompts, batches of them side by side.

The idea: a text does not depend on its neighbours, so prompts with the same limits and rules are
written together, whatever else is asked.

Shapes: B prompts.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from clozeworks.core.model import Model
from clozeworks.data.examples.batch import by_budget
from clozeworks.generate.beams import Beams, search
from clozeworks.generate.logits_processors import Known, LogitsProcessorSpec
from clozeworks.generate.sampling import Limits, Written, write
from clozeworks.generate.session import DecoderSession
from clozeworks.inference.embed import default_budget
from clozeworks.inference.packing import check_finite, device_of, evaluating
from clozeworks.runtime.progress import Progress
from clozeworks.runtime.workers import side_by_side, workers


@dataclass(frozen=True)
class EncodedPrompt:
    """What a model reads before it writes.

    Attributes:
        ids: Its tokens.
        most: How many tokens may be written behind it.
        ends: The tokens that end what is written.
        rules: What changes scores before a token is chosen.
        place: Where it came from, for messages.
    """

    ids: list[int]
    most: int
    ends: tuple[int, ...]
    rules: tuple[LogitsProcessorSpec, ...] = ()
    place: str = ""


def write_all(
    model: Model,
    prompts: Sequence[EncodedPrompt],
    *,
    beams: Beams | None = None,
    start: int | None,
    tokens: int,
    budget: int | None = None,
    progress: Progress | None = None,
) -> list[list[Written]]:
    """What a model writes behind each prompt: the likeliest token each time, or a search.

    Args:
        model: A model that writes.
        prompts: What it reads.
        beams: The search, if there is one.
        start: What the answers of an encoder-decoder begin with; None for one tower.
        tokens: Entries of the vocabulary; the model may have rows for more, and never writes those.
        budget: Tokens per batch; chosen for the device if not given.
        progress: Called with tokens done and tokens in all.

    Returns:
        The texts of each prompt, the best first: one, or as many as a search found.
    """
    device = device_of(model)
    budget = default_budget(device) if budget is None else budget
    width = 1 if beams is None else beams.width
    lengths = [len(prompt.ids) + prompt.most * width for prompt in prompts]
    alike: dict[object, list[int]] = {}
    for number, prompt in enumerate(prompts):
        alike.setdefault((prompt.most, prompt.ends, prompt.rules), []).append(number)
    batches: list[list[int]] = []
    for numbers in alike.values():
        made = by_budget([lengths[number] for number in numbers], budget, workers(device))
        batches += [[numbers[place] for place in batch] for batch in made]
    places = [prompt.place or f"prompt {n:,}" for n, prompt in enumerate(prompts, start=1)]
    found: list[list[Written]] = [[] for _ in prompts]
    done = 0

    def run(batch: list[int]) -> list[list[Written]]:
        own = [prompts[number] for number in batch]
        ids = [prompt.ids for prompt in own]
        reader = CheckedReader(model, ids, own[0].most, start, batch, places)
        return _written(reader, own, beams, start, tokens)

    with evaluating(model):
        for batch, texts in side_by_side(run, batches, device):
            for number, written in zip(batch, texts, strict=True):
                found[number] = written
            done += sum(lengths[number] for number in batch)
            if progress is not None:
                progress(done, sum(lengths))
    return found


class CheckedReader(DecoderSession):
    """A reader whose scores are looked at: damaged weights and too large numbers show there.

    Args:
        model: A model that writes.
        prompts: Token numbers, at least one each.
        most: The most tokens that may be added to each.
        start: What the answers of an encoder-decoder begin with.
        numbers: The number of each prompt, for messages.
        places: Where all prompts came from.
    """

    def __init__(
        self,
        model: Model,
        prompts: Sequence[Sequence[int]],
        most: int,
        start: int | None,
        numbers: Sequence[int],
        places: Sequence[str] | None = None,
    ) -> None:
        super().__init__(model, prompts, most, start)
        self._numbers = numbers
        self._places = places

    def first(self) -> Tensor:
        """What comes behind the prompts, (B, V).

        Raises:
            CheckpointError: A score is not finite.
        """
        return self._checked(super().first())

    def next(self, tokens: Tensor) -> Tensor:
        """What comes behind one more token of every row, (n,) to (n, V).

        Raises:
            CheckpointError: A score is not finite.
        """
        return self._checked(super().next(tokens))

    def choose_prompts(self, prompts: Sequence[int]) -> None:
        """Goes on with the answers to these prompts alone, in this order."""
        super().choose_prompts(prompts)
        self._numbers = [self._numbers[prompt] for prompt in prompts]

    def _checked(self, scores: Tensor) -> Tensor:
        if not scores.isfinite().all():
            each = len(scores) // len(self._numbers)  # several rows of a prompt in a search
            owners = [number for number in self._numbers for _ in range(each)]
            check_finite(self.model, scores, owners, "a score", self._places)
        return scores


def _written(
    reader: DecoderSession,
    prompts: Sequence[EncodedPrompt],
    beams: Beams | None,
    start: int | None,
    tokens: int,
) -> list[list[Written]]:
    """The texts of prompts with the same limits and rules."""
    first = prompts[0]
    rules = [Known(count=tokens), *first.rules]
    limits = Limits(most=first.most, ends=first.ends)
    given = [prompt.ids if start is None else [start] for prompt in prompts]
    if beams is not None:
        return search(reader, given, beams=beams, limits=limits, rules=rules)
    found = [[Written()] for _ in prompts]
    for pieces in write(reader, given, limits=limits, rules=rules):
        for piece in pieces:
            found[piece.row][0].add(piece)
    return found
