"""An extended folder, as transformers loads it: the same ids, the same scores, no key missing."""

import pytest
import torch
import transformers

import clozeworks as cw
from clozeworks.text.training.extend import extend
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.parity

GENERAL = ["the cat sat on the mat and the dog lay in the garden, 我爱北京."] * 10
FIELD = ["the mathematician's catamaran, doggedly matting the gardenia 上海是城市!"] * 10
TEXTS = [*FIELD, *GENERAL, "", "The <mask> [MASK] Gardenias  gardeniate\tCATAMARANS 上海北京 mats"]
SMALL = {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2}
FAMILIES = [
    ("unigram", "albert-base-v1", "AlbertForMaskedLM", {"intermediate_size": 64}),
    ("wordpiece", "bert-tiny", "BertForMaskedLM", {"intermediate_size": 64}),
    ("bpe", "roberta-base", "RobertaForMaskedLM", {"intermediate_size": 64}),
    ("wordpiece", "distilbert-base", "DistilBertForMaskedLM", {}),
    ("wordpiece", "electra-small", "ElectraForMaskedLM", {"intermediate_size": 64}),
]


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("kind", "size", "architecture", "more"), FAMILIES)
def test_transformers_loads_an_extended_model(kind, size, architecture, more, tied, tmp_path):
    small = {"n_layers": 1, "dim": 32, "n_heads": 2, "hidden_dim": 64} if not more else SMALL | more
    tokenizer = train_from_iterator(GENERAL, kind=kind, size=300)
    model = cw.new(size, tokenizer, tie_word_embeddings=tied, **small)
    count = 8 if kind == "unigram" else 12  # longer pieces, of which there are fewer here
    extension = model.extend(FIELD, count)
    assert len(extension.pieces) == count
    model.save(tmp_path / "model")
    theirs, report = getattr(transformers, architecture).from_pretrained(
        tmp_path / "model", output_loading_info=True, attn_implementation="eager"
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    assert not report["mismatched_keys"]
    assert theirs.config.vocab_size == model.tokenizer.size == tokenizer.size + count
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    assert len(peer) == model.tokenizer.size
    for text in TEXTS:
        assert peer(text)["input_ids"] == model.tokenizer.encode([text])[0].ids, text
    text = f"{FIELD[0]} {peer.mask_token}"
    with torch.no_grad():
        scores = theirs.eval()(**peer(text, return_tensors="pt")).logits[0].softmax(dim=-1)
    gap = peer(text)["input_ids"].index(peer.mask_token_id)
    filled = model.fill(text, top=model.tokenizer.size)
    for guess in filled.gaps[0]:
        expected = scores[gap, model.tokenizer.id_of(guess.token)].item()
        assert guess.score == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("kind", ["wordpiece", "bpe", "unigram"])
def test_transformers_reads_an_extended_tokenizer(kind, tmp_path):
    tokenizer = train_from_iterator(GENERAL, kind=kind, size=300)
    grown = extend(tokenizer, FIELD, 12).tokenizer
    grown.save(tmp_path)
    peer = transformers.AutoTokenizer.from_pretrained(tmp_path)
    for text in TEXTS:
        assert peer(text)["input_ids"] == grown.encode([text])[0].ids, text
