"""Projections: either kernel gives the same numbers, and training has one kernel alone."""

import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.layers import linear
from clozeworks.core.layers.linear import LinearLayer


@pytest.fixture
def calls(monkeypatch):
    """The calls of oneDNN's kernel, which is taken whatever the processor."""
    made, kernel = [], torch.ops.mkldnn._linear_pointwise

    class Recording:
        @staticmethod
        def _linear_pointwise(x, *others):
            made.append(len(x))
            return kernel(x, *others)

    monkeypatch.setattr(linear, "_onednn_is_faster", lambda: True)
    monkeypatch.setattr(torch.ops, "mkldnn", Recording)
    return made


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


@pytest.mark.parametrize("tokens", [16, 17, 100, 1025])
@pytest.mark.parametrize(("inputs", "outputs"), [(1, 7), (64, 64), (130, 33), (384, 1000)])
@pytest.mark.parametrize("bias", [True, False])
def test_both_kernels_give_the_same_numbers(calls, tokens, inputs, outputs, bias, monkeypatch):
    monkeypatch.setattr(linear, "_LEAST_PRODUCTS", 0)
    x, part = drawn(tokens, inputs), LinearLayer(inputs, outputs, bias=bias)
    with torch.inference_mode():
        found = part(x)
        plain = F.linear(x, part.weight, part.bias)
        strided = part(drawn(tokens, 2 * inputs)[:, ::2])
        rounded = -(-tokens // 16) * 16
        assert calls == [rounded, rounded]
        expected = F.linear(drawn(tokens, 2 * inputs)[:, ::2], part.weight, part.bias)
    torch.testing.assert_close(found, plain, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(strided, expected, rtol=1e-5, atol=1e-5)


def test_training_has_the_bits_of_torch(calls, monkeypatch):
    monkeypatch.setattr(linear, "_LEAST_PRODUCTS", 0)
    part, x = LinearLayer(48, 24), drawn(40, 48)
    assert part(x).equal(F.linear(x, part.weight, part.bias))
    part(x).sum().backward()
    with torch.no_grad():
        part(x)
    assert not calls


@pytest.mark.parametrize(
    "case", ["few tokens", "none", "bfloat16", "float64", "autocast", "rows of rows"]
)
def test_what_the_kernel_is_not_for_is_left_to_torch(calls, case, monkeypatch):
    monkeypatch.setattr(linear, "_LEAST_PRODUCTS", 16 * 48 * 24)
    part, x = LinearLayer(48, 24), drawn(40, 48)
    if case in ("bfloat16", "float64"):
        part, x = part.to(getattr(torch, case)), x.to(getattr(torch, case))
    x = {"few tokens": x[:15], "none": x[:0], "rows of rows": x.view(20, 2, 48)}.get(case, x)
    with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16, case == "autocast"):
        found = part(x)
        assert found.equal(F.linear(x, part.weight, part.bias))
    assert not calls
    assert found.dtype == (torch.bfloat16 if case == "autocast" else x.dtype)


@pytest.mark.parametrize(
    ("capabilities", "faster"),
    [
        ({"avx512_f": True, "sse4a": True}, True),  # Zen 4 and later
        ({"avx512_f": False, "sse4a": True}, False),  # Zen 3
        ({"avx512_f": True, "sse4a": False}, False),  # MKL uses all of an Intel processor
        ({}, False),
    ],
)
def test_the_processor_decides(monkeypatch, capabilities, faster):
    monkeypatch.setattr(torch.cpu, "get_capabilities", lambda: capabilities, raising=False)
    linear._onednn_is_faster.cache_clear()
    assert linear._onednn_is_faster() is faster
    linear._onednn_is_faster.cache_clear()
