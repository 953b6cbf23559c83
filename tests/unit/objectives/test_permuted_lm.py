"""Permuted language modelling: who is asked, in which order, and that nothing leaks."""

import dataclasses

import numpy as np
import pytest
import torch

from clozeworks.core.initialize import initialize
from clozeworks.data.examples.remembered import RememberedBlocks
from clozeworks.errors import SettingError
from clozeworks.families.bert import FAMILY as BERT
from clozeworks.families.family import Config
from clozeworks.families.xlnet import FAMILY as XLNET
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.combine import Sum
from clozeworks.objectives.noise.budget import Exact
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.noise.spaced_spans import SpacedSpans
from clozeworks.objectives.noise.words import rows_of
from clozeworks.objectives.permuted_lm import PermutedLM
from clozeworks.rng import RandomStream

CHANCE = RandomStream(3, "test")
LAW = 1 / np.arange(1, 6)
SMALL = {
    "model_type": "xlnet", "vocab_size": 200, "d_model": 16, "n_layer": 2, "n_head": 2,
    "d_inner": 24, "dropout": 0.0,
}  # fmt: skip
SOURCE = Vocabularies(200, mask_id=4, special_ids=(0, 1, 2, 3, 4))
REMEMBERING = RememberedBlocks(length=32, memory=0.375)


def part_of(objective, clean, seed=5):
    return objective.batch(clean, seed, SOURCE).targets["permuted_lm"]


def xlnet(objective, dtype=torch.float64):
    blueprint = XLNET.blueprint(Config(SMALL), frozenset({"vocabulary", "query_start"}))
    model = objective.equip(blueprint).build().to(dtype)
    initialize(model, seed=1, std=0.3)
    return model


def remembering(examples, sizes, before, **more):
    """Examples whose first tokens are said to be memory."""
    return examples(sizes, bare=True, labels=before, **more)


def test_lengths_follow_one_over_n(fits):
    drawn = SpacedSpans().lengths(CHANCE.words(0, 0, 200_000)[0])
    assert fits(np.bincount(drawn, minlength=6)[1:], LAW) > 1e-3
    assert abs(drawn.mean() - 2.19) < 0.02
    uniform = 1 + (CHANCE.uniform(1, 0, 200_000)[0] * 5).astype(int)  # as in transformers
    assert fits(np.bincount(uniform, minlength=6)[1:], LAW) < 1e-3


def test_spans_that_come_out_follow_the_law_where_nothing_is_filled_up(examples, runs, fits):
    clean = examples([2000] * 60, pieces=0.0, bare=True)
    few = SpacedSpans(budget=Exact(fraction=0.1))  # used up before the text ends
    places = few.positions(clean, Draws.of(clean, CHANCE))
    found = np.array([end - start for start, end in runs(clean, places)])
    assert found.max() <= 5
    # The last span of a text may be cut by the budget.
    assert fits(np.bincount(found, minlength=6)[1:], LAW) > 1e-3


def test_a_span_and_its_context_take_as_many_tokens_as_the_length_says(examples, runs):
    """n tokens and `context` times n around them: with one length, the spans lie on a grid."""
    size, context = 4, 6
    law = SpacedSpans(longest=size, context=context, budget=Exact(fraction=0.13))
    clean = examples([2000] * 40, pieces=0.0, bare=True)

    class Longest(SpacedSpans):
        def lengths(self, draws):
            return np.full(draws.shape, size)

    spans = Longest(longest=size, context=context, budget=law.budget)
    places = spans.positions(clean, Draws.of(clean, CHANCE))
    starts = np.array([start for start, end in runs(clean, places) if end - start == size])
    block = size * (context + 1)
    rows, within = starts // 2000, starts % 2000
    numbers = within // block
    # Each block of a text that the budget reaches holds one span, somewhere in its context.
    assert len(starts) > 40 * 50
    assert len({*zip(rows.tolist(), numbers.tolist(), strict=True)}) == len(starts)
    assert all((np.diff(numbers[rows == row]) == 1).all() for row in range(40))
    assert set((within % block).tolist()) == set(range(size * context))


def test_85_of_512_are_asked_and_no_special_token(examples):
    clean = examples([510] * 40)
    part = part_of(PermutedLM(), clean)
    assert part["asked"].tolist() == [85] * 40
    assert not clean.special[part["targets"]].any()
    assert (clean.ids[part["targets"]] == part["answers"]).all()


def test_the_budget_is_met_at_every_length(examples):
    sizes = list(range(1, 150))
    clean = examples(sizes, pieces=0.4)
    places = SpacedSpans().positions(clean, Draws.of(clean, CHANCE))
    wanted = [max(1, round((size + 2) / 6)) for size in sizes]
    found = np.bincount(rows_of(clean, places), minlength=len(sizes)).tolist()
    assert found == [min(size, count) for size, count in zip(sizes, wanted, strict=True)]


def test_spans_stay_in_their_segment_and_begin_with_a_word(examples, runs):
    clean = examples([(60, 60)] * 50, pieces=0.5)
    places = SpacedSpans(budget=Exact(fraction=0.05)).positions(clean, Draws.of(clean, CHANCE))
    assert all(clean.word_starts[start] for start, _ in runs(clean, places))


def test_every_pair_of_targets_comes_in_both_orders_alike(examples, fits):
    objective = PermutedLM(ask=SingleTokens(budget=Exact(fraction=1.0)))
    clean = examples([6] * 4000, bare=True)
    order = part_of(objective, clean)["seen"].reshape(4000, 6)
    for first in range(6):
        for second in range(first):
            before = int((order[:, first] < order[:, second]).sum())
            assert fits(np.array([before, 4000 - before]), np.array([0.5, 0.5])) > 1e-4
    # The same test sees an order that is none.
    assert fits(np.array([4000, 0]), np.array([0.5, 0.5])) < 1e-4


def allowed(part, start, end):
    """Who sees whom, by the ranks."""
    return part["seen"][None, start:end] < part["sees"][start:end, None]


def test_ranks_say_what_the_released_masks_say(examples):
    clean = examples([20])
    part = part_of(PermutedLM(), clean)
    sees = allowed(part, 0, 22)
    target = np.zeros(22, bool)
    target[part["targets"]] = True
    plain = ~target & ~clean.special
    assert sees[:, plain].all(), "what is not asked for is seen by all"
    assert not sees[np.ix_(plain, ~plain)].any(), "and sees only its like"
    assert not sees[target, target.nonzero()[0]].any(), "no question sees its answer"
    assert all(sees[place, place] for place in clean.special.nonzero()[0])
    ordered = ~plain
    both = sees[np.ix_(ordered, ordered)]
    assert (both ^ both.T | np.eye(ordered.sum(), dtype=bool)).all(), "one of two sees the other"


@pytest.mark.parametrize(
    ("size", "reuse", "first"), [(20, 0.5, 11), (21, 0.5, 11), (7, 0.25, 2), (1, 0.5, 1)]
)
def test_the_first_part_sees_nothing_of_the_second_and_is_seen_whole(examples, size, reuse, first):
    part = part_of(PermutedLM(reuse=reuse), examples([size]))
    sees = allowed(part, 0, size + 2)
    assert not sees[:first, first:].any()
    assert sees[first:, :first].all()
    assert not sees[first - 1, first] and sees[first, first - 1]


def test_a_memory_is_neither_asked_nor_ranked(examples):
    objective = PermutedLM(examples=REMEMBERING)
    clean = remembering(examples, [30, 18, 9], [12, 0, 4])
    part = part_of(objective, clean)
    assert part["before"].tolist() == [12, 0, 4]
    assert len(part["sees"]) == len(part["seen"]) == 18 + 18 + 5
    alone = np.concatenate([clean.ids[12:30], clean.ids[30:48], clean.ids[52:57]])
    assert (alone[part["targets"]] == part["answers"]).all()


@pytest.mark.parametrize("arrangement", [None, REMEMBERING], ids=["plain", "memory"])
@pytest.mark.parametrize("reuse", [None, 0.5])
def test_pieces_of_a_batch_add_up(arrangement, reuse, examples):
    objective = PermutedLM(examples=arrangement, reuse=reuse)
    clean = remembering(examples, [30, 18, 9, 30, 25, 30], [12, 0, 4, 12, 7, 12])
    model = xlnet(objective)

    def step(pieces):
        model.zero_grad()
        counts = {"permuted_lm": sum(piece.counts()["permuted_lm"] for piece in pieces)}
        value = sum(objective.loss(model, piece.tensors()).value(counts) for piece in pieces)
        value.backward()
        return value.item(), torch.cat([p.grad.flatten() for p in model.parameters()])

    whole = step([objective.batch(clean, 5, SOURCE)])
    cut = step([objective.batch(piece, 5, SOURCE) for piece in clean.cut(3)])
    assert len(clean.cut(3)) == 3
    assert cut[0] == pytest.approx(whole[0], abs=1e-12)
    assert (cut[1] - whole[1]).abs().max() < 1e-12


def test_a_memory_is_read(examples):
    objective = PermutedLM(examples=REMEMBERING)
    clean = remembering(examples, [30, 30], [12, 12])
    model = xlnet(objective)
    batch = objective.batch(clean, 5, SOURCE)
    before = objective.loss(model, batch.tensors()).value()
    changed = batch.ids.copy()
    changed[[3, 33]] = 5 + (changed[[3, 33]] - 4) % 195
    other = objective.loss(model, dataclasses.replace(batch, ids=changed).tensors()).value()
    assert abs(other.item() - before.item()) > 1e-6


def test_no_loss_depends_on_the_answer_itself(examples):
    """One question: its answer may be any token, and its scores stay the same."""
    objective = PermutedLM(ask=SingleTokens(budget=Exact(fraction=0.01)))
    clean = examples([20])
    model = xlnet(objective)
    batch = objective.batch(clean, 5, SOURCE)
    target = int(batch.targets["permuted_lm"]["targets"][0])
    losses = []
    for token in (7, 77):
        ids = batch.ids.copy()
        ids[target] = token  # what the input shows; what is asked stays
        losses.append(
            objective.loss(model, dataclasses.replace(batch, ids=ids).tensors()).value().item()
        )
    assert losses[0] == losses[1]


def test_windows_and_what_comes_before_them(in_memory):
    split = in_memory([[list(range(10, 110))]], 200)
    from clozeworks.text.tokenizer.styles import WordPieceStyle
    from clozeworks.text.tokenizer.tokenizer import Tokenizer

    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a"]
    tokenizer = Tokenizer(WordPieceStyle().build({word: i for i, word in enumerate(words)}))
    arrangement = RememberedBlocks(length=32, memory=0.375).arrange(split, tokenizer, seed=0)
    assert arrangement.longest == 32 and arrangement.size(0) == 6
    arranged = arrangement.take(0, np.arange(6))
    assert arranged.labels.tolist() == [0, 12, 12, 12, 12, 12]
    second = arranged.ids[arranged.starts[1] :][: arranged.lengths[1]].tolist()
    assert second == [*range(16, 28), 2, *range(28, 46), 3]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: PermutedLM(reuse=256),
            "reuse is 256; it must be above 0 and below 1; 0.5 is usual; or leave it out.",
        ),
        (lambda: SpacedSpans(longest=0), "longest is 0; it must be at least 1."),
        (
            lambda: RememberedBlocks(length=64, memory=1.0),
            "memory is 1.0; it must be above 0 and below 1; for windows without a memory use "
            "blocks.",
        ),
        (
            lambda: Sum(parts=(PermutedLM(),)),
            "kind is 'permuted_lm'; it runs the model in a way that no other objective can read, "
            "so it stands neither in a sum nor under a weight; make it the whole objective.",
        ),
    ],
)
def test_settings_that_cannot_be(make, message):
    with pytest.raises(SettingError) as caught:
        make()
    assert str(caught.value) == message


def test_a_memory_before_numbered_places_is_refused():
    blueprint = BERT.blueprint(BERT.published("bert-tiny"), frozenset({"vocabulary"}))
    with pytest.raises(SettingError, match=r"embeddings\.positions is Learned; it numbers"):
        PermutedLM(examples=REMEMBERING).equip(blueprint)


def test_layers_that_normalise_first_are_refused():
    from clozeworks.core.layers.norm import LayerNorm
    from clozeworks.core.layers.sublayer import PreNorm

    blueprint = BERT.blueprint(BERT.published("bert-tiny"), frozenset({"vocabulary"}))
    layer = tuple(PreNorm(part=sub.part, norm=LayerNorm()) for sub in blueprint.encoder.layers[0])
    tower = dataclasses.replace(blueprint.encoder, layers=(layer,))
    with pytest.raises(SettingError, match=r"layers\[0\] is PreNorm .* normalise last"):
        PermutedLM().equip(dataclasses.replace(blueprint, encoder=tower))
