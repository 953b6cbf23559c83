"""`clozeworks whiten`: make the space of a model's vectors more even, without training."""

import shlex
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from clozeworks.cli.commands.vectors.inputs import check_page, read_pairs, write_page
from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import TextOptions, check_minimum

app = App(name="clozeworks whiten", help_format="plaintext", version_flags=[])


@app.default
def whiten(
    model: str,
    texts: str,
    /,
    *,
    out: Annotated[Path, Parameter(alias="-o")],
    method: Literal["centre", "whiten", "all-but-the-top", "pca"] = "whiten",
    dimensions: int | None = None,
    pairs: Path | None = None,
    prompt: str | None = None,
    seed: int = 0,
    truncate: Annotated[bool, Parameter(negative="")] = False,
    page: Path | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
    reading: TextOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Make the space of a model's vectors more even, and smaller if asked, without training.

    The new folder has one dense layer more, which sentence-transformers reads as well. It helps
    vectors that nobody trained to be compared. A trained sentence model may get worse by it: give
    scored pairs, and it is measured.

    Args:
        model: A model folder or hub name.
        texts: A file of texts of the kind the model is for, more than the vectors have dimensions,
            ten times as many at best; or - for the lines of standard input.
        out: The folder to write.
        method: whiten (give all directions the same variance), centre (subtract the mean),
            all-but-the-top (take out the mean and the top hundredth of the directions), or pca (the
            directions with most variance).
        dimensions: How many directions whiten and pca keep. Defaults to all.
        pairs: A file of text pairs with scores, to measure whether texts are compared better. None
            of them is used for the repair.
        prompt: A prefix for each text: the name of a prompt in the model folder, or any other text.
        seed: Decides which texts are held out to measure.
        truncate: Truncate longer texts instead of refusing them.
        page: A page with pictures, such as space.html.
        overwrite: Replace the folder and the page if they exist.
        json_text: Print JSON.
        reading: How texts are read.
        computing: Where the model computes.
    """
    from clozeworks.checkpoints.whole_folder import check_target

    check_minimum(1, dimensions=dimensions)
    check_target(out, overwrite=overwrite)
    check_page(page, overwrite=overwrite)
    given = (reading or TextOptions()).read(texts)
    scored = read_pairs(pairs)

    from clozeworks.display.progress import ProgressBar
    from clozeworks.display.space_text import space_text
    from clozeworks.jobs.space import try_repair
    from clozeworks.language_model.embedding_methods import EmbedKeywords
    from clozeworks.wording import as_json

    loaded = (computing or ComputingOptions()).load(model)
    with ProgressBar("tokens") as progress:
        options = EmbedKeywords(prompt=prompt, truncate=truncate, progress=progress)
        report, repair = try_repair(
            loaded,
            given.texts,
            method=method,
            dimensions=dimensions,
            pairs=scored,
            seed=seed,
            source_locations=given.source_locations,
            **options,
        )
    loaded.add_repair(repair)
    loaded.save(out, overwrite=overwrite)
    write_page(report, page, overwrite=overwrite)
    if json_text:
        print(as_json(report.to_dict() | {"folder": str(out)}))
        return
    print(space_text(report))
    print(f"\n{out}: {loaded.pooling}")
    print(f"Use it: clozeworks embed {shlex.quote(str(out))} …")
