"""Losses of rerankers against their formulas, written out for each two documents."""

import math

import pytest
import torch

from clozeworks.tasks.rerank.losses import StepPairs
from clozeworks.tasks.rerank.losses.binary_cross_entropy import BinaryCrossEntropy
from clozeworks.tasks.rerank.losses.lambda_loss import LambdaLoss
from clozeworks.tasks.rerank.losses.list_net import ListNet
from clozeworks.tasks.rerank.losses.logit_margin_mse import LogitMarginMSE
from clozeworks.tasks.rerank.losses.logit_mse import LogitMSE

LOGITS = [[0.5, -1.0, 2.0, 0.1], [0.3], [-0.2, 1.5]]
LABELS = [[2.0, 0.0, 0.0, 1.0], [1.0], [0.0, 1.0]]


def step():
    places = [place for each in LOGITS for place in range(len(each))]
    labels = torch.tensor([label for each in LABELS for label in each])
    return torch.tensor([s for each in LOGITS for s in each]), StepPairs(
        torch.tensor(places), labels
    )


def value(loss):
    term = loss.cost(*step())
    return (term.total / term.count).item()


def log_sigmoid(x):
    return -math.log1p(math.exp(-x))


def lambda_loss(weighting, k=None, sigma=1.0, mu=10.0):
    """The mean over ordered pairs of all lists, by ranks counted from 1."""
    costs = []
    for logits, labels in zip(LOGITS, LABELS, strict=True):
        order = sorted(range(len(logits)), key=lambda n: -logits[n])
        s, y = [logits[n] for n in order], [labels[n] for n in order]
        depth = k or 4
        ideal = sum(
            (2**label - 1) / math.log2(1 + rank)
            for rank, label in enumerate(sorted(labels, reverse=True)[:depth], 1)
        )
        for i in range(1, len(s) + 1):
            for j in range(1, len(s) + 1):
                if min(i, j) > depth or (y[i - 1] <= y[j - 1] and weighting != "ndcg_loss1"):
                    continue
                gain = [(2 ** y[n - 1] - 1) / ideal for n in (i, j)]
                near = abs(1 / math.log2(1 + i) - 1 / math.log2(1 + j))
                far = 0.0
                if i != j:
                    far = 1 / math.log2(1 + abs(i - j)) - 1 / math.log2(2 + abs(i - j))
                weight = {
                    "none": 1.0,
                    "ndcg_loss1": gain[0] / math.log2(1 + i),
                    "ndcg_loss2": far * abs(gain[0] - gain[1]),
                    "lambda_rank": near * abs(gain[0] - gain[1]),
                    "ndcg_loss2pp": (mu * far + near) * abs(gain[0] - gain[1]),
                }[weighting]
                costs.append(-weight * log_sigmoid(sigma * (s[i - 1] - s[j - 1])) / math.log(2))
    return sum(costs) / len(costs)


@pytest.mark.parametrize("k", [None, 1])
@pytest.mark.parametrize(
    "weighting", ["ndcg_loss2pp", "ndcg_loss2", "ndcg_loss1", "lambda_rank", "none"]
)
def test_lambda_loss(weighting, k):
    found = value(LambdaLoss(weighting=weighting, k=k, sigma=1.5, mu=3.0))
    assert found == pytest.approx(lambda_loss(weighting, k, 1.5, 3.0), rel=1e-5)


def test_lists_that_say_nothing_cost_nothing():
    pairs = StepPairs(torch.tensor([0, 1, 0]), torch.tensor([1.0, 1.0, 0.0]))
    logits = torch.tensor([0.1, 0.2, 0.3], requires_grad=True)
    term = LambdaLoss().cost(logits, pairs)
    term.total.backward()
    assert term.total.item() == 0 and logits.grad.abs().max() == 0


def test_the_order_of_documents_in_a_row_does_not_matter():
    pairs = StepPairs(torch.tensor([0, 1, 2]), torch.tensor([0.0, 2.0, 1.0]))
    turned = StepPairs(torch.tensor([0, 1, 2]), torch.tensor([1.0, 2.0, 0.0]))
    for loss in (LambdaLoss(), ListNet()):
        one = loss.cost(torch.tensor([0.5, -0.3, 1.0]), pairs).total
        other = loss.cost(torch.tensor([1.0, -0.3, 0.5]), turned).total
        assert one.item() == pytest.approx(other.item(), rel=1e-6)


def test_list_net():
    costs = []
    for logits, labels in zip(LOGITS, LABELS, strict=True):
        wanted = [math.exp(y) / sum(map(math.exp, labels)) for y in labels]
        said = [s - math.log(sum(map(math.exp, logits))) for s in logits]
        costs.append(-sum(w * s for w, s in zip(wanted, said, strict=True)))
    assert value(ListNet()) == pytest.approx(sum(costs) / 3, rel=1e-5)


def test_each_pair_by_itself():
    logits, pairs = step()
    squares = [(s - y) ** 2 for s, y in zip(logits.tolist(), pairs.labels.tolist(), strict=True)]
    assert value(LogitMSE()) == pytest.approx(sum(squares) / 7, rel=1e-5)
    labels = (pairs.labels > 0).float()
    term = BinaryCrossEntropy(pos_weight=3.0).cost(logits, StepPairs(pairs.places, labels))
    costs = [
        -3 * log_sigmoid(s) if y else -log_sigmoid(-s)
        for s, y in zip(logits.tolist(), labels.tolist(), strict=True)
    ]
    assert (term.total / term.count).item() == pytest.approx(sum(costs) / 7, rel=1e-5)
    assert term.correct.item() == sum(
        (s > 0) == (y > 0) for s, y in zip(logits, labels, strict=True)
    )


def test_margins_between_the_first_and_each_other():
    wanted = [(0.5 - s - (2.0 - y)) ** 2 for s, y in ((-1.0, 0.0), (2.0, 0.0), (0.1, 1.0))]
    wanted.append((-0.2 - 1.5 - (0.0 - 1.0)) ** 2)
    assert value(LogitMarginMSE()) == pytest.approx(sum(wanted) / 4, rel=1e-5)
    assert LogitMarginMSE().cost(*step()).count == 4


def test_what_is_known_of_pairs_begins_a_list_at_place_0():
    known = torch.tensor([[0.0, 5.0], [1.0, 6.0], [0.0, 7.0]], dtype=torch.float64)
    pairs = StepPairs.of(known)
    assert pairs.lists.tolist() == [0, 0, 1]
    assert pairs.table(pairs.labels, -1.0).tolist() == [[5.0, 6.0], [7.0, -1.0]]
