"""Operations are those of the formula."""

import torch

from clozeworks.runtime.matmul_peak import matmul_peak, operations


def test_products_and_their_gradients_are_counted():
    a, b = torch.ones(8, 16, requires_grad=True), torch.ones(16, 32, requires_grad=True)
    assert operations(lambda: a @ b) == 2 * 8 * 16 * 32
    assert operations(lambda: (a @ b).sum().backward()) == 3 * 2 * 8 * 16 * 32


def test_a_machine_can_do_something():
    assert matmul_peak(torch.device("cpu")) > 1e6
