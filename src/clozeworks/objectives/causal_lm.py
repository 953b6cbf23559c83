"""Causal language modelling: predict every token from those before it.

Paper: Radford et al. 2018 (GPT), 2019 (GPT-2); Touvron et al. 2023 (LLaMA).
Data: any text. With examples of the kind `document_pieces` a text is a piece of one document, so no
token sees another document; other kinds let it.
Masks and predicts: masks nothing, because no token sees what comes after it. Every token but the
first of a text is predicted from the token before it: what the template put there as well, so that
a model learns where documents end.
Loss: -log p(token) at every token but the first, summed.
Relations: `MaskedLM` sees both sides of a mask and predicts a seventh as many tokens; this predicts
all of them, and its model can generate. `PrefixLM` predicts the second half of a text only. `exp`
of the loss is the perplexity, which can be compared between models of one tokenizer only.
Where paper and code differ: GPT-2, GPT-3 and LLaMA read windows filled with several documents, and
tokens look across their borders; see `document_pieces`.
Example: `CausalLM()`, or in a recipe
`{kind = "causal_lm", examples = {kind = "document_pieces", length = 256}}`.

Shapes: N tokens, W width, n targets.
"""

from typing import ClassVar

import numpy as np
from torch import Tensor

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.loss import LossTerms
from clozeworks.core.model import Model
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.objective import StatesExamples
from clozeworks.objectives.teacher_forcing import LENGTHS, READ, TeacherForced
from clozeworks.rng import RandomStream
from clozeworks.spec import spec

# The position of the token before each target.
BEFORE = "before"


@spec
class CausalLM(StatesExamples, TeacherForced):
    """Predicts every token from those before it."""

    paper: ClassVar[str] = "Radford et al. 2018"

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """The targets are `answers`, each after the token at `before`; nothing is random."""
        clean = builder.clean
        last = np.zeros(len(clean.ids) + 1, dtype=np.bool_)
        last[np.cumsum(clean.lengths)[clean.lengths > 0]] = True
        before = np.flatnonzero(~last[1:])
        builder.targets[self.name] = {
            ANSWERS: clean.ids[before + 1],
            READ: builder.ids[before],
            BEFORE: before,
            LENGTHS: np.maximum(clean.lengths - 1, 0),
        }

    def check(self, blueprint: Blueprint) -> None:
        """Complains about a model that sees what it predicts."""
        check_writes(blueprint, self.name)
        super().check(blueprint)

    def vectors(self, model: Model, tensors: BatchTensors, read: Tensor) -> Tensor:
        """The hidden states at the tokens before the targets, (n, W)."""
        before = tensors.targets[self.name][BEFORE]
        ids = tensors.ids.index_put((before,), read)
        hidden_states: Tensor = model(ids, tensors.layout, tensors.types)
        return hidden_states[before]

    def losses(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> LossTerms:
        """The same from hidden states (N, W) that others read, too."""
        targets = tensors.targets[self.name]
        return {self.name: model.vocabulary.loss(hidden_states[targets[BEFORE]], targets[ANSWERS])}


def check_writes(blueprint: Blueprint, name: str) -> None:
    """Complains about a model that cannot generate on its own.

    Raises:
        SettingError: If its tokens see later ones, or it has a decoder, which answers another text.
    """
    if blueprint.decoder is not None:
        raise SettingError(
            "objective.kind",
            name,
            "it predicts every token of one text, and the model has a decoder, which answers the "
            "text that its encoder reads",
            "use span_corruption or prefix_lm, or choose a family without an encoder, such as gpt2 "
            "or llama",
        )
    if not blueprint.can_generate:
        raise SettingError(
            "objective.kind",
            name,
            "it predicts each token from those before it, and the tokens of this model see what "
            "comes after them",
            "choose a family that can generate, such as gpt2 or llama",
        )
