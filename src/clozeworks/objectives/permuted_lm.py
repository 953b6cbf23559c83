"""Permuted language modelling: predict some tokens, each from those before it in a random order.

Paper: Yang et al. 2019 (XLNet); Dai et al. 2019 (the memory).
Data: any text. With examples of the kind `remembered_blocks` each window has the tokens before it
as a memory.
Masks and predicts: nothing is masked in the input. `ask` chooses the tokens to be predicted, a
sixth of a text. These and the special tokens get a random order: each sees the ones before it, and
all see the tokens that are not predicted. A second stream predicts, which knows the position and
not the token, so later predictions may read an earlier target. With `reuse = 0.5` the first half of
a text sees nothing of the second, as where it is to be the memory of the next step; of an odd
number of tokens the second half has one more.
Loss: -log p(token) at the target positions, summed; logits exist nowhere else.
Relations: `MaskedLM` predicts all masked tokens as if each were alone, and shows a mask that no
later text has; this does neither, and runs a second stream for it. No other objective reads that
stream, so it stands in no sum. Any model whose layers normalise last can learn it; XLNet was made
for it.
Where paper and code differ: the released code feeds pairs of segments and windows that overlap by
`reuse` tokens, half of them reversed, and keeps what it computed for the next step; here any
examples will do, and a memory is computed anew (decision 18). The collator of transformers writes a
mask over the tokens it predicts, also in the content stream, where later predictions read it; then
an order means nothing.
Example: `PermutedLM()`, or in a recipe
`{kind = "permuted_lm", reuse = 0.5, ask = {kind = "spaced_spans", longest = 3}}`.

Shapes: N tokens, B texts, n targets, K tokens of the memory.
"""

from collections.abc import Collection
from typing import Annotated, ClassVar

import numpy as np
import torch
from torch import Tensor

from clozeworks import rng as chances
from clozeworks.arrays import Int64Array
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.query_start import NAME as START
from clozeworks.core.heads.query_start import QueryStart
from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.core.layers.sublayer import PreNorm
from clozeworks.core.layers.two_stream import (
    Memory,
    PermutationRanks,
    TargetQueries,
    remembered,
    two_streams,
)
from clozeworks.core.layout import Layout
from clozeworks.core.loss import Loss
from clozeworks.core.model import Model
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.data.examples.remembered import RememberedBlocks
from clozeworks.errors import SettingError, Stated
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.spaced_spans import SpacedSpans
from clozeworks.objectives.noise.words import rows_of
from clozeworks.objectives.objective import StatesExamples
from clozeworks.rng import RandomStream
from clozeworks.spec import Above, Advice, Below, spec

TARGETS, SEES, SEEN, ASKED, BEFORE = "targets", "sees", "seen", "asked", "before"
# What the ranks after `reuse` are raised by; above any length.
_LATER = 2**28


@spec
class PermutedLM(StatesExamples):
    """Predicts tokens in a random order."""

    paper: ClassVar[str] = "Yang et al. 2019"
    # No other objective reads the second stream.
    owns_forward: ClassVar[bool] = True

    ask: ChoiceSpec = SpacedSpans()
    """Which tokens are predicted, and how many."""
    reuse: Annotated[float, Above(0), Below(1), Advice("0.5 is usual; or leave it out")] | None = (
        None
    )
    """The first fraction of a text that sees nothing of the rest; None: there is no such border."""

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """`answers` stand at `targets`; `sees` and `seen` are the ranks of all tokens.

        All of them are about the texts without their memories, whose lengths are `before`; `asked`
        is the number of targets of each text.
        """
        clean, before = self._without_memory(builder.clean)
        draws = Draws.of(clean, rng.stream(self.name))
        targets = self.ask.positions(clean, draws)
        sees, seen = self._ranks(clean, targets, draws)
        builder.targets[self.name] = {
            ANSWERS: clean.ids[targets],
            TARGETS: targets,
            SEES: sees,
            SEEN: seen,
            ASKED: np.bincount(rows_of(clean, targets), minlength=len(clean)),
            BEFORE: before,
        }

    def _without_memory(self, clean: ExampleArrays) -> tuple[ExampleArrays, Int64Array]:
        """The texts alone, and how many tokens stood before each, (B,)."""
        if not isinstance(self.examples, RememberedBlocks):
            return clean, np.zeros(len(clean), dtype=np.int64)
        assert clean.labels is not None, "the examples say how long each memory is"
        before = clean.labels.astype(np.int64)
        within = np.arange(len(clean.ids)) - np.repeat(clean.starts, clean.lengths)
        keep = within >= np.repeat(before, clean.lengths)
        alone = ExampleArrays(
            ids=clean.ids[keep],
            types=clean.types[keep],
            special=clean.special[keep],
            word_starts=clean.word_starts[keep],
            lengths=clean.lengths - before,
            epochs=clean.epochs,
            indices=clean.indices,
        )
        return alone, before

    def _ranks(
        self, clean: ExampleArrays, targets: Int64Array, draws: Draws
    ) -> tuple[Int64Array, Int64Array]:
        """What each token sees and where it is seen: ranks in a random order, (N,) each.

        A token that is not predicted is seen by all and sees only its like. A special token sees
        itself; one that is predicted does not, which is the second stream's business.
        """
        drawn = chances.order(draws.more("order", draws.hide.shape[1]))  # (B, L)
        position = np.empty_like(drawn)
        np.put_along_axis(position, drawn, np.arange(drawn.shape[1])[None], axis=1)
        order = position[clean.real]
        is_target = np.zeros(len(order), dtype=np.bool_)
        is_target[targets] = True
        sees = np.where(is_target, order, np.where(clean.special, order + 1, 0))
        seen = np.where(is_target | clean.special, order, -1)
        if self.reuse is not None:
            within = np.arange(len(order)) - np.repeat(clean.starts, clean.lengths)
            first = (clean.lengths * self.reuse).astype(np.int64)
            later = np.where(within >= np.repeat(first, clean.lengths), _LATER, 0)
            return sees + later, seen + later
        return sees, seen

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """A vocabulary head; where the second stream begins, if the family publishes it."""
        return frozenset({HEAD} | ({START} & set(available)))

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """Where the second stream begins, if the model does not have it."""
        return {} if START in blueprint.heads else {START: QueryStart()}

    def check(self, blueprint: Blueprint) -> None:
        """Complains about a missing head, and about layers that two streams cannot share."""
        super().check(blueprint)
        for index, layer in enumerate(blueprint.encoder.layers):
            for sub in layer:
                if isinstance(sub, PreNorm) or sub.part.role not in ("attention", "feed_forward"):
                    kind = f"{type(sub).__name__} with a part for {sub.part.role}"
                    raise SettingError(
                        f"encoder.layers[{index}]",
                        Stated(kind),
                        "permuted_lm computes attention and feed-forwards that normalise last",
                        "choose another family, such as xlnet",
                    )
        if isinstance(self.examples, RememberedBlocks) and blueprint.embeddings.positions:
            kind = type(blueprint.embeddings.positions).__name__
            raise SettingError(
                "embeddings.positions",
                Stated(kind),
                "it numbers the tokens of a text from the first, and has no number for a memory "
                "before that",
                "use blocks, or choose a family with relative positions, such as xlnet",
            )

    def loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """Reads the memory, then runs both streams and predicts with the second."""
        targets = tensors.targets[self.name]
        ids, layout, types = tensors.ids, tensors.layout, tensors.types
        memory = None
        if isinstance(self.examples, RememberedBlocks):
            ids, layout, types, memory = _remember(model, tensors, targets[BEFORE])
        counts = Layout(targets[ASKED].tolist())
        queries = TargetQueries(targets[TARGETS], counts, model.heads[START]())
        ranks = PermutationRanks(targets[SEES], targets[SEEN])
        streams = two_streams(
            model, ids, layout, types, targets=queries, ranks=ranks, memory=memory, content=False
        )
        return Loss({self.name: model.vocabulary.loss(streams.queries[-1], targets[ANSWERS])})


def _remember(
    model: Model, tensors: BatchTensors, before: Tensor
) -> tuple[Tensor, Layout, Tensor, Memory | None]:
    """The texts without their memories, and what the layers make of these."""
    layout, device = tensors.layout, tensors.ids.device
    sizes = before.tolist()
    alone = Layout([length - size for length, size in zip(layout.lengths, sizes, strict=True)])
    is_memory = layout.positions(device) < before[layout.rows(device)]
    window, past = (mask.nonzero().squeeze(1) for mask in (~is_memory, is_memory))
    ids, types = tensors.ids[window], tensors.types[window]
    if not any(sizes):
        return ids, alone, types, None
    types_of_past = torch.zeros_like(past)
    return ids, alone, types, remembered(model, tensors.ids[past], Layout(sizes), types_of_past)
