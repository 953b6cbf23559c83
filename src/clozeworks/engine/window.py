"""The steps since the last line of the metrics file, added up."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from clozeworks.engine.gradients import StepResult


class StepWindow:
    """Sums over some steps; part of a snapshot, so that lines come out the same after a stop."""

    def __init__(self, names: Sequence[str]) -> None:
        self._sums = {name: [0.0, 0.0, 0.0] for name in names}
        self._weights = dict.fromkeys(names, 1.0)
        self._largest = 0.0
        self._learning_rate = 0.0
        self._skipped = self._spikes = 0
        self._tokens = 0
        self._began = time.monotonic()

    def begin(self) -> float:
        """Starts the clock; tokens before this do not count for the speed."""
        self._tokens = 0
        self._began = time.monotonic()
        return self._began

    def add(
        self, measured: StepResult, norm: float, rate: float, *, skipped: bool, spike: bool
    ) -> None:
        """Adds a step."""
        self._tokens += measured.tokens
        self._learning_rate = rate
        self._spikes += spike
        if skipped:
            self._skipped += 1
            return
        self._largest = max(self._largest, norm)
        for name, part in measured.parts.items():
            self._weights[name] = part.weight
            for index, number in enumerate((part.total, part.correct, part.count)):
                self._sums[name][index] += number

    def record(self, step: int, tokens: int, seconds: float) -> dict[str, Any]:
        """The line of the metrics file."""
        parts = {
            name: {"loss": total / count, "accuracy": correct / count}
            for name, (total, correct, count) in self._sums.items()
            if count
        }
        record: dict[str, Any] = {
            "step": step,
            "loss": sum(self._weights[name] * part["loss"] for name, part in parts.items())
            if parts
            else None,
            **parts,
            "learning_rate": self._learning_rate,
            "gradient": self._largest,
            "tokens": tokens,
            "seconds": round(seconds, 3),
            "tokens_per_second": self._tokens / max(time.monotonic() - self._began, 1e-9),
        }
        if self._skipped:
            record["skipped"] = self._skipped
        if self._spikes:
            record["spikes"] = self._spikes
        return record

    def state(self) -> dict[str, Any]:
        """What a snapshot keeps."""
        return {
            "sums": self._sums,
            "weights": self._weights,
            "largest": self._largest,
            "skipped": self._skipped,
            "spikes": self._spikes,
        }

    @classmethod
    def from_state(cls, names: Sequence[str], state: Mapping[str, Any]) -> "StepWindow":
        """What a snapshot kept."""
        window = cls(names)
        window._sums = {name: list(state["sums"][name]) for name in names}
        window._weights = dict(state["weights"])
        window._largest = state["largest"]
        window._skipped, window._spikes = state["skipped"], state["spikes"]
        return window
