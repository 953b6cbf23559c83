"""Adafactor beside that of transformers, with a rate of its own and with T5's."""

import copy

import pytest
import torch
from torch import nn
from transformers.optimization import Adafactor as Theirs

from clozeworks.engine.optimizers.adafactor import Adafactor
from clozeworks.engine.schedules.inverse_square_root import InverseSquareRoot

pytestmark = pytest.mark.parity


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ({"lr": 1e-3, "relative_step": False, "scale_parameter": True}, {"rate": 1e-3}),
        ({"lr": 1e-3, "relative_step": False, "scale_parameter": False},
         {"rate": 1e-3, "scale_parameter": False}),
        ({"lr": None, "relative_step": True, "scale_parameter": True}, {"rate": 0.01}),
    ],
    ids=["t5", "unscaled", "relative"],
)  # fmt: skip
def test_twenty_steps_are_those_of_transformers(theirs, ours):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Embedding(30, 12), nn.Linear(12, 20), nn.LayerNorm(20))
    other = copy.deepcopy(model)
    peer = Theirs(other.parameters(), warmup_init=False, **theirs)
    settings = {name: value for name, value in ours.items() if name != "rate"}
    optimizer = Adafactor(**settings).build(model, ours["rate"])
    schedule = InverseSquareRoot(warmup_steps=0, hold=10_000)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    for step in range(20):
        ids, wanted = torch.randint(0, 30, (16,)), torch.randn(16, 20)
        for network, steps in ((model, optimizer), (other, peer)):
            steps.zero_grad()
            (network(ids) - wanted).square().mean().backward()
        if theirs["relative_step"]:  # 1 / sqrt(max(step, 10,000)) is min(0.01, 1 / sqrt(step))
            for group in optimizer.param_groups:
                group["lr"] = ours["rate"] * schedule.factor(step, 100_000)
        optimizer.step()
        peer.step()
    for first, mine, yours in zip(before, model.parameters(), other.parameters(), strict=True):
        moved = (mine - first).abs().max()
        assert moved > 1e-5
        assert (mine - yours).abs().max() < 1e-4 * moved
