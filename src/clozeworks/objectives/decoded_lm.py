"""Masked language modelling through a mask decoder: absolute positions enter at the end.

Paper: He et al. 2021 (DeBERTa).
Data: any text; whole words, n-grams and spans use the word starts the corpus holds.
Masks and predicts: what `MaskedLM` does, with the same settings.
Loss: the same, -log p(token) at the masked positions, read from the mask decoder: the last layer
twice, at these positions only, with absolute positions added to its queries.
Relations: a model with relative positions alone cannot tell a text's first word from its fifth;
this lets it where a word is predicted, and leaves the layers below free of it. A model with
absolute positions at its input needs no decoder: `MaskedLM`. The plain last layer is never
computed, so it stands in no sum. The generator of `ReplacedTokens` can have such a decoder.
Where paper and code differ: the code walks through a text in windows and masks up to three words
in each, with ends of texts masked less often; here n-grams are drawn as for ALBERT.
Example: `DecodedLM()`, or in a recipe
`{kind = "decoded_lm", hide = {kind = "ngrams", longest = 3}, positions = 128}`.

Shapes: W width, n targets.
"""

from collections.abc import Collection
from typing import ClassVar

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.mask_decoder import NAME as DECODER
from clozeworks.core.heads.mask_decoder import MaskDecoder
from clozeworks.core.heads.vocabulary import NAME as HEAD
from clozeworks.core.layers.convolution import Convolution
from clozeworks.core.layers.sublayer import PreNorm
from clozeworks.core.loss import Loss
from clozeworks.core.model import Model, hidden_states_at
from clozeworks.errors import SettingError, Stated
from clozeworks.objectives.batch import ANSWERS, BatchTensors
from clozeworks.objectives.masked_lm import MASKED, MaskedLM
from clozeworks.spec import PositiveInt, spec


@spec
class DecodedLM(MaskedLM):
    """Masks tokens and predicts them with a mask decoder."""

    paper: ClassVar[str] = "He et al. 2021"
    # No other objective reads the decoder, and nothing else is computed.
    owns_forward: ClassVar[bool] = True

    positions: PositiveInt = 512
    """Positions the decoder knows, where the model brings no decoder of its own."""

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """A vocabulary head, and the family's decoder where it has one."""
        return frozenset({HEAD, *({DECODER} & set(available))})

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """A decoder where the model has none."""
        return {} if DECODER in blueprint.heads else {DECODER: MaskDecoder(count=self.positions)}

    def check(self, blueprint: Blueprint) -> None:
        """Complains about towers whose last layer cannot be a decoder."""
        super().check(blueprint)
        check_decodable(blueprint)

    def loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """The last layer at the masked positions only, and the logits there only, too."""
        targets = tensors.targets[MASKED]
        positions = targets["positions"]
        x = hidden_states_at(model, tensors.ids, tensors.layout, tensors.types, positions)  # (n, W)
        return Loss({MASKED: model.vocabulary.loss(x, targets[ANSWERS])})


def check_decodable(blueprint: Blueprint) -> None:
    """Complains about a last layer that reads the embeddings again, or normalises first."""
    tower = blueprint.encoder
    last = tower.layers[tower.running_order()[-1]]
    if any(isinstance(sub.part, Convolution) for sub in last):
        raise SettingError(
            "encoder.layers[-1]",
            Stated("a layer with a convolution"),
            "a mask decoder runs it at some tokens, and a convolution hears all of them",
            "give the model at least 2 layers",
        )
    if any(isinstance(sub, PreNorm) for sub in last):
        raise SettingError(
            "encoder.layers[-1]",
            Stated("a layer that normalises first"),
            "a mask decoder is known for layers that normalise last",
            "use masked_lm",
        )
