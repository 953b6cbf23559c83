"""Contrastive learning: a text's vector must be nearer to its positive than to all others.

Paper: Gao et al. 2021 (SimCSE); Henderson et al. 2017 (the other positives of a batch as
negatives); van den Oord et al. 2018 (InfoNCE); Reimers & Gurevych 2019 (siamese encoders).
Data: views of each example side by side: a sentence twice (dropout makes them differ), a sentence
and its neighbour, or given pairs and triplets: anchor, positive, hard negatives.
Masks and predicts: masks nothing; predicts which candidate is the positive of each anchor. With
`negatives = "batch"` the candidates are the positives of the whole batch, then all hard negatives;
with "given" only its own positive and its own hard negatives.
Loss: -log of exp(cos / t) of the positive over the sum for all candidates, t = 0.05, summed over
anchors and computed in float32. With one given negative this is the triplet's log-ratio
-log(exp(s+ / t) / (exp(s+ / t) + exp(s- / t))).
Relations: what makes sentence vectors comparable; a masked language model's are not. The other
anchors never stand among the candidates. "batch" needs no labels and gets harder with the batch, so
the loss of an example depends on its neighbours: two micro-batches have fewer negatives each and
are not one big batch, and each rank compares within its own batch. Equal positives in one batch
become false negatives. "given" has none of that, and needs hard negatives. Added to `MaskedLM` it
compares the masked texts.
Example: `Contrastive()` is unsupervised SimCSE;
`Contrastive(pooling="mean", projection=None, examples=Given(length=128))` is the multiple
negatives ranking loss of sentence-transformers; triplets alone are
`Contrastive(negatives="given", examples=Given(length=128))`.

Shapes: N tokens, B texts, A anchors, V views, W width.
"""

from typing import ClassVar, Literal

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from clozeworks import registry
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooled import Projection
from clozeworks.core.heads.pooling import check_modes, pool
from clozeworks.core.loss import LossTerm, LossTerms
from clozeworks.core.model import Model
from clozeworks.data.examples import ExamplesSpec
from clozeworks.data.examples.views import Twice
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.objective import Objective
from clozeworks.rng import RandomStream
from clozeworks.spec import PositiveFloat, spec

HEAD = "contrastive"


@spec
class Contrastive(Objective):
    """Predicts which other text is the positive of each text."""

    paper: ClassVar[str] = "Gao et al. 2021"

    examples: ExamplesSpec | None = Twice(length=32)
    """Views of each example; None means whatever others need."""
    negatives: Literal["batch", "given"] = "batch"
    """What the positive is compared with."""
    temperature: PositiveFloat = 0.05
    """What cosines are divided by; 0.05 is what others call a scale of 20."""
    pooling: str = "first"
    """How a text's tokens become its vector."""
    projection: HeadSpec | None = Projection()
    """A layer between the vector and the loss, for training only."""

    def __post_init__(self) -> None:
        check_modes((self.pooling,))
        if not isinstance(self.projection, Projection | None):
            kind = registry.kind(type(self.projection))
            raise SettingError("projection.kind", kind, "it must be 'projection'")

    @property
    def couples_examples(self) -> bool:
        """Whether the other examples of the batch are negatives."""
        return self.negatives == "batch"

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """The target of each anchor is the number of its positive among the candidates."""
        views, min_views = builder.clean.views, 2 if self.couples_examples else 3
        if views < min_views:
            needed = "an anchor and a positive" if self.couples_examples else "a hard negative too"
            raise SettingError(
                "negatives",
                self.negatives,
                f"it needs examples of at least {min_views} views, {needed}; those of "
                f"{self.name} have {views}",
                "use another kind of `examples`",
            )
        anchors = len(builder.clean) // views
        answers = np.arange(anchors) if self.couples_examples else np.zeros(anchors, dtype=np.int64)
        builder.targets[self.name] = {ANSWERS: answers}

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """The projection, if there is one."""
        return {HEAD: self.projection} if self.projection else {}

    def losses(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> LossTerms:
        """The cross-entropy of the cosines of the texts' vectors."""
        vectors = pool(hidden_states, tensors.layout, (self.pooling,))  # (B, W)
        if self.projection:
            vectors = model.heads[HEAD](vectors.to(hidden_states.dtype)).to(vectors.dtype)
        answers = tensors.targets[self.name][ANSWERS]
        logits = self.logits(vectors.view(len(answers), tensors.views, -1))
        return {self.name: LossTerm.of(logits, answers)}

    def logits(self, vectors: Tensor) -> Tensor:
        """Vectors (A, V, W) to a logit for each candidate of each anchor."""
        # Trap: cosines are divided by 0.05; in half precision the quotient has two digits.
        with torch.autocast(vectors.device.type, enabled=False):
            unit = F.normalize(vectors, dim=-1, eps=1e-12)
            if self.couples_examples:
                candidates = unit[:, 1:].transpose(0, 1).flatten(0, 1)  # ((V - 1) * A, W)
                cosines = unit[:, 0] @ candidates.T  # (A, (V - 1) * A)
            else:
                cosines = torch.einsum("aw,avw->av", unit[:, 0], unit[:, 1:])  # (A, V - 1)
            return cosines / self.temperature
