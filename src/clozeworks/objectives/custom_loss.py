"""A loss of the user's own: a function of logits and labels in place of a task's.

The idea: the function returns one number for each target, never a mean. So their sum and their
count are exact whatever the micro-batches: a mean over a micro-batch would depend on how a step is
cut, and on what else is in it.

Shapes: n targets, C classes.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar, Protocol, runtime_checkable

import torch
from torch import Tensor

from clozeworks.core.loss import LossTerm, LossTerms
from clozeworks.core.model import Model
from clozeworks.errors import SettingError, Stated
from clozeworks.objectives.batch import BatchTensors
from clozeworks.objectives.objective import Objective, Wrapper
from clozeworks.spec import spec

# From logits (n, C) and labels, (n,) or (n, C), to what each target costs, (n,).
LabelLossFunction = Callable[[Tensor, Tensor], Tensor]


@runtime_checkable
class LabelObjective(Protocol):
    """An objective whose loss is a function of logits and labels alone."""

    def logits_and_labels(
        self, model: Model, hidden_states: Tensor, tensors: BatchTensors
    ) -> tuple[Tensor, Tensor]:
        """A row of logits for each target, and what is right for it."""
        ...

    def cost(self, logits: Tensor, labels: Tensor) -> LossTerm:
        """The usual loss."""
        ...


@spec
class CustomLoss(Wrapper):
    """Predicts what another objective does, and learns by a function of the user's own."""

    is_slot: ClassVar[bool] = True  # no recipe can write it

    objective: Objective
    """What is predicted."""
    function: LabelLossFunction
    """From logits and labels to what each target costs."""

    def reads_first(self, model: Model) -> bool:
        """If what is predicted is read there."""
        return self.objective.reads_first(model)

    def losses(self, model: Model, hidden_states: Tensor, tensors: BatchTensors) -> LossTerms:
        """The sum of what the function returns."""
        inner = self.objective
        assert isinstance(inner, LabelObjective)
        logits, labels = inner.logits_and_labels(model, hidden_states, tensors)
        # Trap: half precision has three digits; a sum over thousands of targets needs more.
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
        usual, each = inner.cost(logits.detach(), labels), self.function(logits, labels)
        self._check(each, len(labels))
        return {inner.name: replace(usual, total=each.sum())}

    def _check(self, each: Any, count: int) -> None:
        """Complains if there is not one number for each target.

        Raises:
            SettingError: If there is not.
        """
        if isinstance(each, Tensor) and each.shape == (count,):
            return
        returned = repr(each)[:40]
        if isinstance(each, Tensor):
            shape = "one number" if not each.shape else f"the shape {tuple(each.shape)}"
            returned = f"a tensor of {shape}"
        rule = f"it returned {returned}, and must return a tensor with one number for each of the "
        rule += f"{count:,} labels"
        advice = "do not add them up or take their mean; in torch say reduction='none'"
        raise SettingError(
            "loss", Stated(f"the function {function_name(self.function)}"), rule, advice
        )


def function_name(function: Callable[..., Any]) -> str:
    """What a function is called, or the class of an object that can be called."""
    return str(getattr(function, "__qualname__", type(function).__qualname__))
