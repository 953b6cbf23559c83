"""The numbers of a run for TensorBoard, beside `metrics.jsonl`."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from clozeworks.engine.callbacks import Callback
from clozeworks.errors import MissingExtra
from clozeworks.runs.folder import TENSORBOARD


def check_board() -> None:
    """Checks before a run starts that the library is installed.

    Raises:
        MissingExtra: If it is not.
    """
    if find_spec("tensorboard") is None:
        raise MissingExtra("logging.tensorboard", "tensorboard", "tensorboard")


class Board(Callback):
    """Writes the numbers of a run for TensorBoard.

    Args:
        folder: The run.
        step: The step the run continues from; later points are dropped.
    """

    def __init__(self, folder: Path, step: int | None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer = SummaryWriter(
            str(folder / TENSORBOARD), purge_step=0 if step is None else step + 1
        )

    def on_log(self, step: int, record: Mapping[str, Any]) -> None:
        """Writes the numbers of some steps of training."""
        for name, value in _numbers(record):
            self._writer.add_scalar(f"training/{name}", value, step)

    def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
        """Writes what was measured on held-out text."""
        for name, value in _numbers(record["evaluation"]):
            self._writer.add_scalar(f"held-out/{name}", value, step)
        self._writer.flush()

    def close(self) -> None:
        """Writes what is left."""
        self._writer.close()


def _numbers(record: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, float]]:
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from _numbers(value, f"{path}{name}/")
        elif isinstance(value, int | float) and name != "step":
            yield f"{path}{name}", float(value)
