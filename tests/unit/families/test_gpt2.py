"""GPT-2's switches for the scale of attention scores."""

import pytest
import torch

from clozeworks.core.context import Trace
from clozeworks.core.initialize import initialize
from clozeworks.core.layout import Layout
from clozeworks.errors import CheckpointError
from clozeworks.families.family import Config
from clozeworks.families.gpt2 import FAMILY

SMALL = {"n_embd": 32, "n_layer": 3, "n_head": 2, "n_positions": 20, "vocab_size": 31}


def blueprint(**changes):
    return FAMILY.blueprint(Config({**SMALL, **changes}), frozenset({"vocabulary"}))


@pytest.mark.parametrize(
    ("weights", "inverse", "scales"),
    [
        (True, False, [None, None, None]),
        (False, False, [1.0, 1.0, 1.0]),
        (True, True, [None, 0.125, 0.25 / 3]),
        (False, True, [1.0, 0.5, 1 / 3]),
    ],
)
def test_the_scale_of_every_layer(weights, inverse, scales):
    stated = {"scale_attn_weights": weights, "scale_attn_by_inverse_layer_idx": inverse}
    made = blueprint(**stated)
    assert [attention.part.scale for attention, _ in made.encoder.layers] == scales
    written = FAMILY.config(made)
    assert {key: written[key] for key in stated} == stated
    model = made.build().eval()
    initialize(model, seed=1, std=0.5)
    trace, plain = Trace(), Trace()
    ids, layout = torch.arange(4, 20), Layout([16])
    model(ids, layout, trace=trace)
    usual = blueprint().build().eval()
    usual.load_state_dict(model.state_dict())
    usual(ids, layout, trace=plain)
    same = torch.allclose(trace.attention[0][0], plain.attention[0][0])
    assert same == (scales[0] is None)
    assert torch.allclose(trace.attention[1][0], plain.attention[1][0]) == (scales[1] is None)


def test_scores_in_float32_are_the_same_network():
    assert blueprint(reorder_and_upcast_attn=True) == blueprint()


def test_a_switch_is_true_or_false():
    with pytest.raises(CheckpointError, match="scale_attn_weights is 2; it must be true or false"):
        blueprint(scale_attn_weights=2)
