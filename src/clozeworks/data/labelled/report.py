"""What there is to know about labelled data before training on it, as plain values."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from clozeworks.data.labelled.items import Item, text_columns
from clozeworks.data.labelled.labels import check_labels, ordered
from clozeworks.data.labelled.oddities import Finding, findings
from clozeworks.data.labelled.reading import Labelled
from clozeworks.data.labelled.vocabulary_fit import VocabularyFit, token_counts
from clozeworks.errors import InputError, SettingError
from clozeworks.spec import PositiveInt, check
from clozeworks.text.characters import words_of
from clozeworks.text.tokenizer.tokenizer import Tokenizer

_LISTED = 20


@dataclass(frozen=True, slots=True)
class Amount:
    """How many of all have a name."""

    name: str
    """The name."""
    count: int
    """How many."""
    fraction: float
    """Of all."""


@dataclass(frozen=True, slots=True)
class Spread:
    """How a number is spread over the rows."""

    what: str
    """What is counted."""
    minimum: float
    """The smallest."""
    mean: float
    """The mean."""
    median: float
    """Half are not above it."""
    ninety: float
    """90 % are not above it."""
    ninety_nine: float
    """99 % are not above it."""
    maximum: float
    """The largest."""

    @classmethod
    def of(cls, what: str, values: Iterable[float]) -> "Spread":
        """Looks at some numbers, of which there is at least one."""
        array = np.fromiter(values, dtype=np.float64)
        # A length that occurs, not one between two that do.
        half, ninety, maximum = np.percentile(array, (50, 90, 99), method="inverted_cdf").tolist()
        return cls(
            what, float(array.min()), float(array.mean()), half, ninety, maximum, float(array.max())
        )


@dataclass(frozen=True, slots=True)
class DataPart:
    """What there is to know about the training files, or about the development files."""

    files: tuple[str, ...]
    """The files."""
    description: str
    """What was taken for what, in sentences."""
    kind: str
    """What kind of labels there is."""
    unit: str
    """What a row is called."""
    labels_title: str
    """What its labels are called together."""
    rows: int
    """How many items."""
    bad: int
    """How many rows cannot be used."""
    bad_rows: tuple[str, ...]
    """The first of them, with what is wrong."""
    repaired: int
    """How many were repaired: answers that did not stand where the file said."""
    repaired_rows: tuple[str, ...]
    """The first of them."""
    labels: tuple[Amount, ...] = ()
    """The labels with their shares of the rows, or the tags with their shares of words, or the
    tasks that texts are written for."""
    types: tuple[Amount, ...] = ()
    """The types of tags such as `B-PER`, counted by entity."""
    numbers: Spread | None = None
    """The labels, if they are numbers."""
    lengths: tuple[Spread, ...] = ()
    """Characters, words, and tokens if there is a tokenizer."""
    over_window: Amount | None = None
    """The rows with more tokens than the window has."""
    answers: tuple[Amount, ...] = ()
    """How many questions have an answer, and how many are known to have none."""
    vocabulary: VocabularyFit | None = None
    """The tokens that the vocabulary does not know; None without a tokenizer, or one of bytes."""


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to know before training."""

    task: str
    """What the data is for."""
    train: DataPart
    """The training files."""
    dev: DataPart | None
    """The development files, if there are any."""
    findings: tuple[Finding, ...] = ()
    """What looks odd."""
    warnings: tuple[str, ...] = field(default=())
    """What may go wrong, in sentences."""
    obstacle: str = ""
    """Why training would be refused; empty if it would not."""


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

    Raises:
        SettingError: If the window is below 1, or there is no tokenizer to count its tokens.
    """
    check("--window", window, PositiveInt | None)
    if window is not None and tokenizer is None:
        advice = "name a tokenizer or a model with --tokenizer"
        raise SettingError("--window", window, "nothing counts tokens", advice)
    if window is None and tokenizer is not None:
        window = tokenizer.max_length
    warnings: tuple[str, ...] = ()
    obstacle = ""
    try:
        warnings = check_labels(train, dev).warnings
    except InputError as error:
        obstacle = str(error)
    parts = [_part(data, tokenizer, window) for data in (train, dev) if data is not None]
    fits = [part.vocabulary for part in parts if part.vocabulary and part.vocabulary.is_bad]
    return Report(
        train.task,
        parts[0],
        parts[1] if dev is not None else None,
        findings(train.items, () if dev is None else dev.items),
        (*warnings, *(fit.sentence() for fit in fits[:1])),
        obstacle,
    )


def _part(data: Labelled, tokenizer: Tokenizer | None, window: int | None) -> DataPart:
    items = data.items
    lengths = list(_lengths(items))
    over = vocabulary = None
    if tokenizer is not None:
        tokens, vocabulary = token_counts(items, tokenizer)
        targets = _gold_texts(items) if data.item.writes else []
        lengths.append(Spread.of("source tokens" if targets else "tokens", tokens))
        if targets:
            lengths.append(Spread.of("target tokens", map(len, tokenizer.encode(targets))))
        if window is not None:
            count = sum(length > window for length in tokens)
            over = Amount(f"over {window:,} tokens", count, count / len(tokens))
    labels = Counter(label for item in items for label in item.labels)
    types = Counter(name for item in items for name in item.entities)
    numbers = [item.gold for item in items if isinstance(item.gold, float)]
    return DataPart(
        data.files,
        data.description,
        data.kind,
        data.item.unit,
        data.item.labels_title,
        len(items),
        len(data.bad.rows),
        tuple(map(str, data.bad.rows[:_LISTED])),
        len(data.bad.repaired),
        tuple(map(str, data.bad.repaired[:_LISTED])),
        _amounts(labels, labels.total() if data.item.labels_by_word else len(items)),
        _amounts(types, types.total()),
        Spread.of("label", numbers) if numbers else None,
        tuple(lengths),
        over,
        _amounts(Counter(item.gold_state for item in items if item.gold_state), len(items)),
        vocabulary,
    )


def _amounts(counts: Counter[str], total: int) -> tuple[Amount, ...]:
    return tuple(Amount(name, counts[name], counts[name] / total) for name in ordered(counts))


def _lengths(items: Sequence[Item]) -> Iterable[Spread]:
    for text_name, column in text_columns(items).items():
        name = "" if text_name == "text" else f"{text_name} "
        yield Spread.of(f"{name}characters", map(len, column))
        known = [item.word_count for item in items if item.word_count is not None]
        if known:
            yield Spread.of("words", known)
            continue
        counts = {text: len(words_of(text)) for text in set(column)}  # one context, many questions
        yield Spread.of(f"{name}words", (counts[text] for text in column))
    gold, name = _gold_texts(items), items[0].gold_text_name
    if gold:
        yield Spread.of(f"{name} characters", map(len, gold))
        yield Spread.of(f"{name} words", (len(words_of(text)) for text in gold))


def _gold_texts(items: Sequence[Item]) -> list[str]:
    """What is to be found or written, where that is known."""
    return [text for item in items for text in item.gold_texts]
