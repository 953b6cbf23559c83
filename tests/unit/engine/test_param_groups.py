"""What is frozen, and how the rate falls from the heads to the embeddings."""

import pytest
import torch

from clozeworks.core.initialize import initialize
from clozeworks.engine.optimizers.adam_w import AdamW
from clozeworks.engine.param_groups import Freezing, frozen_message
from clozeworks.engine.settings import Training
from clozeworks.errors import SettingError
from clozeworks.families.bert import FAMILY
from clozeworks.families.family import Config

SIZES = {"hidden_size": 8, "num_hidden_layers": 3, "num_attention_heads": 2, "vocab_size": 12}


def model():
    built = FAMILY.blueprint(Config(SIZES), frozenset({"pooler", "classes"})).build()
    initialize(built)
    return built


def factors(freezing=None, layer_decay=1.0):
    network = model()
    optimizer = AdamW().build(network, 1.0, (freezing or Freezing()).apply(network, layer_decay))
    found = {}
    names = {id(p): name for name, p in network.named_parameters()}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            found[names[id(parameter)]] = (group["lr_scale"], group["start_step"])
    return found


def test_the_rate_falls_from_the_heads_down():
    found = factors(layer_decay=0.5)
    assert found["heads.classes.project.weight"] == (1.0, 0)
    assert found["pooler.dense.bias"] == (1.0, 0)
    assert [found[f"encoder.layers.{n}.feed_forward.part.up.weight"][0] for n in (2, 1, 0)] == [
        0.5,
        0.25,
        0.125,
    ]
    assert found["embeddings.tokens.weight"] == (0.0625, 0)
    assert found["embeddings.norm.bias"] == (0.0625, 0)


def test_without_settings_all_are_alike():
    assert set(factors().values()) == {(1.0, 0)}


def test_frozen_layers_take_the_embeddings_with_them():
    found = factors(Freezing(layers=2))
    assert not any(
        name.startswith(("embeddings", "encoder.layers.0", "encoder.layers.1")) for name in found
    )
    assert "encoder.layers.2.attention.norm.weight" in found
    assert "heads.classes.project.bias" in found


def test_heads_only():
    assert {name.split(".")[0] for name in factors(Freezing(heads_only=True))} == {
        "heads",
        "pooler",
    }
    network = model()
    Freezing(heads_only=True).apply(network)
    said = frozen_message(network)
    count = sum(p.numel() for p in network.parameters())
    free = sum(p.numel() for p in [*network.heads.parameters(), *network.pooler.parameters()])
    assert said == f"{free:,} of {count:,} parameters change; the others are frozen."
    Freezing().apply(network)
    assert frozen_message(network) == said  # what was frozen stays so
    assert frozen_message(model()) == ""


def test_layers_thaw_from_the_top():
    found = factors(Freezing(unfreeze_every_steps=10))
    assert found["heads.classes.project.weight"][1] == 0
    assert found["encoder.layers.2.attention.norm.weight"][1] == 10
    assert found["encoder.layers.0.attention.norm.weight"][1] == 30
    assert found["embeddings.tokens.weight"][1] == 40


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: Training(layer_decay=0.0),
            "layer_decay is 0.0; it must be above 0 and at most 1.",
        ),
        (lambda: Freezing(layers=-1), "layers is -1; it must be at least 0."),
        (
            lambda: Freezing(unfreeze_every_steps=0),
            "unfreeze_every_steps is 0; it must be at least 1.",
        ),
        (
            lambda: Freezing(heads_only=True, unfreeze_every_steps=3),
            "heads_only is true; nothing else ever changes: `layers` and `unfreeze_every_steps` "
            "have no effect; leave them out.",
        ),
        (
            lambda: Freezing(layers=4).apply(model()),
            "training.freezing.layers is 4; the model has 3 layers; lower it.",
        ),
    ],
)
def test_settings_that_cannot_be(make, sentence):
    with pytest.raises(SettingError) as caught:
        make()
    assert str(caught.value) == sentence


def test_the_step_is_as_long_as_the_factor_says():
    network = model()
    optimizer = AdamW(weight_decay=0.0).build(network, 1e-2, Freezing().apply(network, 0.5))
    before = {name: p.detach().clone() for name, p in network.named_parameters()}
    for parameter in network.parameters():
        parameter.grad = torch.ones_like(parameter)
    for group in optimizer.param_groups:
        group["lr"] = 1e-2 * group["lr_scale"]
    optimizer.step()
    moved = {
        name: (p.detach() - before[name]).abs().max().item()
        for name, p in network.named_parameters()
    }
    assert moved["heads.classes.project.weight"] == pytest.approx(1e-2, rel=1e-3)
    assert moved["encoder.layers.1.attention.part.query.weight"] == pytest.approx(2.5e-3, rel=1e-3)
