"""Masked language modelling through a mask decoder: absolute positions enter at the end.

Paper: He et al. 2021 (DeBERTa).
Data: any text; whole words, n-grams and spans use the word starts the corpus holds.
Hides and asks: what `MaskedLM` hides and asks, with the same settings.
Loss: the same, -log p(token) at the hidden positions, read from the mask decoder: the last layer
twice, at these positions only, with absolute positions added to its queries.
Relations: a model with relative positions alone cannot tell a text's first word from its fifth;
this lets it where a word is guessed, and leaves the layers below free of it. A model with absolute
positions at its input needs no decoder: `MaskedLM`. The plain last layer is never computed, so it
stands in no sum. `ReplacedTokens` has such a decoder in its generator if asked.
Where paper and code differ: the code walks through a text in windows and hides up to three words
in each, with ends of texts hidden less often; here n-grams are drawn as for ALBERT.
Example: `DecodedLM()`, or in a recipe
`{kind = "decoded_lm", hide = {kind = "ngrams", longest = 3}, positions = 128}`.

Shapes: N tokens, W width, n questions.
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
from clozeworks.data.examples import ExamplesSpec
from clozeworks.errors import SettingError, Stated
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.corruption import Corruption
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.objective import Objective
from clozeworks.rng import RandomStream
from clozeworks.spec import PositiveInt, spec


@spec
class DecodedLM(Objective):
    """Hides tokens and asks a mask decoder for them."""

    paper: ClassVar[str] = "He et al. 2021"

    examples: ExamplesSpec | None = None
    """What stands side by side."""
    hide: ChoiceSpec = SingleTokens()
    """Which tokens, and how many."""
    show: Corruption = Corruption()
    """What the input shows in their place."""
    masks: int | None = None
    """How many masks an example has before they come back; a new one each epoch if not given."""
    positions: PositiveInt = 512
    """Places the decoder knows, where the model brings no decoder of its own."""

    def __post_init__(self) -> None:
        self._masked  # noqa: B018 (it checks the other settings)

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The questions are those of masked language modelling."""
        return self._masked.loss_names

    @property
    def owns_forward(self) -> bool:
        """No other objective reads the decoder, and nothing else is computed."""
        return True

    @property
    def _masked(self) -> MaskedLM:
        return MaskedLM(examples=self.examples, hide=self.hide, show=self.show, masks=self.masks)

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Hides tokens as masked language modelling does."""
        self._masked.collate(builder, rng, source)

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """A vocabulary head, and the family's decoder where it has one."""
        return frozenset({HEAD, *({DECODER} & set(available))})

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """A decoder where the model has none."""
        own = MaskDecoder(count=self.positions)
        return {} if DECODER in blueprint.heads else {DECODER: own}

    def check(self, blueprint: Blueprint) -> None:
        """Complains about towers whose last layer cannot be a decoder."""
        super().check(blueprint)
        check_decodable(blueprint)

    def loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """Logits at the hidden positions only, and the last layer there only, too."""
        part = tensors.targets[self._masked.name]
        vectors = hidden_states_at(
            model, tensors.ids, tensors.layout, tensors.types, part["positions"]
        )  # (n, W)
        return Loss({self._masked.name: model.vocabulary.loss(vectors, part[ANSWERS])})


def check_decodable(blueprint: Blueprint) -> None:
    """Complains about towers whose last layer cannot be a decoder.

    Raises:
        SettingError: If it reads the embeddings again, or normalises first.
    """
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
