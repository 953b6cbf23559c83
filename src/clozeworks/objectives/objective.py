"""What an objective is: what is hidden, what is asked, what it costs.

An objective is a frozen spec, so a recipe can write it: `{kind = "masked_lm", masks = 10}`. The
data side (`collate`) works on numpy arrays in any process, the model side (`losses`) on tensors.
"""

import dataclasses
from collections.abc import Collection
from typing import Any, ClassVar, cast

from torch import Tensor

from clozeworks import registry
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.heads import HeadSpec
from clozeworks.core.loss import Loss, LossTerm
from clozeworks.core.model import Model
from clozeworks.data.examples import ExamplesSpec
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import Batch, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.rng import RandomStream
from clozeworks.spec import Slot


class Objective(Slot):
    """Slot: an objective."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.objectives"

    @property
    def name(self) -> str:
        """What its part of a batch, its part of the loss and its random numbers are called."""
        return registry.kind(type(self))

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The names of all its parts."""
        return (self.name,)

    @property
    def examples(self) -> ExamplesSpec | None:
        """What must stand side by side; None means whatever others need. A field of most."""
        return None

    @property
    def couples_examples(self) -> bool:
        """Whether what an example costs depends on its neighbours in the batch.

        If so, two small batches are not the same as a big one.
        """
        return False

    @property
    def owns_forward(self) -> bool:
        """Whether it runs the model in its own way: on texts it rewrites, in a second stream.

        If so, no other objective can share its forward pass.
        """
        return False

    def chosen_examples(self) -> ExamplesSpec:
        """The arrangement, which must be known by now.

        Raises:
            SettingError: Nobody asked for one.
        """
        if self.examples is None:
            where, name = _arranging(self, "objective")
            raise SettingError(
                f"{where} of {name}",
                None,
                "it must say what stands side by side",
                'set it, such as examples = {kind = "full_sentences", length = 128}',
            )
        return self.examples

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Hides tokens and says what is asked.

        Everything random must come from `rng` at the example's epoch and index, so that a
        batch's size and order change nothing.

        Args:
            builder: The batch in the making.
            rng: Random numbers; an objective uses the stream of its own name.
            source: What may be looked up.
        """
        raise NotImplementedError

    def batch(self, clean: ExampleArrays, seed: int, source: Vocabularies) -> Batch:
        """The batch of some examples: a pure function."""
        builder = BatchBuilder.of(clean)
        self.collate(builder, RandomStream(seed, "objective"), source)
        return Batch.of(builder)

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """The parts beside the encoder that a model must be made with.

        Args:
            available: The parts its family knows.
        """
        return frozenset()

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """The heads it brings along, which no published architecture holds."""
        return {}

    def companions(self, network: Model) -> dict[str, Model]:
        """Networks among the heads it brings that are worth keeping, by the name of their folder.

        Args:
            network: What was trained.
        """
        return {}

    def settle(self, network: Model, model: Model) -> None:
        """Puts into the model that is saved what training kept apart.

        Args:
            network: What was trained, with the heads this objective brought.
            model: The model without them; it has the network's own parameters.
        """

    @property
    def notes(self) -> dict[str, str]:
        """What the folder of a model that learned so must say, for those who ask it."""
        return {}

    def check(self, blueprint: Blueprint) -> None:
        """Complains if the model lacks a part that its family could have given it.

        Raises:
            SettingError: If the model lacks a head or part that the objective needs.
        """
        have = blueprint.parts
        missing = sorted(self.required_heads(have) - have)
        if missing:
            wanted = ",".join(sorted(self.required_heads(have), reverse=True))
            raise SettingError(
                "heads",
                sorted(blueprint.heads),
                f"{self.name} needs {missing[0]!r}",
                f"make the model with --heads {wanted} and what else it needs",
            )

    def equip(self, blueprint: Blueprint) -> Blueprint:
        """The blueprint to train: checked, and with the heads this objective brings."""
        self.check(blueprint)
        heads = {**blueprint.heads, **self.heads(blueprint)}
        return dataclasses.replace(blueprint, heads=heads).check()

    def losses(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> dict[str, LossTerm]:
        """What each part costs.

        Args:
            model: The model.
            hidden_states: Its vectors of all tokens, (N, W).
            tensors: The batch.
        """
        raise NotImplementedError

    def loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """One forward pass, and what it costs."""
        hidden_states = model(tensors.ids, tensors.layout, tensors.types)
        return Loss(self.losses(model, hidden_states, tensors))


def _arranging(objective: Objective, path: str) -> tuple[str, str]:
    """Where an arrangement is set, and for whom: one around others has that of the first inside."""
    fields = [field.name for field in dataclasses.fields(cast(Any, objective))]
    for key in [] if "examples" in fields else fields:
        value = getattr(objective, key)
        if isinstance(value, Objective):
            return _arranging(value, f"{path}.{key}")
        if isinstance(value, tuple) and value and isinstance(value[0], Objective):
            return _arranging(value[0], f"{path}.{key}[0]")
    return f"{path}.examples", objective.name
