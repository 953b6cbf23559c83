"""Scheduled sampling: before a token stands the right one, or what the model would have said.

Paper: Bengio et al. 2015; Mihaylova & Martins 2019 (two passes, for transformers).
Data: what the objective inside needs.
Hides and asks: what the objective inside does. Each token that is read before an answer is told
with the chance that `told` gives for the step; else it is what the model names there in a first
pass, which was told everything. What stands before the first answer is never replaced: the first
token of a text or of a decoder, the end of a prompt.
Loss: that of the objective inside, against the right answers, from a second pass over what is read
then. The first pass has no gradient.
Relations: with all told it is the objective inside, to the bit and in one pass, and so it is where
a model is measured; otherwise a step has one forward pass more. The model meets its own mistakes,
but what it said was said after right tokens, and what is asked stays where it was: the paper for
transformers reports results close to those without it, not better ones, and the estimate is not
consistent (Huszár 2015). Let `told` begin at 1, and stay there (`hold`) until the model has learned
something.
Where paper and code differ: the paper for transformers also mixes vectors of several tokens, with a
gradient through the first pass; here a token is chosen, the likeliest or one drawn.
Example: `ScheduledSampling(objective=CausalLM(), teacher_forcing=LinearTeacherForcing(fall=0.0001,
least=0.5))`, or in a recipe, where the objective inside says what stands side by side,
`{kind = "scheduled_sampling", choose = "drawn",
objective = {kind = "span_corruption", examples = {kind = "blocks", length = 142}},
teacher_forcing = {kind = "inverse_sigmoid_teacher_forcing", k = 1000.0, hold = 2000}}`.

Shapes: n answers, B texts, W width, V vocabulary.
"""

from collections.abc import Collection
from typing import ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor

from clozeworks.core.blueprint import Blueprint
from clozeworks.core.loss import Loss
from clozeworks.core.model import Model
from clozeworks.data.examples import ExamplesSpec
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.teacher_forcing import (
    LENGTHS,
    READ,
    RUNS,
    TeacherForced,
)
from clozeworks.objectives.teacher_forcing_schedule import TeacherForcingSchedule
from clozeworks.rng import RandomStream, uniforms
from clozeworks.spec import spec

# Two numbers from 0 to 1 for each answer: whether it is told, and what is drawn instead.
LUCK = "luck"


@spec
class Sampling:
    """How much is told, and what is read instead."""

    teacher_forcing: TeacherForcingSchedule
    """The chance of a token to be told, by step."""
    choose: Literal["likeliest", "drawn"] = "likeliest"
    """What the model says in the first pass: its likeliest token, or one drawn by its shares."""


@spec
class ScheduledSampling(Sampling, Objective):
    """Replaces what is read before answers by what the model would have said."""

    paper: ClassVar[str] = "Bengio et al. 2015; Mihaylova & Martins 2019"

    objective: Objective
    """What is learned; its answers must be texts."""

    def __post_init__(self) -> None:
        if not isinstance(self.objective, TeacherForced):
            raise SettingError(
                "objective",
                self.objective.name,
                "scheduled_sampling replaces tokens of answers that are texts",
                "use causal_lm, prefix_lm, span_corruption or denoisers",
            )

    @property
    def _inner(self) -> TeacherForced:
        return cast(TeacherForced, self.objective)

    @property
    def loss_names(self) -> tuple[str, ...]:
        """The questions are those of the objective inside."""
        return self.objective.loss_names

    @property
    def examples(self) -> ExamplesSpec | None:
        """What the objective inside needs."""
        return self.objective.examples

    @property
    def notes(self) -> dict[str, str]:
        """What the folder must say of what was asked."""
        return self.objective.notes

    @property
    def owns_forward(self) -> bool:
        """It runs the model twice."""
        return True

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Asks what the objective inside asks; two numbers for each answer decide the rest."""
        self.objective.collate(builder, rng, source)
        part, clean = builder.targets[self.objective.name], builder.clean
        lengths = part[LENGTHS]
        most = int(lengths.max(initial=0))
        words = rng.stream(self.name).words(clean.epochs, clean.indices, 2 * most)
        drawn = uniforms(words).reshape(len(clean), most, 2)
        part[LUCK] = drawn[np.arange(most) < lengths[:, None]]  # (n, 2)

    def required_heads(self, available: Collection[str]) -> frozenset[str]:
        """The parts the objective inside needs."""
        return self.objective.required_heads(available)

    def check(self, blueprint: Blueprint) -> None:
        """Checks what the objective inside needs."""
        self.objective.check(blueprint)

    def loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """One pass to see what the model says, one to learn."""
        probability = (
            1.0 if tensors.step is None else self.teacher_forcing.probability(tensors.step)
        )
        if probability >= 1:
            return self.objective.loss(model, tensors)
        part = tensors.targets[self.objective.name]
        with torch.no_grad():
            x = self._inner.vectors(model, tensors, part[READ])  # (n, W)
            said = self._said(model, x, part[LUCK][:, 1])
        # Trap: older versions of torch keep what autocast cast without a gradient, and would use it
        # again in the pass that is to have one.
        torch.clear_autocast_cache()
        runs = part.get(RUNS, part[LENGTHS])
        read = mixed(part[READ], said, runs, part[LUCK][:, 0] < probability)
        x = self._inner.vectors(model, tensors, read)
        return Loss({self.objective.name: model.vocabulary.loss(x, part[ANSWERS])})

    def _said(self, model: Model, x: Tensor, luck: Tensor) -> Tensor:
        """The token the model names for each answer, (n,)."""
        found = [luck.new_zeros(0, dtype=torch.int64)]
        begin = 0
        for logits in model.vocabulary.chunks(x):  # (some, V)
            some = luck[begin : begin + len(logits)]
            found.append(
                logits.argmax(dim=1) if self.choose == "likeliest" else _drawn(logits, some)
            )
            begin += len(logits)
        return torch.cat(found)


def mixed(read: Tensor, said: Tensor, lengths: Tensor, told: Tensor) -> Tensor:
    """What is read before each answer: the right token where it is told, else what was said.

    Args:
        read: The right ones, (n,).
        said: What the model named for each answer, (n,); it is read before the answer after it.
        lengths: The answers of each run; before the first of them stands what is given.
        told: Where the right one stays, (n,).
    """
    firsts = torch.zeros(len(read) + 1, dtype=torch.bool, device=read.device)
    firsts[lengths.cumsum(0) - lengths] = True
    return torch.where(told | firsts[:-1], read, said.roll(1))


def _drawn(scores: Tensor, luck: Tensor) -> Tensor:
    """A token for each row (n, V), by its probability; `luck` decides, (n,)."""
    rising = scores.double().softmax(dim=1).cumsum(dim=1)
    drawn = torch.searchsorted(rising, (luck.double() * rising[:, -1])[:, None], right=True)
    return drawn.squeeze(1).clamp_(max=scores.shape[1] - 1)
