"""Labelled items of other tasks as text to read and text to write, and back.

Paper: Raffel et al. 2020 (T5), appendix D.
The idea: the name of the task and the names of its texts stand before them, the label is a word.
What a model writes is read strictly: another word, or more than the word, is wrong.
Where paper and code differ: features stand in alphabetical order, so the hypothesis of MNLI comes
before its premise; a label of -1, which public test sets have, becomes `<unk>`.
Used by: `TextToText`.
"""

import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from clozeworks.data.files.fields import whole_number
from clozeworks.data.labelled.items import Item, Label
from clozeworks.data.labelled.labels import AskedKind
from clozeworks.errors import InputError, UnknownName
from clozeworks.tasks.classify import TextItem
from clozeworks.tasks.compare import PairItem
from clozeworks.tasks.labels.names import number_of, shown
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, WritingItem

NO_LABEL = "<unk>"
# What files write where a label is kept secret.
_SECRET = "-1"


@dataclass(frozen=True)
class Format:
    """How items of a task are written."""

    name: str
    item_type: type[Item]
    """The labelled items it is for."""
    metric: str
    """The value that decides."""
    begins: str = ""
    """What stands before every source."""
    texts: tuple[str, ...] = ("",)
    """What stands before each text of an item, in the order they are written."""
    order: tuple[int, ...] = (0,)
    """Which text of the item each of them is."""
    words: tuple[str, ...] = ()
    """The words for labels, in the order of the published numbers; none for other targets."""
    number: bool = False
    """Whether the target is a number."""
    clean: Callable[[str], str] = field(default=str, repr=False)
    """What is done to each text."""

    @property
    def label_kind(self) -> AskedKind | None:
        """What the labels of its items are; None where they have none."""
        return "numbers" if self.number else "one" if self.words else None

    def item(self, item: Item) -> SourceItem | ChatItem:
        """An item as text to read and text to write.

        Raises:
            InputError: If it is of another kind, or has a label the format has no word for.
        """
        if isinstance(item, SourceItem | ChatItem):
            return item
        if not isinstance(item, self.item_type):
            raise InputError(
                f"{item.source_location or 'the item'} does not fit the format {self.name!r}, "
                f"which is for {self.item_type.command}; give such items, or another format."
            )
        named = zip(self.texts, self.order, strict=True)
        parts = [f"{name} {self.clean(item.texts[index])}" for name, index in named]
        targets = self._targets(item)
        return SourceItem(
            source=" ".join([self.begins, *parts]).strip(),
            target=targets[0] if targets else None,
            task=self.name,
            prefix="",
            others=tuple(targets[1:]),
            source_location=item.source_location,
        )

    def _targets(self, item: Any) -> list[str]:
        if isinstance(item, QuestionItem):
            return list(dict.fromkeys(map(self.clean, item.gold_texts)))
        return [] if item.label is None else [self.word(item.label, item.source_location)]

    def word(self, label: Label, source_location: str) -> str:
        """What is written for a label.

        Raises:
            InputError: If the format has no word for it.
        """
        if self.number:
            # Paper: rounded to the nearest fifth, which makes 21 words from 1 to 5.
            return f"{round(number_of(label, source_location) * 5) / 5:.1f}"
        written = str(label).strip()
        if written == _SECRET:
            return NO_LABEL
        if written in self.words:
            return written
        number = whole_number(written)
        if number is not None and number < len(self.words):
            return self.words[number]
        raise InputError(
            f"{source_location or 'the item'}: the label is {label!r}; the format {self.name!r} "
            f"has words for: {shown(self.words)}, or their numbers from 0; correct it."
        )

    def read(self, text: str) -> Label:
        """The label that a written text is; None if it is not a label."""
        written = text.strip()
        if self.words:
            return written if written in self.words else None
        if not self.number:
            return text
        try:
            number = float(written)
        except ValueError:
            return None
        return number if isfinite(number) else None


def apart(text: str) -> str:
    """A text with spaces around everything but letters, digits, accents and underscores."""
    kept = (each == "_" or unicodedata.category(each)[0] in "NLM" for each in text)
    padded = (each if is_word else f" {each} " for each, is_word in zip(text, kept, strict=True))
    return " ".join("".join(padded).split())


def _labels(
    name: str, texts: Sequence[str], words: Sequence[str], metric: str = "accuracy"
) -> Format:
    """A format for one text or two, the names of its texts in the order of the file."""
    order = tuple(sorted(range(len(texts)), key=lambda index: texts[index]))
    return Format(
        name=name,
        item_type=TextItem if len(texts) == 1 else PairItem,
        metric=metric,
        begins=name,
        texts=tuple(f"{texts[index]}:" for index in order),
        order=order,
        words=tuple(words),
        number=not words,
    )


def _prefix(name: str, prefix: str, metric: str) -> Format:
    return Format(name=name, item_type=WritingItem, metric=metric, begins=prefix)


_ENTAILED = ("entailment", "not_entailment")
_SENTENCES = ("sentence1", "sentence2")

FORMATS: dict[str, Format] = {
    each.name: each
    for each in (
        _labels("cola", ("sentence",), ("unacceptable", "acceptable"), "matthews"),
        _labels("sst2", ("sentence",), ("negative", "positive")),
        _labels("mrpc", _SENTENCES, ("not_equivalent", "equivalent"), "accuracy_and_f1"),
        _labels(
            "qqp", ("question1", "question2"), ("not_duplicate", "duplicate"), "accuracy_and_f1"
        ),
        _labels("stsb", _SENTENCES, (), "pearson_and_spearman"),
        _labels("mnli", ("premise", "hypothesis"), ("entailment", "neutral", "contradiction")),
        _labels("qnli", ("question", "sentence"), _ENTAILED),
        _labels("rte", _SENTENCES, _ENTAILED),
        Format(
            name="squad",
            item_type=QuestionItem,
            metric="f1",
            texts=("question:", "context:"),
            order=(0, 1),
            clean=apart,
        ),
        _prefix("summarize", "summarize: ", "rouge_l"),
        _prefix("translate_en_de", "translate English to German: ", "bleu"),
        _prefix("translate_en_fr", "translate English to French: ", "bleu"),
        _prefix("translate_en_ro", "translate English to Romanian: ", "bleu"),
    )
}


def format_of(name: str, where: str = "format") -> Format:
    """The format with a name.

    Raises:
        UnknownName: If there is no such format.
    """
    if name not in FORMATS:
        raise UnknownName(where, name, FORMATS)
    return FORMATS[name]
