"""`clozeworks pretrain`: train a model on a corpus; stop it when you like, and go on."""

import os
import sys
from contextlib import suppress
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.main import Terminated

if TYPE_CHECKING:
    from clozeworks.jobs.pretrain.summary import Pretrained

# Exit codes of a run that was stopped and can go on: after SIGTERM, and after Ctrl-C.
TRY_AGAIN = 75
INTERRUPTED = 130

app = App(name="clozeworks pretrain", help_format="plaintext", version_flags=[])


@app.default
def pretrain(
    recipe: Path,
    /,
    *changes: str,
    device: Annotated[str | None, Parameter(alias="-d")] = None,
) -> None:
    """Train a model on a corpus, as a recipe says. Run it again to resume.

    Args:
        recipe: A TOML file; `clozeworks init pretrain` writes one.
        changes: Settings to change, for example training.steps=2000.
        device: cpu, cuda or mps; the best available one if not given.
    """
    from clozeworks.cli.display.training import TrainingProgress
    from clozeworks.jobs.pretrain import job
    from clozeworks.jobs.pretrain.recipe import read_recipe
    from clozeworks.runs.folder import command_line

    settled = read_recipe(recipe, changes)
    where = ["--device", device] if device else []
    ranks = os.environ.get("WORLD_SIZE", "")  # what is no number, the job refuses
    command = command_line(
        ["pretrain", str(recipe), *changes, *where], int(ranks) if ranks.isdecimal() else 1
    )
    try:
        with TrainingProgress() as progress:
            found = job.pretrain(settled, callback=progress, device=device)
    except (KeyboardInterrupt, Terminated) as stop:  # before the first step, or behind the last
        say(f"Stopped; the newest snapshot counts. Go on with: {command}")
        raise SystemExit(TRY_AGAIN if isinstance(stop, Terminated) else INTERRUPTED) from None
    _report(found, command)


def say(sentence: str) -> None:
    """Prints a sentence for the person who watches, once for all ranks."""
    if os.environ.get("RANK", "0") == "0":  # else another rank speaks
        with suppress(OSError):  # whoever reads this may have left
            print(sentence, file=sys.stderr, flush=True)


def _report(found: "Pretrained", command: str) -> None:
    outcome = found.outcome
    if not outcome.finished:
        if found.report is not None:
            say(f"Curves and everything else, so far: {found.report}")
        say(f"Stopped behind step {outcome.step:,}; nothing is lost. Go on with: {command}")
        raise SystemExit(INTERRUPTED if outcome.signal == SIGINT else TRY_AGAIN)
    if found.model is None:
        return  # another rank speaks
    for line in found.summary():
        print(line)
    print(found.next_command())
