"""The files in the folder of a run, by name, and what can be read from them without torch."""

import json
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

RECIPE = "recipe.json"
STATE = "state.json"
SESSIONS = "sessions.jsonl"
NOTES = "notes.jsonl"
SNAPSHOTS = "snapshots"
MODEL = "model"
# What a seed of fine-tuning holds when it is finished.
RESULT = "result.json"
SEARCH = "search.json"
CURVES = "curves.png"
REPORT = "report.html"
TENSORBOARD = "tensorboard"
# What trackers call the run, so that a session goes on with it.
TRACKERS = "trackers.json"

# What a run writes itself, beside its folders; a log may stand there that somebody else writes.
_RECORDS = (".json", ".jsonl", ".html", ".png")


def records(folder: Path) -> list[str]:
    """The files that a run and its seeds or trials have written, by their path in the folder."""
    parts = [folder, *(path.parent for path in folder.glob(f"*/{RECIPE}"))]
    return [
        path.relative_to(folder).as_posix()
        for part in parts
        for path in part.iterdir()
        if path.is_file() and path.suffix in _RECORDS and not path.name.startswith(".")
    ]


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a file of JSON lines; those that are damaged are left out."""
    records = []
    if path.is_file():
        for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
            try:
                record = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(record, dict):
                records.append(record)
    return records


def command_line(arguments: Sequence[str], ranks: int) -> str:
    """What to type to run a command, in as many processes as it had."""
    several = ["torchrun", "--nproc-per-node", str(ranks), "-m"] if ranks > 1 else []
    return shlex.join([*several, "clozeworks", *arguments])


def command_of(session: Mapping[str, Any]) -> str | None:
    """What to type to run a session again; None if no command started it.

    If the session was started in another folder than this one, the command changes to it first.
    """
    words = session.get("command")
    if not isinstance(words, Sequence) or isinstance(words, str) or len(words) < 2:
        return None
    program, *rest = map(str, words)
    if Path(program).name not in ("clozeworks", "__main__.py"):
        return None
    ranks = session.get("ranks")
    command = command_line(rest, ranks if isinstance(ranks, int) else 1)
    where = session.get("where")
    if isinstance(where, str) and Path(where) != Path.cwd():
        return f"cd {shlex.quote(where)} && {command}"
    return command
