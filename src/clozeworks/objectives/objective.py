"""What an objective is: what is masked, what is predicted, and the loss.

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
from clozeworks.core.loss import Loss, LossTerms
from clozeworks.core.model import Model, hidden_states_to_read
from clozeworks.data.examples import ExamplesSpec
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import Batch, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.rng import RandomStream
from clozeworks.spec import Slot, spec


class Objective(Slot):
    """Slot: an objective."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.objectives"
    owns_forward: ClassVar[bool] = False
    """Whether it runs the model in its own way (on texts it rewrites, in a second stream), so that
    no other objective can share its forward pass."""

    @property
    def name(self) -> str:
        """The name of its targets in a batch, of its loss term and of its random stream."""
        return registry.kind(type(self))

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The names of all its loss terms."""
        return (self.name,)

    @property
    def examples(self) -> ExamplesSpec | None:
        """What forms an example; None means whatever others need. A field of most objectives."""
        return None

    @property
    def couples_examples(self) -> bool:
        """Whether the loss of an example depends on its neighbours in the batch.

        If so, two small batches are not the same as a big one.
        """
        return False

    def chosen_examples(self) -> ExamplesSpec:
        """What forms an example, which must be known by now.

        Raises:
            SettingError: If no objective inside states it.
        """
        if self.examples is None:
            where, name = _examples_setting(self, "objective")
            raise SettingError(
                f"{where} of {name}",
                None,
                "it must say what forms an example",
                'set it, such as examples = {kind = "full_sentences", length = 128}',
            )
        return self.examples

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Masks tokens and states the targets.

        Everything random must come from `rng` at the example's epoch and index, so that a
        batch's size and order change nothing.

        Args:
            builder: The batch under construction.
            rng: Random numbers; an objective uses the stream of its own name.
            source: The ids of special tokens, and where random tokens come from.
        """
        raise NotImplementedError

    def batch(self, clean: ExampleArrays, seed: int, source: Vocabularies) -> Batch:
        """The batch of some examples: a pure function."""
        builder = BatchBuilder.of(clean)
        self.collate(builder, RandomStream(seed, "objective"), source)
        return Batch(builder.ids, builder.types, builder.lengths, builder.targets, clean.views)

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """The parts beside the encoder that a model must have, of those its family knows."""
        return frozenset()

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """The heads it brings along, which no published architecture holds."""
        return {}

    def companions(self, network: Model) -> dict[str, Model]:
        """Networks among the trained heads that are worth saving, by the name of their folder."""
        return {}

    def settle(self, network: Model, model: Model) -> None:
        """Puts into the model that is saved what training kept apart.

        Args:
            network: What was trained, with the heads this objective brought.
            model: The model without them; it has the network's own parameters.
        """

    @property
    def notes(self) -> dict[str, str]:
        """What the checkpoint must state, for those who run a model trained this way."""
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

    def reads_first(self, model: Model) -> bool:
        """Whether `losses` reads the first token of each text alone, whose layout it is given."""
        return False

    def losses(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> LossTerms:
        """The loss terms, from the hidden states of all tokens, (N, W)."""
        raise NotImplementedError

    def loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """One forward pass, and its loss."""
        read = hidden_states_to_read(
            model, tensors.ids, tensors.layout, tensors.types, first=self.reads_first(model)
        )
        hidden_states, layout = read
        return Loss(self.losses(model, hidden_states, dataclasses.replace(tensors, layout=layout)))

    def batch_loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """What training calls: `loss`, which may be the name of a setting in a task."""
        return self.loss(model, tensors)


@spec
class StatesExamples(Objective):
    """Slot: an objective that a recipe tells what forms an example."""

    is_slot: ClassVar[bool] = True

    examples: ExamplesSpec | None = None
    """What forms an example; None means whatever others need."""


class Composite(Objective):
    """Slot: an objective around others, which decide whatever it does not."""

    is_slot: ClassVar[bool] = True

    @property
    def inner(self) -> tuple[Objective, ...]:
        """The objectives inside, in order."""
        raise NotImplementedError

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The loss terms of all objectives inside."""
        return tuple(name for each in self.inner for name in each.loss_names)

    @property
    def examples(self) -> ExamplesSpec | None:
        """The examples that the objectives inside share."""
        return next((each.examples for each in self.inner if each.examples is not None), None)

    @property
    def couples_examples(self) -> bool:
        """Whether any objective inside couples examples."""
        return any(each.couples_examples for each in self.inner)

    @property
    def notes(self) -> dict[str, str]:
        """What the objectives inside state."""
        return {key: note for each in self.inner for key, note in each.notes.items()}

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Lets each objective inside do its work, in order."""
        for each in self.inner:
            each.collate(builder, rng, source)

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """What all objectives inside need."""
        return frozenset().union(*(each.required_heads(available) for each in self.inner))

    def heads(self, blueprint: Blueprint) -> dict[str, HeadSpec]:
        """All heads that the objectives inside bring."""
        return {name: head for each in self.inner for name, head in each.heads(blueprint).items()}

    def check(self, blueprint: Blueprint) -> None:
        """Checks what each objective inside needs."""
        for each in self.inner:
            each.check(blueprint)

    def losses(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> LossTerms:
        """The loss terms of all objectives inside, from the same hidden states."""
        terms: LossTerms = {}
        for each in self.inner:
            terms |= each.losses(model, hidden_states, tensors)
        return terms


class Wrapper(Composite):
    """Slot: an objective around one other."""

    is_slot: ClassVar[bool] = True
    objective: Objective

    @property
    def inner(self) -> tuple[Objective, ...]:
        """The objective inside."""
        return (self.objective,)


def _examples_setting(objective: Objective, path: str) -> tuple[str, str]:
    """Where `examples` is set, and for which objective: for one around others, the first inside."""
    fields = [field.name for field in dataclasses.fields(cast(Any, objective))]
    for key in [] if "examples" in fields else fields:
        value = getattr(objective, key)
        if isinstance(value, Objective):
            return _examples_setting(value, f"{path}.{key}")
        if isinstance(value, tuple) and value and isinstance(value[0], Objective):
            return _examples_setting(value[0], f"{path}.{key}[0]")
    return f"{path}.examples", objective.name
