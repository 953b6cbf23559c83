import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clozeworks.errors import InputError, SettingError, TokenizerError
from clozeworks.text.tokenizer.encoding import fitting_lengths
from clozeworks.text.tokenizer.styles import WordPieceStyle
from clozeworks.text.tokenizer.templates import template

VALID = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)


def tokens(tokenizer, encoded):
    return [tokenizer.token_of(token_id) for token_id in encoded.ids]


def test_words_become_pieces(bert):
    found = bert.encode(["The CATS sat, unhappy!"])[0]
    assert tokens(bert, found) == [
        *("[CLS]", "the", "cat", "##s", "sat", ",", "un", "##happy", "!", "[SEP]"),
    ]
    assert found.special == [True, *[False] * 8, True]
    assert found.offsets is None and found.words is None and found.part is None


def test_pair_of_bert_has_types(bert):
    found = bert.encode(["the cat"], ["mat"], offsets=True)[0]
    assert tokens(bert, found) == ["[CLS]", "the", "cat", "[SEP]", "mat", "[SEP]"]
    assert found.types == [0, 0, 0, 0, 1, 1]
    assert found.part == [None, 0, 0, None, 1, None]


def test_the_template_of_a_pair_is_the_pair_without_its_texts(bert, roberta):
    first, last = bert.encode([""])[0].ids
    found = template(bert, 2)
    assert found.special == ((first,), (last,), (last,)) and found.added == 3
    assert found.special_types == ((0,), (0,), (1,)) and found.text_types == (0, 1)
    assert template(roberta, 2).text_types == (0, 0)
    assert template(bert, 1).text_types == (0,)


def test_pair_of_roberta_has_two_ends_between_and_no_types(roberta):
    found = roberta.encode(["cat"], ["cat"])[0]
    assert tokens(roberta, found) == ["<s>", "cat", "</s>", "</s>", "cat", "</s>"]
    assert found.types == [0] * 6


def test_each_chinese_character_is_a_word(bert):
    found = bert.encode(["我爱北京"], offsets=True)[0]
    assert found.words == [None, 0, 1, 2, 3, None]


def test_without_special_tokens(bert):
    assert tokens(bert, bert.encode(["the"], special=False)[0]) == ["the"]


def test_empty_text_gives_only_special_tokens(bert):
    assert tokens(bert, bert.encode([""])[0]) == ["[CLS]", "[SEP]"]
    assert bert.encode([]) == []


def test_offsets_are_characters_of_the_original_text(bert):
    text = "Ｔhe Café — 我爱😀 SAT unhappy."
    found = bert.encode([text], offsets=True)[0]
    shown = {
        text[begin:end]: bert.token_of(token_id)
        for token_id, (begin, end), special in zip(
            found.ids, found.offsets, found.special, strict=True
        )
        if not special
    }
    assert shown["Café"] == "cafe"
    assert shown["我"] == "我" and shown["😀"] == "😀"
    assert shown["SAT"] == "sat" and shown["happy"] == "##happy"


def test_offsets_of_bytes_leave_the_space_out(roberta):
    text = "the cat é😀"
    found = roberta.encode([text], offsets=True)[0]
    assert text[slice(*found.offsets[-2])] == "😀"
    assert " cat" not in [text[a:b] for a, b in found.offsets]
    assert "cat" in [text[a:b] for a, b in found.offsets]


@given(VALID)
def test_bytes_come_back(byte_level, text):
    ids = byte_level.encode([text], special=False)[0].ids
    # A special token written in the text is left out on purpose.
    if not any(name in text for name in byte_level.special.names()):
        assert byte_level.decode(ids) == text


@given(VALID, VALID)
def test_with_and_without_offsets_give_the_same_ids(byte_level, first, second):
    quick = byte_level.encode([first], [second])[0]
    slow = byte_level.encode([first], [second], offsets=True)[0]
    assert (quick.ids, quick.types, quick.special) == (slow.ids, slow.types, slow.special)


def test_nothing_is_cut_unless_asked(bert):
    text = "the cat " * 300
    assert len(bert.encode([text])[0]) == 602


def test_too_long_says_how_many(bert):
    texts = ["the", "the cat sat on the mat", "the cat sat on"]
    with pytest.raises(InputError) as caught:
        bert.encode(texts, max_length=4)
    assert str(caught.value) == (
        "text 2 has 8 tokens; at most 4 are allowed (2 of 3 texts are too long); shorten it, or "
        "have it cut with --truncate (truncate=True in Python)."
    )


def test_cut_keeps_the_special_tokens(bert):
    found = bert.encode(["the cat sat on", "the"], max_length=4, truncate=True, offsets=True)
    assert tokens(bert, found[0]) == ["[CLS]", "the", "cat", "[SEP]"]
    assert found[0].offsets[2] == (4, 7)
    assert tokens(bert, found[1]) == ["[CLS]", "the", "[SEP]"]


def test_cut_of_a_pair_takes_from_the_longer(bert):
    found = bert.encode(["the cat sat on"], ["mat"], max_length=6, truncate=True)[0]
    assert tokens(bert, found) == ["[CLS]", "the", "cat", "[SEP]", "mat", "[SEP]"]


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 40))
def test_share_fills_the_room(first, second, room):
    kept = fitting_lengths(first, second, room)
    assert sum(kept) == min(first + second, room)
    assert kept[0] <= first and kept[1] <= second
    if first + second > room and min(first, second) <= room // 2:
        assert min(kept) == min(first, second)


def test_no_room_for_text(bert):
    with pytest.raises(SettingError) as caught:
        bert.encode(["the cat"], max_length=2, truncate=True)
    assert str(caught.value) == (
        "max_length is 2; 2 special tokens and one token of text need 3; raise max_length."
    )


def test_truncate_without_a_length(bert):
    with pytest.raises(SettingError) as caught:
        bert.encode(["the"], truncate=True)
    assert str(caught.value) == (
        "max_length is None; `truncate` is True, and cutting needs a length; give one."
    )


def test_lone_surrogate(bert):
    with pytest.raises(InputError) as caught:
        bert.encode(["a", "b", "the \ud83d cat"])
    assert str(caught.value) == (
        "text 3 has a lone surrogate (U+D83D) at character 5; it is not valid Unicode; "
        "remove it or repair the file's encoding."
    )
    with pytest.raises(InputError, match=r"^pair 1 has a lone surrogate \(U\+DC00\) at char"):
        bert.encode(["a"], ["\udc00"])


@pytest.mark.parametrize("value", [None, 3, b"a", ("a", "b")])
def test_not_a_text(bert, value):
    with pytest.raises(InputError) as caught:
        bert.encode(["a", value])
    assert str(caught.value) == (
        f"text 2 is {value!r} of type {type(value).__name__}; texts must be str; "
        "convert or drop it."
    )


def test_one_str_is_not_a_list(bert):
    with pytest.raises(InputError) as caught:
        bert.encode("the cat")
    assert str(caught.value) == (
        "the texts are one str; they must be a list of str; put it in a list: [text]."
    )


def test_pairs_of_another_length(bert):
    with pytest.raises(InputError) as caught:
        bert.encode(["a", "b"], ["c"])
    assert str(caught.value) == (
        "pairs has 1 texts and texts has 2; each text needs one partner; "
        "give lists of equal length."
    )


@pytest.mark.parametrize("wrong", [-1, 25, 10**12])
def test_ids_outside_the_vocabulary(bert, wrong):
    said = (
        f"token id is {wrong:,}; ids go from 0 to 24; "
        "check that the ids were made with this tokenizer."
    )
    with pytest.raises(InputError) as caught:
        bert.decode([5, wrong])
    assert str(caught.value) == said
    with pytest.raises(InputError) as caught:
        bert.token_of(wrong)
    assert str(caught.value) == said


def test_decode(bert):
    ids = bert.encode(["the cats"])[0].ids
    assert bert.decode(ids) == "the cats"
    assert bert.decode(ids, skip_special=False) == "[CLS] the cats [SEP]"


def test_both_spellings_of_a_gap(bert, roberta):
    text = "the [MASK] on <mask>"
    assert bert.mark_gaps(text) == "the [MASK] on [MASK]"
    assert roberta.mark_gaps(text) == "the <mask> on <mask>"
    assert bert.encode([bert.mark_gaps(text)])[0].ids.count(bert.mask_id) == 2


def test_roberta_mask_swallows_the_space_before_it(roberta):
    found = roberta.encode([roberta.mark_gaps("cat [MASK]")], special=False)[0]
    assert tokens(roberta, found) == ["cat", "<mask>"]


def test_no_mask_token(tmp_path):
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    vocabulary = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}
    tokenizer = Tokenizer(WordPieceStyle().build(vocabulary))
    with pytest.raises(TokenizerError) as caught:
        tokenizer.mark_gaps("a [MASK]")
    assert str(caught.value) == (
        "the tokenizer's mask token is None; gaps need one; "
        "use a masked language model such as BERT or RoBERTa."
    )


def test_pieces_of_a_word_inside_a_sentence(bert, roberta):
    assert bert.vocabulary_pieces("Unhappy") == ["un", "##happy"]
    assert roberta.vocabulary_pieces("cat") == ["Ġcat"]


def test_single_id(bert, roberta):
    assert bert.single_id("Cat") == bert.id_of("cat")
    assert bert.single_id("unhappy") is None
    assert bert.single_id("zebra") is None
    assert bert.single_id("##s") == bert.id_of("##s")
    assert roberta.single_id("cat") == roberta.id_of("Ġcat")
    assert roberta.single_id("he") == roberta.id_of("he")


def test_survives_a_worker_process(bert):
    copy = pickle.loads(pickle.dumps(bert))
    assert copy.encode(["the cats"]) == bert.encode(["the cats"])
    assert copy.fingerprint == bert.fingerprint
