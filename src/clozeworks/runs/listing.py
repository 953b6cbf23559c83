"""The runs below some folders: how far each is, and what to type to go on.

Nothing is changed and nothing is held: a run that is looked at does not notice. Neither torch nor
the snapshots themselves are read. A run of fine-tuning has a folder for each seed; it is one run.
"""

import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from clozeworks.data.files.encodings import missing_file
from clozeworks.engine.metrics import FILE, read
from clozeworks.errors import InputError
from clozeworks.runs.folder import (
    MODEL,
    NOTES,
    RECIPE,
    RESULT,
    SEARCH,
    SESSIONS,
    SNAPSHOTS,
    command_of,
    read_lines,
)
from clozeworks.storage.locks import FILE as LOCK
from clozeworks.storage.locks import held

DEPTH = 2
State = Literal["running", "stopped", "finished", "never began", "damaged"]

_SNAPSHOT = re.compile(r"step-(\d{9,})")
# The last lines of the metrics hold what is wanted, unless evaluations are very rare.
_TAIL = 2**18


@dataclass(frozen=True)
class RunState:
    """How far a run is.

    Attributes:
        folder: Where it is.
        state: What it is doing.
        step: The last step that counts: measured if it runs, kept in a snapshot if not.
        steps: How many it has.
        loss: The last loss on held-out text.
        tokens_per_second: The last speed.
        touched: When something was last written, in UTC.
        go_on: What to type to go on; None if there is nothing left to do.
        problem: What is wrong with a damaged one.
        seed: Of fine-tuning, which of its trials and seeds it is at, counted from 1.
        seeds: How many there are.
        trials: How many of them are trials of a search, which come first.
        metric: What its models are judged by.
        value: The best value so far, of the seeds that are done.
    """

    folder: Path
    state: State
    step: int | None = None
    steps: int | None = None
    loss: float | None = None
    tokens_per_second: float | None = None
    touched: datetime | None = None
    go_on: str | None = None
    problem: str | None = None
    seed: int | None = None
    seeds: int | None = None
    trials: int = 0
    metric: str | None = None
    value: float | None = None

    def described(self) -> dict[str, Any]:
        """As plain data."""
        touched = self.touched.isoformat(timespec="seconds") if self.touched else None
        return {**asdict(self), "folder": str(self.folder), "touched": touched}


def find_runs(folders: Sequence[Path], depth: int = DEPTH) -> list[RunState]:
    """The runs in some folders and below them, each once, in the order of their names.

    Args:
        folders: Where to look.
        depth: How many levels below.

    Raises:
        InputError: A folder is not there.
    """
    found: dict[Path, RunState] = {}
    for folder in folders:
        if not folder.exists():
            raise missing_file(folder)
        if not folder.is_dir():
            raise InputError(f"{folder} is a file; name a folder with runs in it.")
        for place in _places(folder, depth):
            found.setdefault(place.resolve(), run_state(place))
    return list(found.values())


def run_state(folder: Path) -> RunState:
    """How far a run is; what is damaged is said, not raised."""
    try:
        return _state(folder)
    except (OSError, ValueError, TypeError, LookupError, RecursionError) as error:
        why = getattr(error, "strerror", None) or str(error)
        return RunState(folder, "damaged", touched=_touched(folder), problem=why)


def _places(folder: Path, depth: int) -> Iterator[Path]:
    if is_run(folder):
        yield folder
        return
    if depth == 0:
        return
    try:
        inside = sorted(path for path in folder.iterdir() if path.is_dir())
    except OSError:  # somebody else's
        return
    for path in inside:
        if not path.name.startswith(".") and not path.is_symlink():
            yield from _places(path, depth - 1)


def is_run(folder: Path) -> bool:
    """Whether a folder is a run, or what is left of one."""
    try:
        return (folder / SESSIONS).is_file() or (
            (folder / RECIPE).is_file() and (folder / LOCK).is_file()
        )
    except OSError:
        return False


def _state(folder: Path) -> RunState:
    recipe = _read(folder / RECIPE, "recipe")
    if "task" in recipe and isinstance(recipe.get("seeds"), list):
        return _state_of_seeds(folder, recipe["seeds"])
    return _state_of_one(folder, _steps(recipe), held(folder))


def _state_of_one(folder: Path, steps: int, running: bool) -> RunState:
    sessions = read_lines(folder / SESSIONS)
    records = _last_records(folder / FILE)
    speeds = _numbers(record.get("tokens_per_second") for record in records)
    evaluations = (record.get("evaluation") for record in records)
    losses = _numbers(found.get("loss") for found in evaluations if isinstance(found, dict))
    kept = _kept(folder / SNAPSHOTS)
    measured = max((record["step"] for record in records), default=None)
    result = _result(folder / RESULT)
    if result is not None:
        state: State = "finished"
        step: int | None = result.steps
    elif running:
        state, step = "running", measured if measured is not None else kept
    elif kept is None:
        state, step = ("stopped" if speeds else "never began"), 0
    else:
        done = kept >= steps and (folder / MODEL / "config.json").is_file()
        state, step = ("finished" if done else "stopped"), kept
    return RunState(
        folder=folder,
        state=state,
        step=step or 0,
        steps=steps,
        loss=losses[-1] if losses else None,
        tokens_per_second=speeds[-1] if speeds else None,
        touched=_touched(folder),
        go_on=_go_on(sessions) if state in ("stopped", "never began") else None,
        metric=result.metric if result else None,
        value=result.value if result else None,
    )


def _state_of_seeds(folder: Path, seeds: Sequence[Any]) -> RunState:
    """How far a run of fine-tuning is: as far as its first trial or seed that is not done."""
    running = held(folder)
    trials = _trials(folder / SEARCH)
    places = [folder / f"trial-{trial}" for trial in range(trials)]
    places += [folder / f"seed-{seed}" for seed in seeds]
    found = []
    for place in places:
        if not (place / RECIPE).is_file():
            break
        try:
            steps = _steps(_read(place / RECIPE, "recipe"))
            found.append(_state_of_one(place, steps, running))
        except (OSError, ValueError, TypeError, LookupError) as error:
            raise ValueError(f"{place.name}: {error}") from error
        if found[-1].state != "finished":
            break
    touched = [each.touched for each in found if each.touched] + [_touched(folder)]
    last = max((moment for moment in touched if moment), default=None)
    now = found[-1] if found else RunState(folder, "never began", step=0)
    done = len(found) == len(places) and now.state == "finished"
    ends = done and (folder / MODEL / "config.json").is_file()
    state: State = "finished" if ends else "stopped" if found else "never began"
    sessions = [line for each in found for line in read_lines(each.folder / SESSIONS)]
    best = _best(found[trials:])
    value = best.value if best else None
    if trials:  # what chose has no say in how good it is
        value = _apart(folder / SEARCH) if ends else None
    return replace(
        now,
        folder=folder,
        state="running" if running else state,
        touched=last,
        go_on=_go_on(sessions) if state == "stopped" and not running else None,
        seed=max(1, len(found)),
        seeds=len(places),
        trials=trials,
        metric=best.metric if best and value is not None else None,
        value=value,
    )


def _apart(path: Path) -> float | None:
    """What a search reports: the value on the items that had no say."""
    found = _read(path, "search")
    try:
        apart = found["seeds"][str(found["best_seed"])]["apart"]
        return float(apart["values"][apart["primary"]])
    except (LookupError, TypeError, ValueError):
        return None


def _trials(path: Path) -> int:
    """How many settings a search tries before its seeds; none if there is no search."""
    if not path.is_file():
        return 0
    try:
        return len(_read(path, "search")["plan"]["settings"])
    except (LookupError, TypeError) as error:
        raise ValueError(f"{path.name} is no search") from error


def _best(found: Sequence[RunState]) -> RunState | None:
    """The seed with the best value, of those that are done; one that is no number is never best."""

    def rank(each: RunState) -> float:
        result = _result(each.folder / RESULT)
        if result is None or math.isnan(result.value):
            return -math.inf
        return result.value if result.higher_is_better else -result.value

    return max((each for each in found if each.metric), key=rank, default=None)


class _Result(NamedTuple):
    """What a seed that is done came to."""

    steps: int
    metric: str
    value: float
    higher_is_better: bool


def _result(path: Path) -> _Result | None:
    if not path.is_file():
        return None
    found = _read(path, "result")
    try:
        measured = found["measured"]
        name = measured["primary"]
        value = float(measured["values"][name])
        return _Result(int(found["steps"]), name, value, bool(measured["higher_is_better"]))
    except (ValueError, TypeError, LookupError) as error:
        raise ValueError(f"{path.name} is no result") from error


def _read(path: Path, what: str) -> dict[str, Any]:
    if not path.is_file():
        raise ValueError(f"{path.name} is missing")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path.name} is no {what}") from error
    if not isinstance(found, dict):
        raise ValueError(f"{path.name} is no {what}")
    return found


def _steps(recipe: Mapping[str, Any]) -> int:
    try:
        steps = recipe["training"]["steps"]
    except (TypeError, LookupError) as error:
        raise ValueError(f"{RECIPE} is no recipe") from error
    if not isinstance(steps, int):
        raise ValueError(f"{RECIPE} is no recipe")
    return steps


def _numbers(values: Iterable[Any]) -> list[float]:
    return [float(value) for value in values if type(value) in (int, float)]


def _go_on(sessions: Sequence[dict[str, Any]]) -> str | None:
    return command_of(sessions[-1]) if sessions else None


def _last_records(path: Path) -> list[dict[str, Any]]:
    """The last lines of the metrics, back to the last evaluation at least, if there is one."""
    if not path.is_file():
        return []
    if path.stat().st_size > _TAIL:
        with path.open("rb") as file:
            file.seek(-_TAIL, 2)
            lines = file.read().decode("utf-8", errors="replace").splitlines()[1:]
        records = []
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if isinstance(record, dict) and isinstance(record.get("step"), int):
                records.append(record)
        if any("evaluation" in record for record in records):
            return records
    return list(read(path))


def _kept(folder: Path) -> int | None:
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    found = [_SNAPSHOT.fullmatch(name) for name in names]
    return max((int(match[1]) for match in found if match), default=None)


def _touched(folder: Path) -> datetime | None:
    times = []
    for name in (RECIPE, SESSIONS, NOTES, FILE, SNAPSHOTS, MODEL):
        try:
            times.append((folder / name).stat().st_mtime)
        except OSError:
            continue
    return datetime.fromtimestamp(max(times), UTC) if times else None
