"""Ten steps beside the formulas in float64, and the mistakes that would show."""

import numpy as np
import pytest
import torch

from clozeworks.engine.optimizers import bert_adam, length_of
from clozeworks.engine.optimizers.adam_w import AdamW
from clozeworks.engine.optimizers.bert_adam import BertAdam
from clozeworks.engine.optimizers.lamb import Lamb

ALL = {"adam_w": AdamW, "bert_adam": BertAdam, "lamb": Lamb}
RATES = [0.0, 5e-3, 1e-2, 9e-3, 8e-3, 7e-3, 6e-3, 5e-3, 4e-3, 3e-3]


def run(kind, model, gradients, written, excluded, as_kind=None, **changes):
    """Parameters after ten steps: ours, as written, and at the beginning."""
    spec = ALL[kind](weight_decay=0.1, **changes)
    optimizer = spec.build(model, 1e-2)
    values = {
        name: value.detach().numpy().copy()
        for name, value in model.named_parameters()
        if value.requires_grad
    }
    settings = {"betas": spec.betas, "eps": spec.eps, "decay": spec.weight_decay}
    reference = written(as_kind or kind, values, excluded, **settings)
    for step, rate in enumerate(RATES):
        found = gradients(model, step)
        for group in optimizer.param_groups:
            group["lr"] = rate
        optimizer.step()
        reference.step(found, rate)
    ours = {name: value.detach().numpy() for name, value in model.named_parameters()}
    return ours, reference.p, values


def close(ours, wanted):
    """Whether float32 rounding of ten steps explains every difference."""
    return {
        name: bool(np.allclose(ours[name], value, rtol=2e-6, atol=2e-7))
        for name, value in wanted.items()
    }


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("changes", [{}, {"betas": (0.5, 0.98), "eps": 1e-3}])
def test_ten_steps_are_the_formula(kind, changes, mixed, gradients, written, excluded):
    ours, wanted, first = run(kind, mixed, gradients, written, excluded, **changes)
    assert all(close(ours, wanted).values())
    assert not any(close(ours, first).values())


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.parametrize("other", ALL)
def test_no_formula_passes_for_another(kind, other, mixed, gradients, written, excluded):
    ours, wanted, _ = run(kind, mixed, gradients, written, excluded, as_kind=other)
    assert all(close(ours, wanted).values()) == (kind == other)


@pytest.mark.parametrize("kind", ALL)
def test_excluding_too_few_would_show(kind, mixed, gradients, written, excluded):
    fewer = excluded - {"root.weight"}
    ours, wanted, _ = run(kind, mixed, gradients, written, fewer)
    same = close(ours, wanted)
    assert not same.pop("root.weight") and all(same.values())


@pytest.mark.parametrize("kind", ["bert_adam", "lamb"])
def test_devices_without_the_kernel_do_the_same(
    kind, mixed, gradients, written, excluded, monkeypatch
):
    monkeypatch.setattr(bert_adam, "fused", lambda parameters: None)
    ours, wanted, _ = run(kind, mixed, gradients, written, excluded)
    assert all(close(ours, wanted).values())


@pytest.mark.parametrize("beta", [0.0, 0.9, 0.999, 1 - 2**-53])
def test_at_a_late_step_nothing_is_corrected(beta):
    assert 1 - beta**bert_adam.LATE == 1
    late = torch.full((), bert_adam.LATE)
    assert late + 1 == late


def test_a_tensor_of_zeros_is_not_stretched(mixed):
    """Where the ratio would be 0 / |u| the weights could never leave 0."""
    optimizer = Lamb(weight_decay=0.01).build(mixed, 0.1)
    mixed.zero.weight.grad = torch.ones_like(mixed.zero.weight)
    mixed.dense.weight.grad = torch.zeros_like(mixed.dense.weight)
    before = mixed.dense.weight.detach().clone()
    optimizer.step()
    expected = -0.1 * 0.1 / (0.001**0.5 + 1e-6)
    torch.testing.assert_close(
        mixed.zero.weight.detach(), torch.full_like(mixed.zero.weight, expected)
    )
    # Without a gradient the step is the decay alone, stretched to the length of the tensor.
    torch.testing.assert_close(mixed.dense.weight.detach(), before * 0.9)


def test_without_decay_and_gradient_nothing_moves(mixed):
    optimizer = Lamb(weight_decay=0.0).build(mixed, 0.1)
    mixed.dense.weight.grad = torch.zeros_like(mixed.dense.weight)
    before = mixed.dense.weight.detach().clone()
    optimizer.step()
    assert torch.equal(mixed.dense.weight, before)


def test_lengths_of_large_tensors_are_right():
    generator = torch.Generator().manual_seed(0)
    for shape in [(30_000, 256), (256,), ()]:
        tensor = torch.randn(shape, generator=generator)
        exact = tensor.double().norm().item()
        assert length_of(tensor).item() == pytest.approx(exact, rel=1e-6)
