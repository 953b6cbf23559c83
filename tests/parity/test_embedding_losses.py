"""Losses of sentence vectors: value and gradient are those of sentence-transformers."""

import dataclasses
import math
from types import SimpleNamespace

import pytest
import torch

from clozeworks.tasks.embed.losses import HEAD, StepTexts
from clozeworks.tasks.embed.losses.contrast import Contrast
from clozeworks.tasks.embed.losses.cosent import Cosent
from clozeworks.tasks.embed.losses.cosine_similarity import CosineSimilarity
from clozeworks.tasks.embed.losses.guided_ranking import GuidedRanking
from clozeworks.tasks.embed.losses.list_kl import ListKL
from clozeworks.tasks.embed.losses.margin_mse import MarginMSE
from clozeworks.tasks.embed.losses.matryoshka import Matryoshka
from clozeworks.tasks.embed.losses.multiple_negatives_ranking import (
    LearnedScale,
    MultipleNegativesRanking,
)
from clozeworks.tasks.embed.losses.softmax_nli import SoftmaxNLI
from clozeworks.tasks.embed.losses.triplet import Triplet
from clozeworks.tasks.embed.losses.vector_distillation import VectorDistillation

pytestmark = pytest.mark.parity
ROWS, WIDTH = 9, 16
ALL = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")


def step(columns, labels=None, seed=0):
    """Columns of vectors as they stand in a step, row by row."""
    generator = torch.Generator().manual_seed(seed)
    vectors = [torch.randn(ROWS, WIDTH, generator=generator) for _ in range(columns)]
    roles = torch.arange(columns).repeat(ROWS).double()
    rows = torch.arange(ROWS).repeat_interleave(columns).double()
    keys = torch.arange(ROWS * columns).double()
    said = torch.zeros(ROWS) if labels is None else labels
    known = torch.stack([roles, said.repeat_interleave(columns).double(), rows, keys], 1)
    return vectors, StepTexts.of(known)


def ours(loss, columns, texts):
    vectors = torch.stack(columns, 1).flatten(0, 1).requires_grad_()
    term = loss.cost(None, vectors, texts)
    value = term.total / term.count
    (grad,) = torch.autograd.grad(value, vectors)
    return value, grad.view(ROWS, len(columns), -1)


def theirs(name, columns, labels, **options):
    from sentence_transformers.sentence_transformer import losses

    class Silent(torch.nn.Module):
        def get_embedding_dimension(self):
            return WIDTH

    columns = [column.clone().requires_grad_() for column in columns]
    value = getattr(losses, name)(Silent(), **options).compute_loss_from_embeddings(columns, labels)
    return value, torch.stack(torch.autograd.grad(value, columns), 1)


def same(loss, name, columns, labels=None, **options):
    vectors, texts = step(columns, labels)
    value, grad = ours(loss, vectors, texts)
    right, right_grad = theirs(name, vectors, labels, **options)
    assert torch.allclose(value, right, atol=1e-6, rtol=1e-6), (value, right)
    assert torch.allclose(grad, right_grad, atol=1e-6)


@pytest.mark.parametrize("columns", [2, 3, 5])
@pytest.mark.parametrize(
    ("directions", "partition"),
    [
        (("query_to_doc",), "joint"),
        (("query_to_doc", "doc_to_query"), "per_direction"),
        (("query_to_doc", "doc_to_query"), "joint"),
        (ALL, "joint"),
    ],
)
def test_ranking(columns, directions, partition):
    same(
        MultipleNegativesRanking(directions=directions, partition=partition),
        "MultipleNegativesRankingLoss",
        columns,
        directions=directions,
        partition_mode=partition,
    )


@pytest.mark.parametrize(
    ("harder", "mode"),
    [("in_batch", "in_batch_negatives"), ("hard", "hard_negatives"), ("all", "all_negatives")],
)
def test_hardness(harder, mode):
    same(
        MultipleNegativesRanking(hardness=5.0, harder=harder),
        "MultipleNegativesRankingLoss",
        4,
        hardness_mode=mode,
        hardness_strength=5.0,
    )


def test_ranking_by_dot_product():
    from sentence_transformers.util import dot_score

    same(
        MultipleNegativesRanking(similarity="dot", scale=1.0),
        "MultipleNegativesRankingLoss",
        3,
        similarity_fct=dot_score,
        scale=1.0,
    )


SCORES = torch.tensor([0.0, 1.0, 2.0, 2.0, 3.5, 5.0, 1.0, 0.0, 4.0])


def test_cosent_and_angle():
    same(Cosent(), "CoSENTLoss", 2, SCORES)
    same(Cosent(similarity="angle"), "AnglELoss", 2, SCORES)


def test_cosine_similarity():
    same(CosineSimilarity(), "CosineSimilarityLoss", 2, SCORES / 5)


JUDGED = torch.tensor([0, 1, 1, 0, 1, 0, 0, 1, 1])


def test_contrast():
    same(Contrast(), "ContrastiveLoss", 2, JUDGED)
    same(Contrast(hard_only=True), "OnlineContrastiveLoss", 2, JUDGED)
    same(Contrast(hard_only=True), "OnlineContrastiveLoss", 2, torch.ones(ROWS, dtype=torch.long))


@pytest.mark.parametrize("distance", ["euclidean", "manhattan", "cosine"])
def test_triplet(distance):
    from sentence_transformers.sentence_transformer.losses import TripletDistanceMetric

    metric = getattr(TripletDistanceMetric, distance.upper())
    same(Triplet(distance=distance), "TripletLoss", 3, distance_metric=metric)


def said(texts, numbers):
    """Texts with what a teacher says of each."""
    return dataclasses.replace(texts, teacher=numbers)


def test_margin_mse_and_list_kl():
    vectors, texts = step(4)
    scores = torch.randn(ROWS, 3, generator=torch.Generator().manual_seed(5))
    padded = torch.cat([torch.zeros(ROWS, 1), scores], 1).flatten()[:, None]
    for loss, name, options in (
        (MarginMSE(), "MarginMSELoss", {}),
        (ListKL(), "DistillKLDivLoss", {}),
        (ListKL(temperature=2.0), "DistillKLDivLoss", {"temperature": 2.0}),
    ):
        value, grad = ours(loss, vectors, said(texts, padded))
        right, right_grad = theirs(name, vectors, scores, **options)
        assert torch.allclose(value, right, atol=1e-6)
        assert torch.allclose(grad, right_grad, atol=1e-6)


@pytest.mark.parametrize("distance", ["cosine", "mse", "l2"])
def test_vector_distillation(distance):
    vectors, texts = step(1)
    teacher = torch.randn(ROWS, WIDTH, generator=torch.Generator().manual_seed(5))
    value, grad = ours(VectorDistillation(distance=distance), vectors, said(texts, teacher))
    right, right_grad = theirs("EmbedDistillLoss", vectors, [teacher], distance_metric=distance)
    assert torch.allclose(value, right, atol=1e-6)
    assert torch.allclose(grad, right_grad, atol=1e-6)


def test_softmax_nli():
    """The head's weights are those of the other library, u, v and |u - v| in this order."""
    labels = torch.tensor([0, 2, 1, 1, 0, 2, 2, 0, 1])
    vectors, texts = step(2, labels.float())
    head = torch.nn.Linear(3 * WIDTH, 3)
    model = SimpleNamespace(heads={HEAD: head})
    flat = torch.stack(vectors, 1).flatten(0, 1).requires_grad_()
    term = SoftmaxNLI(labels=("a", "b", "c")).cost(model, flat, texts)
    u, v = vectors
    right = torch.nn.functional.cross_entropy(head(torch.cat([u, v, (u - v).abs()], 1)), labels)
    assert torch.allclose(term.total / term.count, right, atol=1e-6)


def test_matryoshka_is_the_sum_over_widths():
    vectors, texts = step(3)
    loss = Matryoshka(loss=MultipleNegativesRanking(), widths=(4, WIDTH), weights=(0.5, 1.0))
    value, grad = ours(loss, vectors, texts)
    columns = [column.clone().requires_grad_() for column in vectors]
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
    from sentence_transformers.sentence_transformer.losses.matryoshka import shrink

    plain = MultipleNegativesRankingLoss(torch.nn.Identity())
    right = sum(
        weight * plain.compute_loss_from_embeddings([shrink(c, width) for c in columns], None)
        for width, weight in ((4, 0.5), (WIDTH, 1.0))
    )
    assert torch.allclose(value, right, atol=1e-6)
    right_grad = torch.stack(torch.autograd.grad(right, columns), 1)
    assert torch.allclose(grad, right_grad, atol=1e-6)


@pytest.mark.parametrize("columns", [2, 3])
@pytest.mark.parametrize(
    ("margin", "kind"), [(0.0, "absolute"), (0.1, "absolute"), (0.3, "relative")]
)
def test_guided_ranking(monkeypatch, columns, margin, kind):
    from sentence_transformers.sentence_transformer.losses import GISTEmbedLoss, gist_embed

    vectors, texts = step(columns)
    guides, _ = step(columns, seed=9)
    told = torch.stack(guides, 1).flatten(0, 1)
    loss = GuidedRanking(guide="a model", margin=margin, margin_kind=kind)
    value, grad = ours(loss, vectors, said(texts, told))
    # The other library computes both kinds of vectors itself.
    theirs = object.__new__(GISTEmbedLoss)
    torch.nn.Module.__init__(theirs)
    theirs.similarity_fct, theirs.cross_entropy_loss = (
        torch.nn.CosineSimilarity(dim=-1),
        torch.nn.CrossEntropyLoss(),
    )
    theirs.temperature, theirs.margin, theirs.margin_strategy = 0.01, margin, kind
    theirs.contrast_anchors = theirs.contrast_positives = True
    theirs.must_retokenize = theirs.gather_across_devices = False
    own = [column.clone().requires_grad_() for column in vectors]
    theirs.model, theirs.guide = torch.nn.Identity(), torch.nn.Bilinear(1, 1, 1)
    monkeypatch.setattr(
        gist_embed, "embed_columns", lambda model, _: own if model is theirs.model else guides
    )
    right = theirs.forward([{}] * columns, None)
    assert torch.allclose(value, right, atol=1e-5)
    assert torch.allclose(grad, torch.stack(torch.autograd.grad(right, own), 1), atol=1e-5)


def test_a_learned_scale_begins_as_stated_and_gets_a_gradient():
    vectors, texts = step(2)
    module = LearnedScale().build(WIDTH, None)
    model = SimpleNamespace(heads={HEAD: module})
    flat = torch.stack(vectors, 1).flatten(0, 1)
    fixed = MultipleNegativesRanking().cost(None, flat, texts).total
    learned = MultipleNegativesRanking(learned_scale=True).cost(model, flat, texts).total
    assert torch.equal(fixed, learned)
    learned.backward()
    assert module.log_scale.grad.abs() > 0


def test_identities_of_ranking():
    _, texts = step(2)
    equal = torch.ones(2 * ROWS, WIDTH)
    assert MultipleNegativesRanking().cost(None, equal, texts).total / ROWS == pytest.approx(
        math.log(ROWS)
    )
    apart = torch.eye(WIDTH)[:ROWS].repeat_interleave(2, 0)
    found = float(MultipleNegativesRanking().cost(None, apart, texts).total / ROWS)
    assert found == pytest.approx(math.log(1 + (ROWS - 1) * math.exp(-20)), abs=1e-7)


def test_cosent_of_equal_scores_is_nothing():
    vectors, texts = step(2, torch.ones(ROWS))
    assert ours(Cosent(), vectors, texts)[0].item() == pytest.approx(0.0, abs=1e-7)
