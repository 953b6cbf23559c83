"""Masked language modelling through a mask decoder."""

import dataclasses

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.heads.mask_decoder import MaskDecoder
from clozeworks.core.initialize import initialize
from clozeworks.core.layers.sublayer import PreNorm
from clozeworks.core.model import hidden_states_at
from clozeworks.errors import CheckpointError, SettingError
from clozeworks.families.family import Config, families
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.combine import Sum
from clozeworks.objectives.decoded_lm import DecodedLM
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.next_sentence import NextSentence

SECOND = families()["deberta-v2"]
SMALL = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "vocab_size": 200, "max_relative_positions": 20, "position_buckets": 8,
    "max_position_embeddings": 60, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
SOURCE = Vocabularies(200, mask_id=4, special_ids=(0, 1, 2, 3, 4))


def blueprint(*parts, **changes):
    config = Config({**SECOND.published("deberta-v3-base"), **SMALL, **changes}, "x")
    return SECOND.blueprint(config, frozenset(parts))


def test_what_is_hidden_is_what_masked_lm_hides(examples):
    clean = examples([30, 12, 25])
    ours, plain = (each.batch(clean, 3, SOURCE) for each in (DecodedLM(), MaskedLM()))
    assert np.array_equal(ours.ids, plain.ids)
    assert (
        ours.counts()
        == plain.counts()
        == {"masked_lm": len(plain.targets["masked_lm"]["positions"])}
    )


def test_the_loss_is_that_of_the_decoder_s_vectors(examples):
    objective = DecodedLM()
    assert objective.required_heads(SECOND.paths) == {"vocabulary", "mask_decoder"}
    model = objective.equip(blueprint(*objective.required_heads(SECOND.paths))).build().double()
    initialize(model, seed=1, std=0.3)
    tensors = objective.batch(examples([30, 12, 25]), 3, SOURCE).tensors()
    part = tensors.targets["masked_lm"]
    vectors = hidden_states_at(model, tensors.ids, tensors.layout, tensors.types, part["positions"])
    expected = F.cross_entropy(model.heads["vocabulary"](vectors), part["answers"], reduction="sum")
    found = objective.loss(model, tensors).terms["masked_lm"].total
    assert found.item() == pytest.approx(expected.item(), rel=1e-12)
    plain = MaskedLM().loss(model, tensors).terms["masked_lm"].total
    assert abs(plain.item() - found.item()) > 1e-3
    found.backward()
    assert all(each.grad is not None for each in model.parameters())


def test_a_model_without_a_decoder_gets_one():
    objective = DecodedLM(positions=77)
    assert objective.required_heads({"vocabulary"}) == {"vocabulary"}
    assert objective.equip(blueprint("vocabulary")).heads["mask_decoder"] == MaskDecoder(count=77)
    own = objective.equip(blueprint("vocabulary", "mask_decoder")).heads["mask_decoder"]
    assert own == MaskDecoder(count=60)


def test_what_cannot_be():
    with pytest.raises(SettingError) as caught:
        DecodedLM().equip(blueprint("vocabulary", num_hidden_layers=1, conv_kernel_size=3))
    assert str(caught.value) == (
        "encoder.layers[-1] is a layer with a convolution; a mask decoder runs it at some "
        "tokens, and a convolution hears all of them; give the model at least 2 layers."
    )
    plain = blueprint("vocabulary")
    first = tuple(PreNorm(part=sub.part, norm=sub.norm) for sub in plain.encoder.layers[0])
    tower = dataclasses.replace(plain.encoder, layers=(first, first))
    with pytest.raises(
        SettingError, match="is a layer that normalises first; a mask decoder is known for"
    ):
        DecodedLM().equip(dataclasses.replace(plain, encoder=tower))
    with pytest.raises(CheckpointError) as caught:
        blueprint("vocabulary", "mask_decoder", position_biased_input=True)
    assert str(caught.value) == (
        "x: position_biased_input is True; a mask decoder adds absolute positions, and this model "
        "has them at its input; set it to false, or leave the decoder out."
    )
    with pytest.raises(SettingError, match=r"positions is 0; it must be at least 1\."):
        DecodedLM(positions=0)
    with pytest.raises(SettingError, match="masks is 0; it must be at least 1"):
        DecodedLM(masks=0)
    with pytest.raises(SettingError, match="it stands neither in a sum"):
        Sum(parts=(DecodedLM(), NextSentence()))


def test_it_learns(examples):
    """A word that depends on its place in the text alone: the decoder can know it."""
    objective = DecodedLM()
    model = objective.equip(blueprint("vocabulary", "mask_decoder")).build()
    initialize(model, seed=1, std=0.05)
    ids = [[[10 + place for place in range(20)]]] * 8
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for step in range(60):
        batch = objective.batch(examples([20] * 8, ids=ids, epoch=step), 3, SOURCE)
        loss = objective.loss(model, batch.tensors()).value()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
