"""Attention: weights, what is really added, rollout, summaries, for every kind of model."""

import json

import numpy as np
import pytest
import torch

from clozeworks.core.attention.attention import AttentionModule
from clozeworks.core.context import Trace
from clozeworks.errors import InputError, SettingError
from clozeworks.inference.packing import pack
from clozeworks.look import attention as looking
from clozeworks.look.attention import added_vectors, lengths_added

TEXT, GAP = "The cat sat on the mat, 我爱北京.", "The cat sat on the [MASK]."
KINDS = ("bert", "roberta", "albert", "deberta", "modernbert", "xlnet", "gpt2", "t5")


def seen(model, kind, **options):
    if kind == "t5":
        return model.look.attention(TEXT, target="the dog lay", **options)
    text = model.tokenizer.mark_gaps(GAP) if kind == "xlnet" else TEXT
    return model.look.attention(text, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_sum_to_one_and_rollout_too(inside, kind):
    view = seen(inside(kind), kind)
    for stream in view.streams:
        assert len(stream.layers) == stream.depth > 0
        for layer in stream.layers:
            np.testing.assert_allclose(layer.weights.sum(axis=-1), 1, atol=1e-5)
            assert (layer.weights >= 0).all()
            assert (layer.added >= 0).all()
    if kind == "t5":  # what came of its own tokens, and what of those that were read
        for own, other in zip(
            view.stream("decoder").layers, view.stream("cross").layers, strict=True
        ):
            both = own.rollout.sum(axis=-1) + other.rollout.sum(axis=-1)
            np.testing.assert_allclose(both, 1, atol=1e-6)
    else:
        np.testing.assert_allclose(view.streams[0].layers[-1].rollout.sum(axis=-1), 1, atol=1e-6)


def test_streams_of_each_kind(inside):
    kinds = {kind: [s.kind for s in seen(inside(kind), kind).streams] for kind in KINDS}
    assert kinds.pop("t5") == ["encoder", "decoder", "cross"]
    assert kinds.pop("xlnet") == ["encoder", "queries"]
    assert set(map(tuple, kinds.values())) == {("encoder",)}


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_causal_attention_and_rollout_are_triangular(inside, kind):
    view = seen(inside(kind), kind)
    stream = view.stream("decoder") if kind == "t5" else view.streams[0]
    for layer in stream.layers:
        assert not np.triu(layer.weights, 1).any()
        assert not np.triu(layer.rollout, 1).any()


def test_local_windows_are_seen(inside):
    stream = seen(inside("modernbert"), "modernbert").streams[0]
    away = np.abs(np.subtract.outer(range(len(stream.keys)), range(len(stream.keys))))
    local = [not layer.weights[:, away > 2].any() for layer in stream.layers]
    assert True in local
    assert False in local


def test_a_query_stream_does_not_see_what_it_predicts(inside):
    stream = seen(inside("xlnet"), "xlnet").stream("queries")
    at = [n for n, piece in enumerate(stream.keys) if piece.token == stream.queries[0].token]
    for layer in stream.layers:
        assert not layer.weights[:, 0, at].any()
        assert not layer.rollout[0, at].any()
        assert layer.rollout.sum() == pytest.approx(1 - 0.5**layer.layer)


def test_packed_is_as_alone(inside):
    model = inside("bert")
    encoded = model.tokenizer.encode([TEXT, "The dog.", GAP])
    trace = Trace()
    with torch.no_grad():
        pack(encoded, torch.device("cpu")).encoded(model.model.eval(), trace)
    alone = model.look.attention(TEXT).streams[0]
    for layer, several in zip(alone.layers, trace.attention, strict=True):
        np.testing.assert_allclose(layer.weights, several[0].numpy(), atol=1e-6)


def test_rollout_is_the_formula(inside):
    stream = seen(inside("albert"), "albert").streams[0]
    expected = np.eye(len(stream.keys))
    for layer in stream.layers:
        mixing = layer.weights.astype(np.float64).mean(axis=0) + np.eye(len(stream.keys))
        expected = mixing / mixing.sum(axis=1, keepdims=True) @ expected
        np.testing.assert_allclose(layer.rollout, expected, atol=1e-6)
    identity = torch.eye(4, dtype=torch.float64)
    assert torch.equal(looking.rollout_step(identity), identity)


class Sums(Trace):
    """Compares what heads add with what the attention gave."""

    def __init__(self):
        super().__init__()
        self.outputs, self.errors, self.lengths = [], [], []

    def attended(self, attention, values):
        weights = self.attention[-1][0].float()
        vectors = added_vectors(attention, values)
        total = torch.einsum("hqk,khw->qw", weights, vectors)
        bias = attention.output.bias
        self.errors.append((total + (0 if bias is None else bias), attention))
        added, together = lengths_added(attention, weights, values)
        direct = weights[..., None] * vectors.transpose(0, 1)[:, None]
        assert torch.allclose(added, direct.norm(dim=-1), atol=1e-5)
        assert torch.allclose(together, direct.sum(dim=0).norm(dim=-1), atol=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_added_is_what_the_attention_gives(inside, kind):
    """So nothing is missing from the lengths."""
    model = inside(kind)
    outputs, hooks, trace = {}, [], Sums()
    for module in model.model.modules():
        if hasattr(module, "part") and isinstance(module.part, AttentionModule):

            def keep(part, _, output):
                outputs.setdefault(part, []).append(output)

            hooks.append(module.part.register_forward_hook(keep))
    try:
        encoded = model.tokenizer.encode([TEXT])
        with torch.no_grad():
            pack(encoded, torch.device("cpu")).encoded(model.model.eval(), trace)
    finally:
        for hook in hooks:
            hook.remove()
    assert trace.errors
    for total, part in trace.errors:
        torch.testing.assert_close(total, outputs[part].pop(0), atol=1e-5, rtol=1e-5)


def test_summaries_are_means_of_the_weights(inside):
    stream = seen(inside("bert"), "bert").streams[0]
    weights = stream.layers[1].weights[2].astype(np.float64)
    summary = next(each for each in stream.summaries if (each.layer, each.head) == (2, 3))
    n = len(weights)
    away = np.subtract.outer(range(n), range(n)).T
    entropy = -np.where(weights > 0, weights * np.log2(np.where(weights > 0, weights, 1)), 0)
    assert summary.entropy == pytest.approx(entropy.sum(axis=1).mean())
    assert summary.first == pytest.approx(weights[:, 0].mean())
    assert summary.separator == pytest.approx(weights[:, -1].mean())
    assert summary.distance == pytest.approx((weights * np.abs(away)).sum(axis=1).mean())
    assert summary.previous == pytest.approx(np.diag(weights, -1).sum() / n)
    assert summary.next == pytest.approx(np.diag(weights, 1).sum() / n)
    assert summary.same == pytest.approx(np.diag(weights).mean())
    assert len(stream.summaries) == stream.depth * stream.heads


def test_one_layer_and_the_strongest_keys(inside):
    model = inside("bert")
    every = model.look.attention(TEXT)
    last = model.look.attention(TEXT, layers=-1)
    assert [layer.layer for layer in last.streams[0].layers] == [3]
    assert np.array_equal(last.streams[0].layer(3).rollout, every.streams[0].layer(3).rollout)
    assert "Of 3 layers (encoder) shown in full: 3" in " ".join(last.notes())
    record = json.loads(json.dumps(last.to_dict(top=2)))
    row = record["streams"][0]["layers"][0]["weights"][0][1]
    best = np.argsort(-last.streams[0].layers[0].weights[0, 1])[:2]
    assert [int(key) for key, _ in row] == best.tolist()
    assert "only the 2 keys" in " ".join(record["notes"])


def test_refusals(inside, monkeypatch):
    model = inside("bert")
    with pytest.raises(SettingError, match=r"layer is 4; this model has 3 layers; use 1 to 3"):
        model.look.attention(TEXT, layers=4)
    with pytest.raises(SettingError, match="has no decoder that writes for a text"):
        model.look.attention(TEXT, target="a")
    with pytest.raises(InputError, match="at most"):
        model.look.attention("the cat " * 400)
    monkeypatch.setattr(looking, "available", lambda device: 100)
    with pytest.raises(InputError, match=r"attention of 3 layers takes .* ask for one layer"):
        model.look.attention(TEXT)
