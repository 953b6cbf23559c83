"""The span boundary objective: predict a masked span from the two tokens around it.

Paper: Joshi et al. 2020 (SpanBERT).
Data: what `MaskedLM` with spans needs: one text per example, with word starts.
Masks and predicts: masks nothing itself. It predicts the first 15 tokens of every masked span, each
from the visible token before the span, the one after it, and the token's position in the span. A
span at either end of its segment has only one such token and is left out: special tokens are not
boundaries.
Loss: -log p(token) of a head of its own whose decoder is the token table, summed. The released code
divides by one more than the number of targets, so as not to divide by zero; here the count is
exact, and a batch without targets adds 0.
Relations: an addition to `MaskedLM` with `Spans`, before it in the same `Sum`. Its targets are some
of those of `MaskedLM`, predicted from two vectors instead of the token's own. Prefer it for
extractive answers and coreference; the head is thrown away afterwards.
Example: `Sum(parts=(MaskedLM.spanbert(), SpanBoundary()))` is SpanBERT.

Shapes: S spans, n masked tokens.
"""

from typing import ClassVar, cast

import numpy as np
from torch import Tensor

from clozeworks.arrays import Int64Array
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.span_boundary import BoundaryVocabulary, BoundaryVocabularyModule
from clozeworks.core.loss import LossTerms
from clozeworks.core.model import Model
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.noise.corruption import span_begins
from clozeworks.objectives.noise.words import segment_begins
from clozeworks.objectives.objective import StatesExamples
from clozeworks.rng import RandomStream
from clozeworks.spec import PositiveInt, spec

HEAD = "span_boundary"


@spec
class SpanBoundary(StatesExamples):
    """Predicts masked spans from the tokens around them."""

    paper: ClassVar[str] = "Joshi et al. 2020"

    longest: PositiveInt = 15
    """The most tokens of a span that are predicted."""

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """`answers` stand between `left` and `right`, `offsets` tokens from the beginning."""
        if builder.masked_positions is None:
            raise SettingError(
                "objective.kind",
                self.name,
                "it predicts spans that masked_lm masks, and stands alone",
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

    def losses(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> LossTerms:
        """The cross-entropy at each predicted token of each span."""
        targets = tensors.targets[self.name]
        head = cast(BoundaryVocabularyModule, model.heads[HEAD])
        left, right = hidden_states[targets["left"]], hidden_states[targets["right"]]
        return {self.name: head.loss(left, right, targets["offsets"], targets[ANSWERS])}


def enclosed_spans(clean: ExampleArrays, masked: Int64Array) -> tuple[Int64Array, Int64Array]:
    """The spans of masked tokens (n,) with a visible token of their segment on either side.

    Returned are the beginnings and the ends of the spans, (S,) each.
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
