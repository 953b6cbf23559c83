"""Pooling on packed tokens: against plain loops, and against sentence-transformers."""

import pytest
import torch

from clozeworks.core.heads.pooling import POOLINGS, pool
from clozeworks.core.layout import Layout
from clozeworks.errors import SettingError, UnknownName

LENGTHS = [1, 7, 7, 3, 64]

BY_HAND = {
    "first": lambda x: x[0],
    "mean": lambda x: x.mean(0),
    "max": lambda x: x.max(0).values,
    "mean_sqrt_length": lambda x: x.sum(0) / len(x) ** 0.5,
    "weighted_mean": lambda x: (
        (x * torch.arange(1, len(x) + 1)[:, None]).sum(0) / torch.arange(1, len(x) + 1).sum()
    ),
    "last": lambda x: x[-1],
}


@pytest.mark.parametrize("mode", POOLINGS)
def test_by_hand(mode):
    x = torch.randn(sum(LENGTHS), 5)
    expected = torch.stack([BY_HAND[mode](piece) for piece in x.split(LENGTHS)])
    torch.testing.assert_close(pool(x, Layout(LENGTHS), [mode]), expected)


@pytest.mark.parametrize("mode", POOLINGS)
def test_the_first_tokens_may_be_left_out(mode):
    lengths = [3, 7, 7, 64]
    x = torch.randn(sum(lengths), 5)
    expected = torch.stack([BY_HAND[mode](piece[2:]) for piece in x.split(lengths)])
    if mode == "weighted_mean":  # the third token still counts three times
        weights = [torch.arange(3.0, length + 1)[:, None] for length in lengths]
        pieces = zip(x.split(lengths), weights, strict=True)
        expected = torch.stack([(piece[2:] * w).sum(0) / w.sum() for piece, w in pieces])
    torch.testing.assert_close(pool(x, Layout(lengths), [mode], leave_out=2), expected)


def test_modes_stand_side_by_side():
    x, layout = torch.randn(sum(LENGTHS), 5), Layout(LENGTHS)
    both = pool(x, layout, ["max", "mean"])
    assert torch.equal(both, torch.cat([pool(x, layout, ["max"]), pool(x, layout)], dim=1))


@pytest.mark.parametrize("mode", POOLINGS)
def test_neighbours_change_nothing_to_the_bit(mode):
    x = torch.randn(sum(LENGTHS), 5)
    together = pool(x, Layout(LENGTHS), [mode])
    for row, piece in enumerate(x.split(LENGTHS)):
        assert torch.equal(together[row], pool(piece, Layout([len(piece)]), [mode])[0])


@pytest.mark.parametrize("mode", POOLINGS)
def test_gradients_flow(mode):
    x = torch.randn(sum(LENGTHS), 5, requires_grad=True)
    pool(x, Layout(LENGTHS), [mode]).square().sum().backward()
    assert x.grad.abs().sum() > 0


def test_half_precision_is_summed_in_full():
    x = torch.full((4096, 1), 100.0, dtype=torch.float16)  # the sum is beyond what half can hold
    assert pool(x, Layout([4096]))[0, 0] == 100.0


def test_unknown_modes():
    with pytest.raises(UnknownName, match=r"pooling is 'meen'; known: .* Did you mean 'mean'\?"):
        pool(torch.ones(1, 1), Layout([1]), ["meen"])
    with pytest.raises(SettingError, match="each is taken once; drop the repeated one"):
        pool(torch.ones(1, 1), Layout([1]), ["mean", "first", "mean"])
    with pytest.raises(SettingError, match="pooling is empty; name at least one of: first, "):
        pool(torch.ones(1, 1), Layout([1]), [])


THEIRS = {
    "first": "cls",
    "mean": "mean",
    "max": "max",
    "mean_sqrt_length": "mean_sqrt_len_tokens",
    "weighted_mean": "weightedmean",
    "last": "lasttoken",
}


@pytest.mark.parity
@pytest.mark.parametrize("left", [False, True])
@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("mode", POOLINGS)
def test_against_sentence_transformers(mode, left, half):
    models = pytest.importorskip("sentence_transformers.models")
    x = torch.randn(sum(LENGTHS), 5).to(torch.float16 if half else torch.float32)
    longest = max(LENGTHS)
    padded = torch.randn(len(LENGTHS), longest, 5).to(x.dtype)
    mask = torch.zeros(len(LENGTHS), longest, dtype=torch.long)
    for row, piece in enumerate(x.split(LENGTHS)):
        place = slice(longest - len(piece), longest) if left else slice(0, len(piece))
        padded[row, place], mask[row, place] = piece, 1
    theirs = models.Pooling(5, THEIRS[mode])
    expected = theirs({"token_embeddings": padded, "attention_mask": mask})["sentence_embedding"]
    tolerance = 2e-3 if half else 1e-6
    torch.testing.assert_close(
        pool(x, Layout(LENGTHS), [mode]), expected.float(), atol=tolerance, rtol=tolerance
    )
