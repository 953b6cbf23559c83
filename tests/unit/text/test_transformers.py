"""What we save, transformers reads as the same tokenizer."""

import itertools
import json

import pytest

from clozeworks.text.tokenizer.styles import (
    CAMEMBERT_STYLE,
    GPT2_STYLE,
    MISTRAL_STYLE,
    QWEN2_STYLE,
    SMOLLM3_STYLE,
    XLM_ROBERTA_STYLE,
    ByteLevelStyle,
    UnigramStyle,
    WordPieceStyle,
)
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

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


@pytest.mark.parametrize(
    "style",
    [CAMEMBERT_STYLE, MISTRAL_STYLE, QWEN2_STYLE, SMOLLM3_STYLE, XLM_ROBERTA_STYLE],
    ids=["camembert", "mistral", "qwen2", "smollm3", "xlm-roberta"],
)
def test_styles_of_relatives(style, tmp_path):
    trained = train_from_iterator(TEXTS * 3, kind=style.kind, size=420, style=style)
    compare(trained, tmp_path)
    assert Tokenizer.load(tmp_path, style).fingerprint == trained.fingerprint


def test_unigram_has_types(tmp_path):
    trained = train_from_iterator(TEXTS * 3, kind="unigram", size=150, style=UnigramStyle())
    compare(trained, tmp_path)
    assert set(trained.encode(["the"], ["cat"])[0].types) == {0, 1}


NAMED = "tokenizer_class"


@pytest.mark.parametrize("model_type", [None, "family"])
@pytest.mark.parametrize(
    ("kind", "changes", "drop"),
    [
        ("wordpiece", {}, []),
        ("wordpiece", {"do_lower_case": False}, []),
        ("wordpiece", {"do_lower_case": False, NAMED: "BertTokenizerFast"}, []),
        ("wordpiece", {"do_lower_case": False, NAMED: "DistilBertTokenizer"}, []),
        ("wordpiece", {"do_lower_case": False, NAMED: "PreTrainedTokenizerFast"}, []),
        ("wordpiece", {"do_lower_case": False, "strip_accents": True}, []),
        ("wordpiece", {"strip_accents": False}, []),
        ("wordpiece", {"tokenize_chinese_chars": False}, []),
        ("wordpiece", {"do_lower_case": False}, [NAMED]),
        ("bpe", {}, []),
        ("bpe", {"add_prefix_space": True}, []),
        ("bpe", {"add_prefix_space": True}, [NAMED]),
        ("bpe", {"add_prefix_space": True, NAMED: "GPT2Tokenizer"}, []),
        ("bpe", {"add_prefix_space": True, NAMED: "PreTrainedTokenizerFast"}, []),
    ],
)
@pytest.mark.parametrize("before", [{}, {"lowercase": False, "add_prefix_space": True}])
def test_a_config_that_contradicts_tokenizer_json(
    kind, changes, drop, before, model_type, tmp_path
):
    """Ids and offsets are those of transformers where the config states them."""
    transformers = pytest.importorskip("transformers")
    own = GPT2_STYLE if "GPT2" in changes.get(NAMED, "") else None
    train_from_iterator(TEXTS * 3, kind=kind, size=400, style=own).save(tmp_path)
    (tmp_path / "clozeworks.json").unlink()  # as if another library had written it
    stated = json.loads((tmp_path / "tokenizer_config.json").read_text())
    config = {key: value for key, value in stated.items() if key not in drop} | changes
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    state = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    step = state["normalizer" if kind == "wordpiece" else "pre_tokenizer"]
    step.update({key: value for key, value in before.items() if key in step})
    (tmp_path / "tokenizer.json").write_text(json.dumps(state), encoding="utf-8")
    style = None
    if model_type is not None:
        style = WordPieceStyle() if kind == "wordpiece" else ByteLevelStyle()
        named = {"model_type": "bert" if kind == "wordpiece" else "roberta"}
        (tmp_path / "config.json").write_text(json.dumps(named))
    ours = Tokenizer.load(tmp_path, style)
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        found = ours.encode([text], offsets=True)[0]
        theirs = peer(text, return_offsets_mapping=True)
        assert found.ids == theirs["input_ids"], text
        if own is None:  # there the space that was added stands at (1, 1), before (0, 3)
            assert found.offsets == theirs["offset_mapping"], text


@pytest.mark.parametrize("named", ["GPT2Tokenizer", "RobertaTokenizer", "BartTokenizer"])
@pytest.mark.parametrize("split", [False, True])
def test_steps_that_a_named_class_would_lose(named, split, tmp_path):
    """Saved, it has another name, under which transformers keeps every step."""
    from tokenizers import Regex, pre_tokenizers

    transformers = pytest.importorskip("transformers")
    trained = train_from_iterator(TEXTS * 3, kind="bpe", size=400, style=GPT2_STYLE)
    first = (
        pre_tokenizers.Split(Regex(r"\p{N}{1,2}|\p{Han}"), "isolated")
        if split
        else pre_tokenizers.Digits(individual_digits=True)
    )
    backend = trained._backend
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [first, pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    ours = Tokenizer(backend, config={NAMED: named, "add_prefix_space": False})
    ours.save(tmp_path)
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    again = Tokenizer.load(tmp_path, GPT2_STYLE)
    for text in [*TEXTS, "in 2024 we paid 1,234.50"]:
        ids = backend.encode(text).ids
        assert peer(text)["input_ids"] == ids
        assert again.encode([text])[0].ids == ids


@pytest.mark.slow
@pytest.mark.parametrize("name", ["bert-uncased", "roberta", "gpt2"])
def test_published(data, name, tmp_path):
    compare(Tokenizer.load(data / "tokenizers" / name), tmp_path)
