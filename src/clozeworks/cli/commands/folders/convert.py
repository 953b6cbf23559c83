"""`clozeworks convert`: write weights that are stored as pickles as safetensors."""

from pathlib import Path
from typing import Annotated

from cyclopts import App, Parameter

app = App(name="clozeworks convert", help_format="plaintext", version_flags=[])


@app.default
def convert(
    folder: Path,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    overwrite: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Write a model folder with pytorch_model.bin as one with safetensors.

    Such a file is a program that could do anything when it is opened. It is read in a process of
    its own that knows tensors only, has limits on memory and time, and reaches neither the network
    nor other files. Clozeworks loads only safetensors.

    Args:
        folder: A model folder with pytorch_model.bin, or with shards of it and their index.
        out: The folder to write; configs and tokenizer files are copied to it.
        overwrite: Replace the folder if it exists.
    """
    import shlex

    from clozeworks.checkpoints.pickled import convert as run
    from clozeworks.wording import counted

    done = run(folder, out, overwrite=overwrite)
    for note in done.notes:
        print(note)
    megabytes = done.size / 1e6
    print(f"{out}: {counted(done.tensors, 'weight')}, {megabytes:,.1f} MB, as safetensors.")
    print(f"Look at it with: clozeworks show {shlex.quote(str(out))}")
