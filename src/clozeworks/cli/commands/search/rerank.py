"""`clozeworks rerank`: how well documents answer a query, the best first."""

import sys
from typing import TYPE_CHECKING, Annotated

from cyclopts import App, Parameter

from clozeworks.cli.computing import ComputingOptions
from clozeworks.cli.inputs import print_notes
from clozeworks.cli.outputs import open_output
from clozeworks.cli.predict import Options, answer_all
from clozeworks.errors import SET, SettingError
from clozeworks.wording import as_json, shortened, visible

if TYPE_CHECKING:
    from clozeworks.data.labelled.items import Item

app = App(name="clozeworks rerank", help_format="plaintext", version_flags=[])
# Characters of a document that are shown.
_SHOWN = 300


@app.default
def rerank(
    model: str,
    query: str,
    /,
    *documents: str,
    top: Annotated[int | None, Parameter(alias="-k")] = None,
    options: Options | None = None,
    computing: ComputingOptions | None = None,
) -> None:
    """Put documents in order by how well they answer a query.

    The model reads the query together with each document (a cross-encoder). What does not fit is
    cut. Documents of equal scores stay in order.

    Args:
        model: A model folder or hub name: a cross-encoder, or one that compares two texts; or the
            address of a server, http://HOST:PORT, with #NAME for one of its models.
        query: The query. Without documents: a file whose rows have a query and a document each;
            every row is scored, and the rows stay in order.
        documents: Files with a document in each row or line (.txt, .csv, .tsv, .json, .jsonl,
            .parquet; compressed or not), texts, or - for the lines of standard input.
        top: How many documents are shown; all if not given.
        options: How documents are read and scores written.
        computing: Where the model computes.
    """
    from clozeworks.tasks.rerank.items import RerankItem

    options, computing = options or Options(), computing or ComputingOptions()
    options.check(top)
    if not documents:
        from clozeworks.tasks.rerank.task import Rerank

        if top is not None:
            rule = "every row of a file is scored, and there is no order"
            raise SettingError("--top", top, rule, "leave it out, or give a query and documents")
        items, bad = options.open(query, RerankItem)
        loaded = computing.open(model)
        answer_all(loaded, loaded.task_for(Rerank), items, bad, options)
        return
    if options.resume:
        rule = "documents are put in order when all are scored"
        raise SettingError("--resume", SET, rule, "leave it out")
    found = _documents(documents, options)
    ranking = computing.open(model).rerank(
        query, [item.texts[0] for item in found], top=top, batch_tokens=options.batch_tokens
    )
    readable = options.json_lines is False or (
        options.json_lines is None and options.out is None and sys.stdout.isatty()
    )
    with open_output(options.out, "answers", lambda: "", overwrite=options.overwrite) as file:
        for rank, each in enumerate(ranking, 1):
            where = found[each.index].source_location
            if readable:
                text = visible(shortened(" ".join(each.document.split()), _SHOWN))
                file.write(f"{rank:>3}  {each.score:.4f}  {text}\n")
            else:
                record = {"rank": rank, "score": each.score, "document": each.document}
                file.write(as_json({**record, "source_location": where}) + "\n")


def _documents(sources: tuple[str, ...], options: Options) -> "list[Item]":
    """The documents of files, or given as texts."""
    from clozeworks.cli.predict import dropped_rows, nothing
    from clozeworks.tasks.classify import TextItem

    found: list[Item] = []
    for source in sources:
        items, bad = options.open(source, TextItem)
        print_notes([*filter(None, [items.found]), *bad.notes.found])
        own = [item for chunk in items.chunks for item in chunk]
        if not own:
            raise nothing(items.origin, bad)
        print_notes(dropped_rows(bad))
        found += own
    return found
