"""Kinds of characters, and the words of raw text, whatever the tokenizer.

Words are cut as the labelled sets of this field cut them: punctuation stands alone, a Chinese
character is a word, and what a hyphen, an apostrophe or a point holds together stays together
(`don't`, `3.5`, `AT&T`, `U.S.`). Where words are known, they are used instead.
"""

import re
import unicodedata

# Blocks of ideographs as BERT knows them.
IDEOGRAPHS = (
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0002a6df\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f\U0002b820-\U0002ceaf\U0002f800-\U0002fa1f"
)
_CHINESE = re.compile(f"[{IDEOGRAPHS}\u3000-\u303f\uff00-\uffef]")
_LETTER = f"[^\\W{IDEOGRAPHS}]"
_WORD = re.compile(
    rf"[{IDEOGRAPHS}]"
    r"|[\U0001f1e6-\U0001f1ff]{2}"  # two letters are a flag
    r"|(?:[^\W\d_]\.){2,}"  # U.S., e.g.
    rf"|{_LETTER}+(?:[-'’&/.@]{_LETTER}+|(?<=\d),(?=\d){_LETTER}+)*"
    r"|[^\w\s]"
)
_FLAG = re.compile(r"[\U0001f1e6-\U0001f1ff]{2}")
_JOINER = "\u200d"
_SKIN = frozenset("\U0001f3fb\U0001f3fc\U0001f3fd\U0001f3fe\U0001f3ff")


def is_chinese(text: str) -> bool:
    """Whether every character is an ideograph or a mark of the East Asian script."""
    return bool(text) and all(map(_CHINESE.match, text))


def words_of(text: str) -> list[tuple[int, int]]:
    """Finds the words of a text: begin and end of each, in order."""
    spans: list[tuple[int, int]] = []
    for match in _WORD.finditer(text):
        begin, end = match.span()
        if spans and spans[-1][1] == begin and _holds(text[begin - 1], text[begin]):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((begin, end))
    return spans


def characters_of(text: str) -> list[tuple[int, int]]:
    """Finds the characters of a text that are not spaces; signs stay with what they belong to."""
    spans: list[tuple[int, int]] = []
    for begin, end in words_of(text):
        flag = _FLAG.fullmatch(text, begin, end) is not None
        for position in range(begin, end):
            if position > begin and (flag or _belongs(text[position - 1], text[position])):
                spans[-1] = (spans[-1][0], position + 1)
            else:
                spans.append((position, position + 1))
    return spans


def _holds(before: str, after: str) -> bool:
    """Whether two characters belong to one word, though a sign stands between its letters."""
    return _belongs(before, after) or (_is_sign(before) and after.isalnum())


def _belongs(before: str, after: str) -> bool:
    """Whether two characters are one to the eye: a letter and its signs, the parts of an emoji."""
    return after == _JOINER or before == _JOINER or _is_sign(after)


def _is_sign(character: str) -> bool:
    return character in _SKIN or unicodedata.category(character).startswith("M")
