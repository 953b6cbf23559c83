"""Packed weights: the same numbers, made anew when weights change."""

import gc
import weakref

import pytest
import torch

from clozeworks.core.initialize import initialize
from clozeworks.core.layout import Layout
from clozeworks.core.ops import packed_weights
from clozeworks.core.ops.packed_weights import PackedLinear, packed
from clozeworks.families.family import Config, families

SIZES = {
    "gpt2": {"n_embd": 384, "n_layer": 2, "n_head": 6, "n_positions": 40, "vocab_size": 600},
    "llama": {
        "hidden_size": 384, "num_hidden_layers": 1, "num_attention_heads": 6,
        "num_key_value_heads": 2, "intermediate_size": 500, "vocab_size": 600,
    },
}  # fmt: skip


@pytest.fixture(params=SIZES)
def model(request):
    family = families()[request.param]
    made = family.blueprint(Config(SIZES[request.param]), frozenset({"vocabulary"})).build()
    initialize(made, seed=2, std=0.05)
    return made.eval()


def scores(model):
    ids, layout = torch.arange(30) * 7 % 600, Layout([5, 1, 24])
    with torch.inference_mode():
        return model.head("vocabulary").logits(model(ids, layout), layout)


def test_the_same_numbers(model):
    twin = packed(model)
    assert sum(isinstance(part, PackedLinear) for part in twin.modules()) >= 5
    assert not any(isinstance(part, PackedLinear) for part in model.modules())
    torch.testing.assert_close(scores(twin), scores(model), rtol=1e-5, atol=1e-5)


def test_made_once_and_anew_when_a_weight_changes(model):
    twin = packed(model)
    assert packed(model) is twin
    with torch.no_grad():
        model.encoder.layers[0]["feed_forward"].part.up.weight.mul_(2)
    changed = packed(model)
    assert changed is not twin
    torch.testing.assert_close(scores(changed), scores(model), rtol=1e-5, atol=1e-5)
    assert packed(model.train()).training and not packed(model.eval()).training


def test_what_is_no_projection_is_shared(model):
    twin = packed(model)
    assert twin.embeddings.tokens.weight is model.embeddings.tokens.weight


def test_it_goes_with_its_model():
    made = families()["gpt2"].blueprint(Config(SIZES["gpt2"]), frozenset({"vocabulary"})).build()
    initialize(made, seed=2)
    gone = weakref.ref(packed(made))
    del made
    gc.collect()
    assert gone() is None


def test_where_it_cannot_be(model, monkeypatch):
    assert packed(model.double()) is model
    model.float()
    monkeypatch.setattr(packed_weights, "available", lambda: 1000)
    assert packed(model) is model
    monkeypatch.undo()
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: False)
    assert packed(model) is model
