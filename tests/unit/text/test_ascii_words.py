"""Words of many texts at once are those that a regular expression finds in each."""

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.text.fast.ascii_words import AsciiWords, written

BERT = AsciiWords(lambda character: int(character.isalnum()), alone=0, lower=True)
SPACED = AsciiWords(lambda character: int(character.isalpha()), with_space=True, without="'")
RULES = {"bert": (BERT, "[a-z0-9]+|[^a-z0-9 ]"), "spaced": (SPACED, " ?[A-Za-z]+| ?[^A-Za-z ]+")}
LINES = st.lists(
    st.lists(st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1)).map(" ".join)
)


def words_of(cut: AsciiWords, texts: list[str]) -> list[list[str]]:
    found = cut.cut(texts)
    words = written(found.first, found.second)
    for place, word in zip(found.long.tolist(), found.long_words, strict=True):
        words[place] = word
    assert found.counts.sum() == len(words)
    return [part.tolist() for part in np.split(np.array(words, object), np.cumsum(found.counts))][
        :-1
    ]


@pytest.mark.parametrize("rule", RULES)
@given(texts=LINES.filter(bool))
def test_the_words_of_all_texts(rule, texts):
    cut, pattern = RULES[rule]
    texts = [text for text in texts if cut.takes(text)] or ["a"]
    lower = str.lower if cut is BERT else str
    assert words_of(cut, texts) == [re.findall(pattern, lower(text)) for text in texts]


@pytest.mark.parametrize("size", [7, 8, 9, 15, 16, 17, 40])
def test_words_of_every_length(size):
    words = ["a" * size, "a" * (size - 1) + "b"]
    assert words_of(BERT, [" ".join(words), words[1]]) == [words, words[1:]]


@pytest.mark.parametrize("text", ["naïve", "a\tb", "a  b", " a", "a ", "it's", "a\x7f"])
def test_what_is_not_taken(text):
    assert not SPACED.takes(text)
    assert SPACED.takes("") and SPACED.takes("a b, c~!")
