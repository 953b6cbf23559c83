"""Rows that teach or measure sentence vectors: what they hold says what can be learned from them.

| a row has | it teaches | kind |
|---|---|---|
| anchor, positive | the positive is nearer than all others | `pairs` |
| anchor, positive, negatives | the same, with hard negatives | `tuples` |
| two texts, a number | more similar texts have nearer vectors | `scores` |
| two texts, 0 or 1 | whether they belong together | `judged` |
| two texts, a class | which relation they have | `classes` |
| a text, a class | texts of one class are near | `groups` |
| a text | itself, twice or damaged | `texts` |
| a text, a vector of a teacher | the teacher's vector | `vectors` |
| query, documents, a teacher's scores | the teacher's order | `lists` |

Columns are found by name, never by their order. A column of positives or negatives may hold a list.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from clozeworks.data.files.fields import is_number, json_type
from clozeworks.data.files.tables import TABLE_SUFFIXES
from clozeworks.data.labelled.bad_rows import BadRows, of_one_kind
from clozeworks.data.labelled.cells import numbers_of, texts_of
from clozeworks.data.labelled.columns import LABEL_COLUMNS, TEXT_COLUMNS
from clozeworks.data.labelled.items import NO_LABELS, Item, Role, wrong_text
from clozeworks.data.labelled.labels import is_empty
from clozeworks.data.labelled.reading import FileItems, Reading
from clozeworks.data.labelled.text_lines import items_of_lines
from clozeworks.tasks.compare import PAIRS

MOST_NEGATIVES = 32
ANCHORS = ("anchor", "query", "question", "text", "sentence", "title")
POSITIVES = ("positive", "pos", "document", "passage", "answer", "response", "paraphrase", "doc")
NEGATIVES = ("negative", "neg", "hard_negative", "negatives", "hard_negatives")
PAIRED = (
    *((anchor, positive) for anchor in ("anchor", "query", "question") for positive in POSITIVES),
    *PAIRS,
    *(("sentence", "paraphrase"), ("title", "abstract"), ("title", "body"), ("text", "positive")),
)
KINDS = {
    "pairs": "pairs of texts that belong together",
    "tuples": "pairs of texts with hard negatives",
    "scores": "pairs of texts with a number",
    "judged": "pairs of texts with 0 or 1",
    "classes": "pairs of texts with a class",
    "groups": "texts with a class",
    "texts": "texts alone",
    "vectors": "texts with a vector each",
    "lists": "queries and documents with a teacher's scores",
    NO_LABELS: "nothing",
}
"""What rows may hold, and what a person calls it."""

# What a cell of labels says when there are only two kinds of them.
_TRUTH = {"0": False, "1": True, "false": False, "true": True, "0.0": False, "1.0": True}


def negative_roles(names_of_all: tuple[str, ...]) -> Iterator[Role]:
    """The columns of negatives: one of all of them, by these names, or one for each."""
    yield Role("negative", names_of_all, required=False)
    for number in range(1, MOST_NEGATIVES + 1):
        names = tuple(f"{name}_{number}" for name in ("negative", "neg", "hard_negative"))
        yield Role(f"negative_{number}", names, required=False)


@dataclass(frozen=True, slots=True)
class EmbedItem(Item):
    """A text, or one with others, and what is known of them."""

    anchor: str
    others: tuple[str, ...] = ()
    """The positive, or the second of two; then hard negatives, or other documents."""
    label: Any = None
    """A number, whether the two belong together, or a class; None if nothing is known."""
    teacher: tuple[float, ...] = ()
    """The vector of a teacher; or its score of each of the others."""
    group: str = ""
    """Rows of one group are never negatives of each other; its own text if empty."""
    source_location: str = ""

    command: ClassVar[str] = "embed"
    suffixes: ClassVar[tuple[str, ...]] = (*TABLE_SUFFIXES, ".txt")
    roles: ClassVar[tuple[Role, ...]] = (
        Role("anchor", (*ANCHORS, *TEXT_COLUMNS), holds="text", partner="positive"),
        Role("positive", POSITIVES, required=False),
        Role("label", LABEL_COLUMNS, required=False, holds="label"),
        Role("group", ("group", "group_id", "anchor_id", "query_id", "qid"), required=False),
        Role("teacher", ("teacher", "vector", "embedding", "teacher_scores"), required=False),
        *negative_roles(NEGATIVES),
    )
    known_pairs: ClassVar[tuple[tuple[str, str], ...]] = PAIRED
    text_names: ClassVar[tuple[str, ...]] = ("anchor",)
    asked_roles: ClassVar[tuple[str, ...]] = ("anchor", "positive")
    label_kinds: ClassVar[Mapping[str, str]] = KINDS
    labels_needed: ClassVar[bool] = False
    asked_unit: ClassVar[str] = "row"
    gold_word: ClassVar[str] = "texts to compare"
    example: ClassVar[tuple[str, ...]] = ("a text of yours",)

    @property
    def texts(self) -> tuple[str, ...]:
        """The anchor, then the others."""
        return (self.anchor, *self.others)

    @property
    def names_of_texts(self) -> tuple[str, ...]:
        """The anchor, its positive, and negatives."""
        return ("anchor", "positive", *("negative",) * (len(self.others) - 1))[: len(self.texts)]

    @property
    def sequences(self) -> tuple[tuple[str, ...], ...]:
        """Each text on its own."""
        return tuple((text,) for text in self.texts)

    @property
    def gold(self) -> Any:
        """Its label."""
        return self.label

    @property
    def kind(self) -> str:
        """What it can teach; one of `KINDS`."""
        if self.teacher:
            return "lists" if self.others else "vectors"
        if not self.others:
            return "texts" if self.label is None else "groups"
        if isinstance(self.label, bool):
            return "judged"
        if isinstance(self.label, float):
            return "scores"
        if self.label is not None:
            return "classes"
        return "tuples" if len(self.others) > 1 else "pairs"

    def inputs(self) -> dict[str, Any]:
        """Its texts by role."""
        positive = {"positive": self.others[0]} if self.others else {}
        negatives = {f"negative_{n}": text for n, text in enumerate(self.others[1:], start=1)}
        return {"anchor": self.anchor, **positive, **negatives}

    def asked(self) -> dict[str, Any]:
        """The anchor, and what it is compared with."""
        return {"anchor": self.anchor, **({"positive": list(self.others)} if self.others else {})}

    def to_dict(self) -> dict[str, Any]:
        """The one JSON form."""
        known = {"label": self.label} if self.label is not None else {}
        known |= {"teacher": list(self.teacher)} if self.teacher else {}
        known |= {"group": self.group} if self.group else {}
        return {**self.inputs(), **known}

    @classmethod
    def from_texts(cls, texts: Sequence[str], source_location: str = "") -> "EmbedItem":
        """A text, with the others it is compared with."""
        return cls(texts[0], tuple(texts[1:]), source_location=source_location)

    @classmethod
    def read_file(cls, path: Path, suffix: str, reading: Reading, bad: BadRows) -> FileItems | None:
        """Each line of a text file as a text alone."""
        if suffix != ".txt":
            return None
        return items_of_lines(path, reading, bad, lambda text, where: cls.from_texts([text], where))

    @classmethod
    def from_row(cls, row: Mapping[str, Any], source_location: str, bad: BadRows) -> "EmbedItem":
        """The texts of a row, and what stands beside them; a list of positives stays one."""
        anchor = row.get("anchor")
        if wrong := wrong_text(anchor, "anchor"):
            raise ValueError(wrong)
        positives = texts_of(row.get("positive"), "positive")
        negatives = texts_of(row.get("negative"), "negative")
        for number in range(1, MOST_NEGATIVES + 1):
            negatives += texts_of(row.get(f"negative_{number}"), f"negative {number}")
        if negatives and not positives:
            raise ValueError(
                "there is a negative and no positive; give one, or leave the negative out"
            )
        for text in negatives:
            if text == anchor or text in positives:
                which = "anchor" if text == anchor else "positive"
                raise ValueError(f"the {which} is also a negative; leave one of them out")
        teacher = _teacher(row.get("teacher"))
        cell, group = row.get("label"), row.get("group")
        if isinstance(cell, list):
            teacher, cell = _teacher(cell), None
        documents = len(positives) + len(negatives)
        if teacher and documents and len(teacher) not in (documents, documents - 1):
            raise ValueError(
                f"the teacher has {len(teacher):,} numbers for {documents:,} documents; give a "
                "score for each, or how much better the positive is than each negative"
            )
        if teacher and documents == 1:
            raise ValueError(
                "a teacher's score of one document says nothing about an order; give more documents"
            )
        item = cls(
            str(anchor),
            (*positives, *negatives),
            None if is_empty(cell) else cell,
            teacher,
            "" if group is None else str(group),
            source_location,
        )
        if len(positives) > 1 and not teacher:  # taken apart by `settle`, when all rows are known
            item = replace(item, label=_SeveralPositives(len(positives)))
        return item

    @classmethod
    def settle(
        cls, items: Sequence[Item], reading: Reading, bad: BadRows
    ) -> tuple[Sequence[Item], str]:
        """Reads the labels, whose kind shows in all of them together."""
        rows = [each for item in items if isinstance(item, EmbedItem) for each in _apart(item)]
        cells = [item.label for item in rows if item.label is not None]
        if cells:
            rows = _labelled(rows, cells, reading, bad)
        if {item.kind for item in rows} == {"pairs", "tuples"}:
            return rows, "tuples"
        kept = of_one_kind(_of_one_width(rows, bad), KINDS, bad)
        return kept, kept[0].kind if kept else NO_LABELS

    @classmethod
    def described_labels(cls, has_column: bool, kind: str) -> str:
        """What the rows hold."""
        return f"; the rows hold {KINDS[kind]}"


@dataclass(frozen=True)
class _SeveralPositives:
    """So many of the others are positives."""

    count: int


def _apart(item: EmbedItem) -> Iterator[EmbedItem]:
    """A row for each positive of a row, in one group."""
    if not isinstance(item.label, _SeveralPositives):
        yield item
        return
    count = item.label.count
    for positive in item.others[:count]:
        others = (positive, *item.others[count:])
        yield replace(item, others=others, label=None, group=item.group or item.anchor)


def _labelled(
    rows: list[EmbedItem], cells: list[Any], reading: Reading, bad: BadRows
) -> list[EmbedItem]:
    """The rows with their labels read."""
    truth = all(str(cell).strip().lower() in _TRUTH for cell in cells)
    numbers = all(is_number(cell) and not isinstance(cell, bool) for cell in cells)
    paired = sum(bool(item.others) for item in rows) * 2 > len(rows)
    kept = []
    for item in rows:
        if item.label is None:
            bad.add(item.source_location, "the label is empty; give it one")
            continue
        if paired and truth and reading.labels != "numbers":
            label: Any = _TRUTH[str(item.label).strip().lower()]
        elif paired and reading.labels != "one" and (numbers or reading.labels == "numbers"):
            label = float(item.label) if is_number(item.label) else math.nan
            if not math.isfinite(label):
                bad.add(
                    item.source_location,
                    f"the score is {str(item.label)!r}; it must be a finite number; correct it",
                )
                continue
        else:
            label = str(item.label).strip()
        kept.append(replace(item, label=label))
    return kept


def _of_one_width(rows: list[EmbedItem], bad: BadRows) -> list[EmbedItem]:
    """The rows without those whose teacher's vector has not as many numbers as most have."""
    widths = Counter(len(item.teacher) for item in rows if item.kind == "vectors")
    if len(widths) < 2:
        return rows
    usual, kept = widths.most_common(1)[0][0], []
    for item in rows:
        if item.kind == "vectors" and len(item.teacher) != usual:
            bad.add(
                item.source_location,
                f"the teacher's vector has {len(item.teacher):,} numbers, and most have {usual:,}; "
                "give vectors of one teacher",
            )
            continue
        kept.append(item)
    return kept


def _teacher(cell: Any) -> tuple[float, ...]:
    """The numbers of a teacher: a vector, or a score for each text."""
    if not is_empty(cell) and not isinstance(cell, list):
        raise ValueError(
            f"the teacher is {json_type(cell)}; it must be a list of finite numbers; correct it"
        )
    return numbers_of(cell, "teacher's number")
