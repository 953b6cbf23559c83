"""Low-rank differences: nothing at first, learned alone, and plain again at the end."""

import copy

import pytest
import torch

from clozeworks.compress.lora import AdaptedLinear, Lora, adapted, add_lora, merge_lora
from clozeworks.core.initialize import initialize
from clozeworks.core.layout import Layout
from clozeworks.errors import SettingError, UnknownName
from clozeworks.families.bert import FAMILY
from clozeworks.families.family import Config

IDS = torch.arange(1, 10)
LAYOUT = Layout([4, 5])
QUERY = "encoder.layers.0.attention.part.query"


def tiny(dtype=torch.float32):
    settings = {
        **FAMILY.published("bert-tiny"),
        "hidden_size": 16,
        "num_attention_heads": 2,
        "intermediate_size": 24,
        "vocab_size": 20,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    model = FAMILY.blueprint(Config(settings), frozenset({"pooler", "classes"})).build()
    initialize(model, seed=1, std=0.3)
    return model.to(dtype)


def learned(model, seed=0):
    """As if something had been learned."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for module in adapted(model).values():
            module.lora_b.copy_(0.1 * torch.randn(module.lora_b.shape, generator=generator))
    return model


def test_the_first_output_is_that_of_the_model_as_it_was():
    model = tiny()
    before = model(IDS, LAYOUT)
    add_lora(model, Lora(rank=4))
    assert torch.equal(model(IDS, LAYOUT), before)
    assert not torch.equal(learned(model)(IDS, LAYOUT), before)


def test_it_is_the_formula():
    plain = torch.nn.Linear(6, 5).double()
    module = AdaptedLinear(plain, Lora(rank=2, alpha=3.0))
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for part in (module.lora_a, module.lora_b):
            part.copy_(torch.randn(part.shape, generator=generator))
    x = torch.randn(7, 6, generator=generator, dtype=torch.float64)
    expected = x @ plain.weight.T + plain.bias + 1.5 * (x @ module.lora_a.T @ module.lora_b.T)
    torch.testing.assert_close(module(x), expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    "targets", [("query", "value"), ("query", "key", "value", "output", "up", "down")]
)
@pytest.mark.parametrize(("dtype", "within"), [(torch.float32, 1e-6), (torch.float64, 1e-13)])
def test_merged_it_is_plain_and_computes_the_same(targets, dtype, within):
    model, plain = tiny(dtype), tiny(dtype)
    add_lora(model, Lora(rank=4, targets=targets))
    assert len(adapted(model)) == 2 * len(targets)
    applied = learned(model)(IDS, LAYOUT)
    merge_lora(model)
    # In float32 the two differ by rounding, which grows with the numbers themselves.
    within *= applied.abs().max().item()
    torch.testing.assert_close(model(IDS, LAYOUT), applied, rtol=0, atol=within)
    assert list(model.state_dict()) == list(plain.state_dict())
    assert not adapted(model)
    assert all(parameter.requires_grad for parameter in model.parameters())
    again = copy.deepcopy(model)
    merge_lora(again)
    assert torch.equal(again(IDS, LAYOUT), model(IDS, LAYOUT))
    plain.load_state_dict(model.state_dict())


def test_names_of_weights_stay_and_a_plain_state_can_be_loaded():
    model, other = tiny(), tiny()
    initialize(other, seed=9)
    add_lora(model, Lora())
    found = model.load_state_dict(other.state_dict(), strict=False)
    assert not found.unexpected_keys
    assert {name.rpartition(".")[2] for name in found.missing_keys} == {"lora_a", "lora_b"}
    assert torch.equal(model(IDS, LAYOUT), other(IDS, LAYOUT))


def test_only_the_differences_and_heads_and_pooler_change():
    model = tiny()
    add_lora(model, Lora(rank=2))
    free = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    layers = [f"encoder.layers.{layer}.attention.part" for layer in (0, 1)]
    assert free == {
        *(f"{layer}.{name}.lora_{part}" for layer in layers for name in ("query", "value")
          for part in "ab"),
        "pooler.dense.weight", "pooler.dense.bias",
        "heads.classes.project.weight", "heads.classes.project.bias",
    }  # fmt: skip
    model.pooler.pool(model(IDS, LAYOUT), LAYOUT).sum().backward()
    assert adapted(model)[QUERY].lora_b.grad.any()
    assert model.embeddings.tokens.weight.grad is None


def test_first_values_are_a_function_of_seed_and_name():
    def drawn(seed, targets=("query", "value")):
        model = tiny()
        add_lora(model, Lora(rank=4, targets=targets), seed=seed)
        return {name: module.lora_a.detach() for name, module in adapted(model).items()}

    first, again, other = drawn(3), drawn(3), drawn(4)
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert torch.equal(drawn(3, ("query",))[QUERY], first[QUERY])
    assert not torch.equal(other[QUERY], first[QUERY])
    assert not torch.equal(first[QUERY], first[QUERY.replace("query", "value")])
    values = torch.cat([tensor.flatten() for tensor in first.values()])
    # Evenly from +-1 / sqrt(16): the spread of that is 0.25 / sqrt(3).
    assert values.abs().max() <= 0.25
    assert values.std().item() == pytest.approx(0.25 / 3**0.5, rel=0.1)


def test_dropout_is_before_the_first_matrix_and_only_in_training():
    model = tiny()
    add_lora(model, Lora(rank=4, dropout=0.5))
    module = learned(model).train().get_submodule(QUERY)
    x = torch.ones(50, 16)
    assert not torch.equal(module(x), module(x))
    assert torch.equal(module.eval()(x), module(x))
    module.train()
    with torch.no_grad():
        module.lora_b.zero_()
    assert torch.equal(module(x), torch.nn.functional.linear(x, module.weight, module.bias))


def test_projections_without_a_bias():
    module = AdaptedLinear(torch.nn.Linear(6, 5, bias=False), Lora(rank=2))
    assert list(module.merged().state_dict()) == ["weight"]
    assert module(torch.ones(2, 6)).shape == (2, 5)


@pytest.mark.parametrize(
    ("settings", "error", "sentence"),
    [
        ({"rank": 0}, SettingError, "rank is 0; it must be at least 1."),
        ({"alpha": 0.0}, SettingError, "alpha is 0.0; it must be above 0."),
        ({"dropout": 1.0}, SettingError, "dropout is 1.0; it must be at least 0 and below 1."),
        (
            {"targets": ()},
            SettingError,
            "targets is empty; it must be non-empty; name at least one, such as query.",
        ),
        (
            {"targets": ("querry",)},
            UnknownName,
            "A target of lora.targets is 'querry'; known: down, key, output, query, up, value. Did "
            "you mean 'query'?",
        ),
        (
            {"rank": 16},
            SettingError,
            f"lora.rank is 16; {QUERY} is 16 wide, and the rank must be below that; lower it.",
        ),
    ],
)
def test_what_cannot_be_is_said(settings, error, sentence):
    model = tiny()
    with pytest.raises(error) as caught:
        add_lora(model, Lora(**settings))
    assert str(caught.value) == sentence
    assert not adapted(model)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_twice_is_refused():
    model = tiny()
    add_lora(model, Lora(rank=2))
    with pytest.raises(SettingError) as caught:
        add_lora(model, Lora(rank=2))
    assert str(caught.value) == (
        "lora is set; the model has low-rank differences already, and can have one set; merge "
        "them first with merge_lora."
    )


def test_half_precision_is_merged_in_full_and_rounded_once():
    generator = torch.Generator().manual_seed(0)
    plain = torch.nn.Linear(24, 16).to(torch.bfloat16)
    module = AdaptedLinear(plain, Lora(rank=4, alpha=12.0))
    with torch.no_grad():
        for matrix in (module.lora_a, module.lora_b):
            matrix.copy_(torch.randn(matrix.shape, generator=generator))
    exact = plain.weight.double() + 3.0 * module.lora_b.double() @ module.lora_a.double()
    merged = module.merged().weight
    assert merged.dtype == torch.bfloat16
    # The nearest of the numbers there are, everywhere; a sum in half precision is often another.
    assert torch.equal(merged, exact.to(torch.bfloat16))
