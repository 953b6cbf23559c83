"""The span boundary objective: guess a hidden span from the two tokens around it.

Paper: Joshi et al. 2020 (SpanBERT).
Data: what `MaskedLM` with spans needs: one text per example, with word starts.
Hides and asks: hides nothing itself. For every hidden span it asks for the first 15 tokens, each
from the visible token before the span, the one after it, and the token's place in the span. A span
at either end of its segment has only one such token and is not asked: special tokens are no
boundaries.
Loss: -log p(token) of a head of its own whose decoder is the token table, summed. The released code
divides by one more than the number of questions, so as not to divide by zero; here the count is
exact, and no questions cost nothing.
Relations: an addition to `MaskedLM` with `Spans`, before it in the same `Sum`. Its questions are a
part of those `MaskedLM` asks, answered from two vectors instead of the token's own. Prefer it for
extractive answers and coreference; the head is thrown away afterwards.
Example: `Sum(parts=(MaskedLM.spanbert(), SpanBoundary()))` is SpanBERT.

Shapes: N tokens, S spans, n questions.
"""

from typing import ClassVar, cast

import numpy as np
from torch import Tensor

from clozeworks.arrays import Int64Array
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.span_boundary import BoundaryVocabulary, BoundaryVocabularyModule
from clozeworks.core.loss import LossTerm
from clozeworks.core.model import Model
from clozeworks.data.examples import ExamplesSpec
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.noise.corruption import span_begins
from clozeworks.objectives.noise.words import segment_begins
from clozeworks.objectives.objective import Objective
from clozeworks.rng import RandomStream
from clozeworks.spec import PositiveInt, spec

HEAD = "span_boundary"


@spec
class SpanBoundary(Objective):
    """Asks for hidden spans from the tokens around them."""

    paper: ClassVar[str] = "Joshi et al. 2020"

    examples: ExamplesSpec | None = None
    """What stands side by side; None means whatever others need."""
    longest: PositiveInt = 15
    """The most tokens of a span that are asked."""

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Asks for `answers` between `left` and `right`, `offsets` tokens from the beginning."""
        if builder.masked_positions is None:
            raise SettingError(
                "objective.kind",
                self.name,
                "it asks for spans that masked_lm hides, and stands alone",
                "put masked_lm with hide = spans before it in a sum",
            )
        starts, ends = enclosed_spans(builder.clean, builder.masked_positions)
        sizes = np.minimum(ends - starts, self.longest)
        before = np.cumsum(sizes) - sizes
        offsets = np.arange(sizes.sum()) - np.repeat(before, sizes)
        builder.targets[self.name] = {
            "left": np.repeat(starts - 1, sizes),
            "right": np.repeat(ends, sizes),
            "offsets": offsets,
            ANSWERS: builder.clean.ids[np.repeat(starts, sizes) + offsets],
        }

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """A head that reads both boundaries."""
        return {HEAD: BoundaryVocabulary(positions=self.longest)}

    def losses(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> dict[str, LossTerm]:
        """Logits for each asked token of each span."""
        part = tensors.targets[self.name]
        head = cast(BoundaryVocabularyModule, model.heads[HEAD])
        left, right = hidden_states[part["left"]], hidden_states[part["right"]]
        return {self.name: head.loss(left, right, part["offsets"], part[ANSWERS])}


def enclosed_spans(clean: ExampleArrays, masked: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The hidden spans that have a visible token of their segment on either side.

    Args:
        clean: The batch.
        masked: The hidden tokens in ascending order, (n,).

    Returns:
        Where each begins and its end, (S,) each.
    """
    segments = segment_begins(clean)
    firsts = span_begins(masked, segments)
    lasts = np.roll(firsts, -1)
    starts, ends = masked[firsts], masked[lasts] + 1
    # A segment goes on where its next token is text and does not begin another segment. Spans that
    # touch are one span, so the tokens around it are visible.
    goes_on = np.append(~clean.special & ~segments, False)
    enclosed = ~segments[starts] & goes_on[ends]
    return starts[enclosed], ends[enclosed]
