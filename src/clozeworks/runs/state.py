"""`state.json`: how far a run is, written by the run itself, so that nobody has to guess."""

import json
import re
from dataclasses import asdict, dataclass, fields, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from clozeworks import config
from clozeworks.runs.folder import SNAPSHOTS, STATE, command_of
from clozeworks.storage.atomic import write_json
from clozeworks.storage.checksums import is_intact, sealed
from clozeworks.storage.locks import held
from clozeworks.storage.regular_files import read_regular

Status = Literal["running", "stopped", "finished", "failed", "damaged", "unknown"]

_LARGEST = 1 << 20
_SNAPSHOT = re.compile(r"step-(\d{9,})")
_OLD = (
    f"there is no {STATE}: this is a part of another run, or an older version wrote it; run the "
    "command it was started with again"
)


@dataclass(frozen=True)
class RunState:
    """How far a run is."""

    kind: str
    """The kind of run: pretrain, finetune or search."""
    status: Status
    """What it is doing. `damaged` is a run whose state cannot be read, `unknown` one that has
    none."""
    part: str = ""
    """Which of its seeds or trials it is at, such as `seed 2 of 3`; empty if it is one."""
    folder: str = "."
    """The folder of that part, below the folder of the run."""
    step: int = 0
    """The last step that counts."""
    steps: int | None = None
    """How many steps the part has."""
    loss: float | None = None
    """The last loss on held-out text."""
    tokens_per_second: float | None = None
    """The last speed."""
    metric: str | None = None
    """What the models of a fine-tuning run are compared by."""
    value: float | None = None
    """The best value so far."""
    started: str = ""
    """When the first session started, in UTC."""
    updated: str = ""
    """When this was written, in UTC."""
    command: tuple[str, ...] = ()
    """The words of the command that started the last session."""
    where: str | None = None
    """The folder it was started in."""
    ranks: int = 1
    """The number of processes that share the run."""
    pid: int | None = None
    """The process of the run, while it runs."""
    host: str | None = None
    """The machine of that process."""
    problem: str | None = None
    """What went wrong, if it failed or cannot be read."""

    @property
    def continue_command(self) -> str | None:
        """What to type to continue; None if nothing is left to do, or no command started it."""
        return command_of(asdict(self)) if self.status in ("stopped", "failed") else None

    def write(self, folder: Path) -> None:
        """Writes it into the folder of a run.

        Raises:
            OutputError: If the file cannot be written.
        """
        write_json(folder / STATE, sealed(asdict(self)))


def read_state(folder: Path) -> RunState:
    """How far a run is; a state that cannot be read is described, not raised.

    A run that was killed could not say so: it has a state that says `running`, but no process holds
    its folder any more. It continues from its last snapshot.
    """
    try:
        text = read_regular(folder / STATE, _LARGEST).decode("utf-8")
    except FileNotFoundError:
        return RunState("", "running" if held(folder) else "unknown", problem=_OLD)
    except (OSError, ValueError) as error:
        return RunState("", "damaged", problem=f"{STATE} cannot be read ({error})")
    try:
        record = json.loads(text)
        state = _parsed(record)
    except (ValueError, TypeError, AttributeError, RecursionError):
        return RunState("", "damaged", problem=f"{STATE} is not the state of a run")
    if not is_intact(record):
        return RunState("", "damaged", problem=f"{STATE} is not as it was written")
    if state.status != "running" or held(folder):
        return state
    step = _last_snapshot(folder / state.folder / SNAPSHOTS)
    return replace(state, status="stopped", step=step, pid=None, host=None)


def _parsed(record: dict[str, Any]) -> RunState:
    """A state from JSON, if every value has the type it was written with."""
    known = {each.name for each in fields(RunState)}
    state: RunState = config.read(
        RunState, {name: value for name, value in record.items() if name in known}
    )
    if state.updated:
        datetime.fromisoformat(state.updated)
    return state


def _last_snapshot(folder: Path) -> int:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    matches = [_SNAPSHOT.fullmatch(name) for name in names]
    return max((int(match[1]) for match in matches if match), default=0)
