"""Passages are whole sentences that fit, and lose nothing but white space."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeworks.search.passages import passages_of
from clozeworks.text.training.train import train_from_iterator

WORDS = ["the", "cat", "sat", "on", "a", "mat", "and", "dog", "lay", "in", "its", "garden"]


@pytest.fixture(scope="module")
def tokenizer():
    return train_from_iterator(
        [" ".join(WORDS) + " 我爱北京，天气很好。"] * 3, kind="wordpiece", size=150
    )


def tokens(tokenizer, text):
    return len(tokenizer.encode([text], special=False)[0])


def test_whole_sentences_stand_together(tokenizer):
    text = "The cat sat. A dog lay on a mat.\n\nThe garden. 我爱北京，天气很好。"
    (spans,) = passages_of([text], tokenizer, 10)
    parts = [text[begin:end] for begin, end in spans]
    assert parts[0] == "The cat sat." and parts[-1] == "我爱北京，天气很好。"
    assert parts[1] == "A dog lay on a mat.\n\nThe garden."
    assert all(tokens(tokenizer, part) <= 10 for part in parts)
    assert passages_of(["The cat."], tokenizer, 9) == [[(0, 8)]]


def test_a_long_sentence_is_cut_between_tokens(tokenizer):
    text = "the cat sat on a mat and the dog lay in its garden " * 3
    (spans,) = passages_of([text], tokenizer, 5)
    parts = [text[begin:end] for begin, end in spans]
    assert " ".join(parts).split() == text.split()
    assert len(parts) > 5


@settings(max_examples=40)
@given(
    text=st.text("ab .!?。，我\n" + "".join(WORDS), min_size=1).filter(str.strip),
    most=st.integers(1, 12),
)
def test_nothing_is_lost(tokenizer, text, most):
    (spans,) = passages_of([text], tokenizer, most)
    ends = [0, *(end for _, end in spans)]
    between = [
        text[end:begin] for end, (begin, _) in zip(ends, [*spans, (len(text), 0)], strict=True)
    ]
    assert not re.search(r"\S", "".join(between))
    assert all(text[begin:end].strip() for begin, end in spans)
