"""Two texts: entailment, paraphrase, similarity.

Paper: Devlin et al. 2019 (`[CLS] A [SEP] B [SEP]`, a projection of the pooled first token).
Data: pairs of texts, each with a label, a set of labels, or a number.
Hides and asks: hides nothing; asks each pair for its label.
Loss: as `Classify`.
Relations: `Classify` for one text. If the two do not fit, the longer one is read through windows
and the shorter one stands in each of them. To compare very many texts with each other, vectors
(`embed`) are cheaper.
Example: `Compare(labels=("entailment", "neutral", "contradiction"))`, for similarity
`{kind = "compare", labels = ["similarity"], problem = "number"}`.
"""

from dataclasses import dataclass
from typing import ClassVar

from clozeworks.data.files.tables import TABLE_SUFFIXES
from clozeworks.data.labelled.columns import LABEL_COLUMNS
from clozeworks.data.labelled.items import Item, Label, Role
from clozeworks.spec import spec
from clozeworks.tasks.classify import Classify, LabelledTexts

# One pair after the other: a first text, and the second that belongs to it.
PAIRS = (
    *(("sentence1", "sentence2"), ("premise", "hypothesis"), ("question1", "question2")),
    *(("text_a", "text_b"), ("sentence_a", "sentence_b"), ("text1", "text2"), ("first", "second")),
    *(("#1_string", "#2_string"), ("question", "sentence"), ("query", "passage"), ("s1", "s2")),
)


@dataclass(frozen=True, slots=True)
class PairItem(LabelledTexts):
    """Two texts and how they are related."""

    first: str
    second: str
    label: Label = None
    """A label, several, or a number; None if it is not known."""
    source_location: str = ""

    command: ClassVar[str] = "compare"
    roles: ClassVar[tuple[Role, ...]] = (
        Role("first", tuple(first for first, _ in PAIRS), holds="text", partner="second"),
        Role("second", tuple(second for _, second in PAIRS), holds="text"),
        Role("label", LABEL_COLUMNS, required=False, holds="label"),
    )
    known_pairs: ClassVar[tuple[tuple[str, str], ...]] = PAIRS
    text_names: ClassVar[tuple[str, ...]] = ("first", "second")
    asked_unit: ClassVar[str] = "pair"
    asked_roles: ClassVar[tuple[str, ...]] = ("first", "second")
    asked_suffixes: ClassVar[tuple[str, ...]] = TABLE_SUFFIXES
    example: ClassVar[tuple[str, ...]] = ("one text", "another")


@spec
class Compare(Classify):
    """Says how two texts are related."""

    item_type: ClassVar[type[Item]] = PairItem
    summary: ClassVar[str] = "compare two texts: entailment, paraphrase, similarity"
    description: ClassVar[str] = (
        "Say how the two texts of each pair are related: entailment, paraphrase, similarity. If "
        "two texts do not fit together, the longer one is read through windows; it is truncated "
        "only if the model was trained so."
    )
    title: ClassVar[str] = "Comparison of two texts"
    ability: ClassVar[str] = "compare texts"
    python_usage: ClassVar[str] = 'outputs = model.compare([("one text", "another")])'
    pipeline_input: ClassVar[str] = '{"text": "one text", "text_pair": "another"}'
