"""What there is to say about a run: how far it is, how fast, what it was set to, what it noted."""

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from clozeworks.engine.metrics import FILE as METRICS
from clozeworks.reports.render import flat_settings
from clozeworks.runs.folder import NOTES, RECIPE, REPORT, SESSIONS
from clozeworks.runs.state import read_state
from clozeworks.serve.workspace.curves import parsed_line
from clozeworks.storage.regular_files import open_regular, read_regular
from clozeworks.wording import shortened

WHOLE = "."
"""The part of a run that has only one."""
_MOST_PARTS = 200
_LARGEST_RECIPE, _LONGEST_SETTING, _MOST_SETTINGS = 4 << 20, 300, 2_000
# Of notes and sessions, which only grow, the end is read.
_END_BYTES, _MOST_NOTES = 1 << 18, 200
_LONGEST_TEXT = 2_000
_PACE_BYTES = 1 << 15


def run_record(name: str, folder: Path) -> dict[str, Any]:
    """How far a run is, as the page lists it."""
    state = read_state(folder)
    parts = parts_of(folder)
    part = state.folder if state.folder in parts else (parts or [WHOLE])[0]
    pace = steps_per_second(folder / part / METRICS) if state.status == "running" else None
    left = None
    if pace and state.steps is not None and sound(state.steps - state.step) is not None:
        left = max(state.steps - state.step, 0) / pace
    return {
        "name": name,
        **{key: _plain(value) for key, value in asdict(state).items() if key in _SHOWN},
        "parts": parts,
        "current": part,
        "steps_per_second": pace,
        "seconds_left": left,
        "has_report": _is_file(folder / REPORT),
        "continue_command": _plain(state.continue_command),
    }


_SHOWN = frozenset(
    {"kind", "status", "part", "step", "steps", "loss", "tokens_per_second", "metric", "value",
     "started", "updated", "problem"}
)  # fmt: skip


def _plain(value: Any) -> Any:
    """A value as JSON and a page take it, whatever stood in the file."""
    if isinstance(value, str):
        return shortened(sound(value), _LONGEST_TEXT)
    return sound(value)


def sound(value: Any) -> Any:
    """Plain data without what JSON cannot hold: halves of characters, numbers beyond all bounds."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, int) and not isinstance(value, bool):
        return value if abs(value) < 1 << 53 else None
    if isinstance(value, Mapping):
        return {sound(str(key)): sound(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [sound(each) for each in value]
    return value


def parts_of(folder: Path) -> list[str]:
    """The parts of a run that measure something: itself, its seeds, its trials."""
    found = [WHOLE] if _is_file(folder / METRICS) else []
    with suppress(OSError), os.scandir(folder) as inside:
        for entry in inside:
            if len(found) >= _MOST_PARTS:
                break
            if entry.is_dir(follow_symlinks=False) and _is_file(Path(entry.path, METRICS)):
                found.append(entry.name)
    return sorted((each for each in found if each.isprintable()), key=_in_order)


def _in_order(part: str) -> tuple[int, str]:
    """Seed 2 comes before seed 10."""
    digits = part.rpartition("-")[2]
    return (int(digits) if digits.isdecimal() and len(digits) < 10 else -1, part)


def steps_per_second(metrics: Path) -> float | None:
    """How fast a run was lately, by the end of its metrics file; None if that is not known."""
    with suppress(OSError, ValueError):
        lines = [parsed_line(line) for line in _end_of(metrics, _PACE_BYTES)]
        points = [
            (line.step, line.values["seconds"])
            for line in lines
            if line is not None and "seconds" in line.values and "loss" in line.values
        ]
        if len(points) > 1:
            (first, begin), (last, end) = points[0], points[-1]
            if last > first and end > begin:
                return (last - first) / (end - begin)
    return None


def run_details(folder: Path) -> dict[str, Any]:
    """The settings of a run, its notes and its sessions."""
    return {
        "settings": _settings(folder),
        "notes": [
            {"at": _plain(str(each.get("at", "")))[:40], "step": _step(each.get("step")),
             "note": _plain(str(each.get("note", "")))}
            for each in _objects(folder / NOTES)[-_MOST_NOTES:]
        ],
        "sessions": [
            {key: _plain(str(each.get(key, ""))) for key in _OF_SESSIONS}
            for each in _objects(folder / SESSIONS)[-_MOST_NOTES:]
        ],
    }  # fmt: skip


def _step(value: Any) -> int | None:
    return sound(value) if type(value) is int else None


_OF_SESSIONS = ("began", "clozeworks", "torch", "device", "threads", "ranks")


def _settings(folder: Path) -> dict[str, str]:
    """Every setting of the recipe by its path, as text."""
    candidates = [folder, *(folder / part for part in parts_of(folder))]
    for part in candidates:
        try:
            recipe = json.loads(read_regular(part / RECIPE, _LARGEST_RECIPE, follow=False))
            rows = flat_settings(recipe)[:_MOST_SETTINGS]
        except (OSError, ValueError, RecursionError):
            continue
        if isinstance(recipe, Mapping):
            return {
                _plain(path): shortened(json.dumps(value, ensure_ascii=True), _LONGEST_SETTING)
                for path, value in rows
            }
    return {}


def _objects(path: Path) -> list[dict[str, Any]]:
    """The objects at the end of a file of JSON lines."""
    found = []
    with suppress(OSError, ValueError):
        for line in _end_of(path, _END_BYTES):
            with suppress(ValueError, RecursionError):
                record = json.loads(line)
                if isinstance(record, dict):
                    found.append(record)
    return found


def _end_of(path: Path, most: int) -> list[bytes]:
    """The last lines of a file, of which the first may have lost its beginning."""
    with open_regular(path, follow=False) as file:
        size = os.fstat(file.fileno()).st_size
        file.seek(max(size - most, 0))
        return file.read(most).split(b"\n")


def _is_file(path: Path) -> bool:
    return path.is_file() and not path.is_symlink()
