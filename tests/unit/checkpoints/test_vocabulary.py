"""Rows for new pieces: the mean of what they replace, and nothing else changes."""

from dataclasses import replace

import pytest
import torch

import clozeworks as cw
from clozeworks.core.layout import Layout
from clozeworks.families.family import vocabulary_size
from clozeworks.text.training.extend import extend
from clozeworks.text.training.train import train_from_iterator

GENERAL = ["the cat sat on the mat and the dog lay in the garden"] * 10
FIELD = ["mathematics and catamaran, doggedly matting the gardenia"] * 10
SMALL = {"num_hidden_layers": 1, "hidden_size": 32, "intermediate_size": 64}
TABLE, DECODER, BIAS = (
    "embeddings.tokens.weight",
    "heads.vocabulary.decoder.weight",
    "heads.vocabulary.decoder.bias",
)


def fresh(kind: str = "wordpiece", size: str = "bert-tiny", **changes) -> cw.LanguageModel:
    tokenizer = train_from_iterator([*GENERAL, *FIELD[:1]], kind=kind, size=330)
    model = cw.new(size, tokenizer, **SMALL, **changes)
    with torch.no_grad():
        for parameter in model.model.parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.2)
    return model


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(("kind", "size"), [("wordpiece", "bert-tiny"), ("bpe", "roberta-base")])
def test_new_rows_are_means_and_old_ones_stay(kind, size, tied):
    changes = {"num_attention_heads": 2} if kind == "bpe" else {}
    model = fresh(kind, size, tie_word_embeddings=tied, **changes)
    network, old = model.model, model.tokenizer
    before = {name: value.clone() for name, value in network.state_dict().items()}
    extension = model.extend(FIELD, 6)
    after = model.model.state_dict()
    assert model.tokenizer is extension.tokenizer
    assert model.blueprint == vocabulary_size(network.blueprint, old.size + 6)
    assert (model.model.get_parameter(TABLE) is model.model.get_parameter(DECODER)) == tied
    for name, value in before.items():
        if name not in (TABLE, DECODER, BIAS):
            assert torch.equal(after[name], value)
            continue
        assert torch.equal(after[name][: old.size], value)
        for number, ids in enumerate(extension.replaced, old.size):
            torch.testing.assert_close(after[name][number], value[ids].mean(dim=0))
    assert all(torch.equal(network.state_dict()[name], value) for name, value in before.items())


def test_scores_of_old_pieces_are_what_they_were():
    model = fresh()
    ids, layout = torch.tensor([2, 7, 4, 9, 3]), Layout([5])
    old = model.tokenizer.size

    def scores() -> torch.Tensor:
        with torch.no_grad():
            hidden = model.model(ids, layout)
            return model.model.head("vocabulary").logits(hidden, layout)

    before = scores()
    extension = model.extend(FIELD, 6)
    after = scores()
    assert after.shape == (5, old + 6)
    torch.testing.assert_close(after[:, :old], before, atol=1e-6, rtol=1e-6)
    # A row that is a mean gives the mean of the scores.
    expected = torch.stack([before[:, ids].mean(dim=1) for ids in extension.replaced], dim=1)
    torch.testing.assert_close(after[:, old:], expected, atol=1e-5, rtol=1e-5)


def test_an_extended_model_fills_gaps_also_with_new_pieces(tmp_path):
    model = fresh()
    extension = model.extend(FIELD, 6)
    words = [piece for piece in extension.pieces if not piece.startswith("##")]
    assert words
    filled = model.fill("the [MASK] sat", words=words, top=99)
    assert {guess.token for guess in filled.gaps[0]} == set(words)
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    for name, value in model.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], value)
    assert again.tokenizer.fingerprint == extension.tokenizer.fingerprint


def test_rows_without_a_token_are_used_first():
    model = fresh()
    tokenizer, rows = model.tokenizer, model.tokenizer.size + 4
    wide = vocabulary_size(model.blueprint, rows).build()
    with torch.no_grad():
        for parameter in wide.parameters():
            parameter.copy_(torch.randn_like(parameter))
    model.checkpoint = replace(model.checkpoint, model=wide)
    extension = extend(tokenizer, FIELD, 3)
    model.extend(FIELD, 3)
    assert model.blueprint.embeddings.tokens == rows
    table, old = model.model.get_parameter(TABLE), wide.get_parameter(TABLE)
    for number, ids in enumerate(extension.replaced, tokenizer.size):
        torch.testing.assert_close(table[number], old[ids].mean(dim=0))
    assert torch.equal(table[-1], old[-1])
    model.extend(FIELD, 3)
    assert model.blueprint.embeddings.tokens == rows + 2


def test_precision_mode_and_frozen_weights_stay():
    model = fresh()
    model.model.bfloat16().train()
    model.model.get_parameter(TABLE).requires_grad_(False)
    model.extend(FIELD, 6)
    assert {value.dtype for value in model.model.parameters()} == {torch.bfloat16}
    assert model.model.training
    trained = {name: value.requires_grad for name, value in model.model.named_parameters()}
    assert not trained.pop(TABLE) and all(trained.values())
