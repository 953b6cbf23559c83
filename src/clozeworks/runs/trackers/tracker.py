"""What all trackers share: the library, the names of numbers, and how a run is found again."""

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar

from clozeworks import config
from clozeworks.engine.callbacks import Callback, Session
from clozeworks.errors import MissingExtra
from clozeworks.runs.folder import TRACKERS
from clozeworks.storage.atomic import write_json


class Tracker(Callback):
    """Hands the settings and the numbers of a run to a library.

    Args:
        project: What the run is filed under; the default of the library if not given.

    Raises:
        MissingExtra: If the library is not installed.
    """

    name: ClassVar[str]
    """What recipes call it; also the extra that installs its library."""
    module: ClassVar[str]
    """The module that is called."""
    function: ClassVar[str]
    """What the module must offer."""

    def __init__(self, project: str | None = None) -> None:
        self.project = project
        try:
            self.library: Any = import_module(self.module)
            # Trap: a folder of the same name beside the program, such as the one in which wandb
            # keeps its files, can be imported as well, and holds nothing.
            getattr(self.library, self.function)
        except (ImportError, AttributeError) as error:
            raise MissingExtra(f"The tracker {self.name}", self.name, self.name) from error

    def log(self, step: int, numbers: dict[str, float]) -> None:
        """Hands over the numbers of a step."""
        raise NotImplementedError

    def on_log(self, step: int, record: Mapping[str, Any]) -> None:
        """Hands over the numbers of some steps of training."""
        self.log(step, {f"train/{name}": value for name, value in numbers_of(record)})

    def on_evaluate(self, step: int, record: Mapping[str, Any]) -> None:
        """Hands over what was measured on held-out data."""
        measured = {**record["evaluation"], **record.get("judged", {}).get("values", {})}
        self.log(step, {f"eval/{name}": value for name, value in numbers_of(measured)})

    def recalled(self, session: Session) -> str | None:
        """What the library called the run in an earlier session; None if the run begins."""
        path = session.folder / TRACKERS
        if session.step is None or not path.exists():
            return None
        name = config.read_json(path).get(self.name)
        return name if isinstance(name, str) else None

    def remember(self, session: Session, name: str) -> None:
        """Writes down what the library calls the run."""
        path = session.folder / TRACKERS
        known = config.read_json(path) if path.exists() else {}
        write_json(path, {**known, self.name: name})


def numbers_of(record: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, float]]:
    """Every number of a record, by the path of its names."""
    for name, value in record.items():
        if isinstance(value, Mapping):
            yield from numbers_of(value, f"{path}{name}/")
        elif isinstance(value, int | float) and name != "step":
            yield f"{path}{name}", float(value)
