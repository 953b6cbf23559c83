"""Contrastive learning: the identities of InfoNCE, SimCSE's two views, given negatives."""

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.heads.pooled import Projection
from clozeworks.core.heads.vocabulary import Vocabulary
from clozeworks.core.layers.norm import LayerNorm
from clozeworks.core.loss import LossTerm
from clozeworks.errors import SettingError, UnknownName
from clozeworks.objectives.contrastive import Contrastive

PLAIN = Contrastive(pooling="mean", projection=None)
TRIPLETS = Contrastive(pooling="mean", projection=None, negatives="given")


def cost(objective, vectors):
    """The cost of vectors (A, V, W)."""
    scores = objective.logits(vectors)
    count = len(vectors)
    answers = (
        torch.arange(count) if objective.couples_examples else torch.zeros(count, dtype=torch.long)
    )
    return LossTerm.of(scores, answers)


def test_orthogonal_and_equal_vectors():
    for count in (2, 5, 8):
        apart = torch.eye(8, dtype=torch.float64)[:count, None].repeat(1, 2, 1)
        expected = math.log(1 + (count - 1) * math.exp(-20))
        found = cost(PLAIN, apart)
        assert found.total.item() / count == pytest.approx(expected, abs=1e-12)
        assert found.correct == count
        equal = torch.ones(count, 2, 8, dtype=torch.float64)
        assert cost(PLAIN, equal).total.item() / count == pytest.approx(math.log(count), abs=1e-12)


def test_candidates_are_all_positives_then_all_hard_negatives():
    vectors = torch.randn(4, 3, 6, generator=torch.Generator().manual_seed(0))
    scores = PLAIN.logits(vectors)
    assert scores.shape == (4, 8)
    for anchor in range(4):
        for candidate in range(8):
            other = vectors[candidate % 4, 1 + candidate // 4]
            cosine = F.cosine_similarity(vectors[anchor, 0], other, dim=0)
            assert scores[anchor, candidate].item() == pytest.approx(20 * cosine.item(), abs=1e-4)
    # The other anchors are not among them: changing one changes only its own row.
    changed = vectors.clone()
    changed[2, 0] += 1
    assert (PLAIN.logits(changed)[[0, 1, 3]] == scores[[0, 1, 3]]).all()


def test_given_negatives_are_the_log_ratio():
    vectors = torch.randn(5, 3, 6, generator=torch.Generator().manual_seed(1)).double()
    positive = F.cosine_similarity(vectors[:, 0], vectors[:, 1]) / 0.05
    negative = F.cosine_similarity(vectors[:, 0], vectors[:, 2]) / 0.05
    expected = -torch.log(positive.exp() / (positive.exp() + negative.exp()))
    found = cost(TRIPLETS, vectors)
    assert found.total.item() == pytest.approx(expected.sum().item(), abs=1e-10)
    assert found.correct == (positive > negative).sum()
    # Other examples do not matter.
    assert cost(TRIPLETS, vectors[:2]).total.item() == pytest.approx(
        expected[:2].sum().item(), abs=1e-10
    )


def test_temperature_divides():
    vectors = torch.randn(3, 2, 4)
    warm = Contrastive(temperature=1.0, projection=None).logits(vectors)
    assert torch.allclose(PLAIN.logits(vectors), 20 * warm, atol=1e-5)


def test_scores_are_computed_in_float32(examples, source, model):
    clean = examples([9, 9, 12, 12], views=2)
    batch = PLAIN.batch(clean, 0, source).tensors()
    built = model(PLAIN).to(torch.bfloat16)
    hidden = built(batch.ids, batch.layout, batch.types)
    assert hidden.dtype == torch.bfloat16
    assert PLAIN.losses(built, hidden, batch)["contrastive"].total.dtype == torch.float32
    simcse = Contrastive()
    built = model(simcse).to(torch.bfloat16)
    assert simcse.losses(built, hidden, batch)["contrastive"].total.dtype == torch.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert PLAIN.logits(torch.randn(4, 2, 8)).dtype == torch.float32


def twice(examples, sizes):
    """Each text two times, side by side."""
    drawn = examples(sizes)
    ids = [
        [drawn.ids[start + 1 : start + length - 1]]
        for start, length in zip(drawn.starts, drawn.lengths, strict=True)
    ]
    doubled = [size for size in sizes for _ in range(2)]
    return examples(doubled, ids=[text for text in ids for _ in range(2)], views=2)


def test_simcse_without_dropout_sees_equal_views(examples, source, model):
    objective = Contrastive()
    batch = objective.batch(twice(examples, [9, 14, 5]), 0, source)
    assert batch.counts() == {"contrastive": 3}
    built = model(objective, dropout=0.1).eval()
    loss = objective.loss(built, batch.tensors())
    hidden = built(batch.tensors().ids, batch.tensors().layout, batch.tensors().types)
    vectors = built.heads["contrastive"](hidden[batch.tensors().layout.first(hidden.device)])
    cosine = F.cosine_similarity(vectors[0::2], vectors[1::2])
    assert (cosine - 1).abs().max() < 1e-12
    assert torch.isfinite(loss.value())


def test_simcse_with_dropout_sees_two_views(examples, source, model):
    objective = Contrastive()
    batch = objective.batch(twice(examples, [9, 14, 5]), 0, source).tensors()
    built = model(objective, dropout=0.1)
    torch.manual_seed(0)
    hidden = built(batch.ids, batch.layout, batch.types)
    hidden.retain_grad()
    firsts = hidden[batch.layout.first(hidden.device)]
    assert (firsts[0::2] - firsts[1::2]).abs().max() > 0.1
    objective.losses(built, hidden, batch)["contrastive"].total.backward()
    reached = hidden.grad.abs().sum(1).nonzero().squeeze(1).tolist()
    assert reached == batch.layout.first(hidden.device).tolist()  # both views of every text
    weight = built.heads["contrastive"].dense.weight
    assert weight.grad is not None and weight.grad.any()


def test_pooling_and_projection_are_choices(examples, source, model):
    clean = twice(examples, [9, 14])
    for pooling in ("first", "mean", "max", "last"):
        for projection in (None, Projection()):
            objective = Contrastive(pooling=pooling, projection=projection)
            built = model(objective)
            assert ("contrastive" in built.heads) == (projection is not None)
            loss = objective.loss(built, objective.batch(clean, 0, source).tensors())
            assert torch.isfinite(loss.value())
    assert model(Contrastive()).heads["contrastive"].dense.weight.shape == (16, 16)


def test_nothing_is_hidden(examples, source):
    clean = twice(examples, [9, 14])
    assert (Contrastive().batch(clean, 0, source).ids == clean.ids).all()
    assert np.array_equal(
        TRIPLETS.batch(examples([4] * 6, views=3), 0, source).targets["contrastive"]["answers"],
        [0, 0],
    )


def test_what_it_refuses(examples, source):
    with pytest.raises(SettingError) as caught:
        Contrastive().batch(examples([5, 5]), 0, source)
    assert str(caught.value) == (
        "negatives is 'batch'; it needs examples of at least 2 views, an anchor and a positive; "
        "those of contrastive have 1; use another kind of `examples`."
    )
    with pytest.raises(SettingError) as caught:
        TRIPLETS.batch(examples([5, 5], views=2), 0, source)
    assert str(caught.value) == (
        "negatives is 'given'; it needs examples of at least 3 views, a hard negative too; "
        "those of contrastive have 2; use another kind of `examples`."
    )
    with pytest.raises(SettingError, match=r"^temperature is 0; it must be above 0.$"):
        Contrastive(temperature=0)
    with pytest.raises(UnknownName, match=r"^pooling is 'middle'; known: "):
        Contrastive(pooling="middle")
    with pytest.raises(SettingError) as caught:
        Contrastive(projection=Vocabulary(norm=LayerNorm()))
    assert str(caught.value) == "projection.kind is 'vocabulary'; it must be 'projection'."
