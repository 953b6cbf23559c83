"""What we save, transformers reads as the same tokenizer."""

import itertools

import pytest

from clozeworks.text.style import UnigramStyle, WordPieceStyle
from clozeworks.text.tokenizer import Tokenizer
from clozeworks.text.train import train_from_iterator

pytestmark = pytest.mark.parity

TEXTS = [
    "The cats sat on the mat, un-happily!",
    "我爱北京天安门 2024年",
    "emoji 😀👩‍👩‍👧 and caffè naïve ÀÉ",
    "  two  spaces\tand\nlines ",
    "the [MASK] sat on <mask> .",
    "x" * 120,
]


def compare(tokenizer, folder):
    transformers = pytest.importorskip("transformers")
    tokenizer.save(folder)
    peer = transformers.AutoTokenizer.from_pretrained(folder)
    for text in [*TEXTS, ""]:
        assert tokenizer.encode([text])[0].ids == peer(text)["input_ids"], text
    for first, second in itertools.pairwise(TEXTS):
        found = tokenizer.encode([first], [second], offsets=True)[0]
        theirs = peer(first, second, return_offsets_mapping=True)
        assert found.ids == theirs["input_ids"]
        assert found.types == theirs.get("token_type_ids", found.types)
        for limit in (9, 10, 15, 31):
            cut = tokenizer.encode([first], [second], max_length=limit, truncate=True)[0]
            theirs = peer(first, second, max_length=limit, truncation="longest_first")
            assert cut.ids == theirs["input_ids"]
    for role, key in (("pad", "pad_token"), ("mask", "mask_token"), ("unknown", "unk_token")):
        assert getattr(peer, key) == getattr(tokenizer.special, role)
    assert tokenizer.size == len(peer)
    assert tokenizer.fingerprint == Tokenizer.load(folder).fingerprint


def test_bert(bert, tmp_path):
    compare(bert, tmp_path)


def test_cased_bert_that_keeps_accents(tmp_path):
    style = WordPieceStyle(lowercase=False, strip_accents=False, chinese_characters=False)
    compare(train_from_iterator(TEXTS * 3, kind="wordpiece", size=150, style=style), tmp_path)


def test_bert_with_another_prefix(tmp_path):
    style = WordPieceStyle(prefix="@@")
    compare(train_from_iterator(TEXTS * 3, kind="wordpiece", size=150, style=style), tmp_path)


def test_bert_without_a_frame(tmp_path):
    from tokenizers import processors

    trained = train_from_iterator(TEXTS * 3, kind="wordpiece", size=150)
    backend = trained._backend
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A", pair="[CLS] $A $B:1", special_tokens=[("[CLS]", 2)]
    )
    compare(Tokenizer(backend), tmp_path)


def test_roberta(roberta, tmp_path):
    compare(roberta, tmp_path)


def test_gpt2(gpt2_folder, tmp_path):
    compare(Tokenizer.load(gpt2_folder), tmp_path)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_trained(kind, tmp_path):
    compare(train_from_iterator(TEXTS * 3, kind=kind, size=300), tmp_path)


def test_unigram_has_types(tmp_path):
    trained = train_from_iterator(TEXTS * 3, kind="unigram", size=150, style=UnigramStyle())
    compare(trained, tmp_path)
    assert set(trained.encode(["the"], ["cat"])[0].types) == {0, 1}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert-uncased", "roberta", "gpt2"])
def test_published(data, name, tmp_path):
    compare(Tokenizer.load(data / "tokenizers" / name), tmp_path)
