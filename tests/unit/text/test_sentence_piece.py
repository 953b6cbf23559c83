"""T5's SentencePiece model, read without its library: the same ids as `tokenizer.json` gives."""

import base64
import json
import struct

import pytest
from tokenizers import decoders, models, normalizers, pre_tokenizers

import clozeworks as cw
from clozeworks.errors import TokenizerError
from clozeworks.text.tokenizer.sentencepiece import read_pieces
from clozeworks.text.tokenizer.styles import (
    CAMEMBERT_STYLE,
    T5_STYLE,
    XLM_ROBERTA_STYLE,
    UnigramStyle,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer

PIECES = [
    ("<pad>", 0.0, 3), ("</s>", 0.0, 3), ("<unk>", 0.0, 2), ("▁", -2.0, 1), ("▁the", -3.0, 1),
    ("▁cat", -4.0, 1), ("s", -5.0, 1), ("▁sat", -4.5, 1), ("t", -6.0, 1), ("he", -7.0, 1),
    ("[X]", 0.0, 4),
]  # fmt: skip
TEXTS = ["the cats sat", "  the   cat\tsat ", "the dog", "the<extra_id_0> cat</s>", "", "a [X] b"]


def number(value):
    written = b""
    while value >= 0x80:
        written += bytes([value & 0x7F | 0x80])
        value >>= 7
    return written + bytes([value])


def long(field, value):
    return number(field << 3 | 2) + number(len(value)) + value


def model_file(pieces, *, table=b"", model=1, bytes_=False):
    data = b""
    for piece, score, kind in pieces:
        inner = long(1, piece.encode()) + number(2 << 3 | 5) + struct.pack("<f", score)
        data += long(1, inner + number(3 << 3) + number(kind) if kind != 1 else inner)
    # Fields that nobody needs stand between: a name, a share, a double.
    training = long(1, b"corpus.txt") + number(3 << 3) + number(model) + number(10 << 3 | 5)
    training += b"\0\0\0\0" + number(99 << 3 | 1) + b"\0" * 8 + number(35 << 3) + number(bytes_)
    return data + long(2, training) + long(3, long(1, b"nmt_nfkc") + long(2, table))


def folder_of(tmp_path, data, file="spiece.model", **config):
    tmp_path.mkdir(exist_ok=True)
    (tmp_path / file).write_bytes(data)
    if config:
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    return tmp_path


def pieces_of(tokenizer, text):
    return [tokenizer.token_of(one) for one in tokenizer.encode([text])[0].ids]


def test_pieces_and_sentinels(tmp_path):
    tokenizer = Tokenizer.load(folder_of(tmp_path, model_file(PIECES)), T5_STYLE)
    assert tokenizer.size == len(PIECES) + 100
    assert pieces_of(tokenizer, "the cats sat") == ["▁the", "▁cat", "s", "▁sat", "</s>"]
    assert tokenizer.id_of("<extra_id_0>") == len(PIECES) + 99
    assert tokenizer.id_of("<extra_id_99>") == len(PIECES)
    assert (tokenizer.pad_id, tokenizer.last_id, tokenizer.unknown_id) == (0, 1, 2)
    assert pieces_of(tokenizer, "the [X]")[-2:] == ["[X]", "</s>"]
    assert len(tokenizer.special.extra) == 100
    assert tokenizer.decode(tokenizer.encode(["the cats sat"])[0].ids) == "the cats sat"
    tokenizer.save(tmp_path / "again")
    assert Tokenizer.load(tmp_path / "again").fingerprint == tokenizer.fingerprint


def test_the_config_counts_sentinels_and_names_the_class(tmp_path):
    data = model_file(PIECES)
    folder = folder_of(tmp_path / "mt5", data, tokenizer_class="T5Tokenizer", extra_ids=0)
    assert Tokenizer.load(folder).size == len(PIECES)
    other = folder_of(tmp_path / "albert", data, tokenizer_class="AlbertTokenizer")
    with pytest.raises(TokenizerError, match="is a SentencePiece model; tokenizer"):
        Tokenizer.load(other, T5_STYLE)
    plain = folder_of(tmp_path / "plain", data)
    with pytest.raises(TokenizerError, match="is a SentencePiece model; tokenizer"):
        Tokenizer.load(plain, UnigramStyle())


def test_bytes_for_what_pieces_cannot_write(tmp_path):
    pieces = [*PIECES, *((f"<0x{byte:02X}>", 0.0, 6) for byte in range(256))]
    folder = folder_of(tmp_path, model_file(pieces, bytes_=True))
    tokenizer = Tokenizer.load(folder, T5_STYLE)
    assert pieces_of(tokenizer, "the é") == ["▁the", "▁", "<0xC3>", "<0xA9>", "</s>"]
    assert tokenizer.decode(tokenizer.encode(["the é 北京"])[0].ids) == "the é 北京"
    without = Tokenizer.load(folder_of(tmp_path / "b", model_file(pieces)), T5_STYLE)
    assert "<unk>" in pieces_of(without, "the é")


def test_a_model_folder_as_published(tmp_path):
    small = {"d_model": 16, "d_ff": 8, "num_layers": 1, "num_decoder_layers": 1, "num_heads": 2}
    source = folder_of(tmp_path / "tokenizer", model_file(PIECES))
    model = cw.new("mt5-small", source, heads=("decoder", "vocabulary"), **small)
    folder = model.save(tmp_path / "model")
    for path in (*folder.glob("*token*"), folder / "clozeworks.json"):
        path.unlink()
    folder_of(folder, model_file(PIECES))
    assert cw.load(folder).tokenizer.fingerprint == model.tokenizer.fingerprint


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x0a", "it ends within a number"),
        (b"\x0a\x05ab", "a field ends 3 bytes after the end"),
        (b"\x0b", "byte 1 begins no field"),
        (b"\xff" * 12, "byte 10 goes on with a number that is too long"),
        (b"\x08\x01", "a number stands where a text is expected"),
        (long(1, long(1, b"a") + number(2 << 3) + number(5)), "a number stands where a text is"),
    ],
)
def test_damaged_files(tmp_path, data, why):
    folder = folder_of(tmp_path, data)
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(folder, T5_STYLE)
    told = f"{folder}/spiece.model is not a SentencePiece model, or damaged ({why}"
    assert str(caught.value).startswith(told) and str(caught.value).endswith("; fetch it again.")


def test_every_cut_is_noticed(tmp_path):
    data = model_file(PIECES)
    for end in range(len(data)):
        folder = folder_of(tmp_path, data[:end])
        with pytest.raises(TokenizerError):
            read_pieces(folder / "spiece.model")


def test_a_damaged_table_and_too_many_sentinels(tmp_path):
    folder = folder_of(tmp_path / "a", model_file(PIECES, table=b"\x01\x02\x03"))
    with pytest.raises(TokenizerError, match=r"spiece.model is damaged \(.*\); fetch it again"):
        Tokenizer.load(folder, T5_STYLE)
    folder = folder_of(tmp_path / "b", model_file(PIECES), extra_ids=10**12)
    with pytest.raises(TokenizerError, match="extra_ids is 1,000,000,000,000; it must be at most"):
        Tokenizer.load(folder, T5_STYLE)


def test_what_is_not_there(tmp_path):
    folder = folder_of(tmp_path / "a", model_file(PIECES[3:]))
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(folder, T5_STYLE)
    assert str(caught.value) == (
        f"{folder}/spiece.model has no unknown piece; every model has one; fetch it again."
    )
    folder = folder_of(tmp_path / "b", model_file(PIECES, model=2))
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(folder, T5_STYLE)
    assert str(caught.value) == (
        f"{folder}/spiece.model holds pairs of pieces; T5's is a Unigram model; have transformers "
        "write tokenizer.json: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)."
    )


def test_as_the_steps_of_t5_by_hand(tmp_path):
    from tokenizers import Tokenizer as Backend

    backend = Backend(models.Unigram([(p, s) for p, s, _ in PIECES], unk_id=2))
    backend.normalizer = normalizers.NFKC()
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    backend.decoder = decoders.Metaspace()
    tokenizer = Tokenizer.load(folder_of(tmp_path, model_file(PIECES)), T5_STYLE)
    for text in TEXTS[:3]:
        assert tokenizer.encode([text], special=False)[0].ids == backend.encode(text).ids


@pytest.mark.slow
def test_the_published_tokenizer_of_t5(data, tmp_path):
    """A model file made of all that the published `tokenizer.json` holds."""
    published = data / "tokenizers" / "t5-small"
    whole = json.loads((published / "tokenizer.json").read_text(encoding="utf-8"))
    pieces = whole["model"]["vocab"][:32_000]
    kinds = {"<pad>": 3, "</s>": 3, "<unk>": 2}
    table = base64.b64decode(whole["normalizer"]["precompiled_charsmap"])
    made = model_file([(p, s, kinds.get(p, 1)) for p, s in pieces], table=table)
    ours = Tokenizer.load(folder_of(tmp_path, made), T5_STYLE)
    theirs = Tokenizer.load(published, T5_STYLE)
    assert ours.vocabulary() == theirs.vocabulary() and ours.special == theirs.special
    texts = [
        "Summarize: the ﬁne cafe\u0301, ＦＵＬＬ ½",
        "translate English to German: That is good.",
    ]
    texts += ["<extra_id_0> and <extra_id_1>", "  two\n\nlines ", "北京 😀", "x" * 200, *TEXTS]
    for text in texts:
        assert ours.encode([text])[0].ids == theirs.encode([text])[0].ids, text
        ids = ours.encode([text])[0].ids
        assert ours.decode(ids) == theirs.decode(ids)


# fairseq's models begin so, whatever ids their tokens have in the end.
FAIRSEQ = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3), *PIECES[3:-1]]
FAIRSEQ_FILE = "sentencepiece.bpe.model"


@pytest.mark.parametrize(
    ("style", "stated", "first", "frame"),
    [
        (XLM_ROBERTA_STYLE, "XLMRobertaTokenizer", ["<s>", "<pad>", "</s>", "<unk>"], (0, 2)),
        (
            CAMEMBERT_STYLE,
            "CamembertTokenizerFast",
            ["<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED", "<s>", "</s>"],
            (5, 6),
        ),
    ],
    ids=["xlm-roberta", "camembert"],
)
@pytest.mark.parametrize("by", ["family", "class"])
def test_ids_that_fairseq_shifted(style, stated, first, frame, by, tmp_path):
    config = {"tokenizer_class": stated} if by == "class" else {}
    folder = folder_of(tmp_path / "a", model_file(FAIRSEQ), FAIRSEQ_FILE, **config)
    tokenizer = Tokenizer.load(folder, style if by == "family" else None)
    pieces = [piece for piece, _, _ in FAIRSEQ[3:]]
    assert [tokenizer.token_of(one) for one in range(tokenizer.size)] == [
        *first, *pieces, "<mask>",
    ]  # fmt: skip
    assert (tokenizer.first_id, tokenizer.last_id) == frame
    assert (tokenizer.pad_id, tokenizer.unknown_id) == (1, 3)
    assert tokenizer.mask_id == tokenizer.size - 1
    assert pieces_of(tokenizer, "the cats sat") == ["<s>", "▁the", "▁cat", "s", "▁sat", "</s>"]
    pair = [tokenizer.token_of(one) for one in tokenizer.encode(["the"], ["cat"])[0].ids]
    assert pair == ["<s>", "▁the", "</s>", "</s>", "▁cat", "</s>"]
    assert pieces_of(tokenizer, "the <mask> x") == ["<s>", "▁the", "<mask>", "▁", "<unk>", "</s>"]
    tokenizer.save(tmp_path / "again")
    assert Tokenizer.load(tmp_path / "again").fingerprint == tokenizer.fingerprint


def test_a_model_of_another_family_is_refused(tmp_path):
    folder = folder_of(tmp_path, model_file(PIECES), FAIRSEQ_FILE)
    with pytest.raises(TokenizerError) as caught:
        Tokenizer.load(folder, XLM_ROBERTA_STYLE)
    assert str(caught.value) == (
        f"{folder / FAIRSEQ_FILE} begins with <pad>, </s>, <unk>; a model of XLM-RoBERTa begins "
        "with <unk>, <s>, </s>; check that the file belongs to this folder."
    )


@pytest.mark.parity
@pytest.mark.parametrize("stated", ["XLMRobertaTokenizer", "CamembertTokenizer"])
def test_ids_of_fairseq_are_those_of_transformers(stated, tmp_path):
    """Their reader of the file needs another library; what they make of its pieces does not."""
    transformers = pytest.importorskip("transformers")
    from transformers.convert_slow_tokenizer import SLOW_TO_FAST_CONVERTERS

    folder = folder_of(
        tmp_path / "a", model_file(FAIRSEQ), FAIRSEQ_FILE, tokenizer_class=stated
    )  # fmt: skip
    pieces = [(piece, score) for piece, score, _ in FAIRSEQ]
    made = SLOW_TO_FAST_CONVERTERS[stated].convert_from_spm(vocab=pieces)
    theirs = getattr(transformers, stated)(**made)
    tokenizer = Tokenizer.load(folder)
    tokenizer.save(tmp_path / "ours")
    theirs.save_pretrained(tmp_path / "theirs")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    published = Tokenizer.load(tmp_path / "theirs")
    for text in ("the cats sat", "  the   cat\tsat ", "the dog", "", "the cat</s>s", "a<mask>"):
        ids = theirs(text)["input_ids"]
        assert tokenizer.encode([text])[0].ids == ids, text
        assert published.encode([text])[0].ids == ids, text
        assert again(text)["input_ids"] == ids, text
    pair = theirs("the cat", "sat")["input_ids"]
    assert tokenizer.encode(["the cat"], ["sat"])[0].ids == pair
    assert again.cls_token == "<s>" and again.sep_token == "</s>"
    assert tokenizer.size == len(theirs) == len(again)
