"""How well a model finds documents: a test collection, embedded as it is read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from clozeworks.data.chunks import in_chunks
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.data.labelled.items import Item
from clozeworks.data.labelled.reading import Labelled, Reading
from clozeworks.data.retrieval.folder import TestCollection
from clozeworks.language_model.pair_scores import pair_scores
from clozeworks.search.collection_ranking import DocumentRanking
from clozeworks.tasks.metrics.difference import difference
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.metrics.reranking import beside
from clozeworks.tasks.metrics.retrieval import USUAL, max_rank, ranked, ranking_quality
from clozeworks.wording import counted

if TYPE_CHECKING:
    from clozeworks.language_model.model import LanguageModel

# What folders call their prompts. Compat: where they have none, nothing stands before a text, not
# even the folder's default prompt, as sentence-transformers has it.
QUERY_PROMPTS = ("query",)
DOCUMENT_PROMPTS = ("document", "passage", "corpus")
_DEEPEST = 1000
RERANKED = 100
"""Documents of a query that a second model scores again."""
_SHOWN = 10  # documents of a record


# The ids and scores found for each query, the best first.
FoundDocuments = dict[str, list[tuple[str, float]]]


@dataclass(frozen=True, slots=True)
class QueryItem(Item):
    """A query of a test collection, and its judged documents."""

    text: str
    id: str
    label: tuple[tuple[str, int], ...]
    """The ids of judged documents, with their grades."""
    source_location: str = ""

    command: ClassVar[str] = "retrieval"
    asked_unit: ClassVar[str] = "query"


@dataclass(frozen=True)
class RetrievalResult:
    """What a model found in a test collection."""

    measured: Measured
    rankings: FoundDocuments
    """What was found for each query."""
    records: list[dict[str, Any]]
    """Each query with its judged documents and the best that were found."""
    labelled: Labelled


def measure_retrieval(
    model: "LanguageModel",
    collection: TestCollection,
    bad: BadRows,
    *,
    metric: str | None = None,
    rerank: "LanguageModel | None" = None,
    intervals: bool = True,
    tell: Callable[[str], None] = lambda sentence: None,
    **options: Any,
) -> RetrievalResult:
    """Embeds queries and documents, ranks these by cosine (or as the folder states), and measures.

    Documents are embedded in the order they are read, and their vectors are not kept. With a second
    model the best documents are scored again, and the values of the first stage stand beside.

    Args:
        model: Any model that embeds.
        collection: Documents, queries and judgements.
        bad: The rows of its files that were dropped.
        metric: What decides, such as `recall@20`; nDCG@10 if not given.
        rerank: A model that compares two texts; it scores the best documents of each query.
        intervals: Whether intervals are wanted.
        tell: Told what a person should know.
        options: As for `embed`.

    Raises:
        SettingError: If the metric is unknown.
    """
    metrics = tuple(dict.fromkeys([metric or USUAL[0], *USUAL]))
    depth = max_rank(metrics) or _DEEPEST
    length = model.limited(None, model.pooling.max_length)
    as_stated = model.prompts.file.get("similarity_fn_name") == "dot"
    how = {"truncate": True, "normalize": None if as_stated else True, **options}
    for sentence in collection.notes:
        tell(sentence)
    asked = prompt_for(model, QUERY_PROMPTS, "queries", tell)
    told = prompt_for(model, DOCUMENT_PROMPTS, "documents", tell)
    queries = model.embed(list(collection.queries.values()), prompt=asked, **how)
    ranking = DocumentRanking(queries, collection.document_ids, depth)
    cut = 0
    for chunk in in_chunks(collection.documents(), lambda document: len(document.text)):
        texts = [document.text for document in chunk]
        if length is not None:
            cut += sum(len(each) > length for each in model.tokenizer.encode(texts))
        locations = [document.source_location for document in chunk]
        ranking.add(model.embed(texts, prompt=told, source_locations=locations, **how))
    if cut:
        total = len(collection.document_ids)
        tell(
            f"{cut:,} of {counted(total, 'document')} have more than {length:,} tokens; the rest "
            "of each was not read."
        )
    found = dict(zip(collection.queries, ranking.results(), strict=True))
    measured = _quality(collection, found, metrics, intervals)
    if rerank is not None:
        before, found = measured, _reranked(collection, found, rerank)
        measured = beside(_quality(collection, found, metrics, intervals), before)
        if intervals:
            tell(difference(before, measured).sentence("The first stage", "the reranked order"))
    items = [
        QueryItem(text, query, tuple(collection.qrels[query].items()))
        for query, text in collection.queries.items()
    ]
    name = f"{collection.name} ({collection.split})"
    labelled = Labelled(QueryItem, (name,), items, "labels", (), ((),), "", Reading(), bad)
    records = [
        {
            "id": item.id,
            "query": item.text,
            "gold": dict(item.label),
            "found": [
                {"id": each, "score": score, "grade": collection.qrels[item.id].get(each)}
                for each, score in found[item.id][:_SHOWN]
            ],
        }
        for item in items
    ]
    return RetrievalResult(measured, found, records, labelled)


def _quality(
    collection: TestCollection,
    found: FoundDocuments,
    metrics: Sequence[str],
    intervals: bool,
) -> Measured:
    return ranking_quality(
        collection.qrels,
        {query: [each for each, _ in best] for query, best in found.items()},
        metrics,
        unjudged=collection.unjudged,
        intervals=intervals,
    )


def _reranked(
    collection: TestCollection, found: FoundDocuments, rerank: "LanguageModel"
) -> FoundDocuments:
    """The best documents in the order of a model that reads query and document together.

    Those behind them keep their order.
    """
    wanted = {each for best in found.values() for each, _ in best[:RERANKED]}
    texts = {each.id: each.text for each in collection.documents() if each.id in wanted}
    score = pair_scores(rerank)
    again: FoundDocuments = {}
    for query, best in found.items():
        ids = [each for each, _ in best[:RERANKED]]
        scores = score(collection.queries[query], [texts[each] for each in ids])
        by_id = dict(zip(ids, scores, strict=True))
        order = ranked(by_id, query=query)
        again[query] = [(each, by_id[each]) for each in order] + best[RERANKED:]
    return again


def prompt_for(
    model: "LanguageModel", names: Sequence[str], what: str, tell: Callable[[str], None]
) -> str:
    """The name of the model's prompt for texts of a kind, which is told; "" if it has none."""
    name = next((each for each in names if model.prompts.texts.get(each)), "")
    if name:
        tell(f"Before {what} stands the prompt {name}: {model.prompts.texts[name]!r}.")
    return name
