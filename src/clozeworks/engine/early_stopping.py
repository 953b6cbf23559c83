"""The best weights of a run by what counts in the end, and when to stop waiting for better ones."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class EvalResult:
    """What an evaluator measured.

    Attributes:
        value: The number that decides.
        higher_is_better: Whether more is better.
        record: All that was measured, as plain data.
        losses: Losses by the name of the task, if they were measured on the way.
        kept: What else is worth keeping as long as these weights are the best.
        loss: What it cost in all, which decides between equal values; None if it is not known.
    """

    value: float
    higher_is_better: bool
    record: dict[str, Any]
    losses: Mapping[str, float] = field(default_factory=dict)
    kept: Any = None
    loss: float | None = None


# Measures the model as it stands.
Evaluator = Callable[[], EvalResult]


@dataclass
class EarlyStopping:
    """Keeps the best weights so far.

    Attributes:
        patience: Evaluations without a better value after which a run ends; None: it never does.
        value: The best value; None before the first evaluation.
        loss: What the weights with that value cost; None if it is not known.
        step: The step it was reached at.
        waited: Evaluations since the value became better.
        weights: Copies of all parameters that may change, by name.
        kept: What the evaluator wanted to be kept with them; None if that was in another session.
    """

    patience: int | None = None
    value: float | None = None
    loss: float | None = None
    step: int = 0
    waited: int = 0
    weights: dict[str, Tensor] = field(default_factory=dict)
    kept: Any = None

    def update(self, result: EvalResult, model: nn.Module, step: int) -> bool:
        """Keeps the weights if they are better than the best; says whether they are.

        Of equal values the one with the lower loss counts: a few items are all right long before a
        model is sure of them. Otherwise the earlier one stays; what is not a number is never
        better. Patience waits for a better value, not for a lower loss.
        """
        sign = 1.0 if result.higher_is_better else -1.0
        better = result.value == result.value and (
            self.value is None or sign * result.value > sign * self.value
        )
        self.waited = 0 if better else self.waited + 1
        if not better and not self._equal_and_cheaper(result):
            return False
        self.value, self.loss, self.step = result.value, result.loss, step
        self.kept = result.kept
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if not parameter.requires_grad:
                    continue
                if name in self.weights:
                    self.weights[name].copy_(parameter)
                else:
                    self.weights[name] = parameter.detach().clone()
        return True

    def _equal_and_cheaper(self, result: EvalResult) -> bool:
        if result.value != self.value or result.loss is None or self.loss is None:
            return False
        return result.loss < self.loss or (self.loss != self.loss and result.loss == result.loss)

    @property
    def should_stop(self) -> bool:
        """Whether the value has not become better for as long as patience lasts."""
        return self.patience is not None and self.waited >= self.patience

    def restore(self, model: nn.Module) -> None:
        """Puts the best weights back."""
        own = dict(model.named_parameters())
        with torch.no_grad():
            for name, weights in self.weights.items():
                own[name].copy_(weights)

    def state(self) -> dict[str, Any]:
        """What a snapshot keeps of it beside the weights."""
        return {
            "value": self.value,
            "loss": self.loss,
            "step": self.step,
            "waited": self.waited,
        }

    def resume(self, state: Mapping[str, Any], weights: Mapping[str, Tensor]) -> None:
        """Goes on from a snapshot."""
        self.value, self.step, self.waited = state["value"], state["step"], state["waited"]
        self.loss = state.get("loss")
        self.weights = {name: tensor.clone() for name, tensor in weights.items()}
