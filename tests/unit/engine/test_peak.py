"""Operations are those of the formula, and are counted where a run lasts long enough."""

import pytest
import torch

from clozeworks.engine import metrics
from clozeworks.engine.metrics import read
from clozeworks.runtime.matmul_peak import matmul_peak, operations


def test_products_and_their_gradients_are_counted():
    a, b = torch.ones(8, 16, requires_grad=True), torch.ones(16, 32, requires_grad=True)
    assert operations(lambda: a @ b) == 2 * 8 * 16 * 32
    assert operations(lambda: (a @ b).sum().backward()) == 3 * 2 * 8 * 16 * 32


def test_a_machine_can_do_something():
    assert matmul_peak(torch.device("cpu")) > 1e6


@pytest.mark.parametrize(("seconds", "lines"), [(60.0, 0), (0.0, 2)])
def test_only_a_longer_run_says_its_share_of_the_peak(trained, monkeypatch, seconds, lines):
    monkeypatch.setattr(metrics, "_WORTH_MEASURING", seconds)
    monkeypatch.setattr(metrics, "matmul_peak", lambda device: 1.0)  # operation a second
    trainer = trained(steps=4, watched=2)
    trainer.run()
    shares = [record.get("share_of_peak", 0) for record in read(trainer.metrics._path)]
    assert sum(share > 1 for share in shares) == lines
    assert shares
