"""`clozeworks runs`: how far the runs in some folders are, and how to continue them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.display.table import aligned
from clozeworks.wording import as_json

if TYPE_CHECKING:
    from clozeworks.runs.state import RunState

app = App(name="clozeworks runs", help_format="plaintext", version_flags=[])


@app.default
def runs(
    *folders: Path,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """List training runs: how far each is, and what to type to continue it.

    Args:
        folders: Where to look, up to two levels deep; the current folder if not given.
        json: Print one JSON list instead of a table.
    """
    from clozeworks.runs.listing import find_runs

    states = find_runs(folders or (Path(),))
    if json:
        _print_json(states)
    elif states:
        _print_table(states)
    else:
        where = ", ".join(map(str, folders)) or "here"
        print(f"No runs {'in ' if folders else ''}{where}. Start one: clozeworks init pretrain")


def _print_json(states: "dict[Path, RunState]") -> None:
    from dataclasses import asdict

    records = []
    for folder, state in states.items():
        record = {"run": str(folder), **asdict(state)}
        record |= {"command": list(state.command), "continue_command": state.continue_command}
        records.append(record)
    print(as_json(records, indent=1))


def _print_table(states: "dict[Path, RunState]") -> None:
    rows = [["run", "state", "step", "held-out loss", "result", "tokens/s", "last updated"]]
    rows += [_row(folder, state) for folder, state in states.items()]
    if not any(state.metric for state in states.values()):
        # Only what was fine-tuned has one.
        rows = [[*row[:4], *row[5:]] for row in rows]
    print("\n".join(aligned(rows, left=(0, 1, len(rows[0]) - 1))))
    for folder, state in states.items():
        if state.problem and state.status != "running":
            print(f"{folder}: {state.problem.rstrip('.')}.")
    for folder, state in states.items():
        if command := state.continue_command:
            print(f"Continue {folder} with: {command}")


def _row(folder: Path, state: "RunState") -> list[str]:
    step = f"{state.step:,} of {state.steps:,}" if state.steps is not None else ""
    step = ", ".join(part for part in (state.part, step) if part)
    loss = f"{state.loss:.3f}" if state.loss is not None else ""
    result = f"{state.metric} {state.value:.4f}" if state.value is not None else ""
    speed = f"{state.tokens_per_second:,.0f}" if state.tokens_per_second is not None else ""
    return [str(folder), state.status, step, loss, result, speed, _ago(state.updated)]


def _ago(moment: str) -> str:
    from clozeworks.display.progress import duration

    if not moment:
        return ""
    seconds = (datetime.now(UTC) - datetime.fromisoformat(moment)).total_seconds()
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:.0f} days ago"
    return f"{duration(max(seconds, 0))} ago"
