"""`clozeworks quickstart`: the main job on a text everybody has."""

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.commands.pretrain import TRY_AGAIN, check_finished

if TYPE_CHECKING:
    from collections.abc import Sequence

    from clozeworks.inference.fill import Filled
    from clozeworks.jobs.quickstart.job import Started
    from clozeworks.jobs.quickstart.task import Bought

app = App(name="clozeworks quickstart", help_format="plaintext", version_flags=[])


@app.default
def quickstart(
    *changes: str,
    out: Annotated[Path, Parameter(alias="-o")] = Path("quickstart-out"),
    seeds: int = 3,
    device: Annotated[str | None, Parameter(alias="-d")] = None,
) -> None:
    """Train a small BERT on Python's own documentation, and see what it learned. Minutes.

    Args:
        changes: Settings of the recipe to change, for example training.steps=500.
        out: The folder for text, tokenizer, corpus and run.
        seeds: How often it is fine-tuned on a labelled set, beside fresh weights; 0 to leave that
            out.
        device: cpu, cuda, cuda:1 (the second GPU), mps (Apple), or auto for the best one that is
            available; auto if not given.
    """
    from clozeworks.display.training import TrainingProgress
    from clozeworks.jobs.quickstart.job import quickstart as job

    begin = time.monotonic()
    with TrainingProgress() as progress:
        result = job(out, *changes, callback=progress, say=print, seeds=range(seeds), device=device)
    words = ["clozeworks", "quickstart", *changes, "--out", str(out)]
    words += ["--seeds", str(seeds)] if seeds != 3 else []
    words += ["--device", device] if device else []
    command = shlex.join(words)
    if result.after is not None and seeds and result.bought is None:
        print(f"Stopped; nothing is lost. Go on with: {command}", file=sys.stderr)
        raise SystemExit(TRY_AGAIN)
    if result.after is None:
        check_finished(result.trained.outcome, command)
    _report(result, time.monotonic() - begin)


def _report(result: "Started", seconds: float) -> None:
    assert result.after is not None
    print("\n".join(result.trained.summary()))
    print("\nThe same gaps, filled by fresh weights and by the trained model:")
    for before, after in zip(result.before, result.after, strict=True):
        print(f"\n  {before.text}")
        print(f"    before  {_guesses(before)}")
        print(f"    after   {_guesses(after)}")
    if result.bought:
        print("\n".join(["", *_bought(result.bought)]))
    model, run = result.trained.model, result.trained.folder
    quoted = shlex.quote(str(result.folder))
    print(
        f"\nAll in {seconds:.0f} s. Look at the curves: {run}/report.html\n"
        f"Ask it yourself: clozeworks fill {shlex.quote(str(model))} 'Raise a [MASK] here.'\n"
        f"Train it longer: cd {quoted} && clozeworks pretrain recipe.toml run=longer "
        "training.steps=10000\n"
        "Your own text:   clozeworks corpus build TEXTS --tokenizer … --out corpus, then "
        "clozeworks init pretrain\n"
        f"See it all in a browser: clozeworks open {quoted}"
    )


def _bought(results: "Sequence[Bought]") -> list[str]:
    """A table: ways of learning by numbers of labels."""
    counts = list(dict.fromkeys(each.labels for each in results))
    lines = [
        "Which of the library's areas is a docstring about? Accuracy on the same dev rows:",
        f"{'':22}" + "".join(f"{f'{count:,} labels':>18}" for count in counts),
    ]
    for way in dict.fromkeys(each.way for each in results):
        cells = [
            str(each)
            for count in counts
            for each in results
            if (each.way, each.labels) == (way, count)
        ]
        lines.append(f"{way:22}" + "".join(f"{cell:>18}" for cell in cells))
    return lines


def _guesses(filled: "Filled") -> str:
    return ", ".join(f"{guess.word} ({guess.score:.1%})" for guess in filled.gaps[0])
