"""What looks odd in labelled data: rows that stand twice, contradict each other, or hold debris.

None of it stops a training; all of it is worth a look before one.
"""

import re
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from clozeworks.data.labelled.items import Item, text_columns

_EXAMPLES = 3
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufeff]")
_HTML = re.compile(
    r"</?(?:a|b|br|div|em|font|h[1-6]|i|img|li|ol|p|script|span|strong|table|td|tr|u|ul)\b[^<>]*>"
    r"|&(?:amp|gt|lt|nbsp|quot|#[0-9]+|#x[0-9a-fA-F]+);",
    re.IGNORECASE,
)
# A text is very long if it has so many characters, and so many times those of the middle one.
_LONG = 1_000
_TIMES = 10
# Below so many characters a text may well be a price or a date.
_FEW = 8


@dataclass(frozen=True, slots=True)
class OddRow:
    """A row that shows what was found."""

    source_location: str
    """The file and the row."""
    text: str
    """What is there."""
    note: str = ""
    """What there is to say about it: the other row, and what that one says."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something odd, and where."""

    name: str
    """A short name of the kind."""
    what: str
    """The same for people."""
    count: int
    """How many rows."""
    examples: tuple[OddRow, ...]
    """Up to three of them."""


def findings(items: Sequence[Item], dev: Sequence[Item] = ()) -> tuple[Finding, ...]:
    """Looks for what is odd in training data, and between it and development data."""
    possible = (*repeated(items), *_shared(items, dev), *_debris(items))
    return tuple(finding for finding in possible if finding.count)


def _finding(name: str, what: str, rows: Sequence[tuple[Item, str]]) -> Finding:
    """Makes a finding of items and notes about them."""
    examples = tuple(
        OddRow(item.source_location, " | ".join(item.texts), note)
        for item, note in rows[:_EXAMPLES]
    )
    return Finding(name, what, len(rows), examples)


def key_of(item: Item) -> tuple[str, ...]:
    """What is the same in items with the same text."""
    return tuple(text.strip() for text in item.texts)


def _beside(item: Item, other: Item) -> str:
    """The source location of another item, without the file if it is the same."""
    file = item.source_location.rpartition(", ")[0]
    return other.source_location.removeprefix(f"{file}, ")


def repeated(items: Sequence[Item]) -> Iterator[Finding]:
    """Looks for texts that stood there before, with the same label or with another."""
    first: dict[tuple[str, ...], Item] = {}
    twice: list[tuple[Item, str]] = []
    contrary: list[tuple[Item, str]] = []
    for item in items:
        before = first.setdefault(key_of(item), item)
        if before is item:
            continue
        if before.gold == item.gold:
            twice.append((item, f"first in {_beside(item, before)}"))
        else:
            contrary.append((item, item.difference(before, _beside(item, before))))
    yield _finding("duplicates", "the text stood there before, with the same label", twice)
    yield _finding("contradictions", "the text stood there before, with another label", contrary)


def _shared(items: Sequence[Item], dev: Sequence[Item]) -> Iterator[Finding]:
    def in_both(key: Callable[[Item], Hashable]) -> list[tuple[Item, str]]:
        known = {key(item): item.source_location for item in items if key(item) is not None}
        return [(item, f"also in {known[key(item)]}") for item in dev if key(item) in known]

    what = "development text that also stands in the training data"
    yield _finding("in both", what, in_both(key_of))
    shared = items[0].shared_words[0] if items else "context"
    what = f"development {shared} that also stands in training"
    yield _finding(f"{shared} in both", what, in_both(lambda item: item.shared_text))


def _debris(items: Sequence[Item]) -> Iterator[Finding]:
    texts = list(_once(items))
    long = {
        name: max(_LONG, _TIMES * median(map(len, column)))
        for name, column in text_columns(items).items()
    }

    def with_any(test: Callable[[str], object]) -> list[tuple[Item, str]]:
        return [(item, "") for item, several in texts if any(map(test, several))]

    very_long = [
        (item, "")
        for item in items
        if any(
            len(text) > long[name]
            for name, text in zip(item.names_of_texts, item.texts, strict=True)
        )
    ]
    yield _finding("very long", f"at least {_TIMES} times as long as usual", very_long)
    yield _finding("control characters", "control characters", with_any(_CONTROL.search))
    lost = with_any(lambda text: "\ufffd" in text)
    yield _finding("replacement", "U+FFFD, where characters were lost", lost)
    yield _finding("html", "remains of HTML", with_any(_HTML.search))
    if items and items[0].is_prose:
        # Of tagged text the words are cut apart already, and tables are usual among the sentences.
        yield _finding("no letters", "mostly no letters", with_any(_mostly_no_letters))
        outer = with_any(lambda text: text[:1].isspace() or text[-1:].isspace())
        yield _finding("outer spaces", "white space at the beginning or the end", outer)


def _once(items: Sequence[Item]) -> Iterator[tuple[Item, tuple[str, ...]]]:
    """Items and their texts; one that many share, such as a context, with the first only."""
    seen: set[str] = set()
    for item in items:
        texts, shared = item.texts, item.shared_text
        if shared is not None:
            if shared in seen:
                texts = tuple(text for text in texts if text != shared)
            seen.add(shared)
        yield item, texts


def _mostly_no_letters(text: str) -> bool:
    characters = len(text) - sum(map(str.isspace, text))
    return characters >= _FEW and 2 * sum(map(str.isalpha, text)) < characters
