"""`clozeworks verify`: whether a folder is what it was when it was saved."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

from clozeworks.errors import InputError

app = App(name="clozeworks verify", help_format="plaintext", version_flags=[])


@app.default
def verify(
    folder: Path,
    /,
    *,
    accept: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Check every byte of a model, tokenizer, corpus, run or index.

    Files are compared with the checksums of when they were saved. What can be checked without them
    is: the headers and shapes of weights, numbers that are not finite, a tokenizer that contradicts
    itself. Everything that is wrong is named, and the exit code is 2.

    Args:
        folder: The folder of a model, tokenizer, adapter, corpus, run or index.
        accept: Take the files of a model or tokenizer as they are from now on, after a change that
            was meant.
        json: Print what was found as JSON.
    """
    from dataclasses import asdict
    from json import dumps

    from clozeworks.display.progress import ProgressBar
    from clozeworks.jobs.verify import verify as run
    from clozeworks.wording import counted

    with ProgressBar("bytes") as progress:
        found = run(folder, accept=accept, progress=progress)
    if json:
        print(dumps({**asdict(found), "intact": found.intact}, indent=1, ensure_ascii=False))
    if not found.intact:
        wrong = counted(len(found.faults), "fault")
        raise InputError(f"{wrong}." if json else f"{wrong}:\n" + "\n".join(found.faults))
    if not json:
        for line in (*found.checked, *found.notes):
            print(line)
        print(f"{folder}: nothing is wrong with this {found.kind}.")
