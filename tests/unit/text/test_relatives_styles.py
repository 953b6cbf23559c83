"""How the newer families write text: numbers, accents, bytes, special tokens."""

import pytest

from clozeworks.text.tokenizer.styles import MISTRAL_STYLE, QWEN2_STYLE, SMOLLM3_STYLE
from clozeworks.text.tokenizer.tokenizer import Tokenizer
from clozeworks.text.training.train import train_from_iterator

TEXTS = ["in 2024 and 2025 they don't", "über 2024 naïve Äpfel", "line\n\nline  2024"] * 20


def trained(style, size=420):
    return train_from_iterator(TEXTS, kind="bpe", size=size, style=style)


def pieces(tokenizer, text):
    return [tokenizer.token_of(one) for one in tokenizer.encode([text])[0].ids]


@pytest.mark.parametrize(
    ("style", "longest"), [(QWEN2_STYLE, 1), (SMOLLM3_STYLE, 3)], ids=["qwen2", "smollm3"]
)
def test_how_many_digits_stay_together(style, longest):
    tokenizer = trained(style)
    numbers = [piece for piece in tokenizer.vocabulary() if piece.isdigit()]
    assert max(map(len, numbers)) == longest
    assert tokenizer.decode(tokenizer.encode(["2024 don't"])[0].ids) == "2024 don't"


def test_qwen2_joins_letters_and_accents():
    tokenizer = trained(QWEN2_STYLE)
    assert tokenizer.encode(["u\u0308ber"])[0].ids == tokenizer.encode(["über"])[0].ids
    other = trained(SMOLLM3_STYLE)
    assert other.encode(["u\u0308ber"])[0].ids != other.encode(["über"])[0].ids


def test_nothing_stands_around_a_text_and_special_tokens_come_last():
    tokenizer = trained(QWEN2_STYLE)
    assert not any(tokenizer.encode(["they don't"])[0].special)
    last = [tokenizer.token_of(tokenizer.size - back) for back in (3, 2, 1)]
    assert last == ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    assert pieces(tokenizer, "<|im_start|>in")[0] == "<|im_start|>"
    assert tokenizer.pad_id == tokenizer.last_id == tokenizer.size - 3


def test_bytes_stand_for_what_mistral_did_not_learn(tmp_path):
    tokenizer = trained(MISTRAL_STYLE)
    assert [tokenizer.token_of(one) for one in range(4)] == ["<unk>", "<s>", "</s>", "<0x00>"]
    assert tokenizer.token_of(258) == "<0xFF>"
    assert pieces(tokenizer, "in 北") == ["<s>", "▁in", "▁", "<0xE5>", "<0x8C>", "<0x97>"]
    for text in ("in 北京", "  two  spaces", "don't", "", "emoji 😀\n"):
        assert tokenizer.decode(tokenizer.encode([text])[0].ids) == text
    tokenizer.save(tmp_path)
    assert Tokenizer.load(tmp_path).fingerprint == tokenizer.fingerprint
    assert trained(MISTRAL_STYLE).state == tokenizer.state


def test_a_rare_character_breaks_a_word_and_both_sides_still_teach():
    texts = ["wonder", "wonder"] * 50 + ["ab☃wonder"]
    tokenizer = train_from_iterator(texts, kind="bpe", size=290, style=MISTRAL_STYLE)
    assert "☃" not in tokenizer.vocabulary()
    assert "wonder" in "".join(pieces(tokenizer, "ab☃wonder"))


def test_a_lone_folder_of_qwen2_without_tokenizer_json(tmp_path):
    tokenizer = trained(QWEN2_STYLE)
    tokenizer.save(tmp_path)
    for name in ("tokenizer.json", "clozeworks.json"):
        (tmp_path / name).unlink()
    config = (tmp_path / "tokenizer_config.json").read_text(encoding="utf-8")
    named = config.replace("PreTrainedTokenizerFast", "Qwen2Tokenizer")
    (tmp_path / "tokenizer_config.json").write_text(named, encoding="utf-8")
    again = Tokenizer.load(tmp_path)
    for text in ("in 2024 they don't", "u\u0308ber\n\nline", "<|im_end|>"):
        assert again.encode([text])[0].ids == tokenizer.encode([text])[0].ids
