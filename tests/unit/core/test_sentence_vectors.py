"""The chain from hidden states to vectors: by hand, its gradients, and as a spec."""

import pytest
import torch
import torch.nn.functional as F

from clozeworks import config
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.pooling import pool
from clozeworks.core.heads.sentence_vectors import (
    Dense,
    SentenceVectors,
    TruncateDim,
    UnitLength,
    VectorDropout,
    VectorLayerNorm,
)
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.errors import SettingError, UnknownName

EMBEDDINGS = Embeddings(tokens=9)
LAYOUT = Layout([1, 7, 3])


def states(width=6, **options):
    return torch.randn(LAYOUT.total, width, generator=torch.manual_seed(1), **options)


def test_every_step_by_hand():
    steps = (UnitLength(), VectorLayerNorm(), Dense(width=5, activation="tanh", residual=True))
    steps += (VectorDropout(dropout=0.9), TruncateDim(width=4), Dense(width=3, bias=False))
    chain = SentenceVectors(modes=("max", "mean"), steps=steps).build(6, EMBEDDINGS).eval()
    norm, dense, last = (chain.steps[number] for number in (1, 2, 5))
    x = pool(states(), LAYOUT, ("max", "mean"))
    x = F.layer_norm(x / x.norm(dim=1, keepdim=True), (12,), norm.norm.weight, norm.norm.bias)
    x = torch.tanh(dense.linear(x)) + x @ dense.residual.weight.T
    expected = x[:, :4] @ last.linear.weight.T
    torch.testing.assert_close(chain(states(), LAYOUT), expected)
    assert [step.width for step in chain.steps] == [12, 12, 5, 5, 4, 3] and chain.width == 3


def test_a_residual_of_the_same_width_has_no_weights():
    chain = SentenceVectors(steps=(Dense(width=6, residual=True),)).build(6, EMBEDDINGS)
    assert set(chain.state_dict()) == {"steps.0.linear.weight", "steps.0.linear.bias"}
    pooled = pool(states(), LAYOUT)
    expected = chain.steps[0].linear(pooled) + pooled
    torch.testing.assert_close(chain(states(), LAYOUT), expected)


def test_gradients_flow_to_the_states_and_the_weights():
    chain = SentenceVectors(steps=(Dense(width=4, activation="tanh"), UnitLength()))
    chain = chain.build(6, EMBEDDINGS)
    x = states(requires_grad=True)
    (chain(x, LAYOUT) @ torch.arange(4.0)).sum().backward()
    assert x.grad.abs().sum() > 0
    assert all(parameter.grad.abs().sum() > 0 for parameter in chain.parameters())


def test_half_precision_is_raised():
    chain = SentenceVectors(steps=(Dense(width=4), UnitLength())).build(6, EMBEDDINGS).half()
    vectors = chain(states().half(), LAYOUT)
    assert vectors.dtype == torch.float32
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(3))


def test_last_steps_change_and_weights_are_shared():
    chain = SentenceVectors(steps=(Dense(width=4), UnitLength())).build(6, EMBEDDINGS)
    raw = chain.changed(normalize=False)
    cut = chain.changed(normalize=True, truncate_dim=2)
    assert raw.steps[0] is cut.steps[0] is chain.steps[0]
    vectors = raw(states(), LAYOUT)
    torch.testing.assert_close(chain(states(), LAYOUT), F.normalize(vectors))
    # Truncated, then scaled: the other order gives vectors shorter than 1.
    torch.testing.assert_close(cut(states(), LAYOUT), F.normalize(vectors[:, :2]))
    assert (raw.width, cut.width) == (4, 2)
    assert chain.changed(normalize=False, truncate_dim=9).width == 4
    assert SentenceVectors().build(6, EMBEDDINGS).changed(normalize=True).width == 6


def test_a_chain_is_plain_data():
    chain = SentenceVectors(modes=("first",), steps=(Dense(width=4), UnitLength()))
    assert config.read(HeadSpec, config.plain(chain)) == chain


def test_settings_that_do_not_exist():
    with pytest.raises(UnknownName, match=r"pooling is 'meen'; known: .*Did you mean 'mean'\?"):
        SentenceVectors(modes=("meen",))
    with pytest.raises(SettingError, match=r"^width is 0; it must be at least 1\.$"):
        Dense(width=0)
    with pytest.raises(UnknownName, match=r"^activation is 'tan'; known: .*Did you mean 'tanh'\?"):
        Dense(width=2, activation="tan").build(3)


def test_tokens_weighted_by_a_table():
    chain = SentenceVectors(modes=("tf_idf_mean",)).build(6, EMBEDDINGS)
    chain.pooling.weights = torch.arange(9.0)
    ids = torch.tensor([3, 1, 1, 8, 2, 0, 5, 5, 4, 4, 7])
    rows = zip(states().split([1, 7, 3]), ids.float().split([1, 7, 3]), strict=True)
    expected = torch.stack([(w[:, None] * x).sum(0) / w.sum() for x, w in rows])
    torch.testing.assert_close(chain(states(), LAYOUT, ids=ids), expected)
    assert not list(chain.parameters()) and set(chain.state_dict()) == {"pooling.weights"}


def test_tokens_weighted_by_a_query():
    chain = SentenceVectors(modes=("attention_mean",), steps=(Dense(width=2),))
    chain = chain.build(6, EMBEDDINGS)
    alone = chain.pooling_alone()
    torch.testing.assert_close(alone(states(), LAYOUT), pool(states(), LAYOUT))  # at first
    with torch.no_grad():
        chain.pooling.query.copy_(torch.tensor([3.0, -1, 0, 2, 5, 1]))
    rows = states().split([1, 7, 3])
    scores = [x @ chain.pooling.query / 6**0.5 for x in rows]
    expected = [score.softmax(0) @ x for score, x in zip(scores, rows, strict=True)]
    torch.testing.assert_close(alone(states(), LAYOUT), torch.stack(expected))
    x = states(requires_grad=True)
    chain(x, LAYOUT).sum().backward()
    assert x.grad.abs().sum() > 0 and chain.pooling.query.grad.abs().sum() > 0


def test_a_prompt_left_out_of_weighted_means():
    layout, x = Layout([4, 5]), torch.randn(9, 6)
    query = SentenceVectors(modes=("attention_mean",)).build(6, EMBEDDINGS)
    with torch.no_grad():
        query.pooling.query.normal_()
    torch.testing.assert_close(
        query(x, layout, leave_out=2), query(x[[2, 3, 6, 7, 8]], Layout([2, 3]))
    )
    table = SentenceVectors(modes=("tf_idf_mean",)).build(6, EMBEDDINGS)
    table.pooling.weights = torch.arange(1.0, 10.0)
    ids = torch.arange(9)
    cut = table(x[[2, 3, 6, 7, 8]], Layout([2, 3]), ids=ids[[2, 3, 6, 7, 8]])
    # As elsewhere, the prompt still counts in the sum that is divided by: only the length differs.
    scale = torch.tensor([[7 / 10], [24 / 35]])
    torch.testing.assert_close(table(x, layout, leave_out=2, ids=ids), cut * scale)


def test_weighted_means_stand_alone():
    with pytest.raises(SettingError) as caught:
        SentenceVectors(modes=("mean", "tf_idf_mean"))
    assert str(caught.value) == (
        "pooling is ['mean', 'tf_idf_mean']; tf_idf_mean stands alone; name one."
    )
    with pytest.raises(UnknownName, match=r"attention_mean, .*Did you mean 'tf_idf_mean'\?"):
        SentenceVectors(modes=("tfidf_mean",))
