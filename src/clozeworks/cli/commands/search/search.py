"""`clozeworks search`: find the texts of an index that fit a query."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import TextOptions, check_minimum
from clozeworks.wording import as_json, shortened, visible

if TYPE_CHECKING:
    from clozeworks.search.documents import SearchHit

app = App(name="clozeworks search", help_format="plaintext", version_flags=[])
# Characters of a passage that are shown.
_SHOWN = 300


@app.default
def search(
    index: Path,
    query: str,
    /,
    *,
    top: Annotated[int, Parameter(alias="-k")] = 10,
    by: Literal["vectors", "words", "both"] = "vectors",
    where: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    rerank: str | None = None,
    exact: Annotated[bool, Parameter(negative="")] = False,
    model: Annotated[str | None, Parameter(alias="-m")] = None,
    json: Annotated[bool, Parameter(negative="")] = False,
    reading: TextOptions | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Find the texts of an index that fit a query best.

    Of a long text the passage that fits best is shown. Equal scores are sorted by id.

    Args:
        index: The folder of the index.
        query: A query, a file of queries (.txt with one per line, .csv, .tsv, .json, .jsonl,
            .parquet), or - for the lines of standard input.
        top: How many texts are shown.
        by: vectors finds what means the same, and the score is the similarity; words finds the same
            words, by BM25; both joins the two rankings (reciprocal rank fusion).
        where: A condition on a column, such as year>=2020 or language=en; may be given several
            times, and all must hold.
        rerank: A model folder or hub name of a cross-encoder, which reads query and text together:
            it scores the best 50 again.
        exact: Look at all vectors, also if the index has codes or a graph of neighbours.
        model: The model that made the index, if it is elsewhere now.
        json: Print an object per query, with the results, as JSON lines.
        reading: How queries are read.
        computing: Where the model computes.
    """
    from clozeworks.jobs.search.index import Index

    check_minimum(1, top=top)
    opened = Index.open(index)
    texts = (reading or TextOptions()).read(query)
    computing = computing or ComputingOptions()
    if by != "words":
        name = model or opened.store.state.model.name
        opened = Index.open(index, computing.load(name))
    if not opened.store.state.complete:
        print(
            f"{index} is not complete: it holds {len(opened):,} documents so far; the command that "
            "built it goes on.",
            file=sys.stderr,
        )
    typed = len(texts) == 1 and texts.source_locations[0] == "the text"
    found = opened.search(
        texts.texts,
        top=top,
        by=by,
        where=where or None,
        rerank=None if rerank is None else computing.load(rerank),
        exact=exact,
        source_locations=["the query"] if typed else texts.source_locations,
    )
    for text, hits in zip(texts.texts, found, strict=True):
        if json:
            print(as_json({"query": text, "results": [hit.to_dict() for hit in hits]}))
        else:
            _show(text, hits, alone=typed)


def _show(query: str, hits: "list[SearchHit]", *, alone: bool) -> None:
    if not alone:
        print(f"{visible(shortened(query))}")
    if not hits:
        print("  nothing found")
    for rank, hit in enumerate(hits, 1):
        ranks = ", ".join(f"{name} {place}" for name, place in hit.ranks.items())
        extra = f"  ({ranks})" if ranks else ""
        print(f"{rank:>3}  {hit.score:.4f}  {visible(hit.id)}{extra}")
        print(f"     {visible(shortened(' '.join(hit.passage.split()), _SHOWN))}")
    if not alone:
        print()
