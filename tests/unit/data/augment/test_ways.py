"""What each way does, and that it does so as often as it says."""

from collections import Counter
from functools import cache
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import binom, chi2_contingency, chisquare

from clozeworks.data.augment.delete import Delete
from clozeworks.data.augment.guess import ReplaceByModel
from clozeworks.data.augment.insert import Insert
from clozeworks.data.augment.replace import Replace
from clozeworks.data.augment.several import Several
from clozeworks.data.augment.swap import Swap
from clozeworks.rng import RandomStream
from clozeworks.tasks.classify import TextItem

TEN = "a b c d e f g h i j"
SIX = "a b c d e f"


def changed(spec, text, count, epoch=0, seed=1, guess=None):
    augment, rng = spec.build(guess), RandomStream(seed, "augment")
    return [augment(TextItem(text), rng, epoch, index).text for index in range(count)]


@cache
def deleted(epoch=0, count=1_500, fraction=0.2):
    """Which of ten words are gone, (items, 10)."""
    texts = changed(Delete(fraction=fraction), TEN, count, epoch)
    return np.array([[word not in text.split() for word in TEN.split()] for text in texts])


def is_even(counts):
    return chisquare(counts).pvalue > 1e-3


class TestDelete:
    def test_each_word_goes_on_its_own(self):
        gone = deleted()
        assert self.is_binomial(gone.sum(1))
        assert is_even(gone.sum(0))
        # The usual other rule: always the same number.
        assert not self.is_binomial(np.full(len(gone), 2))
        assert not self.is_binomial(deleted(fraction=0.24).sum(1))

    @staticmethod
    def is_binomial(numbers):
        expected = binom.pmf(range(6), 10, 0.2) * len(numbers)
        expected = np.append(expected, len(numbers) - expected.sum())
        seen = np.bincount(np.minimum(numbers, 6), minlength=7)
        return chisquare(seen, expected).pvalue > 1e-3

    def test_epochs_and_items_are_independent(self):
        first, second = deleted(), deleted(epoch=1)
        assert self.independent(first, second)
        assert self.independent(first[:-1], first[1:])
        assert self.independent(first[:, :-1], first[:, 1:])
        assert not self.independent(first, first)  # the same draws in every epoch

    @staticmethod
    def independent(one, other):
        table = np.zeros((2, 2))
        np.add.at(table, (one.astype(int).ravel(), other.astype(int).ravel()), 1)
        return chi2_contingency(table).pvalue > 1e-3

    def test_punctuation_stays(self):
        for text in changed(Delete(fraction=0.9), "One, two; (three) four.", 30):
            assert [mark for mark in text if mark in ",;()."] == list(",;().")


class TestSwap:
    def test_any_two_words_are_equally_likely(self):
        assert is_even(self.pairs(Swap(fraction=0.1)))
        assert not is_even(self.pairs(Swap(fraction=0.1, which="neighbours")))

    def test_any_two_neighbours_are_equally_likely(self):
        counts = np.array(self.pairs(Swap(fraction=0.1, which="neighbours")))
        near = np.array([b == a + 1 for a, b in combinations(range(6), 2)])
        assert counts[~near].sum() == 0
        assert is_even(counts[near])

    @staticmethod
    def pairs(spec):
        """How often each two of six words have changed places."""
        counts = Counter()
        for text in changed(spec, SIX, 1_000):
            words = text.split()
            moved = [place for place, word in enumerate(SIX.split()) if words[place] != word]
            first, second = moved
            assert (words[first], words[second]) == (SIX.split()[second], SIX.split()[first])
            counts[first, second] += 1
        return [counts[pair] for pair in combinations(range(6), 2)]

    def test_no_word_is_swapped_twice(self):
        for text in changed(Swap(fraction=1.0, which="neighbours"), TEN, 30):
            assert sorted(text.split()) == TEN.split()
            assert text != TEN

    @pytest.mark.parametrize(("rate", "moved"), [(0.1, 2), (0.3, 6), (0.5, 10), (1.0, 10)])
    def test_the_rate_counts_pairs(self, rate, moved):
        for text in changed(Swap(fraction=rate), TEN, 20):
            assert sum(a != b for a, b in zip(text.split(), TEN.split(), strict=True)) == moved

    def test_no_neighbours_across_punctuation(self):
        assert set(changed(Swap(which="neighbours"), "one, two, three", 20)) == {"one, two, three"}
        assert set(changed(Swap(), "alone!", 5)) == {"alone!"}


class TestInsert:
    def test_words_of_the_list_at_any_place_on_either_side(self):
        texts = changed(Insert(words=("x", "y", "z")), SIX, 1_200)
        words = [text.split() for text in texts]
        assert all(len(text) == 7 for text in words)
        assert is_even([sum(new in text for text in words) for new in "xyz"])
        places = np.bincount([next(k for k, w in enumerate(t) if w in "xyz") for t in words])
        # Beside a random word: between two words twice as often as at the ends.
        expected = np.array([0.5, 1, 1, 1, 1, 1, 0.5]) * len(words) / 6
        assert chisquare(places, expected).pvalue > 1e-3
        # The usual mistake: always behind the word.
        behind = np.array([0, 1, 1, 1, 1, 1, 1]) * len(words) / 6
        assert chisquare(behind, expected).pvalue < 1e-3

    def test_synonyms_of_words_that_are_there(self):
        spec = Insert(synonyms={"b": ("bee", "bay"), "E": ("ear",), "q": ("queue",)})
        old = set(SIX.split())
        new = Counter((set(text.split()) - old).pop() for text in changed(spec, SIX, 900))
        assert set(new) == {"bee", "bay", "ear"}
        assert chisquare([new["bee"], new["bay"], new["ear"]], [225, 225, 450]).pvalue > 1e-3

    def test_nothing_if_no_word_has_a_synonym(self):
        assert set(changed(Insert(synonyms={"q": ("queue",)}), SIX, 5)) == {SIX}

    def test_the_rate_counts_new_words(self):
        for text in changed(Insert(words=("x",), fraction=0.5), TEN, 10):
            assert text.split().count("x") == 5
            assert [word for word in text.split() if word != "x"] == TEN.split()


class TestReplace:
    def test_any_word_by_any_of_its_synonyms(self):
        spec = Replace(synonyms={"a": ("x", "y"), "c": ("z",), "f": ("w",)})
        counts = Counter(changed(spec, SIX, 1_500))
        seen = [counts[SIX.replace(*pair)] for pair in ("ax", "ay", "cz", "fw")]
        assert sum(seen) == 1_500
        assert chisquare(seen, [250, 250, 500, 500]).pvalue > 1e-3
        assert not is_even(seen)

    @pytest.mark.parametrize(
        ("text", "now"),
        [
            ("big Big BIG", "huge Huge HUGE"),
            ("I like it", "We like it"),
            ("In new  york, yes", "In Gotham, yes"),
            ("New things", "New things"),
            ("我很高兴。", "我很快乐。"),
            ("bigger", "bigger"),
            ("big, BIG: (big)", "huge, HUGE: (huge)"),
        ],
    )
    def test_words_and_phrases_whatever_their_capital_letters(self, text, now):
        table = {"big": ("huge",), "New York": ("Gotham",), "高兴": ("快乐",), "i": ("we",)}
        assert changed(Replace(fraction=1.0, synonyms=table), text, 1) == [now]

    def test_the_longest_wins(self):
        table = {"new": ("old",), "new york": ("Gotham",), "new york city": ("Metropolis",)}
        spec = Replace(fraction=1.0, synonyms={**table, "york": ("leeds",), "city": ("town",)})
        text = "new york city, new york, new, york, city"
        assert set(changed(spec, text, 5)) == {"Metropolis, Gotham, old, leeds, town"}

    def test_the_rate_counts_words(self):
        spec = Replace(fraction=0.29, synonyms={letter: (letter * 2,) for letter in TEN.split()})
        text = " ".join([TEN] * 10)
        for new in changed(spec, text, 5):
            assert sum(len(word) == 2 for word in new.split()) == 29


class TestGuess:
    def test_a_gap_for_each_word_and_the_best_guesses(self):
        asked = []

        def guess(texts):
            asked.extend(texts)
            return [["##s", "b", ".", "x y", "x", "y", "z"]] * len(texts)

        counts = Counter(changed(ReplaceByModel(fraction=0.5, top_k=2), "a, b", 400, guess=guess))
        assert set(asked) == {"[MASK], b", "a, [MASK]"} and len(asked) == 400
        # The word itself, pieces, marks and phrases are not among the best two.
        assert set(counts) == {"b, b", "x, b", "a, x", "a, y"}
        assert is_even(list(counts.values()))

    def test_no_guess_no_change(self):
        assert changed(ReplaceByModel(), SIX, 3, guess=lambda texts: [[]] * len(texts)) == [SIX] * 3

    def test_a_text_with_a_gap_of_its_own_stays(self):
        text = "one [MASK] two"
        assert (
            changed(ReplaceByModel(), text, 3, guess=lambda texts: [["x"]] * len(texts))
            == [text] * 3
        )


class TestSeveral:
    def test_the_ways_are_equally_likely(self):
        parts = tuple(Replace(fraction=1.0, synonyms={"a": (letter,)}) for letter in "xyz")
        counts = Counter(changed(Several(parts=parts), "a", 900))
        assert set(counts) == set("xyz") and is_even(list(counts.values()))

    def test_a_share_below_one_makes_a_way_rarer(self):
        often = Replace(fraction=1.0, synonyms={"a": ("x",)})
        rare = Replace(fraction=1.0, synonyms={"a": ("y",)}, probability=0.5)
        counts = Counter(changed(Several(parts=(often, rare)), "a", 1_000))
        assert chisquare([counts["x"], counts["y"], counts["a"]], [500, 250, 250]).pvalue > 1e-3

    def test_shares_multiply(self):
        parts = (Replace(fraction=1.0, synonyms={"a": ("x",)}, probability=0.5),)
        counts = Counter(changed(Several(parts=parts, probability=0.5), "a", 800))
        assert chisquare([counts["x"], counts["a"]], [200, 600]).pvalue > 1e-3

    def test_eda(self, tmp_path):
        file = tmp_path / "near.tsv"
        file.write_text("a\tx\n", encoding="utf-8")
        spec = Several.eda(file=str(file), fraction=0.2, copies=3)
        assert spec.probability == 0.75
        assert [type(part) for part in spec.parts] == [Replace, Insert, Swap, Delete]
        assert {part.fraction for part in spec.parts} == {0.2}
        assert any("x" in text for text in changed(spec, SIX, 20))


@pytest.mark.parametrize("epoch", [0, 1, 5])
def test_the_share_is_that_of_items_that_are_changed(epoch):
    for share in (0.25, 0.8):
        texts = changed(Swap(probability=share), SIX, 800, epoch)
        hit = sum(text != SIX for text in texts)
        assert abs(hit - 800 * share) < 3.3 * np.sqrt(800 * share * (1 - share))


def test_each_epoch_changes_other_items():
    first, second = (
        [text != SIX for text in changed(Swap(probability=0.5), SIX, 300, epoch)]
        for epoch in (0, 1)
    )
    same = sum(one == other for one, other in zip(first, second, strict=True))
    assert abs(same - 150) < 3.3 * np.sqrt(300 / 4)
