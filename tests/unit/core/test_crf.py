"""The likelihood of labels whose neighbours matter."""

from itertools import pairwise, product

import pytest
import torch

from clozeworks import registry
from clozeworks.core.heads import HeadSpec
from clozeworks.core.heads.transitions import Transitions, TransitionsModule
from clozeworks.core.initialize import initialize
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layout import Layout
from clozeworks.core.ops.crf import FORBIDDEN, MoveTensors, log_likelihoods
from clozeworks.engine.param_groups import NOT_DECAYED, param_groups

LENGTHS = [3, 1, 5, 0, 4]
LABELS = 4


def drawn_module(seed=0):
    module = TransitionsModule(LABELS).double()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_(generator=generator)
    return module


def drawn_words(seed=1):
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randn(sum(LENGTHS), LABELS, generator=generator, dtype=torch.float64)
    return scores.requires_grad_()


def bio():
    """Labels O, B-A, I-A, I-B: as masks."""
    move = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 1, 0], [1, 1, 0, 1]]).bool()
    return MoveTensors(torch.tensor([True, True, False, False]), move, torch.ones(4).bool())


def score(path, scores, moves):
    total = moves.start[path[0]] + moves.end[path[-1]]
    for word, label in enumerate(path):
        total = total + scores[word, label]
    for step in pairwise(path):
        total = total + moves.move[step]
    return total


def by_trying_all(scores, labels, layout, moves):
    found = []
    for said, right in zip(layout.split(scores), layout.split(labels), strict=True):
        if not len(right):
            found.append(torch.zeros((), dtype=scores.dtype))
            continue
        paths = product(range(LABELS), repeat=len(right))
        total = torch.stack([score(path, said, moves) for path in paths]).logsumexp(0)
        found.append(score(right.tolist(), said, moves) - total)
    return torch.stack(found)


@pytest.mark.parametrize("allowed", [None, bio()], ids=["everything", "bio"])
def test_it_is_the_share_of_the_right_path(allowed):
    module, scores, layout = drawn_module(), drawn_words(), Layout(LENGTHS)
    labels = torch.tensor([0, 1, 2, 1, 1, 2, 2, 0, 0, 0, 1, 1, 2])
    ours = log_likelihoods(scores, labels, layout, module.moves(allowed))
    right = by_trying_all(scores, labels, layout, module.moves(allowed))
    torch.testing.assert_close(ours, right)
    assert ours[3] == 0 and (ours[[0, 1, 2, 4]] < 0).all()
    torch.testing.assert_close(module(scores, labels, layout, allowed), right.sum())
    inputs = [scores, *module.parameters()]
    for one, two in zip(
        torch.autograd.grad(ours.sum(), inputs),
        torch.autograd.grad(right.sum(), inputs),
        strict=True,
    ):
        torch.testing.assert_close(one, two)


def test_all_paths_together_are_certain():
    module, layout = drawn_module(), Layout([3])
    scores = drawn_words()[:3]
    total = sum(
        log_likelihoods(scores, torch.tensor(path), layout, module.moves(bio())).exp()
        for path in product(range(LABELS), repeat=3)
    )
    torch.testing.assert_close(total, torch.ones(1, dtype=torch.float64))


def test_what_is_forbidden_has_no_share_and_gets_no_gradient():
    module, scores, layout = drawn_module(), drawn_words(), Layout(LENGTHS)
    labels = torch.zeros(sum(LENGTHS), dtype=torch.long)
    module(scores, labels, layout, bio()).backward()
    assert not module.move_bias.grad[~bio().move].any()
    assert module.move_bias.grad[:3][bio().move[:3]].all()  # I-B is never reached
    assert not module.start_bias.grad[2:].any()
    assert all(parameter.grad.isfinite().all() for parameter in (scores, *module.parameters()))
    # A first word cannot be I, so nothing the model says of it matters.
    firsts = torch.tensor([0, 3, 4, 9])
    assert not scores.grad[firsts][:, 2:].any() and scores.grad[firsts][:, :2].all()
    illegal = log_likelihoods(scores[:2], torch.tensor([0, 2]), Layout([2]), module.moves(bio()))
    assert illegal < FORBIDDEN / 2


def test_unreachable_labels_leave_gradients_finite():
    allowed = bio()._replace(move=torch.eye(4).bool(), end=torch.tensor([1, 0, 0, 0]).bool())
    module, scores = drawn_module(), drawn_words()
    module(scores, torch.zeros(sum(LENGTHS), dtype=torch.long), Layout(LENGTHS), allowed).backward()
    # One path is left, so it is certain whatever is said.
    for parameter in (scores, *module.parameters()):
        torch.testing.assert_close(parameter.grad, torch.zeros_like(parameter.grad))


def test_neighbours_in_the_batch_change_nothing():
    module, scores = drawn_module(), drawn_words()
    labels = torch.arange(sum(LENGTHS)) % LABELS
    layout = Layout(LENGTHS)
    together = log_likelihoods(scores, labels, layout, module.moves())
    pairs = zip(layout.split(scores), layout.split(labels), strict=True)
    alone = [log_likelihoods(*pair, Layout([len(pair[1])]), module.moves()) for pair in pairs]
    torch.testing.assert_close(together, torch.cat(alone))


def test_no_sequences_and_none_with_words():
    module = TransitionsModule(LABELS)
    nothing = torch.zeros(0, LABELS), torch.zeros(0, dtype=torch.long)
    assert module(*nothing, Layout([])) == 0
    assert module(*nothing, Layout([0, 0])) == 0


def test_first_weights_are_zero_so_words_count_alone():
    spec = Transitions(count=LABELS)
    module = spec.build(8, Embeddings(tokens=5))
    initialize(module, seed=3)
    assert not any(parameter.any() for parameter in module.parameters())
    assert [group["role"] for group in param_groups(module, 0.1)] == [NOT_DECAYED]
    scores = drawn_words().detach().float()
    labels = torch.arange(sum(LENGTHS)) % LABELS
    plain = torch.nn.functional.cross_entropy(scores, labels, reduction="sum")
    torch.testing.assert_close(module(scores, labels, Layout(LENGTHS)), -plain)


def test_half_precision_is_summed_in_single():
    module = TransitionsModule(LABELS)
    labels = torch.arange(sum(LENGTHS)) % LABELS
    scores = drawn_words().detach().bfloat16()
    half = module(scores, labels, Layout(LENGTHS))
    assert half.dtype == torch.float32
    torch.testing.assert_close(half, module(scores.float(), labels, Layout(LENGTHS)))


def test_long_sequences_do_not_overflow():
    module = TransitionsModule(LABELS)
    scores = torch.randn(512, LABELS, generator=torch.Generator().manual_seed(0)) * 30
    scores.requires_grad_()
    sum_of_all = module(scores, scores.argmax(1), Layout([512]))
    sum_of_all.backward()
    assert sum_of_all.isfinite() and scores.grad.isfinite().all() and scores.grad.any()


def test_it_is_among_the_heads():
    assert registry.specs(HeadSpec)["transitions"] is Transitions
