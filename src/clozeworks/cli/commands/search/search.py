"""`clozeworks search`: find the texts of an index that fit a query."""

import sys
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import TextOptions, check_minimum
from clozeworks.errors import SettingError
from clozeworks.serve.client.addresses import is_address
from clozeworks.wording import as_json, shortened, visible

if TYPE_CHECKING:
    from clozeworks.search.documents import SearchHit

app = App(name="clozeworks search", help_format="plaintext", version_flags=[])
# Characters of a passage that are shown.
_SHOWN = 300


@app.default
def search(
    index: str,
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
        index: The folder of the index; or the address of a server, http://HOST:PORT, with #NAME for
            one of its indexes.
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
    check_minimum(1, top=top)
    computing = computing or ComputingOptions()
    opened: Any
    reranker: Any = rerank
    if is_address(index):
        if model is not None:
            rule = "a server has loaded the model of its index"
            raise SettingError("--model", model, rule, "leave it out")
        texts = (reading or TextOptions()).read(query)
        opened = computing.open(index)
    else:
        from clozeworks.jobs.search.index import Index

        opened = Index.open(index)
        texts = (reading or TextOptions()).read(query)
        if by != "words":
            opened = Index.open(index, computing.load(model or opened.store.state.model.name))
        if not opened.store.state.complete:
            print(
                f"{index} is not complete: it holds {len(opened):,} documents so far; the command "
                "that built it goes on.",
                file=sys.stderr,
            )
        reranker = None if rerank is None else computing.load(rerank)
    typed = len(texts) == 1 and texts.source_locations[0] == "the text"
    found = opened.search(
        texts.texts,
        top=top,
        by=by,
        where=where or None,
        rerank=reranker,
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
