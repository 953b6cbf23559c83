"""Replaced-token detection: tell of every token whether it is the one that was written.

Paper: Clark et al. 2020 (ELECTRA); He et al. 2023 (DeBERTa v3).
Data: any text; the tokenizer needs a mask token.
Hides and asks: tokens are hidden as for masked language modelling (15 %, all shown as the mask). A
second, smaller network, the generator, is asked for them, and one draw from what it says takes the
place of each. The model, here the discriminator, reads the text with these replacements and is
asked about every token that is text. A draw that happens to be the right token counts as written.
Loss: -log p(token) of the generator at the hidden positions, and `weight` times -log p(as written
or replaced) of the discriminator at all of them; each is a mean over its own questions. Nothing is
learned through the draws.
Relations: `MaskedLM` asks about hidden tokens only, this about all of them, and runs a second
network for it. No other objective sees the texts that the generator rewrote, so it stands in no
sum. At the end both networks are saved. `sharing` says what they have in common: the token and
position tables, which then learn from both losses (ELECTRA); nothing; or the generator's tables, to
which the discriminator adds differences that alone learn from its loss (DeBERTa v3).
Where paper and code differ: the code shows 15 % of the hidden tokens as they are, may choose one
token twice, and asks about `[CLS]` and `[SEP]` too, which are never replaced. Its setting for the
large model hides 25 %. DeBERTa's code updates the generator first and shows the discriminator the
tables after that; here one step serves both, so it sees them as they were before.
Example: `ReplacedTokens()`, or in a recipe
`{kind = "replaced_tokens", generator = {width = 0.5, layers = 0.5}, sharing = "none"}`,
`{kind = "replaced_tokens", generator = {width = 1.0, positions = 90}, sharing = "disentangled"}`.

Shapes: N tokens, B texts, n hidden tokens, m judged tokens, E width of the generator's tables.
"""

import dataclasses
from collections.abc import Collection
from typing import ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor, nn

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.context import ForwardContext
from clozeworks.core.heads import POSITION_TABLE, TOKEN_TABLE, HeadSpec
from clozeworks.core.heads.replaced import Replaced
from clozeworks.core.heads.second_network import SecondNetwork, SecondNetworkModule
from clozeworks.core.heads.table_differences import TableDifferences, TableDifferencesModule
from clozeworks.core.loss import Loss, LossTerm
from clozeworks.core.model import Model, hidden_states_at
from clozeworks.core.positions.learned import Learned
from clozeworks.data.examples import ExamplesSpec
from clozeworks.errors import SettingError, TokenizerError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.generator import Generator
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.noise import ChoiceSpec
from clozeworks.objectives.noise.corruption import Corruption
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.objective import Objective
from clozeworks.rng import RandomStream
from clozeworks.spec import PositiveFloat, spec

HEAD = "replaced"
GENERATOR, DIFFERENCES = "generator", "table_differences"
JUDGED, SEEDS = "judged", "seeds"


@spec
class ReplacedTokens(Objective):
    """Lets a small network replace tokens, and asks which ones it replaced."""

    paper: ClassVar[str] = "Clark et al. 2020"

    examples: ExamplesSpec | None = None
    """What stands side by side."""
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
        """What the generator is asked, and what the discriminator is."""
        return (self._masked.name, self.name)

    @property
    def owns_forward(self) -> bool:
        """The model reads texts that the generator rewrote."""
        return True

    @property
    def _masked(self) -> MaskedLM:
        return MaskedLM(examples=self.examples, hide=self.hide, show=self.show)

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Hides tokens for the generator; asks about all that is text, at `judged`.

        `answers` are the tokens that were written: whether one was replaced is known once the
        generator has spoken. Each example has a seed for its draws, which belongs to the example
        and the epoch, so that pieces, lanes and ranks change nothing.
        """
        if source.mask_id is None:
            raise TokenizerError(
                "the tokenizer's mask token is None; the generator of replaced_tokens fills masks; "
                "train a tokenizer with a mask token."
            )
        clean = builder.clean
        self._masked.collate(builder, rng, source)
        words = rng.stream(self.name).words(clean.epochs, clean.indices, 2)
        seeds = (words[:, 0].astype(np.int64) << 31) | (words[:, 1] >> np.uint32(1))
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
        cost, ids = self.replace(_second(model), tensors)
        part = tensors.targets[self.name]
        replaced = (ids[part[JUDGED]] != part[ANSWERS]).long()  # (m,)
        hidden_states = self._read(model, ids, tensors)
        head = model.head(HEAD)
        x = head.read(hidden_states, tensors.layout, part[JUDGED])
        judged = dataclasses.replace(head.loss(x, replaced), weight=self.weight)
        return Loss({self._masked.name: cost, self.name: judged})

    def _read(self, model: Model, ids: Tensor, tensors: BatchTensors) -> Tensor:
        """What the discriminator says of the tokens, (N, W)."""
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
        """What the generator's guesses cost, and the tokens with its draws in place, (N,)."""
        part = tensors.targets[self._masked.name]
        positions = part["positions"]
        head = generator.vocabulary
        x = hidden_states_at(generator, tensors.ids, tensors.layout, tensors.types, positions)
        cost = head.loss(x, part[ANSWERS])
        seeds = tensors.targets[self.name][SEEDS].tolist()
        ends = torch.tensor(tensors.layout.lengths).cumsum(0)
        before = torch.searchsorted(positions.cpu(), ends)
        counts = torch.diff(before, prepend=before.new_zeros(1)).tolist()
        ids = tensors.ids.clone()
        ids[positions] = head.draw(x, counts, seeds)
        return cost, ids


def _second(model: Model) -> Model:
    return cast(SecondNetworkModule, model.heads[GENERATOR]).network


def _differences(model: Model) -> TableDifferencesModule:
    return cast(TableDifferencesModule, model.heads[DIFFERENCES])
