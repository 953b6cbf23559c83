"""What is dropped: the right share, scaled right, and a function of the generator alone."""

import threading

import pytest
import torch
from scipy.stats import chisquare

from clozeworks.core.attention.attend import attend
from clozeworks.core.layers.dropout import Dropout, drawing_from, dropped
from clozeworks.core.layout import Layout


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_the_share_is_dropped_and_the_mean_stays(share):
    with drawing_from(seeded(1)):
        x = dropped(torch.ones(1_000_003), share)
    zero = int((x == 0).sum())
    expected = [share * x.numel(), (1 - share) * x.numel()]
    assert chisquare([zero, x.numel() - zero], expected).pvalue > 1e-4
    assert x.unique().numel() == 2 and x.max().item() == pytest.approx(1 / (1 - share), rel=1e-4)
    wrong = [(share + 0.005) * x.numel(), (0.995 - share) * x.numel()]
    assert chisquare([zero, x.numel() - zero], wrong).pvalue < 1e-4


def test_each_of_the_four_values_of_a_word_is_dropped_equally_often():
    with drawing_from(seeded(2)):
        x = dropped(torch.ones(400_000), 0.1).view(-1, 4)
    assert chisquare((x == 0).sum(0).numpy()).pvalue > 1e-4


def test_gradients_pass_where_values_did():
    x = torch.randn(500, dtype=torch.float64, requires_grad=True)
    with drawing_from(seeded(3)):
        y = dropped(x, 0.3)
    (grad,) = torch.autograd.grad(y.sum(), x)
    assert torch.equal(grad * x.detach(), y.detach())


def test_the_generator_decides_and_threads_do_not_mix():
    def draw(seed: int) -> torch.Tensor:
        with drawing_from(seeded(seed)):
            return torch.cat([dropped(torch.ones(1000), 0.5) for _ in range(200)])

    expected = [draw(seed) for seed in range(4)]
    found = [torch.empty(0)] * 4
    threads = [
        threading.Thread(target=lambda seed=seed: found.__setitem__(seed, draw(seed)))
        for seed in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(a, b) for a, b in zip(expected, found, strict=True))
    assert not torch.equal(expected[0], expected[1])


def test_without_a_generator_torch_decides():
    layer = Dropout(0.5).train()
    torch.manual_seed(5)
    ours = layer(torch.ones(100))
    torch.manual_seed(5)
    assert torch.equal(ours, torch.nn.functional.dropout(torch.ones(100), 0.5))
    assert torch.equal(layer.eval()(torch.ones(100)), torch.ones(100))


def test_attention_drops_weights_and_keeps_their_mean():
    layout = Layout([7, 7, 5])
    q, k = torch.randn(2, layout.total, 2, 4, dtype=torch.float64)
    v = torch.ones(layout.total, 2, 3, dtype=torch.float64)
    with drawing_from(seeded(6)):
        sums = [attend(q, k, v, queries=layout, keys=layout, dropout=0.25) for _ in range(2000)]
    mean = torch.stack(sums).mean(0)  # the weights of a query add up to 1 on average
    assert (mean - 1).abs().max() < 0.08
    assert (sums[0] - sums[1]).abs().max() > 0.1
    whole = attend(q, k, v, queries=layout, keys=layout)
    assert (whole - 1).abs().max() < 1e-12
