"""`clozeworks mine`: find hard negatives for pairs of texts."""

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import TableOptions, option_name
from clozeworks.display.table import aligned
from clozeworks.wording import as_json, counted

if TYPE_CHECKING:
    from clozeworks.jobs.search.mine import Mined
    from clozeworks.search.mining import MiningRules

app = App(name="clozeworks mine", help_format="plaintext", version_flags=[])


@app.default
def mine(
    *files: Annotated[Path, Parameter(required=True)],
    model: Annotated[str, Parameter(alias="-m")],
    out: Annotated[Path, Parameter(alias="-o")],
    corpus: Annotated[tuple[Path, ...], Parameter(negative="", show_default=False)] = (),
    negatives: Annotated[int, Parameter(alias="-k")] = 3,
    relative_margin: float | None = None,
    absolute_margin: float | None = None,
    max_score: float | None = None,
    min_score: float | None = None,
    range_min: int = 0,
    range_max: int | None = None,
    sampling: Literal["top", "random"] = "top",
    seed: int = 0,
    rerank: str | None = None,
    layout: Literal["triplets", "tuples"] = "triplets",
    skip_bad_rows: Annotated[bool, Parameter(negative="")] = False,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json_text: Annotated[bool, Parameter(name="--json", negative="")] = False,
    reading: TableOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Find hard negatives: texts that are near an anchor and are not its positives.

    They make the rows that `clozeworks finetune embed` learns most from. Texts that are right and
    not marked as such are often the nearest of all; a margin (--relative-margin 0.05) keeps them
    out. What each rule dropped is printed.

    Args:
        files: Pairs of anchor and positive (triplets and pairs with 0 or 1, too): .csv, .tsv,
            .jsonl, .json, .parquet; or a folder in BEIR's layout, or a file of its judgements.
        model: The sentence model that says what is near: a model folder or hub name.
        out: The file that is written: .jsonl or .tsv.
        corpus: A file of further texts to choose from; may be given several times.
        negatives: How many are taken for each anchor.
        relative_margin: Negatives score below the lowest positive of their anchor by at least this
            fraction of its score.
        absolute_margin: The same as a difference of scores.
        max_score: Negatives have at most this score.
        min_score: Negatives have at least this score.
        range_min: Skip so many of the nearest that are left.
        range_max: Look at so many of the nearest. If not given, as many as are needed; ten times as
            many where scores decide.
        sampling: Take the nearest that are left, or random ones.
        seed: Decides which are random.
        rerank: A model that compares two texts; it scores candidates and positives again before the
            rules are applied.
        layout: triplets: a row for each negative. tuples: a row for each pair, with columns
            negative_1, negative_2 …; pairs with fewer negatives are left out.
        skip_bad_rows: Drop rows that cannot be used, and count them.
        overwrite: Replace the file if it exists.
        json_text: Print the report as one JSON object.
        reading: How files are read.
        computing: Where the models compute.
    """
    from clozeworks.data.files.vectors import check_output
    from clozeworks.jobs.search.mine import MINED_SUFFIXES

    check_output(out, overwrite=overwrite, suffixes=MINED_SUFFIXES, name="triplets")

    from clozeworks.data.labelled.bad_rows import BadRows
    from clozeworks.display.progress import ProgressBar
    from clozeworks.jobs.search.mine import mine_negatives, mining_texts
    from clozeworks.search.mining import MiningRules
    from clozeworks.tasks.embed.items import EmbedItem

    rules = MiningRules(
        negatives=negatives,
        range_min=range_min,
        range_max=range_max,
        absolute_margin=absolute_margin,
        relative_margin=relative_margin,
        max_score=max_score,
        min_score=min_score,
        sampling=sampling,
        seed=seed,
    )
    computing = computing or ComputingOptions()
    options = (reading or TableOptions()).reading(EmbedItem)
    bad = BadRows(skip=skip_bad_rows)
    texts = mining_texts(files, corpus, options, bad, _tell)
    positives = counted(sum(map(len, texts.positives)), "positive")
    _tell(
        f"{counted(len(texts.anchors), 'anchor')} with {positives}; "
        f"{counted(len(texts.texts), 'text')} to choose from."
    )
    loaded = computing.load(model)
    second = None if rerank is None else computing.load(rerank)
    with ProgressBar("tokens") as progress:
        mined = mine_negatives(
            loaded,
            texts,
            out,
            rules,
            layout=layout,
            rerank=second,
            tell=_tell,
            progress=progress,
        )
    if bad.rows:
        _tell(f"{counted(len(bad.rows), 'bad row')} dropped, the first: {bad.rows[0]}")
    if json_text:
        print(as_json(_record(mined, rules, out), ascii_only=True))
    else:
        print(_page(mined, rules, out))


def _tell(sentence: str) -> None:
    print(sentence, file=sys.stderr)


def _record(mined: "Mined", rules: "MiningRules", out: Path) -> dict[str, object]:
    report = mined.report
    return {
        "out": str(out),
        "rows": mined.rows,
        "left_out": mined.left_out,
        "anchors": report.anchors,
        "anchors_with_fewer": report.short,
        "anchors_with_none": report.none,
        "candidates": report.candidates,
        "dropped": dict(report.dropped),
        "taken": report.taken,
        "quantiles": report.quantiles(),
        "rules": asdict(rules),
    }


def _page(mined: "Mined", rules: "MiningRules", out: Path) -> str:
    """What was written, what each rule dropped, and how scores are spread."""
    report = mined.report
    lines = [
        f"{counted(mined.rows, 'row')} in {out}: {counted(report.taken, 'negative')} for "
        f"{counted(report.anchors - report.none, 'anchor')}.",
        "",
        f"{report.candidates:,} candidates were looked at.",
    ]
    for name, count in report.dropped.items():
        if count:
            value = getattr(rules, name)
            share = f"{count / max(1, report.candidates):.1%}"
            lines.append(f"  {option_name(name)} {value} dropped {count:,} ({share})")
    if quantiles := report.quantiles():
        shares = list(next(iter(quantiles.values())))
        rows = [
            [name, *(f"{value:.3f}" for value in each.values())] for name, each in quantiles.items()
        ]
        lines += ["", *aligned([["scores", *shares], *rows])]
    if report.short or report.none:
        lines += [
            "",
            f"{counted(report.short, 'anchor has', 'anchors have')} fewer than {rules.negatives} "
            f"negatives, {counted(report.none, 'anchor has', 'anchors have')} none"
            + (f"; {counted(mined.left_out, 'pair')} left out." if mined.left_out else "."),
            "For more, raise --range-max, or loosen the rules that dropped many.",
        ]
    return "\n".join(lines)
