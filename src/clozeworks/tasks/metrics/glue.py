"""Which value decides: by its name, or by the name of a GLUE task.

Paper: Wang et al. 2019 (GLUE). Where there are two values their mean counts, and the score of the
board is the mean over tasks, in which the two sets of MNLI count as one task.
"""

from collections.abc import Mapping
from dataclasses import replace

from clozeworks.errors import InputError, UnknownName
from clozeworks.tasks.metrics.measured import LOWER_IS_BETTER, Measured

PRIMARY = {
    "cola": "matthews",
    "sst2": "accuracy",
    "mrpc": "accuracy_and_f1",
    "qqp": "accuracy_and_f1",
    "stsb": "pearson_and_spearman",
    "mnli": "accuracy",
    "mnli_matched": "accuracy",
    "mnli_mismatched": "accuracy",
    "qnli": "accuracy",
    "rte": "accuracy",
    "wnli": "accuracy",
    "ax": "matthews",
}
"""The value that decides in each task of GLUE."""

TASKS = ("cola", "sst2", "mrpc", "qqp", "stsb", "mnli", "qnli", "rte", "wnli")
_TWO_SETS = {"mnli": ("mnli_matched", "mnli_mismatched")}


def with_primary(measured: Measured, name: str) -> Measured:
    """The same with another value that decides.

    Args:
        measured: What was measured.
        name: The name of a value, or of a GLUE task (`mrpc`).

    Raises:
        UnknownName: There is no such value.
    """
    chosen = PRIMARY.get(name, name)
    if chosen not in measured.values:
        raise UnknownName("metric", chosen, measured.values)
    return replace(measured, primary=chosen, higher_is_better=chosen not in LOWER_IS_BETTER)


def board_score(values: Mapping[str, float], *, wnli: bool = True) -> float:
    """The GLUE score: the mean over the nine tasks.

    Args:
        values: The deciding value of each task; MNLI as one, or as two sets whose mean counts.
        wnli: Whether WNLI counts; BERT's table leaves it out.

    Raises:
        InputError: A task is missing.
    """
    found = []
    for task in TASKS if wnli else TASKS[:-1]:
        names = (task,) if task in values else _TWO_SETS.get(task, (task,))
        if missing := [name for name in names if name not in values]:
            raise InputError(
                f"the GLUE score has no value for {' and '.join(missing)}; it is the mean over all "
                "tasks; measure the rest too."
            )
        found.append(sum(values[name] for name in names) / len(names))
    return sum(found) / len(found)
