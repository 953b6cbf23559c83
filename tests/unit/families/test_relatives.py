"""Families that are another one with small changes: what configs mean, and what is refused."""

import pytest
import torch

import clozeworks as cw
from clozeworks.core.attention.masks import Causal, SlidingWindow
from clozeworks.core.context import Trace
from clozeworks.core.initialize import initialize
from clozeworks.core.layout import Layout
from clozeworks.core.positions.rotary import Rotary
from clozeworks.errors import CheckpointError, UnknownName
from clozeworks.families.family import Config, families, published_sizes
from clozeworks.text.training.train import train_from_iterator

FAMILIES = families()
SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "intermediate_size": 48,
    "vocab_size": 61,
}


def blueprint(model_type, *parts, **changes):
    return FAMILIES[model_type].blueprint(Config({**SMALL, **changes}), frozenset(parts))


def attentions(model_type, **changes):
    return [layer[0].part for layer in blueprint(model_type, **changes).encoder.layers]


def masks(model_type, **changes):
    return [attention.mask for attention in attentions(model_type, **changes)]


FULL, WINDOW = Causal(), SlidingWindow(length=5)


@pytest.mark.parametrize(
    ("model_type", "changes", "expected"),
    [
        ("mistral", {"sliding_window": None}, [FULL] * 4),
        ("mistral", {"sliding_window": 5}, [WINDOW] * 4),
        ("mistral", {}, [SlidingWindow(length=4096)] * 4),
        ("qwen2", {}, [FULL] * 4),
        ("qwen2", {"sliding_window": 5}, [FULL] * 4),
        ("qwen2", {"use_sliding_window": True, "sliding_window": 5}, [FULL] * 4),
        (
            "qwen2",
            {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 3},
            [FULL, FULL, FULL, WINDOW],
        ),
        (
            "qwen2",
            {
                "use_sliding_window": True,
                "sliding_window": 5,
                "layer_types": ["sliding_attention", *["full_attention"] * 3],
            },
            [WINDOW, FULL, FULL, FULL],
        ),
        ("smollm3", {"sliding_window": 5}, [FULL] * 4),
        (
            "smollm3",
            {"use_sliding_window": True, "sliding_window": 5},
            [FULL, FULL, FULL, WINDOW],
        ),
    ],
)
def test_which_layers_see_a_window(model_type, changes, expected):
    assert masks(model_type, **changes) == expected
    made = blueprint(model_type, **changes)
    assert made.can_generate
    family = FAMILIES[model_type]
    assert family.blueprint(Config(family.config(made)), frozenset()) == made


@pytest.mark.parametrize(
    ("changes", "turning"),
    [
        ({}, [True, True, True, False]),
        ({"no_rope_layer_interval": 2}, [True, False, True, False]),
        ({"no_rope_layers": [0, 1, 1, 0]}, [False, True, True, False]),
        ({"no_rope_layers": [0, 0, 0, 0]}, [False] * 4),
        ({"no_rope_layers": [1, 1, 1, 1, 0, 0]}, [True] * 4),
    ],
)
def test_which_layers_of_smollm3_turn(changes, turning):
    found = [attention.positions for attention in attentions("smollm3", **changes)]
    assert found == [Rotary(theta=2e6) if turns else None for turns in turning]
    made, family = blueprint("smollm3", **changes), FAMILIES["smollm3"]
    assert family.blueprint(Config(family.config(made)), frozenset()) == made


def test_qwen2_has_biases_on_queries_keys_and_values_alone():
    names = blueprint("qwen2", "vocabulary").build("meta").state_dict()
    with_bias = {name.split(".")[-2] for name in names if name.endswith(".bias")}
    assert with_bias == {"query", "key", "value"}


@pytest.mark.parametrize("model_type", ["mistral", "qwen2"])
def test_biases_of_a_config_count_for_nothing(model_type):
    changes = {"attention_bias": model_type == "mistral", "mlp_bias": True}
    assert blueprint(model_type, **changes) == blueprint(model_type)


def test_a_window_hides_what_is_far_away():
    family = FAMILIES["mistral"]
    model = family.blueprint(Config({**SMALL, "sliding_window": 3}), frozenset()).build().eval()
    initialize(model, seed=1, std=0.3)
    trace = Trace()
    with torch.no_grad():
        model(torch.arange(10), Layout([2, 8]), trace=trace)
    short, long = (weights[0] > 0 for weights in trace.attention[0])
    assert torch.equal(short, torch.ones(2, 2).tril().bool())
    far = torch.ones(8, 8).tril(-3).bool()
    assert torch.equal(long, torch.ones(8, 8).tril().bool() & ~far)


def test_every_text_of_ernie_is_the_first_task():
    family = FAMILIES["ernie"]
    plain = family.blueprint(Config(SMALL), frozenset()).build().eval()
    tasks = {**SMALL, "use_task_id": True, "task_type_vocab_size": 5}
    model = family.blueprint(Config(tasks), frozenset()).build().eval()
    initialize(model, seed=1, std=0.3)
    weights = model.state_dict()
    vectors = weights.pop("embeddings.positions.tasks.weight")
    assert vectors.shape == (5, 32)
    plain.load_state_dict(weights)
    ids, layout = torch.arange(9), Layout([4, 5])
    with torch.no_grad():
        assert not torch.allclose(plain(ids, layout), model(ids, layout), atol=1e-3)
        plain.embeddings.positions.table.weight += vectors[0]
        torch.testing.assert_close(plain(ids, layout), model(ids, layout), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("model_type", "changes", "sentence"),
    [
        (
            "mistral",
            {"sliding_window": 0},
            "config.json: sliding_window is 0; a layer is sliding_attention, so it must be a whole "
            "number above 0; correct one of them.",
        ),
        (
            "qwen2",
            {"layer_types": ["sliding_attention"] * 4},
            "config.json: sliding_window is None; a layer is sliding_attention, so it must be a "
            "whole number above 0; correct one of them.",
        ),
        (
            "qwen2",
            {"layer_types": ["full_attention"]},
            "config.json: layer_types is ['full_attention']; it must be a list of 4 types, one for "
            "each layer; correct it.",
        ),
        (
            "smollm3",
            {"layer_types": ["full_attention"] * 3 + ["chunked_attention"]},
            "config.json: layer_types[3] is 'chunked_attention'; known: full_attention, "
            "sliding_attention.",
        ),
        (
            "smollm3",
            {"no_rope_layers": [1, 0]},
            "config.json: no_rope_layers is [1, 0]; it must be a list with a 0 or a 1 for each of "
            "the 4 layers; correct it.",
        ),
        (
            "smollm3",
            {"no_rope_layers": [1, 0, 2, 1]},
            "config.json: no_rope_layers is [1, 0, 2, 1]; it must be a list with a 0 or a 1 for "
            "each of the 4 layers; correct it.",
        ),
        (
            "ernie",
            {"use_task_id": "yes"},
            "config.json: use_task_id is 'yes'; it must be true or false; correct it.",
        ),
    ],
)
def test_what_cannot_be_read_is_said(model_type, changes, sentence):
    with pytest.raises((CheckpointError, UnknownName)) as caught:
        blueprint(model_type, **changes)
    assert str(caught.value) == sentence


@pytest.mark.parametrize(
    ("model_type", "relative"),
    [("xlm-roberta", "roberta"), ("camembert", "roberta"), ("ernie", "bert"), ("mistral", "llama")],
)
def test_the_same_network_under_another_name(model_type, relative):
    changes = {"sliding_window": None} if model_type == "mistral" else {}
    for name, shape in FAMILIES[model_type].architectures.items():
        assert blueprint(model_type, *shape.parts, **changes) == blueprint(
            relative, *shape.parts, **changes
        ), name


TEXT = "the fox ran from London to New York and the lazy dog slept 2024 times ."
TINY = {
    "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 40,
}  # fmt: skip
GROUPED = {**TINY, "num_key_value_heads": 1, "head_dim": 8}


@pytest.mark.parametrize(
    ("size", "changes"),
    [
        ("bge-m3", TINY),
        ("camembert-base", TINY),
        ("ernie-3.0-nano", TINY),
        ("mistral-7b-v0.1", {**GROUPED, "sliding_window": 3}),
        ("qwen2.5-0.5b", GROUPED),
        ("smollm3-3b", {**GROUPED, "no_rope_layers": [1, 0]}),
    ],
)
def test_a_new_model_with_a_tokenizer_of_its_family(size, changes, tmp_path):
    family = published_sizes()[size]
    style = family.style
    tokenizer = train_from_iterator([TEXT] * 5, kind=style.kind, size=330, style=style)
    model = cw.new(size, tokenizer, **changes)
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    assert again.family.model_type == family.model_type and again.blueprint == model.blueprint
    assert again.tokenizer.fingerprint == tokenizer.fingerprint
    for name, tensor in model.model.state_dict().items():
        assert torch.equal(again.model.state_dict()[name], tensor), name
    if model.blueprint.can_generate:
        found = again.generate("the fox", max_new_tokens=6, min_new_tokens=6)
        same = model.generate("the fox", max_new_tokens=6, min_new_tokens=6)
        assert found.text == same.text
        assert len(found.tokens) == 6
    else:
        mask = tokenizer.special.mask
        assert len(again.fill(f"the {mask} ran", top=3).gaps[0]) == 3
        config = again.checkpoint.config
        if model.blueprint.embeddings.positions.offset:  # numbers of fairseq
            assert config["pad_token_id"] == tokenizer.pad_id == 1
            assert config["eos_token_id"] == tokenizer.last_id
