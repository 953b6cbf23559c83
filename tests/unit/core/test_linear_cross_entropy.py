"""The fused cross-entropy is that of the plain formula, and so is its gradient."""

import threading

import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.ops import linear_cross_entropy as module
from clozeworks.core.ops.linear_cross_entropy import linear_cross_entropy

VOCABULARY = 2500  # more than two slices, and not a multiple of one


def parts(count: int, dtype=torch.float64, seed: int = 0):
    torch.manual_seed(seed)
    x = torch.randn(count, 12, dtype=dtype, requires_grad=True)
    weight = torch.randn(VOCABULARY, 12, dtype=dtype, requires_grad=True)
    bias = torch.randn(VOCABULARY, dtype=dtype, requires_grad=True)
    return x, weight, bias, torch.randint(0, VOCABULARY, (count,))


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
@pytest.mark.parametrize("count", [0, 1, 40])
def test_cost_and_gradients_are_those_of_the_plain_formula(dtype, limit, count):
    x, weight, bias, answers = parts(count, dtype)
    answers[: count // 2] = F.linear(x, weight, bias).argmax(1)[: count // 2]
    total, right = linear_cross_entropy(x, weight, bias, answers)
    scores = F.linear(x, weight, bias)
    plain = F.cross_entropy(scores, answers, reduction="sum")
    assert (total - plain).abs() <= limit * max(1, count)
    assert right == (scores.argmax(1) == answers).sum() and right >= count // 2
    ours = torch.autograd.grad(total * 0.3, [x, weight, bias])
    theirs = torch.autograd.grad(plain * 0.3, [x, weight, bias])
    for a, b in zip(ours, theirs, strict=True):
        assert (a - b).abs().max() <= limit if a.numel() else True


@pytest.mark.parametrize(("dtype", "limit"), [(torch.float64, 1e-12), (torch.float32, 2e-5)])
@pytest.mark.parametrize("at_once", [1, 7, 40, 41])
def test_tokens_done_some_at_a_time_cost_the_same(monkeypatch, dtype, limit, at_once):
    x, weight, bias, answers = parts(41, dtype)
    answers[:9] = F.linear(x, weight, bias).argmax(1)[:9]
    whole, right = linear_cross_entropy(x, weight, bias, answers)
    expected = torch.autograd.grad(whole, [x, weight, bias])
    monkeypatch.setattr(module, "_LOGITS", at_once * VOCABULARY)
    module._held.memory = None
    total, again = linear_cross_entropy(x, weight, bias, answers)
    assert total.item() == pytest.approx(whole.item(), rel=limit)
    assert again == right >= 9
    for a, b in zip(torch.autograd.grad(total, [x, weight, bias]), expected, strict=True):
        assert (a - b).abs().max() <= limit
    assert module._held.memory.numel() <= at_once * VOCABULARY, "more scores than allowed"
    if at_once == 41:  # one go is what it always was, to the bit
        assert torch.equal(total, whole)


def test_a_tie_is_right_only_for_the_entry_that_argmax_names():
    x, weight = torch.ones(2, 1), torch.ones(5, 1)
    assert linear_cross_entropy(x, weight, torch.zeros(5), torch.tensor([3, 0]))[1] == 1


def test_two_costs_can_wait_for_their_gradients():
    first, second = parts(7, seed=1), parts(9, seed=2)
    together = linear_cross_entropy(*first)[0] + linear_cross_entropy(*second)[0]
    ours = torch.autograd.grad(together, [first[0], second[0]])
    for given, grad in zip((first, second), ours, strict=True):
        alone = torch.autograd.grad(linear_cross_entropy(*given)[0], given[0])[0]
        assert torch.equal(alone, grad)


def test_a_gradient_is_taken_once():
    x, *rest = parts(3)
    total, _ = linear_cross_entropy(x, *rest)
    torch.autograd.grad(total, x, retain_graph=True)
    with pytest.raises(AssertionError, match="once"):
        torch.autograd.grad(total, x)


def test_threads_have_memory_of_their_own():
    expected = [float(linear_cross_entropy(*parts(30, seed=seed))[0].detach()) for seed in range(4)]
    found = [0.0] * 4

    given = [parts(30, seed=seed) for seed in range(4)]

    def run(seed: int) -> None:
        for _ in range(20):
            found[seed] = float(linear_cross_entropy(*given[seed])[0].detach())

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == expected


def test_without_gradients_and_in_other_types():
    x, weight, bias, answers = parts(5, torch.float32)
    with torch.inference_mode():
        total, _ = linear_cross_entropy(x, weight, bias, answers)
    after, _ = linear_cross_entropy(
        x, weight, bias, answers
    )  # memory from inference mode can be used again
    assert torch.autograd.grad(after, x)[0].isfinite().all()
    half, _ = linear_cross_entropy(x.bfloat16(), weight.bfloat16(), bias.bfloat16(), answers)
    assert half.dtype == torch.float32 and abs(float(half.detach()) - float(total)) < 0.02 * float(
        total
    )
