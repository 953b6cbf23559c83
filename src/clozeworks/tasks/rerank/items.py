"""Rows that teach or measure a reranker: what they hold says what can be learned from them.

| a row has | it teaches | kind |
|---|---|---|
| query, document, 0 or 1 | whether the document answers the query | `judged` |
| query, document, a number or a teacher's score | that score | `scores` |
| query, documents, a label for each | their order | `lists` |
| query, positive, negatives | 1 for positives, 0 for negatives | `tuples` |
| query, positive, negatives, a teacher's scores or margins | the teacher's margins | `margins` |
| query, document, a class | nothing here: that is `compare` | `classes` |

Columns are found by name. A column of documents, positives or negatives may hold a list. What a
first stage scored may stand beside it (`first_stage`): its order is measured, too.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from clozeworks.data.files.fields import is_number
from clozeworks.data.files.tables import TABLE_SUFFIXES
from clozeworks.data.labelled.bad_rows import BadRows, of_one_kind
from clozeworks.data.labelled.cells import numbers_of, texts_of
from clozeworks.data.labelled.columns import LABEL_COLUMNS
from clozeworks.data.labelled.items import NO_LABELS, Item, Role, wrong_text
from clozeworks.data.labelled.labels import is_empty
from clozeworks.data.labelled.reading import Reading
from clozeworks.tasks.compare import PAIRS
from clozeworks.tasks.embed.items import MOST_NEGATIVES, negative_roles

QUERIES = ("query", "question", "anchor", "claim", "sentence1", "first", "问题", "查询")
DOCUMENTS = (
    *("document", "documents", "doc", "docs", "passage", "passages", "answer", "response"),
    *("sentence", "sentence2", "text", "second", "文档", "段落"),
)
POSITIVES = ("positive", "pos", "positives", "relevant")
NEGATIVES = ("negative", "neg", "negatives", "hard_negative", "hard_negatives", "irrelevant")
KINDS = {
    "judged": "queries and documents with 0 or 1",
    "scores": "queries and documents with a number",
    "lists": "queries with documents, a label for each",
    "tuples": "queries with a positive and negatives",
    "margins": "queries with a positive, negatives and a teacher's scores",
    "pairs": "queries with a positive alone",
    "classes": "queries and documents with a class",
    NO_LABELS: "no labels",
}
"""What rows may hold, and what a person calls it."""

# What a cell of labels says when there are only two kinds of them.
_TRUTH = {"0": 0.0, "1": 1.0, "false": 0.0, "true": 1.0, "0.0": 0.0, "1.0": 1.0}


@dataclass(frozen=True, slots=True)
class RerankItem(Item):
    """A query, documents, and what is known of each of them."""

    query: str
    documents: tuple[str, ...]
    label: Any = None
    """A number for each document; None if nothing is known."""
    teacher: tuple[float, ...] = ()
    """A teacher's score of each document; or its margin between the first and each other one."""
    first_stage: tuple[float, ...] = ()
    """The score that each document was found with."""
    kind: str = NO_LABELS
    """What it can teach; one of `KINDS`."""
    source_location: str = ""

    command: ClassVar[str] = "rerank"
    roles: ClassVar[tuple[Role, ...]] = (
        Role("query", QUERIES, holds="text", partner="document"),
        Role("document", DOCUMENTS, required=False),
        Role("label", ("relevance", "grade", "is_relevant", *LABEL_COLUMNS), required=False),
        Role(
            "teacher",
            ("teacher", "teacher_score", "teacher_scores", "logit", "logits", "margin", "margins"),
            required=False,
        ),
        Role(
            "first_stage",
            ("first_stage", "first_stage_score", "first_stage_scores", "bm25", "bm25_score"),
            required=False,
        ),
        Role("positive", POSITIVES, required=False),
        *negative_roles(NEGATIVES),
    )
    known_pairs: ClassVar[tuple[tuple[str, str], ...]] = (
        *((query, document) for query in QUERIES[:4] for document in DOCUMENTS[:8]),
        *PAIRS,
    )
    text_names: ClassVar[tuple[str, ...]] = ("query", "document")
    asked_unit: ClassVar[str] = "pair"
    asked_roles: ClassVar[tuple[str, ...]] = ("query", "document", "positive")
    asked_suffixes: ClassVar[tuple[str, ...]] = TABLE_SUFFIXES
    shared_words: ClassVar[tuple[str, str]] = ("query", "queries")
    label_kinds: ClassVar[Mapping[str, str]] = KINDS
    labels_needed: ClassVar[bool] = False
    example: ClassVar[tuple[str, ...]] = ("a query", "a document that may answer it")

    @property
    def texts(self) -> tuple[str, ...]:
        """The query, then the documents."""
        return (self.query, *self.documents)

    @property
    def names_of_texts(self) -> tuple[str, ...]:
        """The query, and documents."""
        return ("query", *("document",) * len(self.documents))

    @property
    def sequences(self) -> tuple[tuple[str, ...], ...]:
        """The query with each document."""
        return tuple((self.query, document) for document in self.documents)

    @property
    def shared_text(self) -> str | None:
        """The query: rows of one query are never split."""
        return self.query

    @property
    def gold(self) -> Any:
        """What is right for its documents."""
        if self.label is None or len(self.documents) > 1:
            return self.label
        return bool(self.label[0]) if self.kind == "judged" else self.label[0]

    @property
    def gold_state(self) -> str:
        """Whether something in it is relevant."""
        if self.label is None or self.kind == "scores":
            return ""
        return "relevant" if any(label >= 1 for label in self.label) else "not relevant"

    @property
    def known(self) -> tuple[float, ...] | None:
        """What the logit of each document is to be like: as a teacher says, or else its label."""
        if not self.teacher:
            return self.label if self.label is None else tuple(self.label)
        if len(self.teacher) == len(self.documents):
            return self.teacher
        return (0.0, *(-margin for margin in self.teacher))

    def inputs(self) -> dict[str, Any]:
        """The query and its documents."""
        if len(self.documents) == 1:
            return {"query": self.query, "document": self.documents[0]}
        return {"query": self.query, "documents": list(self.documents)}

    def asked(self) -> dict[str, Any]:
        """The query, and a document or a list of them."""
        documents = list(self.documents)
        return {"query": self.query, "document": documents if len(documents) > 1 else documents[0]}

    def to_dict(self) -> dict[str, Any]:
        """The one JSON form."""
        alone = len(self.documents) == 1
        known: dict[str, Any] = {}
        for name in ("label", "teacher", "first_stage"):
            if values := getattr(self, name):
                known[name] = values[0] if alone else list(values)
        return {**self.inputs(), **known}

    @classmethod
    def from_texts(cls, texts: Sequence[str], source_location: str = "") -> "RerankItem":
        """A query and documents."""
        return cls(texts[0], tuple(texts[1:]), source_location=source_location)

    @classmethod
    def from_row(cls, row: Mapping[str, Any], source_location: str, bad: BadRows) -> "RerankItem":
        """The texts of a row, and what stands beside them."""
        if wrong := wrong_text(row.get("query"), "query"):
            raise ValueError(wrong)
        query, label = str(row["query"]), row.get("label")
        documents = texts_of(row.get("document"), "document", required=True)
        positives = texts_of(row.get("positive"), "positive")
        negatives = texts_of(row.get("negative"), "negative")
        for number in range(1, MOST_NEGATIVES + 1):
            negatives += texts_of(row.get(f"negative_{number}"), f"negative {number}")
        if negatives and not positives:
            # A column of documents beside negatives holds what is right.
            positives, documents = documents, ()
        if not positives and not documents:
            what = "positive" if negatives else "document"
            raise ValueError(f"the {what} is empty; give it one")
        if twice := {*positives} & {*negatives}:
            raise ValueError(f"{min(twice)!r:.60} is a positive and a negative; leave one out")
        first_stage = numbers_of(row.get("first_stage"), "first stage's score")
        teacher = numbers_of(row.get("teacher"), "teacher's score")
        if documents:
            kind = "row" if isinstance(row.get("document"), str) else "lists"
            item = cls(query, documents, None if is_empty(label) else label, kind=kind)
        else:
            documents = (*positives, *negatives)
            right = (*(1.0,) * len(positives), *(0.0,) * len(negatives))
            if not teacher and not is_empty(label):  # beside a positive only a teacher's
                teacher = numbers_of(label, "label")
            kind = ("margins" if teacher else "tuples") if negatives else "pairs"
            item = cls(query, documents, right, kind=kind)
        _check_counts(item, teacher, first_stage, len(positives))
        return replace(
            item, teacher=teacher, first_stage=first_stage, source_location=source_location
        )

    @classmethod
    def settle(
        cls, items: Sequence[Item], reading: Reading, bad: BadRows
    ) -> tuple[Sequence[Item], str]:
        """Reads the labels, whose kind shows in all of them together."""
        rows = [item for item in items if isinstance(item, RerankItem)]
        cells = [item.label for item in rows if item.kind == "row" and item.label is not None]
        truth = all(str(cell).strip().lower() in _TRUTH for cell in cells)
        numbers = all(is_number(cell) and not isinstance(cell, bool) for cell in cells)
        as_kind = "judged" if truth and reading.labels != "numbers" else "scores"
        if cells and reading.labels != "numbers" and not truth and not numbers:
            as_kind = "classes"
        kept = []
        for item in rows:
            try:
                kept.append(_settled(item, as_kind))
            except ValueError as error:
                bad.add(item.source_location, str(error))
        alike = of_one_kind(kept, KINDS, bad)
        return alike, alike[0].kind if alike else NO_LABELS

    @classmethod
    def described_labels(cls, has_column: bool, kind: str) -> str:
        """What the rows hold."""
        return f"; the rows hold {KINDS[kind]}"


def _settled(item: RerankItem, as_kind: str) -> RerankItem:
    """The item with its labels as numbers, and its kind."""
    if item.kind == "lists":
        if item.label is None and not item.teacher:
            return replace(item, kind=NO_LABELS)
        label = None if item.label is None else numbers_of(item.label, "label")
        if label is not None and len(label) != len(item.documents):
            raise ValueError(
                f"there are {len(item.documents):,} documents and {len(label):,} labels; each "
                "document needs one; correct them"
            )
        return replace(item, label=label, kind="scores" if item.teacher else "lists")
    if item.kind != "row":
        return item
    if item.label is None:
        return replace(item, kind="scores" if item.teacher else NO_LABELS)
    if as_kind == "classes":
        return replace(item, label=str(item.label), kind="classes")
    if as_kind == "judged":
        label = (_TRUTH[str(item.label).strip().lower()],)
        return replace(item, label=label, kind="scores" if item.teacher else "judged")
    return replace(item, label=numbers_of(item.label, "label"), kind="scores")


def _check_counts(
    item: RerankItem, teacher: tuple[float, ...], first_stage: tuple[float, ...], positives: int
) -> None:
    """Insists on a number for each document, or of a teacher on one for each margin."""
    count = len(item.documents)
    if first_stage and len(first_stage) != count:
        raise ValueError(
            f"there are {count:,} documents and {len(first_stage):,} scores of the first stage; "
            "each document needs one; correct them"
        )
    if item.kind == "margins" and positives > 1:
        raise ValueError(
            "there are several positives, and a teacher's margins are between one and each "
            "negative; write a row for each positive"
        )
    margins = item.kind == "margins" and len(teacher) == count - 1
    if teacher and len(teacher) != count and not margins:
        raise ValueError(
            f"there are {count:,} documents and {len(teacher):,} scores of the teacher; each "
            "document needs one; correct them"
        )
