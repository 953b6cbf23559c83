"""`clozeworks runs`: how far the runs in some folders are, and how to go on with them."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.display.table import aligned

if TYPE_CHECKING:
    from clozeworks.runs.listing import RunState

app = App(name="clozeworks runs", help_format="plaintext", version_flags=[])


@app.default
def runs(
    *folders: Path,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """List training runs: how far each is, and what to type to go on.

    Args:
        folders: Where to look, up to two levels deep; here if not given.
        json: Print one JSON list instead of a table.
    """
    from clozeworks.runs.listing import find_runs

    found = find_runs(folders or (Path(),))
    if json:
        from json import dumps

        print(dumps([run.described() for run in found], ensure_ascii=False, indent=1))
    elif found:
        _print_table(found)
    else:
        where = ", ".join(map(str, folders)) or "here"
        print(f"No runs {'in ' if folders else ''}{where}. Begin one: clozeworks init pretrain")


def _print_table(found: "list[RunState]") -> None:
    rows = [["run", "state", "step", "held-out loss", "result", "tokens/s", "last touched"]]
    rows += [_row(run) for run in found]
    if not any(run.metric for run in found):
        # Only what was fine-tuned has one.
        rows = [[*row[:4], *row[5:]] for row in rows]
    print("\n".join(aligned(rows, left=(0, 1, len(rows[0]) - 1))))
    for run in found:
        if run.problem:
            print(f"{run.folder} is damaged: {run.problem}.")
    for run in found:
        if run.go_on:
            print(f"Go on with {run.folder}: {run.go_on}")


def _row(run: "RunState") -> list[str]:
    step = f"{run.step:,} of {run.steps:,}" if run.steps is not None else ""
    if run.seed is not None and run.seeds is not None:
        at, seeds = run.seed - run.trials, run.seeds - run.trials
        where = f"seed {at} of {seeds}" if at > 0 else f"trial {run.seed} of {run.trials}"
        step = ", ".join(part for part in (where, step) if part)
    loss = f"{run.loss:.3f}" if run.loss is not None else ""
    result = f"{run.metric} {run.value:.4f}" if run.value is not None else ""
    speed = f"{run.tokens_per_second:,.0f}" if run.tokens_per_second is not None else ""
    return [str(run.folder), run.state, step, loss, result, speed, _ago(run.touched)]


def _ago(moment: datetime | None) -> str:
    from clozeworks.cli.display.progress import duration

    if moment is None:
        return ""
    seconds = max((datetime.now(UTC) - moment).total_seconds(), 0)
    if seconds >= 2 * 86400:
        return f"{seconds / 86400:.0f} days ago"
    return f"{duration(seconds)} ago"
