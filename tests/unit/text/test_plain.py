"""Remembering chunks changes no id, whatever the tokenizer and the text."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken
from tokenizers import Tokenizer as Backend

from clozeworks.text.fast import word_memory
from clozeworks.text.fast.plain import PlainText
from clozeworks.text.tokenizer.styles import (
    CAMEMBERT_STYLE,
    MISTRAL_STYLE,
    QWEN2_STYLE,
    SMOLLM3_STYLE,
    XLM_ROBERTA_STYLE,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

TEXTS = [
    "The capital of France is Paris, and Paris (2019) lies on the Seine; it's naïve — isn't it?",
    "don't stop!! e.g. 3.14 and foo_bar/baz@example.org … ok",
    "我爱北京，北京是中国的首都。 Beijing 2008年",
    "ＡＢＣ ﬁne Å ümlaut café e\u0301 \u0301x",
    "one  two spaces",
    "a\tb \tc\t d",
    "soft\u00adhyphen no\u00a0break \u200b zero",
    "the [MASK] of </s> the <s> [SEP]",
    "",
    " ",
    " leading and trailing ",
    "x" * 500 + " " + "y" * 45,
]
PUBLISHED = [None, "lowercase"]


def tokenizers() -> dict[str, Tokenizer]:
    return {
        kind: train_from_iterator(TEXTS * 3, kind=kind, size=400)
        for kind in ("wordpiece", "bpe", "unigram")
    }


TOKENIZERS = tokenizers()


def whole(encoder: PlainText, texts: list[str]) -> tuple[list[int], list[int]]:
    found = encoder._backend.encode_batch(texts, add_special_tokens=False)
    return [token for item in found for token in item.ids], [len(item.ids) for item in found]


def same(encoder: PlainText, texts: list[str]) -> None:
    ids, lengths = encoder.encode(texts)
    assert (ids.tolist(), lengths.tolist()) == whole(encoder, texts)


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_ids_are_those_of_the_whole_text(kind):
    encoder = PlainText(TOKENIZERS[kind])
    assert encoder._begin is not None
    same(encoder, TEXTS)
    same(encoder, TEXTS)  # now from memory
    same(encoder, [])


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=150, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), max_size=4))
def test_ids_are_those_of_the_whole_text_for_any_text(kind, texts):
    same(PlainText(TOKENIZERS[kind]), texts)


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=150, deadline=None)
@given(
    words=st.lists(
        st.sampled_from(
            ["cat", "Paris,", "(2019)", "it's", "é", "e\u0301", "\u0301", "北京", "…", ""]
        ),
        max_size=12,
    )
)
def test_ids_are_those_of_the_whole_text_for_words(kind, words):
    same(PlainText(TOKENIZERS[kind]), [" ".join(words), "cat " + " ".join(words)])


ASCII = "".join(map(chr, range(33, 127)))
CHINESE = "我爱北京天安门，。！？：；（）、《》“”‘’…—·龥一"


@pytest.mark.parametrize("kind", TOKENIZERS)
@settings(max_examples=300, deadline=None)
@given(chunks=st.lists(st.text(ASCII + CHINESE + "éß\u0301", max_size=12), max_size=6))
def test_simple_chunks_are_as_the_library_has_them(kind, chunks):
    same(PlainText(TOKENIZERS[kind]), [*chunks, " ".join(chunks)])


@pytest.mark.parametrize(
    "style",
    [CAMEMBERT_STYLE, MISTRAL_STYLE, QWEN2_STYLE, SMOLLM3_STYLE, XLM_ROBERTA_STYLE],
    ids=["camembert", "mistral", "qwen2", "smollm3", "xlm-roberta"],
)
def test_ids_of_other_styles_are_those_of_the_whole_text(style):
    trained = train_from_iterator(TEXTS * 3, kind=style.kind, size=450, style=style)
    encoder = PlainText(trained)
    for _ in range(2):  # the second time from memory, where there is one
        same(encoder, [*TEXTS, "12345 1 22", "a\n\nb \n c", "I'll  DON'T"])


def test_most_text_is_simple():
    simple = {kind: PlainText(tokenizer)._simple for kind, tokenizer in TOKENIZERS.items()}
    assert simple["wordpiece"].words("Paris, (2019)") == ["Paris", ",", "(", "2019", ")"]
    assert simple["wordpiece"].words("我爱 Paris。") == ["我", "爱", "Paris", "。"]
    assert simple["bpe"].words("it's Paris, ok") == ["it", "'s", " Paris", ",", " ok"]
    assert simple["unigram"].words("Paris, (2019)") == ["Paris,", "(2019)"]
    for known in simple.values():
        assert known.words("naïve") is None


@pytest.mark.parametrize("prefix", [False, True])
def test_a_space_added_in_front_is_respected(prefix):
    state = json.loads(json.dumps(TOKENIZERS["bpe"].state))
    state["pre_tokenizer"]["add_prefix_space"] = prefix
    encoder = PlainText(Tokenizer(Backend.from_str(json.dumps(state))))
    same(encoder, ["the cat's mat, the", "mat the", "'s", "it's 2019's"])


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_special_tokens_in_a_text_are_text(kind):
    tokenizer = TOKENIZERS[kind]
    names = tokenizer.special.names()
    special = {tokenizer.id_of(name) for name in names} - {tokenizer.unknown_id}
    written = " ".join(names)
    texts = [written, f"the {written} of", *names, written.replace(" ", ""), f"é {written}"]
    encoder = PlainText(tokenizer)
    ids, _ = encoder.encode(texts)
    with_offsets = [token for found, _ in encoder.ids_and_offsets(texts) for token in found]
    assert not special & {*ids.tolist(), *with_offsets}
    # All other text is as it was.
    ordinary = ["The capital of France", "it's naïve, 北京", "x" * 50]
    again = tokenizer.encode(ordinary, special=False)
    assert encoder.encode(ordinary)[0].tolist() == [token for item in again for token in item.ids]


NORMALIZERS = {
    "metaspace": {
        "type": "Metaspace",
        "replacement": "▁",
        "prepend_scheme": "always",
        "split": True,
    },
    "split": {"type": "WhitespaceSplit"},
    "nfkc": {"type": "NFKC"},
    "nfkd": {"type": "NFKD"},
    "accents": {"type": "StripAccents"},
    "lower": {"type": "Lowercase"},
    "nmt": {"type": "Nmt"},
    "strip": {"type": "Strip", "strip_left": True, "strip_right": True},
    "spaces": {"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "},
    "underlines": {"type": "Replace", "pattern": {"Regex": r"\s+"}, "content": "_"},
    "big a": {"type": "Replace", "pattern": {"String": "A"}, "content": "a"},
}
ODD = [
    "a ▁foo",
    "a \ufffd b",
    "a ´ b",
    "a ¨foo",
    "a \u0301 foo",
    "¨b a",
    "A foo",
    "_foo a",
    "``a'' 'b'",
    "the cat sat",
]


@pytest.mark.parametrize("splitting", [["metaspace"], ["split", "metaspace"]])
@pytest.mark.parametrize(
    "steps",
    [
        [],
        ["nfkc", "spaces", "strip"],
        ["nmt", "spaces"],
        ["nfkd", "accents", "lower", "spaces"],
        ["underlines"],
        ["big a"],
    ],
)
def test_odd_characters_are_as_the_library_has_them(splitting, steps):
    state = json.loads(json.dumps(TOKENIZERS["unigram"].state))
    normalizers = [NORMALIZERS[name] for name in steps]
    state["normalizer"] = {"type": "Sequence", "normalizers": normalizers} if steps else None
    splitters = [NORMALIZERS[name] for name in splitting]
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": splitters}
    same(PlainText(Tokenizer(Backend.from_str(json.dumps(state)))), ODD)


@pytest.mark.parametrize("step", ["strip", "nfkc", "lower"])
def test_byte_level_with_a_normaliser(step):
    state = json.loads(json.dumps(TOKENIZERS["bpe"].state))
    state["normalizer"] = NORMALIZERS[step]
    same(PlainText(Tokenizer(Backend.from_str(json.dumps(state)))), [*ODD, "a foo B"])


def test_a_mark_of_ascii_is_respected():
    state = json.loads(json.dumps(TOKENIZERS["unigram"].state))
    state["normalizer"] = None
    state["pre_tokenizer"] = {**NORMALIZERS["metaspace"], "replacement": "_"}
    same(PlainText(Tokenizer(Backend.from_str(json.dumps(state)))), ODD)


def test_long_texts_are_not_kept():
    encoder = PlainText(TOKENIZERS["wordpiece"])
    for number in range(60):
        encoder.encode([f"{number}\t" + "word " * 20_000])
    assert encoder._memory._characters < 10_000_000


def test_little_is_remembered_and_nothing_long(monkeypatch):
    encoder = PlainText(TOKENIZERS["wordpiece"])
    monkeypatch.setattr(word_memory, "MOST_WORDS", 10)
    for start in range(0, 100, 7):
        same(encoder, [f"word{number} " + "z" * 60 for number in range(start, start + 7)])
        assert len(encoder._memory) <= 10
    same(encoder, ["z" * 60])
    assert ("z" * 60) in encoder._memory  # until there is too much


def changed(**parts: object) -> PlainText:
    """The WordPiece tokenizer with other parts."""
    state = json.loads(json.dumps(TOKENIZERS["wordpiece"].state))
    state.update(parts)
    return PlainText(Tokenizer(Backend.from_str(json.dumps(state))))


def test_a_tokenizer_that_may_look_across_spaces_is_given_whole_texts():
    replacing = {"type": "Replace", "pattern": {"Regex": "t o"}, "content": "x"}
    assert changed(normalizer=replacing)._begin is None
    assert changed(pre_tokenizer=None)._begin is None
    same(changed(normalizer=replacing), ["cat on a mat"])
    metaspace = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": True}
    assert changed(pre_tokenizer=metaspace)._begin is None
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    byte_level["use_regex"] = False
    assert changed(pre_tokenizer=byte_level)._begin is None


def test_added_words_are_respected():
    backend = Backend.from_str(json.dumps(TOKENIZERS["wordpiece"].state))
    backend.add_tokens([AddedToken("of France"), "zzz"])
    encoder = PlainText(Tokenizer(backend))
    same(encoder, ["the capital of France zzz"])
    assert len(encoder.encode(["zzz"])[0]) == 1


def test_offsets_slice_back_to_the_text():
    text = "Paris lies on the Seine"
    [(ids, offsets)] = PlainText(TOKENIZERS["wordpiece"]).ids_and_offsets([text])
    assert np.array_equal(ids, PlainText(TOKENIZERS["wordpiece"]).encode([text])[0])
    assert "".join(text[a:b] for a, b in offsets) == text.replace(" ", "")
