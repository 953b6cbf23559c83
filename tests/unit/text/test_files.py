import json

import pytest

from clozeworks.errors import TokenizerError
from clozeworks.text.tokenizer.special import GPT2_TOKENS, SpecialTokens
from clozeworks.text.tokenizer.styles import (
    ByteLevelStyle,
    UnigramStyle,
    WordPieceStyle,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer

TEXTS = ["The cats sat.", "我爱北京 😀", "", "  café\tthe [MASK] <mask>"]


def ids(tokenizer):
    return [item.ids for item in tokenizer.encode(TEXTS, TEXTS[::-1])]


def config(folder, **values):
    (folder / "tokenizer_config.json").write_text(json.dumps(values), encoding="utf-8")
    (folder / "clozeworks.json").unlink(missing_ok=True)  # as if another library had written it


@pytest.mark.parametrize("name", ["bert", "roberta", "gpt2"])
def test_save_and_load_change_nothing(request, tmp_path, name):
    first = Tokenizer.load(request.getfixturevalue(f"{name}_folder"))
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    whole.mkdir(), parts.mkdir()
    first.save(whole)
    second = Tokenizer.load(whole)
    for path in whole.iterdir():
        if path.name not in ("tokenizer.json", "clozeworks.json"):
            (parts / path.name).write_bytes(path.read_bytes())
    third = Tokenizer.load(parts)
    for other in (second, third):
        assert other.fingerprint == first.fingerprint
        assert other.special == first.special
        assert ids(other) == ids(first)
    again = tmp_path / "again"
    again.mkdir()
    second.save(again)
    for path in whole.iterdir():
        assert (again / path.name).read_bytes() == path.read_bytes(), path.name


def test_unigram_is_saved_too(tmp_path):
    pieces = [(name, 0.0) for name in UnigramStyle().leading()]
    pieces += [("▁", -3.0), ("▁the", -1.0), ("c", -2.5), ("a", -2.5), ("t", -2.5)]
    first = Tokenizer(UnigramStyle().build(pieces))
    assert first.kind == "unigram" and first.pad_id == 0 and first.unknown_id == 1
    assert first.special == UnigramStyle().special
    assert first.decode(first.encode(["the  cat"])[0].ids) == "the cat"
    first.save(tmp_path)
    assert Tokenizer.load(tmp_path).fingerprint == first.fingerprint


def test_attributes(bert, roberta, gpt2_folder):
    assert (bert.size, bert.kind, bert.max_length) == (25, "wordpiece", None)
    assert (bert.pad_id, bert.unknown_id, bert.first_id, bert.last_id, bert.mask_id) == tuple(
        range(5)
    )
    assert (roberta.first_id, roberta.pad_id, roberta.last_id, roberta.unknown_id) == (0, 1, 2, 3)
    assert roberta.mask_id == roberta.size - 1 and roberta.kind == "bpe"
    assert list(roberta.vocabulary())[:2] == ["<s>", "<pad>"]
    gpt2 = Tokenizer.load(gpt2_folder)
    assert gpt2.special == GPT2_TOKENS
    assert gpt2.mask_id is None and gpt2.pad_id is None
    assert gpt2.encode([""])[0].ids == []


def test_config_goes_before_the_style(bert_folder):
    style = WordPieceStyle(lowercase=True)
    assert Tokenizer.load(bert_folder, style).single_id("CAT") is not None
    config(bert_folder, do_lower_case=False, model_max_length=512)
    cased = Tokenizer.load(bert_folder, style)
    assert cased.single_id("CAT") is None
    assert cased.max_length == 512


def test_config_goes_before_tokenizer_json(bert, roberta, tmp_path):
    def load(tokenizer, style=None, drop=(), **changes):
        tokenizer.save(tmp_path)
        stated = json.loads((tmp_path / "tokenizer_config.json").read_text())
        kept = {key: value for key, value in stated.items() if key not in drop}
        config(tmp_path, **{**kept, **changes})
        return Tokenizer.load(tmp_path, style)

    def pieces(tokenizer, text):
        return [tokenizer.token_of(token) for token in tokenizer.encode([text])[0].ids[1:-1]]

    assert load(bert).fingerprint == bert.fingerprint
    assert pieces(load(bert), "The café 我爱") == ["the", "cafe", "我", "爱"]
    assert pieces(load(bert, do_lower_case=False), "The") == ["[UNK]"]
    assert pieces(load(bert, do_lower_case=False, strip_accents=True), "café") == ["cafe"]
    assert pieces(load(bert, strip_accents=False), "café") == ["[UNK]"]
    assert pieces(load(bert, tokenize_chinese_chars=False), "我爱") == ["[UNK]"]
    assert pieces(load(roberta), "the cat") == ["t", "he", "Ġcat"]
    spaced = load(roberta, add_prefix_space=True)
    assert pieces(spaced, "the cat") == ["Ġthe", "Ġcat"]
    assert spaced.encode(["the cat"], offsets=True)[0].offsets[1:3] == [(0, 3), (4, 7)]
    spaced.save(tmp_path)
    assert Tokenizer.load(tmp_path).fingerprint == spaced.fingerprint
    # A class that reads no such key leaves tokenizer.json alone, and so does an unknown class.
    for name in ("PreTrainedTokenizerFast", "MyTokenizer"):
        other = load(bert, do_lower_case=False, tokenizer_class=name)
        assert other.fingerprint == bert.fingerprint
    # Without a class the family knows, if it is told and a key is stated.
    unnamed = {"tokenizer": bert, "drop": ["tokenizer_class"], "do_lower_case": False}
    assert load(**unnamed).fingerprint == bert.fingerprint
    assert load(**unnamed, style=ByteLevelStyle()).fingerprint == bert.fingerprint
    assert pieces(load(**unnamed, style=WordPieceStyle()), "The") == ["[UNK]"]
    cased = load(bert, do_lower_case=False)
    (tmp_path / "tokenizer_config.json").unlink()
    cased.save(tmp_path)
    for name in ("tokenizer_config.json", "clozeworks.json"):
        (tmp_path / name).unlink()
    assert Tokenizer.load(tmp_path, WordPieceStyle()).fingerprint == cased.fingerprint


@pytest.mark.parametrize("key", ["do_lower_case", "strip_accents", "add_prefix_space"])
def test_config_that_is_neither_true_nor_false(bert_folder, key):
    config(bert_folder, **{key: None})
    assert Tokenizer.load(bert_folder).single_id("CAT") is not None
    config(bert_folder, **{key: "no"})
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(bert_folder)
    assert str(caught.value) == (
        f"{bert_folder / 'tokenizer_config.json'}: {key} is 'no'; it must be true or false; "
        "correct it."
    )


def test_no_limit_is_none(bert_folder):
    config(bert_folder, model_max_length=1e30)
    assert Tokenizer.load(bert_folder).max_length is None


def test_special_tokens_as_text_or_object(bert_folder):
    config(bert_folder, mask_token={"content": "cat", "lstrip": False}, cls_token="mat")
    loaded = Tokenizer.load(bert_folder)
    assert loaded.special.mask == "cat" and loaded.special.first == "mat"
    assert loaded.special.pad == "[PAD]"
    config(bert_folder, mask_token=None)
    assert Tokenizer.load(bert_folder).special.mask is None


def test_special_tokens_map_counts(bert, bert_folder, tmp_path):
    bert.save(tmp_path)
    for name in ("tokenizer_config.json", "clozeworks.json"):
        (tmp_path / name).unlink()
    (tmp_path / "special_tokens_map.json").write_text('{"mask_token": "mat"}')
    assert Tokenizer.load(tmp_path).special == SpecialTokens(
        pad="[PAD]",
        unknown="[UNK]",
        mask="mat",
        first="[CLS]",
        last="[SEP]",
        extra=("[MASK]",),
    )


def test_unknown_keys_are_kept(bert_folder, tmp_path):
    config(bert_folder, my_key={"a": 1}, tokenizer_class="BertTokenizerFast")
    out = tmp_path / "out"
    out.mkdir()
    Tokenizer.load(bert_folder).save(out)
    saved = json.loads((out / "tokenizer_config.json").read_text())
    assert saved["my_key"] == {"a": 1}
    assert saved["tokenizer_class"] == "BertTokenizerFast"
    assert saved["do_lower_case"] is True


def test_stored_truncation_and_padding_are_off(bert, tmp_path):
    bert.save(tmp_path)
    state = json.loads((tmp_path / "tokenizer.json").read_text())
    state["truncation"] = {
        "direction": "Right",
        "max_length": 3,
        "strategy": "LongestFirst",
        "stride": 0,
    }
    state["padding"] = {
        "strategy": {"Fixed": 9},
        "direction": "Right",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "[PAD]",
    }
    (tmp_path / "clozeworks.json").unlink()
    # The order of the keys says nothing either.
    (tmp_path / "tokenizer.json").write_text(json.dumps(dict(reversed(state.items()))))
    loaded = Tokenizer.load(tmp_path)
    assert [len(item) for item in loaded.encode(["the cat sat on", "the"])] == [6, 3]
    assert loaded.fingerprint == bert.fingerprint


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["model"]["vocab"].update({"dog": 25}),
        lambda state: state["normalizer"].update({"lowercase": False}),
        lambda state: state.update({"post_processor": None}),
        lambda state: state["added_tokens"].pop(),
    ],
)
def test_fingerprint_sees_what_decides_the_ids(bert, tmp_path, change):
    bert.save(tmp_path)
    state = json.loads((tmp_path / "tokenizer.json").read_text())
    change(state)
    (tmp_path / "tokenizer.json").write_text(json.dumps(state))
    for name in ("tokenizer_config.json", "vocab.txt", "clozeworks.json"):
        (tmp_path / name).unlink()
    assert Tokenizer.load(tmp_path).fingerprint != bert.fingerprint


def test_added_tokens(bert_folder):
    (bert_folder / "added_tokens.json").write_text('{"<new>": 25}')
    loaded = Tokenizer.load(bert_folder)
    assert loaded.size == 26
    assert loaded.encode(["the<new>cat"], special=False)[0].ids == [5, 25, 6]
    (bert_folder / "added_tokens.json").write_text('{"<new>": 30}')
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(bert_folder)
    assert str(caught.value) == (
        f"{bert_folder / 'added_tokens.json'}: the id of '<new>' is 30; it would follow the "
        "vocabulary as 25; check that the file belongs to this vocabulary."
    )


def test_nothing_there(tmp_path):
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path} has no tokenizer; it must hold tokenizer.json, or vocab.txt, or vocab.json "
        "with merges.txt; copy the files there or name another folder."
    )


def test_repeated_token(bert_folder):
    path = bert_folder / "vocab.txt"
    path.write_text("[UNK]\ncat\nmat\ncat\n")
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(bert_folder, repeats="error")
    assert str(caught.value) == (
        f"{path}, line 4: 'cat' stands already on line 2; a token has one id; repair the file, "
        "or load it with repeats='last', which counts the last line as transformers does."
    )
    loaded = Tokenizer.load(bert_folder)
    assert loaded.id_of("cat") == 3 and loaded.size == 4
    from clozeworks.errors import InputError

    with pytest.raises(InputError) as hole:
        loaded.token_of(1)
    assert str(hole.value) == (
        "token id is 1; the vocabulary leaves that id empty; use an id of vocabulary()."
    )


def test_no_unknown_token(bert_folder):
    path = bert_folder / "vocab.txt"
    path.write_text("cat\nmat\n")
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(bert_folder)
    assert str(caught.value) == (
        f"{path} has no '[UNK]' among its 2 tokens; words outside the vocabulary need it; "
        "check that the file is a WordPiece vocabulary."
    )


def test_only_line_feeds_end_a_line(bert_folder):
    path = bert_folder / "vocab.txt"
    path.write_bytes("[UNK]\r\n\u2028\r\n\u0085\r\ncat\r\n".encode())
    assert Tokenizer.load(bert_folder).id_of("cat") == 3


def test_wrong_encoding(bert_folder):
    path = bert_folder / "vocab.txt"
    path.write_bytes(b"[UNK]\ncaf\xe9\n")
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(bert_folder)
    assert str(caught.value) == (
        f"{path}, line 2: byte 0xe9 is not UTF-8; restore the file, or save it as UTF-8."
    )


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_damaged_json(bert_folder, name):
    path = bert_folder / name
    path.write_text('{\n "a": 1,\n')
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(bert_folder)
    assert str(caught.value) == (
        f"{path}, line 3: Expecting property name enclosed in double quotes; it must be JSON; "
        "restore the file."
    )


@pytest.mark.parametrize("name", ["tokenizer.json", "tokenizer_config.json"])
def test_json_nested_too_deep(bert_folder, name):
    path = bert_folder / name
    path.write_text("[" * 200_000)
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(bert_folder)
    assert str(caught.value) == (
        f"{path}: a number is too long or the nesting too deep to read; restore the file."
    )


def test_json_of_something_else(bert_folder):
    path = bert_folder / "tokenizer_config.json"
    path.write_text("[1]")
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(bert_folder)
    assert str(caught.value) == (
        f"{path} is JSON, but not an object; it must have the form {{…}}; restore the file."
    )
    path.unlink()
    path = bert_folder / "tokenizer.json"
    path.write_text('{"version": "1.0"}')
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(bert_folder)
    assert str(caught.value).startswith(f"{path} cannot be used (")
    assert str(caught.value).endswith(
        "); the tokenizers library must be able to read it; fetch the file again."
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("a b c", "'a b c' is not a merge; a merge is two pieces with a space between; fetch the"),
        ("he qq", "'qq' is not in vocab.json; the two files must belong together; fetch both"),
    ],
)
def test_damaged_merges(roberta_folder, line, said):
    path = roberta_folder / "merges.txt"
    path.write_text(f"#version: 0.2\nh e\n{line}\n")
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(roberta_folder)
    assert str(caught.value).startswith(f"{path}, line 3: {said}")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"a": "x"}, "the id of 'a' is 'x'; ids are whole numbers from 0; fetch the file again."),
        ({"a": 0, "b": 0}, "id 0 belongs to 'a' and to 'b'; an id has one token; fetch the file"),
    ],
)
def test_damaged_ids(roberta_folder, content, said):
    path = roberta_folder / "vocab.json"
    path.write_text(json.dumps(content))
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(roberta_folder)
    assert str(caught.value).startswith(f"{path}: {said}")


def test_style_that_does_not_fit(gpt2_folder):
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(gpt2_folder, ByteLevelStyle())
    assert str(caught.value) == (
        f"{gpt2_folder / 'vocab.json'} has no '<s>'; this style writes it around every text; "
        "load it with a style that frames nothing (GPT-2, '<|endoftext|>')."
    )


def test_a_folder_that_is_not_there_is_made(bert, tmp_path):
    folder = tmp_path / "not" / "there"
    bert.save(folder)
    assert Tokenizer.load(folder).fingerprint == bert.fingerprint


def test_names_of_special_tokens():
    assert SpecialTokens(first="a", last="a", extra=("b",)).names() == ("a", "b")
    assert WordPieceStyle().leading() == ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
    assert ByteLevelStyle().leading() == ("<s>", "<pad>", "</s>", "<unk>")
    assert ByteLevelStyle().trailing() == ("<mask>",)
