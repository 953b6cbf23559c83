"""Words and what may stand for each: from settings, or from a small file.

A `.tsv` file has one word per line, and after it, each after a tab, what may stand for it; a
`.json` file is an object `{"word": ["other", ...]}`. Capital letters make no difference. A word may
consist of several: `New York`, or of Chinese characters.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from clozeworks.data.augment.passage import Passage
from clozeworks.data.files.encodings import check_characters, printable
from clozeworks.data.files.fields import json_type
from clozeworks.data.files.lines import read_text
from clozeworks.data.files.tables import json_document
from clozeworks.errors import MISSING, SET, InputError, SettingError
from clozeworks.text.characters import words_of

FORM = '{"word": ["other", ...]}'


class SynonymMatch(NamedTuple):
    """Words of a text that have synonyms."""

    first: int
    """The number of the first word."""
    last: int
    """The number of the last; the same for a single word."""
    others: tuple[str, ...]
    """What may stand for them."""


class Synonyms:
    """Words and what may stand for each.

    Args:
        table: Words and their synonyms; a word that comes up again adds to the first.
        origin: How messages name the table.

    Raises:
        InputError: If it is empty, or holds something that is not a word.
    """

    def __init__(self, table: Iterable[tuple[str, Sequence[str]]], origin: str) -> None:
        self._others: dict[str, tuple[str, ...]] = {}
        for word, others in table:
            key = checked_word(word, origin).casefold()
            if not others:
                raise InputError(
                    f"{origin}: {word!r} has no synonyms; each word needs at least one; add some, "
                    "or drop the word."
                )
            new = tuple(checked_word(other, origin) for other in others)
            if key in map(str.casefold, new):
                raise InputError(
                    f"{origin}: {word!r} is its own synonym; that changes nothing; take it out."
                )
            self._others[key] = tuple(dict.fromkeys(self._others.get(key, ()) + new))
        if not self._others:
            raise InputError(
                f"{origin} holds no words; there must be at least one with a synonym; add some."
            )
        self._longest = max(max(1, len(words_of(key))) for key in self._others)

    @classmethod
    def of(cls, table: Mapping[str, Sequence[str]], file: str | None) -> "Synonyms":
        """Takes a table from settings, or from a file if one is named.

        Raises:
            InputError: If the table or the file cannot be used as it is.
        """
        if file is None:
            return cls(table.items(), "augment.synonyms")
        return cls(_read(Path(file)), printable(Path(file)))

    def matches(self, passage: Passage, inside_entities: bool = False) -> list[SynonymMatch]:
        """Finds words with synonyms, the longest first at each position, without overlap."""
        free, matches, following = set(passage.free), [], 0
        tagged = set(passage.entities) if inside_entities else set()
        for first in sorted(free | tagged):
            if first < following:
                continue
            last = first
            while last + 1 - first < self._longest and {first, last + 1} <= free:
                last += 1
            begin = passage.spans[first][0]
            for end in range(last, first - 1, -1):
                text = passage.text[begin : passage.spans[end][1]]
                others = self._others.get(" ".join(text.casefold().split()))
                if others:
                    matches.append(SynonymMatch(first, end, others))
                    following = end + 1
                    break
        return matches


def like(old: str, new: str) -> str:
    """Gives a word the capital letters of the one it replaces, unless it has its own."""
    if not new.islower():
        return new
    if old.isupper() and len(old) > 1:
        return new.upper()
    return new[0].upper() + new[1:] if old[0].isupper() else new


def check_one_source(**sources: object) -> None:
    """Insists that words come from one of the settings that can give them.

    Raises:
        SettingError: If none of them does, or more than one.
    """
    first, *others = sources
    used = [name for name, source in sources.items() if source]
    if not used:
        advice = " or ".join(f"`{name}`" for name in others)
        raise SettingError(first, MISSING, "there are no words to put in", f"give it, or {advice}")
    if len(used) > 1:
        rule = f"words come from one source, and `{used[0]}` is one"
        raise SettingError(used[1], SET, rule, "leave out one of them")


def checked_word(word: str, where: str) -> str:
    """A word with single spaces inside and none around it.

    Raises:
        InputError: If it is empty.
    """
    plain = " ".join(word.split())
    if not plain:
        raise InputError(
            f"{where}: a word is {word!r}; it must have a visible character; fill it in, or leave "
            "it out."
        )
    check_characters(plain, f"{where}: the word {plain!a}")
    return plain


def _read(path: Path) -> list[tuple[str, Sequence[str]]]:
    origin = printable(path)
    if path.suffix.lower() not in (".json", ".tsv"):
        raise InputError(
            f"{origin} ends in {path.suffix!r}; synonyms are read from .tsv and .json files; "
            "convert it, or rename it."
        )
    text = read_text(path)
    return _of_json(text, origin) if path.suffix.lower() == ".json" else _of_lines(text, origin)


def _of_lines(text: str, origin: str) -> list[tuple[str, Sequence[str]]]:
    table: list[tuple[str, Sequence[str]]] = []
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), start=1):
        if not line.strip():
            continue
        word, *others = (cell.strip() for cell in line.split("\t"))
        if not others or not all([word, *others]):
            raise InputError(
                f"{origin}, line {number:,}: {line!r} is not a word and its synonyms; write them "
                "with a tab between each two, and no tab at the end."
            )
        table.append((word, others))
    return table


def _of_json(text: str, origin: str) -> list[tuple[str, Sequence[str]]]:
    value = json_document([text], origin, f"write {FORM}")
    if not isinstance(value, dict):
        raise InputError(f"{origin} is {json_type(value)}; it must be an object; write {FORM}.")
    for word, others in value.items():
        cells = others if isinstance(others, list) else [others]
        wrong = [cell for cell in cells if not isinstance(cell, str)]
        if wrong or cells is not others:
            raise InputError(
                f"{origin}: {word!r} has {json_type((wrong or cells)[0])} for synonyms; they must "
                f"be a list of strings; write {FORM}."
            )
    return list(value.items())
