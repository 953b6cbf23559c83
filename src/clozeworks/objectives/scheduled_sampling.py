"""Scheduled sampling: a decoder reads the right tokens, or now and then its own predictions.

Paper: Bengio et al. 2015 (the three schedules of section 2.4); Mihaylova & Martins 2019 (two
passes, for transformers).
Data: what the objective inside needs.
Masks and predicts: what the objective inside does. Each token that a target is predicted from is
the right one with the probability that `teacher_forcing` gives for the step; else it is what the
model predicts there in a first pass, which reads right tokens only. What stands before the first
target is never replaced: the first token of a text or of a decoder, the end of a prompt.
Loss: that of the objective inside, against the right tokens, from a second pass over what is read
then. The first pass has no gradient.
Relations: with full teacher forcing it is the objective inside, to the bit and in one pass, and so
it is in an evaluation; otherwise a step has one forward pass more. The model meets its own
mistakes, but each was predicted after right tokens, and the targets stay where they were: the paper
for transformers reports results close to those without it, not better ones, and the estimate is not
consistent (Huszár 2015). Let the probability begin at 1, and stay there (`hold`) until the model
has learned something.
Where paper and code differ: the paper for transformers also mixes vectors of several tokens, with a
gradient through the first pass; here a token is chosen, the likeliest or one drawn.
Example: `ScheduledSampling(objective=CausalLM(), teacher_forcing=LinearTeacherForcing(fall=0.0001,
least=0.5))`, or in a recipe, where the objective inside says what forms an example,
`{kind = "scheduled_sampling", choose = "drawn",
objective = {kind = "span_corruption", examples = {kind = "blocks", length = 142}},
teacher_forcing = {kind = "inverse_sigmoid_teacher_forcing", k = 1000.0, hold = 2000}}`.

Shapes: n targets, B texts, W width, V vocabulary.
"""

import math
from typing import Annotated, ClassVar, Literal, cast

import numpy as np
import torch
from torch import Tensor

from clozeworks.core.loss import Loss
from clozeworks.core.model import Model
from clozeworks.errors import SettingError
from clozeworks.objectives.batch import ANSWERS, BatchBuilder, BatchTensors, Vocabularies
from clozeworks.objectives.objective import Objective, Wrapper
from clozeworks.objectives.teacher_forcing import LENGTHS, READ, RUNS, TeacherForced
from clozeworks.rng import RandomStream, uniforms
from clozeworks.spec import (
    Above,
    AtLeast,
    Below,
    NonNegativeFloat,
    NonNegativeInt,
    Probability,
    Slot,
    spec,
)

# Two numbers from 0 to 1 for each target: whether the right token is read, and what is drawn.
LUCK = "luck"


@spec
class TeacherForcingSchedule(Slot):
    """Slot: the probability that the decoder reads the right token, by step."""

    is_slot: ClassVar[bool] = True
    folder: ClassVar[str | None] = "clozeworks.objectives"

    hold: NonNegativeInt = 0
    """Steps of full teacher forcing before the schedule begins; the formula counts from there."""

    def probability(self, step: int) -> float:
        """The probability that a token is the right one, a pure function of the step."""
        return 1.0 if step < self.hold else self.held(step - self.hold)

    def held(self, step: int) -> float:
        """The same, where step 0 is the first after `hold`."""
        raise NotImplementedError


@spec
class LinearTeacherForcing(TeacherForcingSchedule):
    """max(least, begin - fall * step)."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    fall: NonNegativeFloat
    """What is taken away at each step."""
    begin: Probability = 1.0
    """The probability at step 0, the first after `hold`."""
    least: Probability = 0.0
    """Where it stays in the end."""

    def held(self, step: int) -> float:
        """The probability of each token to be the right one."""
        return max(self.least, self.begin - self.fall * step)


@spec
class ExponentialTeacherForcing(TeacherForcingSchedule):
    """base ** step."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    base: Annotated[float, Above(0), Below(1)]
    """Below 1, and very near to it for long runs: 0.9999 leaves a third after 11,000 steps."""

    def held(self, step: int) -> float:
        """The probability of each token to be the right one."""
        return self.base**step


@spec
class InverseSigmoidTeacherForcing(TeacherForcingSchedule):
    """k / (k + exp(step / k))."""

    paper: ClassVar[str] = "Bengio et al. 2015"

    k: Annotated[float, AtLeast(1)]
    """How slowly it falls: to one half at about k * log(k) steps."""

    def held(self, step: int) -> float:
        """The formula, written without a number that is too large for a float."""
        return 1 / (1 + math.exp(min(step / self.k - math.log(self.k), 700.0)))


@spec
class Sampling:
    """How often the right token is read, and what is read instead."""

    teacher_forcing: TeacherForcingSchedule
    """The probability that a token is the right one, by step."""
    choose: Literal["likeliest", "drawn"] = "likeliest"
    """What is read instead: the model's likeliest token, or one drawn from its softmax."""


@spec
class ScheduledSampling(Sampling, Wrapper):
    """Replaces some of the tokens that targets are predicted from by predictions."""

    paper: ClassVar[str] = "Bengio et al. 2015; Mihaylova & Martins 2019"
    # It runs the model twice.
    owns_forward: ClassVar[bool] = True

    objective: Objective
    """What is learned; its targets must be texts."""

    def __post_init__(self) -> None:
        if not isinstance(self.objective, TeacherForced):
            raise SettingError(
                "objective",
                self.objective.name,
                "scheduled_sampling replaces tokens of targets that are texts",
                "use causal_lm, prefix_lm, span_corruption or denoisers",
            )

    @property
    def _inner(self) -> TeacherForced:
        return cast(TeacherForced, self.objective)

    def collate(self, builder: BatchBuilder, rng: RandomStream, source: Vocabularies) -> None:
        """Adds two random numbers for each target to those of the objective inside."""
        super().collate(builder, rng, source)
        targets, clean = builder.targets[self.objective.name], builder.clean
        lengths = targets[LENGTHS]
        longest = int(lengths.max(initial=0))
        words = rng.stream(self.name).words(clean.epochs, clean.indices, 2 * longest)
        drawn = uniforms(words).reshape(len(clean), longest, 2)
        targets[LUCK] = drawn[np.arange(longest) < lengths[:, None]]  # (n, 2)

    def loss(self, model: Model, tensors: BatchTensors) -> Loss:
        """One pass to see what the model predicts, one to learn."""
        step = tensors.step
        probability = 1.0 if step is None else self.teacher_forcing.probability(step)
        if probability >= 1:
            return self.objective.loss(model, tensors)
        targets = tensors.targets[self.objective.name]
        with torch.no_grad():
            x = self._inner.vectors(model, tensors, targets[READ])  # (n, W)
            predictions = self._predictions(model, x, targets[LUCK][:, 1])
        # Trap: older versions of torch keep what autocast cast without a gradient, and would use it
        # again in the pass that is to have one.
        torch.clear_autocast_cache()
        runs = targets.get(RUNS, targets[LENGTHS])
        read = mixed(targets[READ], predictions, runs, targets[LUCK][:, 0] < probability)
        x = self._inner.vectors(model, tensors, read)
        return Loss({self.objective.name: model.vocabulary.loss(x, targets[ANSWERS])})

    def _predictions(self, model: Model, x: Tensor, luck: Tensor) -> Tensor:
        """The token the model predicts at each target, (n,)."""
        predictions = [luck.new_zeros(0, dtype=torch.int64)]
        begin = 0
        for logits in model.vocabulary.chunks(x):  # (some, V)
            some = luck[begin : begin + len(logits)]
            likeliest = self.choose == "likeliest"
            predictions.append(logits.argmax(dim=1) if likeliest else _drawn(logits, some))
            begin += len(logits)
        return torch.cat(predictions)


def mixed(read: Tensor, predictions: Tensor, lengths: Tensor, right: Tensor) -> Tensor:
    """What each target is predicted from: the right token, or a prediction.

    Args:
        read: The right ones, (n,).
        predictions: What the model predicts at each target, (n,), which is read before the next.
        lengths: The targets of each run; what stands before the first of them is never replaced.
        right: Where the right one stays, (n,).
    """
    firsts = torch.zeros(len(read) + 1, dtype=torch.bool, device=read.device)
    firsts[lengths.cumsum(0) - lengths] = True
    return torch.where(right | firsts[:-1], read, predictions.roll(1))


def _drawn(logits: Tensor, luck: Tensor) -> Tensor:
    """A token for each row (n, V), by its probability; `luck` decides, (n,)."""
    rising = logits.double().softmax(dim=1).cumsum(dim=1)
    drawn = torch.searchsorted(rising, (luck.double() * rising[:, -1])[:, None], right=True)
    return drawn.squeeze(1).clamp_(max=logits.shape[1] - 1)
