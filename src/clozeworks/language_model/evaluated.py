"""What is asked of an evaluation, and what came out of it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from clozeworks.checkpoints.tasks import AnyTask
from clozeworks.data.labelled.reading import Labelled, Reading
from clozeworks.display.notebook import html_table
from clozeworks.errors import InputError
from clozeworks.tasks.metrics.custom import Metric
from clozeworks.tasks.metrics.difference import Difference, differences
from clozeworks.tasks.metrics.labels import KnownLabels
from clozeworks.tasks.metrics.measured import Measured, number_text
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.language_model.model import LanguageModel

# Told a sentence that a person should know before the long work begins.
Tell = Callable[[str], None]
# Columns as a person names them.
NamedColumns = Mapping[str, str | int] | str | None


@dataclass(frozen=True)
class EvaluationSettings:
    """What is measured, and how the data is read."""

    task: AnyTask | type[AnyTask] | str | None = None
    """The task, its class or its name, or "fill" for gaps; as the model folder says if None."""
    columns: NamedColumns = None
    """Which column is what; found if None."""
    reading: Reading = field(default_factory=Reading)
    """How files are read otherwise."""
    skip_bad_rows: bool = False
    """Whether rows that cannot be used are dropped and counted."""
    metric: Metric | str | None = None
    """The value that decides: its name, a GLUE task, or a function of what is right and what was
    predicted."""
    threshold: float | None = None
    """For questions: no answer if "none" is ahead by more than this."""
    intervals: bool = True
    """Whether intervals are measured by resampling."""
    rerank: "LanguageModel | None" = None
    """For a folder of documents: a model that compares two texts and scores the best ones again."""


@dataclass(frozen=True, repr=False)
class EvaluatedModel:
    """The result of an evaluation."""

    measured: Measured
    """The values."""
    details: KnownLabels
    """How well each label is known."""
    records: list[dict[str, Any]] = field(repr=False)
    """Each item with its gold label and the prediction."""
    predictions: list[Any] = field(repr=False)
    """The prediction for each item."""
    labelled: Labelled = field(repr=False)
    """The data, and how it was read."""
    command: str
    """The task as a person types it."""
    task: AnyTask | None = field(default=None, repr=False)
    """The task; None for gaps."""
    threshold: str | None = None
    """The best threshold for answers, in few digits; None if there is none."""
    seconds: float = 0.0
    """How long predictions and values took."""

    @property
    def value(self) -> float:
        """The value that decides."""
        return self.measured.value

    @property
    def primary(self) -> str:
        """The name of the value that decides."""
        return self.measured.primary

    @property
    def values(self) -> dict[str, float]:
        """Every value by its name."""
        return self.measured.values

    @property
    def intervals(self) -> dict[str, tuple[float, float]]:
        """Where 95 % of resamples lie, for values that were resampled."""
        return self.measured.intervals

    @property
    def count(self) -> int:
        """How many items were measured."""
        return self.measured.count

    def differences(self, other: "EvaluatedModel") -> list[Difference]:
        """How another model differs that was measured on the same data, value by value.

        The paired bootstrap says whether chance in the choice of items explains it; see
        `Difference.is_real`. The value that decides comes first.

        Raises:
            InputError: If the data was not the same, or they were measured by other values.
        """
        mine, theirs = ([item.texts for item in each.labelled.items] for each in (self, other))
        if mine != theirs:
            raise InputError(
                "the two models were not measured on the same items; measure both on one file."
            )
        return differences(self.measured, other.measured)

    def summary(self) -> list[str]:
        """A line for each value, the one that decides first."""
        return self.measured.lines()

    def __str__(self) -> str:
        return "\n".join(self.summary())

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """The values as a table, for notebooks."""
        values = {name: number_text(value) for name, value in self.values.items()}
        return html_table(f"{self.command}: {counted(self.count, 'item')}", values)
