"""ByT5's tokenizer: bytes + 3, whatever the text, without a file."""

import json
import random

import pytest

import clozeworks as cw
from clozeworks.errors import SettingError, TokenizerError, UnsupportedError
from clozeworks.text.fast.plain import PlainText
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.extend import extend

TEXTS = [
    "plain words, and  two spaces ",
    "北京是中国的首都。",
    "emoji 😀👩‍👩‍👧 and caffè naïve",
    "".join(map(chr, range(32))) + "\x7f\u0085\u2028\ufeff\ufffd",
    "tab\tand\r\nlines",
    "<z> </ s>",
]


def bytes_of(text):
    return [byte + 3 for byte in text.encode()]


@pytest.mark.parametrize("text", TEXTS)
def test_ids_are_bytes_and_come_back(text):
    tokenizer = Tokenizer.of_bytes()
    encoded = tokenizer.encode([text], offsets=True)[0]
    assert encoded.ids == [*bytes_of(text), 1]
    assert tokenizer.decode(encoded.ids) == text
    begins = [begin for begin, _ in encoded.offsets[:-1]]
    assert begins == [place for place, sign in enumerate(text) for _ in sign.encode()]


def test_any_text_comes_back():
    tokenizer, rng = Tokenizer.of_bytes(), random.Random(0)
    valid = [*range(0xD800), *range(0xE000, 0x110000)]
    texts = ["".join(map(chr, rng.choices(valid, k=40))) for _ in range(50)]
    for text, encoded in zip(texts, tokenizer.encode(texts), strict=True):
        assert encoded.ids == [*bytes_of(text), 1]
        assert tokenizer.decode(encoded.ids) == text


def test_the_numbers_of_special_tokens():
    tokenizer = Tokenizer.of_bytes()
    assert (tokenizer.size, tokenizer.pad_id, tokenizer.last_id, tokenizer.unknown_id) == (
        384, 0, 1, 2,
    )  # fmt: skip
    assert [tokenizer.id_of(f"<extra_id_{n}>") for n in (0, 124)] == [259, 383]
    assert tokenizer.encode(["a"], ["b"])[0].ids == [100, 1, 101, 1]
    assert tokenizer.encode(["a<extra_id_0>b"], special=False)[0].ids == [100, 259, 101]


def test_bytes_that_are_no_text_are_shown():
    assert Tokenizer.of_bytes().decode([0xE5 + 3]) == "�"


def test_a_folder_as_published_has_no_vocabulary(tmp_path):
    config = {"tokenizer_class": "ByT5Tokenizer", "extra_ids": 125}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    tokenizer = Tokenizer.load(tmp_path)
    assert tokenizer.fingerprint == Tokenizer.of_bytes().fingerprint
    tokenizer.save(tmp_path / "again")
    assert Tokenizer.load(tmp_path / "again").fingerprint == tokenizer.fingerprint
    names = {path.name for path in (tmp_path / "again").iterdir()}
    assert names == {
        "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "clozeworks.json"
    }  # fmt: skip


@pytest.mark.parametrize("count", [-1, "many", True])
def test_sentinels_must_be_counted(tmp_path, count):
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"tokenizer_class": "ByT5Tokenizer", "extra_ids": count}))
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value) == (
        f"{path}: extra_ids is {count!r}; it must be a whole number of at least 0; correct it."
    )


def test_sentinels_do_not_fill_the_memory(tmp_path):
    path = tmp_path / "tokenizer_config.json"
    path.write_text(json.dumps({"tokenizer_class": "ByT5Tokenizer", "extra_ids": 10**12}))
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(tmp_path)
    assert str(caught.value) == (
        f"{path}: extra_ids is 1,000,000,000,000; it must be at most 10,000; correct it."
    )


def test_raw_text_for_a_corpus():
    ids, lengths = PlainText(Tokenizer.of_bytes()).encode(TEXTS)
    assert ids.tolist() == [byte for text in TEXTS for byte in bytes_of(text)]
    assert lengths.tolist() == [len(text.encode()) for text in TEXTS]


def test_a_new_model_needs_no_tokenizer(tmp_path):
    small = {"d_model": 16, "d_ff": 8, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2}
    model = cw.new("byt5-small", heads=("decoder", "vocabulary"), **small)
    assert model.blueprint.embeddings.tokens == 384
    folder = model.save(tmp_path / "model")
    for name in ("tokenizer.json", "special_tokens_map.json", "clozeworks.json"):
        (folder / name).unlink()  # as published
    again = cw.load(folder)
    assert again.tokenizer.encode(["é"])[0].ids == [198, 172, 1]
    assert not again.report.notes


def test_other_models_need_one():
    with pytest.raises(SettingError) as caught:
        cw.new("bert-tiny")
    assert str(caught.value) == (
        "tokenizer is missing; bert-tiny needs one; give a tokenizer or its folder, or choose a "
        "size whose tokens are bytes, such as byt5-small."
    )


def test_pieces_cannot_be_added():
    with pytest.raises(UnsupportedError) as caught:
        extend(Tokenizer.of_bytes(), ["zebra zebra"] * 5, 3)
    assert str(caught.value) == (
        "the tokenizer is bytes alone; pieces can be added to wordpiece, byte-level bpe and "
        "unigram; train a tokenizer for this text instead: clozeworks tokenizer train."
    )


def test_the_command_needs_no_tokenizer_either(command, refused, tmp_path):
    small = ("d_model=16", "d_ff=8", "num_layers=1", "num_decoder_layers=1", "num_heads=2")
    out = tmp_path / "byt5"
    outcome = command("new", "byt5-small", *small, "--out", out)
    assert outcome.code == 0 and cw.load(out).tokenizer.size == 384
    assert command("generate", out, "a", "--max-new-tokens", 2).code == 0
    encoder = tmp_path / "encoder"
    assert command("new", "byt5-small", *small, "--heads", "", "--out", encoder).code == 0
    assert cw.load(encoder).blueprint.decoder is None
    with pytest.raises(SettingError, match=r"heads is 'vocabulary'; it must be a list of names"):
        cw.new("byt5-small", heads="vocabulary")
    refused(
        "--heads is vocabulary; the vocabulary head of byt5-small stands on its decoder; add "
        "decoder, or leave vocabulary out for the encoder alone.",
        *("new", "byt5-small", "--heads", "vocabulary", "--out", tmp_path / "head"),
    )
    refused(
        f"{encoder} cannot write texts: no vocabulary head; use a decoder such as GPT-2 or LLaMA, "
        "or an encoder-decoder such as T5, saved with its decoder and language-model head.",
        *("generate", encoder, "a"),
    )
    refused(
        "--tokenizer is missing; bert-tiny needs one; give a tokenizer or its folder, or choose a "
        "size whose tokens are bytes, such as byt5-small.",
        *("new", "bert-tiny", "--out", tmp_path / "bert"),
    )


@pytest.mark.parity
def test_as_transformers_reads_bytes(tmp_path):
    transformers = pytest.importorskip("transformers")
    theirs = transformers.ByT5Tokenizer()
    ours = Tokenizer.of_bytes()
    ours.save(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    read = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert isinstance(read, transformers.ByT5Tokenizer)
    assert Tokenizer.load(tmp_path / "theirs").fingerprint == ours.fingerprint
    special = ["a </s> b", "<pad>x <unk> y", "see <extra_id_3> there<extra_id_124>", ""]
    for text in [*TEXTS, *special]:
        for peer in (theirs, read):
            assert ours.encode([text])[0].ids == peer(text)["input_ids"], text
            pair = peer(text, "second")["input_ids"]
            assert ours.encode([text], ["second"])[0].ids == pair
        assert ours.decode(bytes_of(text)) == theirs.decode(bytes_of(text))
    assert len(read) == len(theirs) == ours.size
