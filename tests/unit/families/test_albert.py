"""ALBERT's sharing and its config."""

from dataclasses import replace

import pytest
import torch

from clozeworks.core.initialize import initialize
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layout import Layout
from clozeworks.errors import CheckpointError, UnknownName, UnsupportedError
from clozeworks.families.albert import FAMILY
from clozeworks.families.family import Config
from clozeworks.runtime.matmul_peak import operations

SMALL = {
    "model_type": "albert", "vocab_size": 31, "embedding_size": 6, "hidden_size": 8,
    "num_attention_heads": 2, "intermediate_size": 12, "num_hidden_layers": 6,
    "max_position_embeddings": 20,
}  # fmt: skip
IDS, LAYOUT = torch.arange(5, 19), Layout([5, 9])


def blueprint(*parts, **changes):
    return FAMILY.blueprint(Config({**SMALL, **changes}), frozenset(parts))


@pytest.mark.parametrize(("groups", "blocks"), [(1, 1), (2, 1), (3, 2)])
def test_a_shared_layer_learns_from_every_place_it_runs_at(groups, blocks):
    shared = blueprint(num_hidden_groups=groups, inner_group_num=blocks)
    model = shared.build().double()
    initialize(model, seed=1, std=0.3)
    order = shared.encoder.running_order()
    assert order == tuple(place * groups // 6 for place in range(6))
    apart = replace(
        shared, encoder=replace(shared.encoder, layers=shared.encoder.layers[:1] * 6, order=None)
    )
    copy = apart.build().double()
    copy.embeddings.load_state_dict(model.embeddings.state_dict())
    for place, layer in enumerate(order):
        copy.encoder.layers[place].load_state_dict(model.encoder.layers[layer].state_dict())
    weights = torch.randn(14, 8, dtype=torch.float64)
    left, right = model(IDS, LAYOUT), copy(IDS, LAYOUT)
    assert torch.equal(left, right)
    for hidden in (left, right):
        (hidden * weights).sum().backward()
    for layer in range(groups):
        places = [copy.encoder.layers[place] for place in range(6) if order[place] == layer]
        for name, parameter in model.encoder.layers[layer].named_parameters():
            together = torch.stack([each.get_parameter(name).grad for each in places]).sum(dim=0)
            torch.testing.assert_close(parameter.grad, together, atol=1e-12, rtol=1e-9)


def test_sharing_saves_parameters_and_no_operations():
    shared, apart = (blueprint(num_hidden_groups=groups).build() for groups in (1, 6))
    counts = [sum(each.numel() for each in model.encoder.parameters()) for model in (shared, apart)]
    assert counts[1] == 6 * counts[0]
    assert operations(lambda: shared(IDS, LAYOUT)) == operations(lambda: apart(IDS, LAYOUT)) > 0


def test_dropout_stands_where_the_code_that_trained_it_has_it():
    made = blueprint("pooler", "sentence_order", "classes", hidden_dropout_prob=0.3)
    attention, feed_forward = made.encoder.layers[0]
    assert attention.dropout == feed_forward.dropout == made.embeddings.dropout == 0.3
    assert made.heads["sentence_order"].dropout == 0.0
    assert made.heads["classes"].dropout == 0.1
    dropped = [
        each.p for each in blueprint("vocabulary").build().modules() if isinstance(each, Dropout)
    ]
    assert not any(dropped), "a silent config drops nothing"


def test_a_silent_config_is_the_largest_size_and_activations_keep_their_published_name():
    silent = FAMILY.blueprint(Config({"embedding_size": 128}), frozenset({"pooler"}))
    assert silent == FAMILY.blueprint(FAMILY.published("albert-xxlarge-v2"), frozenset({"pooler"}))
    assert FAMILY.config(silent)["hidden_act"] == "gelu_new"
    assert FAMILY.config(blueprint(hidden_act="relu"))["hidden_act"] == "relu"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"num_hidden_groups": 4},
         "config.json: num_hidden_layers is 6 and num_hidden_groups is 4; the first must be "
         "divisible by the second; change one of them."),
        ({"num_hidden_groups": 12},
         "config.json: num_hidden_layers is 6 and num_hidden_groups is 12; the first must be "
         "divisible by the second; change one of them."),
        ({"num_hidden_groups": 0},
         "config.json: num_hidden_groups is 0; it must be a whole number from 1 to 2,147,483,647; "
         "correct it."),
        ({"inner_group_num": 200},
         "config.json: inner_group_num is 200; times num_hidden_layers it must be at most 1,000; "
         "correct it."),
        ({"embedding_size": None},
         "config.json: embedding_size is missing; ALBERT's token table has a width of its own; "
         "state it (128 in every published size)."),
        ({"embedding_size": "128"},
         "config.json: embedding_size is '128'; it must be a whole number from 1 to 2,147,483,647; "
         "correct it."),
        ({"classifier_dropout_prob": 1.0},
         "config.json: classifier_dropout_prob is 1.0; it must be at least 0 and below 1; "
         "correct it."),
        ({"position_embedding_type": "relative_key"},
         "config.json: position_embedding_type is 'relative_key'; relative positions are another "
         "model; Clozeworks computes only 'absolute'."),
    ],
)  # fmt: skip
def test_a_wrong_config_is_refused_with_a_sentence(changes, message):
    with pytest.raises(CheckpointError) as error:
        blueprint("classes", "pooler", **changes)
    assert str(error.value) == message


def test_an_unknown_activation():
    with pytest.raises(UnknownName) as error:
        blueprint(hidden_act="gelu_nev")
    assert str(error.value) == (
        "config.json: hidden_act is 'gelu_nev'; known: gelu, gelu_10, gelu_accurate, gelu_fast, "
        "gelu_new, gelu_python, gelu_python_tanh, gelu_pytorch_tanh, hardswish, laplace, "
        "leaky_relu, linear, mish, quick_gelu, relu, relu2, relu6, sigmoid, silu, sqrtsoftplus, "
        "swish, tanh. Did you mean 'gelu_new'?"
    )


def test_a_table_without_a_projection_cannot_be_said():
    made = blueprint()
    plain = replace(made, embeddings=replace(made.embeddings, width=None))
    with pytest.raises(UnsupportedError) as error:
        FAMILY.config(plain)
    assert str(error.value) == (
        "blueprint.embeddings.width is None, but a config of albert can only say 8; keep the "
        "blueprint within what the family can express to save it."
    )
