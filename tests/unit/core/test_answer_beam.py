"""XLNet's head for answers, against its formulas one text at a time."""

import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.heads.answer_beam import AnswerBeam
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.layout import Layout

WIDTH, STARTS = 6, 4
LENGTHS = [7, 3, 5]


@pytest.fixture
def head():
    torch.manual_seed(0)
    made = AnswerBeam(norm=LayerNorm(eps=1e-12), starts=STARTS).build(WIDTH, Embeddings(tokens=9))
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return made


@pytest.fixture
def states():
    return torch.randn(sum(LENGTHS), WIDTH, generator=torch.Generator().manual_seed(1))


def end_of(head, token, start):
    hidden = torch.tanh(head.end_dense(torch.cat([token, start])))
    return head.end(F.layer_norm(hidden, (WIDTH,), head.end_norm.weight, head.end_norm.bias, 1e-12))


def none_of(head, start, last):
    return head.none(torch.tanh(head.none_dense(torch.cat([start, last]))))


@pytest.mark.parametrize("outside", [(), (0, 2, 8, 14)], ids=["all", "some"])
def test_logits(head, states, outside):
    layout = Layout(LENGTHS)
    inside = torch.tensor([n for n in range(len(states)) if n not in outside])
    found = head.logits(states, layout, inside if outside else None)
    assert found.shape == (len(inside), STARTS + 2)
    begin = 0
    for text in layout.split(torch.arange(len(states))):
        tokens = states[[n for n in text.tolist() if n not in outside]]
        rows = found[begin : begin + len(tokens)]
        begin += len(tokens)
        first = torch.cat([head.start(token) for token in tokens]).detach()
        torch.testing.assert_close(rows[:, 0], first)
        order = sorted(range(len(tokens)), key=lambda n: -float(first[n]))
        order += order[-1:] * STARTS  # a text with fewer tokens repeats the last of them
        for column, start in enumerate(order[:STARTS]):
            ends = torch.cat([end_of(head, token, tokens[start]) for token in tokens])
            torch.testing.assert_close(rows[:, 1 + column], ends)
        mean = (first.softmax(0)[:, None] * tokens).sum(0)
        none = none_of(head, mean, states[text[-1]])
        torch.testing.assert_close(rows[:, -1], none.expand(len(tokens)))


def test_a_text_of_which_nothing_can_be_in_an_answer(head, states):
    found = head.logits(states, Layout(LENGTHS), torch.tensor([0, 1, 10]))
    assert found.shape == (3, STARTS + 2)
    alone = head.logits(states[10:], Layout([5]), torch.tensor([0]))
    torch.testing.assert_close(found[2:], alone)


def test_losses(head, states):
    """The right beginning is given to the end; without an answer both are the last token."""
    layout = Layout(LENGTHS)
    costs, right = head.losses(states, layout, torch.tensor([[2, 5], [0, 0], [4, 4]]))
    for number, (tokens, first, last) in enumerate(
        zip(layout.split(states), (2, 2, 4), (5, 2, 4), strict=True)
    ):
        starts = torch.cat([head.start(token) for token in tokens])
        ends = torch.cat([end_of(head, token, tokens[first]) for token in tokens])
        missing = torch.tensor([float(number == 1)])
        doubt = none_of(head, tokens[first], tokens[-1])
        cost = -starts.log_softmax(0)[first] - ends.log_softmax(0)[last]
        cost = (cost + F.binary_cross_entropy_with_logits(doubt, missing)) / 2
        torch.testing.assert_close(costs[number], cost)
        assert bool(right[number]) == (int(starts.argmax()) == first and int(ends.argmax()) == last)
