"""Replaced-token detection: predict of every token whether it is the original one.

Paper: Clark et al. 2020 (ELECTRA): a generator with a quarter or a third of the width, as many
layers; one as strong as its discriminator is said to make replacements too hard to tell. He et al.
2023 (DeBERTa v3): the same width, half of the layers, and a mask decoder.
Data: any text; the tokenizer needs a mask token.
Masks and predicts: tokens are masked as for masked language modelling (15 %, all shown as the
mask). A second, smaller network, the generator, predicts them, and one draw from its softmax takes
the place of each. The model, here the discriminator, reads the text with these replacements and
classifies every token that is text. A draw that happens to be the right token counts as original.
Loss: -log p(token) of the generator at the masked positions, and `weight` times -log p(original or
replaced) of the discriminator at all of them; each is a mean over its own targets. Nothing is
learned through the draws.
Relations: `MaskedLM` predicts masked tokens only; this has a target at every token, and runs a
second network for it. No other objective sees the texts that the generator rewrote, so it stands in
no sum. At the end both networks are saved. `sharing` says what they have in common: the token and
position tables, which then learn from both losses (ELECTRA); nothing; or the generator's tables, to
which the discriminator adds differences that alone learn from its loss (DeBERTa v3).
Where paper and code differ: the code shows 15 % of the masked tokens as they are, may choose one
token twice, and classifies `[CLS]` and `[SEP]` too, which are never replaced. Its setting for the
large model masks 25 %. Its generator has attention heads 64 wide and an inner width of four times
the width; here both follow the discriminator, which for the published sizes is the same. DeBERTa's
code updates the generator first and shows the discriminator the tables after that; here one step
serves both, so it sees them as they were before.
Example: `ReplacedTokens()`, or in a recipe
`{kind = "replaced_tokens", generator = {width = 0.5, layers = 0.5}, sharing = "none"}`,
`{kind = "replaced_tokens", generator = {width = 1.0, positions = 90}, sharing = "disentangled"}`.

Shapes: N tokens, B texts, n masked tokens, m classified tokens.
"""

from collections.abc import Collection
from dataclasses import replace
from math import gcd
from typing import Annotated, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.context import ForwardContext
from clozeworks.core.heads import POSITION_TABLE, TOKEN_TABLE, HeadSpec
from clozeworks.core.heads.mask_decoder import NAME as DECODER
from clozeworks.core.heads.mask_decoder import MaskDecoder
from clozeworks.core.heads.replaced import Replaced
from clozeworks.core.heads.second_network import SecondNetwork, SecondNetworkModule
from clozeworks.core.heads.table_differences import TableDifferences, TableDifferencesModule
from clozeworks.core.heads.vocabulary import NAME as VOCABULARY
from clozeworks.core.heads.vocabulary import Vocabulary
from clozeworks.core.layers.convolution import Convolution
from clozeworks.core.layers.feed_forward import GatedMlp, Mlp
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.layers.sublayer import PartSpec
from clozeworks.core.layers.tower import Layer, Tower
from clozeworks.core.loss import Loss, LossTerm
from clozeworks.core.model import Model, hidden_states_at
from clozeworks.core.positions.learned import Learned
from clozeworks.errors import SettingError, TokenizerError, UnsupportedError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.decoded_lm import check_decodable
from clozeworks.objectives.masked_lm import MASKED, MaskedLM
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.corruption import Corruption
from clozeworks.objectives.noise.draws import seeds_of
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.objective import StatesExamples
from clozeworks.rng import RandomStream
from clozeworks.spec import Above, Advice, AtLeast, AtMost, PositiveFloat, spec

HEAD = "replaced"
GENERATOR, DIFFERENCES = "generator", "table_differences"
JUDGED, SEEDS = "judged", "seeds"


@spec
class Generator:
    """How large the generator is beside its discriminator."""

    width: Annotated[
        float,
        Above(0),
        AtMost(1),
        Advice("a generator is not wider than its discriminator; 0.25 is what ELECTRA has"),
    ] = 0.25
    """The fraction of the width, of the attention heads and of the feed-forward's inner width."""
    layers: Annotated[
        float, Above(0), AtMost(1), Advice("a generator has no more layers than its discriminator")
    ] = 1.0
    """The fraction of the layers."""
    positions: (
        Annotated[int, AtLeast(1), Advice("leave it out for a generator without a mask decoder")]
        | None
    ) = None
    """Positions of the mask decoder it predicts through (DeBERTa); None: it has none."""

    def blueprint(self, of: Blueprint, *, same_tables: bool) -> Blueprint:
        """The generator of a discriminator: its parts made smaller, and a vocabulary head.

        Args:
            of: The discriminator.
            same_tables: Whether its token vectors must be as wide as the discriminator's.
        """
        width = max(1, round(of.width * self.width))
        norm = of.embeddings.norm or LayerNorm(eps=1e-12)
        heads: dict[str, HeadSpec] = {VOCABULARY: Vocabulary(norm=norm)}
        if self.positions is not None:
            heads[DECODER] = MaskDecoder(count=self.positions)
        tables = (of.embeddings.width or of.width) if same_tables else width
        generator = Blueprint(
            width=width,
            embeddings=replace(of.embeddings, width=None if tables == width else tables),
            encoder=self._tower(of, width),
            heads=heads,
        ).check()
        if self.positions is not None:
            check_decodable(generator)
        return generator

    def _tower(self, of: Blueprint, width: int) -> Tower:
        tower = of.encoder
        layers = tuple(self._layer(layer, of.width, width) for layer in tower.layers)
        depth = max(1, round(len(tower.running_order()) * self.layers))
        heads = next(
            (sub.part.heads for sub in layers[0] if isinstance(sub.part, SelfAttention)), None
        )
        positions = tower.positions
        if positions is not None and heads is not None:
            positions = positions.for_heads(heads)
        smaller = replace(tower, layers=layers, positions=positions)
        if tower.order is None:
            return replace(smaller, layers=layers[:depth])
        return replace(smaller, order=tower.order[:depth])

    def _layer(self, layer: Layer, before: int, width: int) -> Layer:
        # Every way of joining the residual stream has a part; its other fields stay.
        return tuple(
            replace(sub, part=self._part(sub.part, before, width))  # type: ignore[type-var]
            for sub in layer
        )

    def _part(self, part: PartSpec, before: int, width: int) -> PartSpec:
        if isinstance(part, SelfAttention):
            # Heads stay as wide as they are where that goes, so there are fewer of them.
            fitting = max(1, width // (part.head_width or before // part.heads))
            heads = next(count for count in range(fitting, 0, -1) if width % count == 0)
            narrower = (before // part.heads) / (width // heads)
            scale = None if part.scale is None else part.scale * narrower**0.5
            kv_heads = None if part.kv_heads is None else gcd(heads, part.kv_heads)
            return replace(part, heads=heads, kv_heads=kv_heads, scale=scale)
        if isinstance(part, Mlp | GatedMlp):
            return replace(part, inner=max(1, round(part.inner * self.width)))
        if isinstance(part, Convolution) and width % part.groups == 0:
            return part
        raise UnsupportedError(
            f"generator.width is {self.width}; how a {type(part).__name__} becomes smaller is not "
            "known; use another family."
        )


@spec
class ReplacedTokens(StatesExamples):
    """Lets a small network replace tokens, and predicts which ones it replaced."""

    paper: ClassVar[str] = "Clark et al. 2020"
    # The model reads texts that the generator rewrote.
    owns_forward: ClassVar[bool] = True

    hide: ChoiceSpec = SingleTokens()
    """Which tokens, and how many."""
    show: Corruption = Corruption(mask=1.0, random=0.0, keep=0.0)
    """What the generator sees in their place."""
    generator: Generator = Generator()
    """How large the network that replaces them is."""
    sharing: Literal["shared", "none", "disentangled"] = "shared"
    """What both networks have of the same token and position tables: all, nothing, or the
    generator's with differences of the discriminator's own."""
    weight: PositiveFloat = 50.0
    """What the discriminator's loss counts beside the generator's."""

    def __post_init__(self) -> None:
        if not self.show.mask:
            raise SettingError(
                "show.mask",
                0,
                "the generator of replaced_tokens fills masks, and would copy what it sees",
                "raise it, 1.0 is usual",
            )

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The generator's term, and the discriminator's."""
        return (MASKED, self.name)

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Masks tokens for the generator; classifies all that is text, at `judged`.

        `answers` are the original tokens: whether one was replaced is known once the generator has
        run. Each example has a seed for its draws, which belongs to the example and the epoch, so
        that micro-batches, threads and ranks change nothing.
        """
        if source.mask_id is None:
            raise TokenizerError(
                "the tokenizer's mask token is None; the generator of replaced_tokens fills masks; "
                "train a tokenizer with a mask token."
            )
        clean = builder.clean
        MaskedLM(hide=self.hide, show=self.show).collate(builder, rng, source)
        seeds = seeds_of(clean, rng.stream(self.name))
        judged = np.flatnonzero(~clean.special)
        builder.targets[self.name] = {JUDGED: judged, ANSWERS: clean.ids[judged], SEEDS: seeds}

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """The discriminator's head, where the family publishes one."""
        return frozenset({HEAD} & set(available))

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """The generator; the discriminator's head too where the model has none."""
        shared = self.sharing != "none"
        network = self.generator.blueprint(blueprint, same_tables=shared)
        tables = [TOKEN_TABLE]
        if isinstance(blueprint.embeddings.positions, Learned):
            tables.append(POSITION_TABLE)
        second = SecondNetwork(network=network, shared_tables=tuple(tables) if shared else ())
        heads: dict[str, HeadSpec] = {} if HEAD in blueprint.heads else {HEAD: Replaced()}
        if self.sharing == "disentangled":
            heads[DIFFERENCES] = TableDifferences()
        return {**heads, GENERATOR: second}

    def companions(self, network: Model) -> dict[str, Model]:
        """The generator, which is a masked language model of its own."""
        return {GENERATOR: _second(network)}

    def loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """The generator reads and replaces; the discriminator reads the result."""
        masked, ids = self.replace(_second(model), tensors)
        targets = tensors.targets[self.name]
        replaced = (ids[targets[JUDGED]] != targets[ANSWERS]).long()  # (m,)
        hidden_states = self._read(model, ids, tensors)
        head = model.head(HEAD)
        x = head.read(hidden_states, tensors.layout, targets[JUDGED])
        judged = replace(head.loss(x, replaced), weight=self.weight)
        return Loss({MASKED: masked, self.name: judged})

    def _read(self, model: Model, ids: Tensor, tensors: BatchTensors) -> Tensor:
        """The discriminator's hidden states, (N, W)."""
        layout, types = tensors.layout, tensors.types
        if self.sharing != "disentangled":
            hidden_states: Tensor = model(ids, layout, types)
            return hidden_states
        x = _differences(model)(model.embeddings, ids, layout, types)
        return cast(Tensor, model.encoder(x, ForwardContext(layout, types=types)))

    def settle(self, network: Model, model: Model) -> None:
        """The discriminator's tables: the generator's, and the differences added to them."""
        if self.sharing != "disentangled":
            return
        for name, table in _differences(network).merged(network.embeddings).items():
            owner, _, last = name.rpartition(".")
            setattr(model.get_submodule(owner), last, nn.Parameter(table))
        model.tie()

    def replace(self, generator: Model, tensors: BatchTensors) -> tuple[LossTerm, Tensor]:
        """The generator's loss term, and the tokens with its draws in place, (N,)."""
        targets = tensors.targets[MASKED]
        positions = targets["positions"]
        head = generator.vocabulary
        x = hidden_states_at(generator, tensors.ids, tensors.layout, tensors.types, positions)
        term = head.loss(x, targets[ANSWERS])
        seeds = tensors.targets[self.name][SEEDS].tolist()
        ends = torch.tensor(tensors.layout.lengths).cumsum(0)
        before = torch.searchsorted(positions.cpu(), ends)
        counts = torch.diff(before, prepend=before.new_zeros(1)).tolist()
        ids = tensors.ids.clone()
        ids[positions] = head.draw(x, counts, seeds)
        return term, ids


def _second(model: Model) -> Model:
    return cast(SecondNetworkModule, model.heads[GENERATOR]).network


def _differences(model: Model) -> TableDifferencesModule:
    return cast(TableDifferencesModule, model.heads[DIFFERENCES])
