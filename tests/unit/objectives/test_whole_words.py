"""Whole words and n-grams: all pieces or none, within the budget, within the segment."""

import numpy as np
import pytest

from clozeworks.errors import SettingError
from clozeworks.objectives.noise.budget import Bernoulli, Exact
from clozeworks.objectives.noise.draws import Draws
from clozeworks.objectives.noise.ngrams import NGrams
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.noise.whole_words import WholeWords
from clozeworks.objectives.noise.words import TextWords, rows_of
from clozeworks.rng import RandomStream

CHANCE = RandomStream(2, "test")


def hide(choice, clean):
    """Which tokens are hidden."""
    return choice.positions(clean, Draws.of(clean, CHANCE))


def words_by_hand(clean):
    """Each example's words as lists of places, the slow way."""
    found = []
    for start, length in zip(clean.starts, clean.lengths, strict=True):
        words, fresh = [], True
        for place in range(start, start + length):
            if clean.special[place]:
                fresh = True
                continue
            fresh = fresh or (words and clean.types[place] != clean.types[place - 1])
            if fresh or clean.word_starts[place]:
                words.append([])
            words[-1].append(place)
            fresh = False
        found.append(words)
    return found


def check_whole(clean, places, budget=0.15):
    """Only whole words, within the budget; gives what is left of each example's budget."""
    hidden = set(places.tolist())
    left = []
    for words, length in zip(words_by_hand(clean), clean.lengths, strict=True):
        taken = [word for word in words if word[0] in hidden]
        for word in words:
            assert len(hidden & set(word)) in (0, len(word))
        limit = min(max(1, round(length * budget)), sum(map(len, words)))
        left.append(limit - sum(map(len, taken)))
        assert left[-1] >= 0
    return left


@pytest.mark.parametrize("bare", [False, True])
def test_words_are_found(examples, bare):
    clean = examples([30, 1, 0, 17, 44], pieces=0.5, bare=bare)
    words = TextWords.of(clean)
    expected = [word for row in words_by_hand(clean) for word in row]
    assert words.starts.tolist() == [word[0] for word in expected]
    assert words.ends.tolist() == [word[-1] + 1 for word in expected]
    assert words.rows.tolist() == rows_of(clean, words.starts).tolist()


def test_whole_words_or_none_and_the_greedy_law(examples):
    clean = examples([100, 60, 30, 9] * 200, pieces=0.6)
    places = hide(WholeWords(), clean)
    left = check_whole(clean, places)
    hidden = set(places.tolist())
    for row, words in enumerate(words_by_hand(clean)):
        # Whatever was passed over would not have fitted: it is larger than what is left.
        assert all(len(word) > left[row] for word in words if word[0] not in hidden)
    assert 0 < np.mean([n > 0 for n in left]) < 0.5  # skipping happens, and mostly ends well
    with pytest.raises(AssertionError):
        check_whole(clean, hide(SingleTokens(), clean))


def test_a_word_that_is_too_long_is_passed_over(examples):
    # One word of 9 pieces and three of 1: a budget of 2 can only take the short ones.
    starts = [[[True] + [False] * 8 + [True] * 3]] * 300
    clean = examples([12] * 300, starts=starts)
    places = hide(WholeWords(budget=Exact(max_count=2)), clean)
    assert len(places) == 600
    assert set((places % 14).tolist()) == {10, 11, 12}


def test_every_word_is_equally_likely_whatever_its_length(examples, fits):
    starts = [[[True, False, True, True, False, True] * 5]] * 20_000  # 20 words, sizes 2 1 2 1
    clean = examples([30] * 20_000, starts=starts)
    places = hide(WholeWords(budget=Bernoulli(fraction=0.15)), clean)
    firsts = places[clean.word_starts[places]]
    found = np.bincount(firsts % 32)
    found = found[found > 0]
    assert len(found) == 20
    assert fits(found, np.ones(20)) > 1e-3


def test_no_word_crosses_from_text_to_text(examples):
    # The second text begins in the middle of a word, as truncation at the front leaves it.
    starts = [[[True, True, False], [False, False, True]]] * 400
    clean = examples([(3, 3)] * 400, starts=starts)
    places = WholeWords(budget=Exact(fraction=0.25)).positions(
        clean, Draws.of(clean, CHANCE)
    )  # 2 of 9 tokens
    check_whole(clean, places, 0.25)
    pairs = {tuple((places[rows_of(clean, places) == row] % 9).tolist()) for row in range(400)}
    assert (2, 3) in pairs and (5, 6) in pairs  # two words of two pieces
    assert not {pair for pair in pairs if 3 in pair and 5 in pair}


def test_the_law_of_ngrams(fits):
    words = CHANCE.words(0, 0, 120_000)[0]
    found = np.bincount(NGrams().lengths(words))[1:]
    assert fits(found, [6, 3, 2]) > 1e-3
    assert fits(found, [1, 1, 1]) < 1e-3
    assert fits(np.bincount(NGrams(longest=2).lengths(words))[1:], [2, 1]) > 1e-3
    assert set(NGrams(longest=1).lengths(words[:50]).tolist()) == {1}


def test_ngrams_are_whole_words_within_the_budget(examples):
    clean = examples([100, 60, 200] * 150, pieces=0.4)
    places = hide(NGrams(), clean)
    left = check_whole(clean, places)
    longest = [max(map(len, words)) for words in words_by_hand(clean)]
    assert all(rest <= most - 1 for rest, most in zip(left, longest, strict=True))
    assert len(set(places.tolist())) == len(places)


def test_long_candidates_are_rejected_more_often(examples):
    """What comes out is skewed to short runs, and yet longer than with single words."""
    clean = examples([200] * 500, pieces=0.0)

    def mean_run(choice):
        places = hide(choice, clean)
        return len(places) / (1 + (np.diff(places) > 1).sum())

    single, grams = mean_run(WholeWords()), mean_run(NGrams())
    assert single + 0.2 < grams < 18 / 11 + single - 1 + 0.1
    assert mean_run(NGrams(longest=1)) == pytest.approx(single, abs=0.05)


def test_no_ngram_crosses_from_text_to_text(examples, runs):
    # Two texts of two words: with n = 2 drawn at the second word, only that word is taken.
    clean = examples([(2, 2)] * 2000, pieces=0.0)
    places = NGrams(longest=2, budget=Exact(max_count=2, fraction=0.3)).positions(
        clean, Draws.of(clean, CHANCE)
    )
    assert (np.bincount(rows_of(clean, places)) == 2).all()
    spans = {(start % 7, end % 7) for start, end in runs(clean, places)}
    assert spans == {(1, 2), (2, 3), (1, 3), (4, 5), (5, 6), (4, 6)}
    bare = examples([2] * 2000, pieces=0.0, bare=True)  # without special tokens around
    places = hide(NGrams(longest=3, budget=Exact(fraction=0.5)), bare)
    assert np.bincount(rows_of(bare, places)).tolist() == [1] * 2000


def test_what_ngrams_refuse():
    with pytest.raises(SettingError, match=r"^longest is 0; it must be at least 1.$"):
        NGrams(longest=0)
