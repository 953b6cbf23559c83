"""Formulas as the papers and released code write them, in float64, and modules to try them on."""

import numpy as np
import pytest
import torch
from torch import nn


class Written:
    """An optimiser in numpy: parameters, gradients and what is remembered, by name."""

    def __init__(self, kind, parameters, excluded, *, betas, eps, decay):
        self.kind, self.excluded, self.betas, self.eps = kind, excluded, betas, eps
        self.decay = decay
        self.p = {name: np.array(value, np.float64) for name, value in parameters.items()}
        self.m = {name: np.zeros_like(value) for name, value in self.p.items()}
        self.v = {name: np.zeros_like(value) for name, value in self.p.items()}
        self.t = 0

    def step(self, gradients, rate):
        self.t += 1
        (b1, b2), decay = self.betas, self.decay
        for name, g in gradients.items():
            p = self.p[name]
            m = self.m[name] = b1 * self.m[name] + (1 - b1) * g
            v = self.v[name] = b2 * self.v[name] + (1 - b2) * g**2
            if self.kind == "adam_w":
                m, v = m / (1 - b1**self.t), v / (1 - b2**self.t)
            update = m / (np.sqrt(v) + self.eps)
            ratio = 1.0
            if name not in self.excluded:
                update = update + decay * p
                lengths = np.linalg.norm(p), np.linalg.norm(update)
                if self.kind == "lamb" and min(lengths) > 0:
                    ratio = lengths[0] / lengths[1]
            self.p[name] = p - rate * ratio * update


@pytest.fixture
def written():
    return Written


class Mixed(nn.Module):
    """Every role: a table, a tied copy of it, a matrix, biases, both norms, zeros, a frozen one."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(50, 16)
        self.dense = nn.Linear(16, 24)
        self.layer = nn.LayerNorm(24)
        self.root = nn.RMSNorm(24)
        self.zero = nn.Linear(16, 16, bias=False)
        self.frozen = nn.Linear(16, 3)
        self.copy = nn.Linear(16, 50)
        self.copy.weight = self.table.weight
        generator = torch.Generator().manual_seed(3)
        with torch.no_grad():
            for parameter in self.parameters():
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.1)
            self.zero.weight.zero_()
        self.frozen.requires_grad_(False)


EXCLUDED = {"dense.bias", "layer.weight", "layer.bias", "root.weight", "copy.bias"}


@pytest.fixture
def mixed():
    return Mixed()


@pytest.fixture
def excluded():
    return EXCLUDED


@pytest.fixture
def gradients():
    """Gradients of step t: of all sizes, some clipped, some all 0."""

    def draw(model, step):
        numbers = np.random.default_rng(step)
        found = {}
        for name, parameter in model.named_parameters():
            if parameter.requires_grad:
                size = 10.0 ** numbers.integers(-5, 2)
                found[name] = (numbers.standard_normal(parameter.shape) * size).astype(np.float32)
        found["table.weight"][::3] = 0  # rows of tokens that never occur
        if step in (0, 4):
            found["dense.weight"][:] = 0
        if step < 3:
            found["zero.weight"][:] = 0
        if step % 3 == 1:
            length = np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in found.values()))
            found = {name: (g / length).astype(np.float32) for name, g in found.items()}
        for name, parameter in model.named_parameters():
            parameter.grad = torch.from_numpy(found[name].copy()) if name in found else None
        return {name: value.astype(np.float64) for name, value in found.items()}

    return draw
