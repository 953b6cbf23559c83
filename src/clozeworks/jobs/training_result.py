"""What a run of training came to, as a program is handed it: values, a folder, a model to load."""

from pathlib import Path
from typing import Any

from clozeworks.display.notebook import html_table
from clozeworks.engine.trainer import Outcome
from clozeworks.errors import UnfinishedRun
from clozeworks.language_model import LanguageModel, load
from clozeworks.runs.folder import MODEL


class TrainingResult:
    """What a run came to; the base of what each job returns."""

    folder: Path
    outcome: Outcome | None
    model: Path | None

    def summary(self) -> list[str]:
        """What came out, in a few lines."""
        raise NotImplementedError

    @property
    def metrics(self) -> dict[str, float]:
        """What the model is worth, by the name of each value; empty if it is not known."""
        return {}

    def load(self, *, device: str | None = None, dtype: Any = None) -> LanguageModel:
        """The model that was trained; `result.model` is its folder.

        Args:
            device: Where its weights go; the CPU if not given.
            dtype: What weights are converted to; as they were saved if not given.

        Raises:
            UnfinishedRun: If the run is not at its end.
        """
        if self.model is None:
            raise UnfinishedRun(
                str(self.folder / MODEL),
                str(self.folder),
                f"make the same call again with out={str(self.folder)!r} to go on.",
            )
        return load(self.model, device=device, dtype=dtype)

    def told(self) -> list[str]:
        """The summary, and where the model is; or how to go on."""
        if self.model is None:
            step = 0 if self.outcome is None else self.outcome.step
            return [
                f"Stopped after step {step:,}; nothing is lost. Make the same call again with "
                f"out={str(self.folder)!r} to go on."
            ]
        return [*self.summary(), f"The model is in {self.model}: result.load() loads it."]

    def __repr__(self) -> str:
        lines = "".join(f"\n  {line}" for line in self.told())
        return f"{type(self).__name__} {self.folder}{lines}"

    def _repr_html_(self) -> str:
        """The values and where the model is, as a table for notebooks."""
        if self.model is None:
            return html_table(str(self.folder), {"stopped": self.told()[0]})
        values = {name: f"{value:.4f}" for name, value in self.metrics.items()}
        more = {} if values else {"summary": " ".join(self.summary())}
        return html_table(str(self.folder), {**values, **more, "model": str(self.model)})
