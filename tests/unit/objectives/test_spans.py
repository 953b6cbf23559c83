"""SpanBERT's spans: the seven checks of the paper's code, and an example by hand."""

import math

import numpy as np
import pytest

from clozeworks.errors import SettingError
from clozeworks.objectives.noise.budget import Ceiling, Exact
from clozeworks.objectives.noise.corruption import Corruption
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.noise.spans import Spans
from clozeworks.objectives.noise.words import TextWords, rows_of, segment_begins
from clozeworks.rng import RandomStream

CHANCE = RandomStream(3, "test")
LAW = 0.2 * 0.8 ** np.arange(10)


def hide(choice, clean):
    """Which tokens are hidden."""
    return choice.positions(clean, Draws.of(clean, CHANCE))


def test_lengths_are_geometric_and_renormalised(fits):
    drawn = Spans().lengths(CHANCE.words(0, 0, 200_000)[0])
    assert fits(np.bincount(drawn, minlength=11)[1:], LAW) > 1e-3
    assert abs(drawn.mean() - 3.797) < 0.02
    published = [0.2241, 0.1792, 0.1434, 0.1147, 0.0918, 0.0734, 0.0587, 0.0470, 0.0376, 0.0301]
    assert np.abs(LAW / LAW.sum() - published).max() < 5e-5


def test_clipped_lengths_fail_the_test(fits):
    uniform = CHANCE.uniform(0, 0, 200_000)[0]
    clipped = np.minimum(np.floor(np.log1p(-uniform) / np.log(0.8)).astype(int) + 1, 10)
    assert fits(np.bincount(clipped, minlength=11)[1:], LAW) < 1e-3
    assert abs(clipped.mean() - 4.46) < 0.02


def test_the_budget_is_met_exactly(examples):
    sizes = list(range(1, 300))
    clean = examples(sizes, pieces=0.4)
    found = np.bincount(rows_of(clean, hide(Spans(), clean)))
    assert found.tolist() == [math.ceil(0.15 * size) for size in sizes]


def test_whole_words_but_for_one_span(examples, runs):
    clean = examples([120] * 500, pieces=0.5)
    places = hide(Spans(), clean)
    words = TextWords.of(clean)
    starts, ends = set(words.starts.tolist()), set(words.ends.tolist())
    cut = np.zeros(len(clean), int)
    for start, end in runs(clean, places):
        assert start in starts
        cut[rows_of(clean, np.array([start]))[0]] += end not in ends
    assert cut.max() == 1  # the one that used up the budget
    assert 0.2 < cut.mean() < 0.8
    singles = runs(clean, hide(SingleTokens(), clean))
    assert not all(start in starts for start, _ in singles)  # the test can tell


def test_merged_spans_keep_a_visible_token_between_them(examples, runs):
    clean = examples([200] * 300, pieces=0.3)
    places = hide(Spans(), clean)
    hidden = np.zeros(len(clean.ids) + 1, bool)
    hidden[places] = True
    spans = runs(clean, places)
    assert all(not hidden[start - 1] and not hidden[end] for start, end in spans)
    assert max(end - start for start, end in spans) > 20  # merging makes them longer than drawn


def test_an_anchor_is_a_piece_so_long_words_begin_more_spans(examples, fits):
    starts = [[([True] + [False] * 4 + [True]) * 3]] * 20_000  # words of 5 and 1 pieces
    clean = examples([18] * 20_000, starts=starts)
    places = Spans(budget=Exact(max_count=1)).positions(
        clean, Draws.of(clean, CHANCE)
    )  # the first piece of the first span
    within = np.bincount(places % 20, minlength=20)[[1, 6, 7, 12, 13, 18]]
    assert within.sum() == 20_000
    assert fits(within, [5, 1] * 3) > 1e-3
    assert fits(within, [1, 1] * 3) < 1e-3  # as if words were drawn


def test_spans_end_with_their_segment(examples):
    clean = examples([(5, 5)] * 3000, pieces=0.0)
    for choice in (Spans(), Spans(p=0.01, longest=10)):
        places = hide(choice, clean)
        assert (np.bincount(rows_of(clean, places)) == 2).all()
        assert not clean.special[places].any()
    # With one token asked for and long spans, the span at the end of the first text stays there.
    bare = examples([4] * 1000, pieces=0.0, bare=True)
    places = hide(Spans(p=0.01, budget=Ceiling(fraction=0.5)), bare)
    assert (np.bincount(rows_of(bare, places)) == 2).all()


def test_the_algorithm_step_by_step(examples):
    """A plain transcription of the released loop, fed with the same draws."""
    clean = examples([90, 40, 7, 1, 150] * 40, pieces=0.4)
    choice = Spans()
    starts = segment_begins(clean) | clean.word_starts
    expected = []
    for row in range(len(clean)):
        first, size = int(clean.starts[row]) + 1, int(clean.lengths[row]) - 2
        draws = CHANCE.stream("spans").words(clean.epochs[row], clean.indices[row], 2000)[0]
        lengths = choice.lengths(draws[0::2])
        anchors = (draws[1::2].astype(np.uint64) * np.uint64(size)) >> np.uint64(32)
        hidden, budget = set(), math.ceil(0.15 * size)
        for length, anchor in zip(lengths.tolist(), anchors.tolist(), strict=True):
            if len(hidden) >= budget:
                break
            if anchor in hidden:
                continue
            place = anchor
            while not starts[first + place]:
                place -= 1
            words = 0
            while place < size and len(hidden) < budget:
                words += bool(starts[first + place])
                if words > length:
                    break
                hidden.add(place)
                place += 1
        expected += [first + place for place in sorted(hidden)]
    assert hide(choice, clean).tolist() == expected


def test_draws_never_run_out(examples):
    clean = examples([60, 3, 200])
    everything = hide(Spans(budget=Ceiling(fraction=1.0)), clean)
    assert everything.tolist() == np.flatnonzero(~clean.special).tolist()
    nothing = examples([0, 0])
    assert len(hide(Spans(), nothing)) == 0


TEXT = [
    "|an", "|American", "|foot", "##ball", "|game", "|was", "|played", "|in", "|Ca", "##li",
    "##fornia", "|in", "|2016", "|to", "|decide", "|a", "|champion", "|.",
]  # fmt: skip


@pytest.fixture
def football(examples):
    starts = [piece.startswith("|") for piece in TEXT]
    return examples([18], ids=[[range(10, 28)]], starts=[[starts]])


def test_the_example_by_hand(football, fixed, corpus, source):
    # The length 4 lies from 0.547 to 0.661; the anchor is piece 3 of 18, ##ball. Each place has
    # four numbers, of which two say which token of the corpus it takes: 0, a half, nearly 1.
    which = [0.0] * 16 + [0.5, 0.0, 0.0, 0.0] + [0.999, 0.0, 0.0, 0.0]
    rng = fixed({"": [0.85], "spans": [0.6, 3.5 / 18], "random": which})
    draws = Draws.of(football, rng)
    places = Spans().positions(football, draws)
    assert places.tolist() == [3, 4, 5]  # foot ##ball game: the budget of 3 ends the span
    ids = football.ids.copy()
    Corruption(unit="span", random_from="corpus").write(ids, places, football, draws, source)
    at = corpus.at(np.array([0, corpus.tokens // 2, int(corpus.tokens * 0.999)]))
    assert ids[3:6].tolist() == at.tolist()
    assert (np.delete(ids, [3, 4, 5]) == np.delete(football.ids, [3, 4, 5])).all()


def test_what_spans_refuse():
    for p in (0.0, 1.0, -1.0):
        with pytest.raises(SettingError) as caught:
            Spans(p=p)
        assert str(caught.value) == f"p is {p}; it must be above 0 and below 1."
    with pytest.raises(SettingError, match=r"^longest is 0; it must be at least 1.$"):
        Spans(longest=0)
