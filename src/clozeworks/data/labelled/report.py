"""What there is to know about labelled data before training on it, as plain values."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from clozeworks.data.labelled.columns import TaskName
from clozeworks.data.labelled.items import (
    ChatItem,
    Item,
    PairItem,
    QuestionItem,
    SourceItem,
    TextItem,
    WordsItem,
)
from clozeworks.data.labelled.labels import (
    LabelKind,
    check_labels,
    entity_type,
    labels_of_item,
    ordered,
)
from clozeworks.data.labelled.oddities import Finding, findings, texts_of
from clozeworks.data.labelled.reading import Labelled
from clozeworks.errors import InputError, SettingError
from clozeworks.text.characters import words_of
from clozeworks.text.tokenizer.tokenizer import Tokenizer

_AT_A_TIME = 1_000
_LISTED = 20


@dataclass(frozen=True, slots=True)
class Amount:
    """How many of all have a name.

    Attributes:
        name: The name.
        count: How many.
        share: Of all.
    """

    name: str
    count: int
    share: float


@dataclass(frozen=True, slots=True)
class Spread:
    """How a number is spread over the rows.

    Attributes:
        what: What is counted.
        least: The smallest.
        mean: The mean.
        median: Half are not above it.
        ninety: 90 % are not above it.
        ninety_nine: 99 % are not above it.
        most: The largest.
    """

    what: str
    least: float
    mean: float
    median: float
    ninety: float
    ninety_nine: float
    most: float

    @classmethod
    def of(cls, what: str, values: Iterable[float]) -> "Spread":
        """Looks at some numbers, of which there is at least one."""
        array = np.fromiter(values, dtype=np.float64)
        # A length that occurs, not one between two that do.
        half, ninety, most = np.percentile(array, (50, 90, 99), method="inverted_cdf").tolist()
        return cls(
            what, float(array.min()), float(array.mean()), half, ninety, most, float(array.max())
        )


@dataclass(frozen=True, slots=True)
class DataPart:
    """What there is to know about the training files, or about the development files.

    Attributes:
        files: The files.
        found: What was taken for what.
        kind: What kind of labels there is.
        rows: How many items.
        bad: How many rows cannot be used.
        bad_rows: The first of them, with what is wrong.
        repaired: How many were repaired: answers that did not stand where the file said.
        repaired_rows: The first of them.
        labels: The labels with their shares of the rows, or the tags with their shares of words, or
            the tasks that texts are written for.
        types: The types of tags such as `B-PER`, counted by entity.
        numbers: The labels, if they are numbers.
        lengths: Characters, words, and tokens if there is a tokenizer.
        over_window: The rows with more tokens than the window has.
        answers: How many questions have an answer, and how many are known to have none.
    """

    files: tuple[str, ...]
    found: str
    kind: LabelKind
    rows: int
    bad: int
    bad_rows: tuple[str, ...]
    repaired: int
    repaired_rows: tuple[str, ...]
    labels: tuple[Amount, ...] = ()
    types: tuple[Amount, ...] = ()
    numbers: Spread | None = None
    lengths: tuple[Spread, ...] = ()
    over_window: Amount | None = None
    answers: tuple[Amount, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to know before training.

    Attributes:
        task: What the data is for.
        train: The training files.
        dev: The development files, if there are any.
        findings: What looks odd.
        warnings: What may go wrong, in sentences.
        obstacle: Why training would be refused; empty if it would not.
    """

    task: TaskName
    train: DataPart
    dev: DataPart | None
    findings: tuple[Finding, ...] = ()
    warnings: tuple[str, ...] = field(default=())
    obstacle: str = ""


def report_on(
    train: Labelled,
    dev: Labelled | None = None,
    *,
    tokenizer: Tokenizer | None = None,
    window: int | None = None,
) -> Report:
    """Looks at labelled data.

    Args:
        train: What would be trained on.
        dev: What the model would be judged by.
        tokenizer: Counts tokens, special ones among them.
        window: The most tokens that the model takes at once; as the tokenizer says if not given.

    Returns:
        What was found.

    Raises:
        SettingError: If the window is no length, or there is no tokenizer to fill it.
    """
    if window is not None and window < 1:
        raise SettingError(f"--window is {window}; it must be at least 1.")
    if window is not None and tokenizer is None:
        raise SettingError(
            f"--window is {window:,}, and nothing counts tokens; name a tokenizer or a model with "
            "--tokenizer."
        )
    if window is None and tokenizer is not None:
        window = tokenizer.max_length
    warnings: tuple[str, ...] = ()
    obstacle = ""
    try:
        warnings = check_labels(train, dev).warnings
    except InputError as error:
        obstacle = str(error)
    return Report(
        train.task,
        _part(train, tokenizer, window),
        None if dev is None else _part(dev, tokenizer, window),
        findings(train.items, () if dev is None else dev.items),
        warnings,
        obstacle,
    )


def _part(data: Labelled, tokenizer: Tokenizer | None, window: int | None) -> DataPart:
    items = data.items
    lengths = list(_lengths(items))
    over = None
    if tokenizer is not None:
        tokens = _tokens(items, tokenizer)
        targets = _targets(items)
        lengths.append(Spread.of("source tokens" if targets else "tokens", tokens))
        if targets:
            lengths.append(Spread.of("target tokens", map(len, tokenizer.encode(targets))))
        if window is not None:
            count = sum(length > window for length in tokens)
            over = Amount(f"over {window:,} tokens", count, count / len(tokens))
    return DataPart(
        data.files,
        data.found,
        data.kind,
        len(items),
        len(data.bad.rows),
        tuple(map(str, data.bad.rows[:_LISTED])),
        len(data.bad.repaired),
        tuple(map(str, data.bad.repaired[:_LISTED])),
        _labels(items),
        _types(items),
        _numbers(items),
        tuple(lengths),
        over,
        _answers(items),
    )


def _amounts(counts: Counter[str], total: int) -> tuple[Amount, ...]:
    return tuple(Amount(name, counts[name], counts[name] / total) for name in ordered(counts))


def _labels(items: Sequence[Item]) -> tuple[Amount, ...]:
    counts = Counter(label for item in items for label in labels_of_item(item))
    tagged = any(isinstance(item, WordsItem) for item in items[:1])
    return _amounts(counts, counts.total() if tagged else len(items)) if counts else ()


def _types(items: Sequence[Item]) -> tuple[Amount, ...]:
    """Counts entities: the tags that begin one."""
    counts: Counter[str] = Counter()
    for item in items:
        before = ""
        for tag in labels_of_item(item) if isinstance(item, WordsItem) else ():
            kind = entity_type(tag)
            if kind != tag and (tag[0] in "BSU" or before != kind):
                counts[kind] += 1
            before = kind
    return _amounts(counts, counts.total()) if counts else ()


def _numbers(items: Sequence[Item]) -> Spread | None:
    labels = (item.label for item in items if isinstance(item, TextItem | PairItem))
    numbers = [label for label in labels if isinstance(label, float)]
    return Spread.of("label", numbers) if numbers else None


def _lengths(items: Sequence[Item]) -> Iterable[Spread]:
    names = ("question ", "context ") if isinstance(items[0], QuestionItem) else ("", "")
    if isinstance(items[0], PairItem):
        names = ("first ", "second ")
    if isinstance(items[0], SourceItem | ChatItem):
        names = ("source ", "")
    texts = list(zip(*map(texts_of, items), strict=True))
    for name, column in zip(names, texts, strict=False):
        counted: dict[str, int] = {}
        for text in column:  # one context has many questions
            if text not in counted:
                counted[text] = len(words_of(text))
        yield Spread.of(f"{name}characters", map(len, column))
        if isinstance(items[0], WordsItem):
            yield Spread.of(
                "words", (len(item.spans) for item in items if isinstance(item, WordsItem))
            )
        else:
            yield Spread.of(f"{name}words", (counted[text] for text in column))
    spans = [span for item in items if isinstance(item, QuestionItem) for span in item.answers]
    if spans:
        yield Spread.of("answer characters", (len(span.text) for span in spans))
        yield Spread.of("answer words", (len(words_of(span.text)) for span in spans))
    if targets := _targets(items):
        yield Spread.of("target characters", map(len, targets))
        yield Spread.of("target words", (len(words_of(text)) for text in targets))


def _targets(items: Sequence[Item]) -> list[str]:
    """What is to be written, where that is known."""
    found = (item.target for item in items if isinstance(item, SourceItem | ChatItem))
    return [target for target in found if target is not None]


def _tokens(items: Sequence[Item], tokenizer: Tokenizer) -> list[int]:
    lengths: list[int] = []
    for begin in range(0, len(items), _AT_A_TIME):
        columns = list(zip(*map(texts_of, items[begin : begin + _AT_A_TIME]), strict=True))
        pairs = columns[1] if len(columns) > 1 else None
        lengths.extend(map(len, tokenizer.encode(columns[0], pairs)))
    return lengths


def _answers(items: Sequence[Item]) -> tuple[Amount, ...]:
    questions = [item for item in items if isinstance(item, QuestionItem)]
    if not questions:
        return ()
    counts = Counter(
        "answered" if item.answers else "without an answer" if item.impossible else "not known"
        for item in questions
    )
    return _amounts(counts, len(questions))
