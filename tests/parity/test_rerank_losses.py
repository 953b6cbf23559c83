"""Losses of cross-encoders: value and gradient are those of sentence-transformers."""

import itertools

import pytest
import torch

from clozeworks.tasks.rerank.losses import StepPairs
from clozeworks.tasks.rerank.losses.binary_cross_entropy import BinaryCrossEntropy
from clozeworks.tasks.rerank.losses.lambda_loss import LambdaLoss
from clozeworks.tasks.rerank.losses.list_net import ListNet
from clozeworks.tasks.rerank.losses.logit_margin_mse import LogitMarginMSE
from clozeworks.tasks.rerank.losses.logit_mse import LogitMSE

pytestmark = pytest.mark.parity
LISTS = (5, 1, 7, 3)
GRADES = [1.0, 0, 3, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0.5, 0, -1]  # one list without anything relevant


def silent(logits):
    """A cross-encoder of theirs that reads numbers: document n of all has the n-th logit."""
    from sentence_transformers import CrossEncoder

    class Silent(CrossEncoder):
        def __init__(self):
            torch.nn.Module.__init__(self)

        num_labels, device = 1, torch.device("cpu")

        def preprocess(self, pairs, **_):
            return {"numbers": torch.tensor([int(document) for _, document in pairs])}

        def forward(self, features):
            return {"scores": logits[features["numbers"]][:, None]}

    return Silent()


def lists(sizes=LISTS):
    places = torch.cat([torch.arange(size) for size in sizes])
    numbers = [str(n) for n in range(sum(sizes))]
    begins = torch.tensor([0, *sizes]).cumsum(0).tolist()
    documents = [numbers[a:b] for a, b in itertools.pairwise(begins)]
    return places, [["q"] * len(sizes), documents], begins


def ours(loss, logits, places, labels):
    logits = logits.clone().requires_grad_()
    term = loss.cost(logits, StepPairs(places, labels))
    value = term.total / term.count
    return value, torch.autograd.grad(value, logits)[0]


def same(loss, theirs, inputs, labels, logits, places, flat):
    value, grad = ours(loss, logits, places, flat)
    own = logits.clone().requires_grad_()
    right = theirs(silent(own))(inputs, labels)
    (right_grad,) = torch.autograd.grad(right, own)
    assert torch.allclose(value, right, atol=1e-6, rtol=1e-6), (value, right)
    assert torch.allclose(grad, right_grad, atol=1e-6)
    assert grad.abs().max() > 1e-3


def some_logits(count, seed=0):
    return torch.randn(count, generator=torch.Generator().manual_seed(seed)) * 3


@pytest.mark.parametrize("k", [None, 2])
@pytest.mark.parametrize(
    ("weighting", "scheme"),
    [
        ("ndcg_loss2pp", "NDCGLoss2PPScheme"),
        ("ndcg_loss2", "NDCGLoss2Scheme"),
        ("ndcg_loss1", "NDCGLoss1Scheme"),
        ("lambda_rank", "LambdaRankScheme"),
        ("none", "NoWeightingScheme"),
    ],
)
def test_lambda_loss(weighting, scheme, k):
    from sentence_transformers.cross_encoder import losses

    places, inputs, begins = lists()
    labels = torch.tensor(GRADES)
    several = [labels[a:b] for a, b in itertools.pairwise(begins)]
    same(
        LambdaLoss(weighting=weighting, k=k, sigma=1.5),
        lambda model: losses.LambdaLoss(model, getattr(losses, scheme)(), k=k, sigma=1.5),
        inputs,
        several,
        some_logits(len(labels)),
        places,
        labels,
    )


def test_the_usual_lambda_loss_and_ranknet_are_theirs():
    from sentence_transformers.cross_encoder import losses

    places, inputs, begins = lists()
    labels, logits = torch.tensor(GRADES), some_logits(16, 3)
    several = [labels[a:b] for a, b in itertools.pairwise(begins)]
    for loss, theirs in (
        (LambdaLoss(), losses.LambdaLoss),
        (LambdaLoss(weighting="none"), losses.RankNetLoss),
        (ListNet(), losses.ListNetLoss),
    ):
        same(loss, theirs, inputs, several, logits, places, labels)


@pytest.mark.parametrize("weight", [None, 4.0])
def test_binary_cross_entropy(weight):
    from sentence_transformers.cross_encoder import losses

    labels = torch.tensor([1.0, 0, 0, 0.25, 1])
    theirs_weight = None if weight is None else torch.tensor(weight)
    same(
        BinaryCrossEntropy(pos_weight=weight),
        lambda model: losses.BinaryCrossEntropyLoss(model, pos_weight=theirs_weight),
        [["q"] * 5, list("01234")],
        labels,
        some_logits(5),
        torch.zeros(5).long(),
        labels,
    )


def test_mean_squared_error():
    from sentence_transformers.cross_encoder import losses

    labels = torch.tensor([3.0, -2, 0, 8, 1])
    same(
        LogitMSE(),
        losses.MSELoss,
        [["q"] * 5, list("01234")],
        labels,
        some_logits(5),
        torch.zeros(5).long(),
        labels,
    )


def test_margins_of_scores_and_of_margins():
    from sentence_transformers.cross_encoder import losses

    scores = torch.tensor([[3.0, -2, 1], [8, 1, 0.5]])
    margins = scores[:, :1] - scores[:, 1:]
    inputs = [["q", "q"], ["0", "3"], ["1", "4"], ["2", "5"]]
    places = torch.tensor([0, 1, 2, 0, 1, 2])
    for labels in (scores, margins):
        same(
            LogitMarginMSE(),
            losses.MarginMSELoss,
            inputs,
            labels,
            some_logits(6),
            places,
            scores.flatten(),
        )
