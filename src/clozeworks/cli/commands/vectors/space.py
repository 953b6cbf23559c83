"""`clozeworks space`: see how the vectors of texts fill their space."""

from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from clozeworks.cli.commands.vectors.inputs import check_page, read_pairs, write_page
from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import TextOptions, check_minimum

app = App(name="clozeworks space", help_format="plaintext", version_flags=[])


@app.default
def space(
    model: str,
    texts: str,
    /,
    *,
    pairs: Path | None = None,
    repair: Literal["centre", "whiten", "all-but-the-top", "pca"] | None = None,
    dimensions: int | None = None,
    prompt: str | None = None,
    pooling: str | None = None,
    limit: int = 5_000,
    seed: int = 0,
    truncate: Annotated[bool, Parameter(negative="")] = False,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
    reading: TextOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """See how the vectors of texts fill their space: a narrow cone, a few directions, or all of it.

    A cosine of 0.8 means little if any two texts have one of 0.8. With --repair, everything is
    measured again after a repair that needs no training, on texts it was not computed from;
    clozeworks whiten then writes a model that has it.

    Args:
        model: A model folder or hub name.
        texts: A file of texts (.txt with one text per line, .csv, .tsv, .json, .jsonl, .parquet;
            compressed or not), or - for the lines of standard input.
        pairs: A file of text pairs. Without scores all of them mean the same. With scores, their
            Spearman correlation with cosines is measured, too; it decides about a repair.
        repair: What to try: centre (subtract the mean), whiten (give all directions the same
            variance), all-but-the-top (take out the mean and the top directions), or pca.
        dimensions: How many directions whiten and pca keep. Defaults to all.
        prompt: A prefix for each text: the name of a prompt in the model folder, or any other text.
        pooling: Another pooling than the folder's: first, mean, max, mean_sqrt_length,
            weighted_mean, last.
        limit: The most texts that are measured; more are drawn at random.
        seed: Decides which texts are drawn or held out.
        truncate: Truncate longer texts instead of refusing them.
        out: A page with pictures, such as space.html.
        overwrite: Replace the page if it exists.
        json_text: Print JSON.
        reading: How texts are read.
        computing: Where the model computes.
    """
    from clozeworks.errors import SettingError

    check_minimum(1, dimensions=dimensions)
    check_minimum(3, limit=limit)
    check_page(out, overwrite=overwrite)
    if dimensions is not None and repair is None:
        raise SettingError("--dimensions", dimensions, "--repair is missing", "name a repair, too")
    given = (reading or TextOptions()).read(texts)
    scored = read_pairs(pairs)

    from clozeworks.display.progress import ProgressBar
    from clozeworks.display.space_text import space_text
    from clozeworks.jobs.space import look, try_repair
    from clozeworks.language_model.embedding_methods import EmbedKeywords
    from clozeworks.wording import as_json

    loaded = (computing or ComputingOptions()).load(model)
    with ProgressBar("tokens") as progress:
        options = EmbedKeywords(
            prompt=prompt, pooling=pooling, truncate=truncate, progress=progress
        )
        if repair is None:
            report = look(
                loaded,
                given.texts,
                pairs=scored,
                limit=limit,
                seed=seed,
                source_locations=given.source_locations,
                **options,
            )
        else:
            report, _ = try_repair(
                loaded,
                given.texts,
                method=repair,
                dimensions=dimensions,
                pairs=scored,
                limit=limit,
                seed=seed,
                source_locations=given.source_locations,
                **options,
            )
    write_page(report, out, overwrite=overwrite)
    if json_text:
        print(as_json(report.to_dict()))
        return
    print(space_text(report))
    print(f"\n{out}: the same with pictures." if out else "\nPictures: add --out space.html")
