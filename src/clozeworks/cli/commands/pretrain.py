"""`clozeworks pretrain`: train a model on a corpus; stop and resume at any time."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from signal import SIGINT
from typing import TYPE_CHECKING

from cyclopts import App

from clozeworks.cli.main import Terminated
from clozeworks.cli.training import TrainingOptions, respelled

if TYPE_CHECKING:
    from clozeworks.display.training import TrainingProgress
    from clozeworks.engine.trainer import Outcome

# Exit codes of a run that was stopped and can go on: after SIGTERM, and after Ctrl-C.
TRY_AGAIN = 75
INTERRUPTED = 130

app = App(name="clozeworks pretrain", help_format="plaintext", version_flags=[])


@app.default
def pretrain(
    recipe: Path,
    /,
    *changes: str,
    options: TrainingOptions | None = None,
) -> None:
    """Train a model on a corpus, as a recipe says. Run it again to resume.

    Args:
        recipe: A TOML file, which `clozeworks init pretrain` writes; or the name of one of
            `clozeworks recipes`.
        changes: Settings to change, for example training.steps=2000.
        options: Settings that have an option of their own.
    """
    from clozeworks.jobs.pretrain import job
    from clozeworks.jobs.pretrain.recipe import read_recipe
    from clozeworks.recipes import recipe_file

    options = options or TrainingOptions()
    is_name = not recipe.suffix and recipe.name == str(recipe) and not recipe.exists()
    file = recipe_file(str(recipe)) if is_name else recipe
    command = resume_command(["pretrain", str(recipe), *changes, *options.words()])
    with respelled(options.spelled()):
        settled = read_recipe(file, options.changes(changes))
        with training(command) as progress:
            trained = job.pretrain(settled, callback=progress)
    if not trained.outcome.finished and trained.report is not None:
        say(f"Curves and everything else, so far: {trained.report}")
    check_finished(trained.outcome, command)
    if trained.model is None:
        return  # another rank reports
    for line in trained.summary():
        print(line)
    print(trained.next_command())


def resume_command(words: list[str]) -> str:
    """What resumes a run that was started with these words."""
    from clozeworks.runs.folder import command_line

    ranks = os.environ.get("WORLD_SIZE", "")  # the job refuses what is not a number
    return command_line(words, int(ranks) if ranks.isdecimal() else 1)


@contextmanager
def training(command: str) -> "Iterator[TrainingProgress]":
    """Shows progress; if the run is stopped before or after its steps, prints what resumes it."""
    from clozeworks.display.training import TrainingProgress

    try:
        with TrainingProgress() as progress:
            yield progress
    except (KeyboardInterrupt, Terminated) as stop:
        say(f"Stopped; the newest snapshot counts. Go on with: {command}")
        raise SystemExit(TRY_AGAIN if isinstance(stop, Terminated) else INTERRUPTED) from None


def check_finished(outcome: "Outcome", command: str) -> None:
    """Leaves with a code, and says how to resume, if a run was stopped."""
    if not outcome.finished:
        say(f"Stopped after step {outcome.step:,}; nothing is lost. Go on with: {command}")
        raise SystemExit(INTERRUPTED if outcome.signal == SIGINT else TRY_AGAIN)


def say(sentence: str) -> None:
    """Prints a sentence for the person who watches, once for all ranks."""
    if os.environ.get("RANK", "0") == "0":  # else another rank speaks
        with suppress(OSError):  # whoever reads this may have left
            print(sentence, file=sys.stderr, flush=True)
