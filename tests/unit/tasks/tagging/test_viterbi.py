"""Allowed moves, and the best path among them."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clozeworks.errors import SettingError
from clozeworks.tasks.tagging.schemes import BIO, BIOES, BMES, IO, IOB1, PLAIN
from clozeworks.tasks.tagging.tags import Spelling
from clozeworks.tasks.tagging.viterbi import MoveScores, best_path, transitions

LABELS = {
    "BIO": (BIO, ["I-A", "O", "B-A", "I-B"]),
    "IOB1": (IOB1, ["B-A", "I-A", "O", "I-B"]),
    "BIOES": (BIOES, ["E-A", "S-A", "B-A", "O"]),
    "BMES": (BMES, ["B", "M", "E", "S"]),
    "IO": (IO, ["I-A", "I-B", "O"]),
    "plain": (PLAIN, ["NOUN", "VERB", "X"]),
}
FULL = {
    "BIO": (BIO, "BI"),
    "IOB1": (IOB1, "BI"),
    "BIOES": (BIOES, "BIES"),
    "BILOU": (BIOES, "BILU"),
    "BMES": (BMES, "BMES"),
    "IO": (IO, "I"),
}


def full(letters):
    return ["O", *(f"{letter}-{kind}" for letter in letters for kind in "XY")]


def drawn_moves(rng, count):
    return MoveScores(
        rng.normal(size=count), rng.normal(size=(count, count)), rng.normal(size=count)
    )


def all_paths(scores, moves, learned):
    """Every allowed path and its score, by trying all."""
    words, labels = scores.shape
    found = {}
    for path in product(range(labels), repeat=words):
        steps = list(pairwise(path))
        allowed = moves.start[path[0]] and moves.end[path[-1]]
        if allowed and all(moves.move[step] for step in steps):
            total = sum(scores[word, label] for word, label in enumerate(path))
            if learned is not None:
                total += learned.start[path[0]] + learned.end[path[-1]]
                total += sum(learned.move[step] for step in steps)
            found[path] = total
    return found


class TestTransitions:
    def test_bio(self):
        moves = transitions(["O", "B-A", "I-A", "I-B"], BIO)
        assert moves.start.tolist() == [True, True, False, False]
        assert moves.end.all()
        assert moves.move.tolist() == [
            [True, True, False, False],
            [True, True, True, False],
            [True, True, True, False],
            [True, True, False, True],
        ]

    def test_bioes(self):
        labels = ["O", "B-A", "I-A", "E-A", "S-A"]
        moves = transitions(labels, BIOES)
        follow = {
            label: "".join(labels[column][0] for column in np.flatnonzero(moves.move[row]))
            for row, label in enumerate(labels)
        }
        assert follow == {"O": "OBS", "B-A": "IE", "I-A": "IE", "E-A": "OBS", "S-A": "OBS"}
        assert moves.start.tolist() == [True, True, False, False, True]
        assert moves.end.tolist() == [True, False, False, True, True]

    def test_plain_allows_everything(self):
        moves = transitions(["NOUN", "O", "B-A"], PLAIN)
        assert all(part.all() for part in moves)
        assert moves.move.shape == (3, 3)

    def test_labels_that_are_no_tags(self):
        moves = transitions(["O", "B-A", "I-A", "X", "[CLS]"], BIO)
        assert not moves.start[3:].any() and not moves.end[3:].any()
        assert not moves.move[3:].any() and not moves.move[:, 3:].any()
        assert moves.move[0, 0]
        assert transitions(["O", "X", "Y"], IO).move.all()  # there X is a type

    @pytest.mark.parametrize("name", FULL)
    def test_they_are_the_rules(self, name):
        scheme, letters = FULL[name]
        labels = full(letters)
        moves = transitions(labels, scheme)
        for path in product(range(len(labels)), repeat=3):
            tags = [Spelling().read(labels[number]) for number in path]
            assert moves.allow(np.array(path)) == (scheme.fault(tags) is None)

    @pytest.mark.parametrize(
        ("labels", "scheme", "words"),
        [("B-A I-A E-A", BIOES, "1 word"), ("I-A", BIO, "1 word"), ("B-A", IOB1, "1 word")],
    )
    def test_lengths_without_a_path(self, labels, scheme, words):
        with pytest.raises(SettingError) as caught:
            transitions(labels.split(), scheme)
        shown = ", ".join(labels.split())
        assert str(caught.value) == (
            f"labels is {shown}; in {scheme.name} a sentence of {words} could have no tags; add "
            "the label O, or choose another scheme."
        )

    def test_a_longer_length_without_a_path(self):
        from clozeworks.tasks.tagging import viterbi as module

        moves = module.AllowedTransitions(
            np.array([True, False]), np.eye(2, k=1) > 0, np.array([True, True])
        )
        with pytest.raises(SettingError, match="a sentence of 3 words could have no tags"):
            module._insist_on_paths(moves, ["S-A"] * 2, BIOES)

    @pytest.mark.parametrize("labels", ["O", "S-A", "B-A S-A", "O B-A"])
    def test_few_labels_can_do(self, labels):
        transitions(labels.split(), BIOES)

    def test_a_label_of_another_scheme(self):
        with pytest.raises(SettingError) as caught:
            transitions(["O", "B-A", "E-A", "S-A"], BIO)
        assert str(caught.value) == (
            "scheme is 'BIO'; it has O and the letters B, I beside a type, and labels holds 'E-A'; "
            "choose the scheme BIOES, or rename the label."
        )


class TestBestPath:
    @pytest.mark.parametrize("name", LABELS)
    @pytest.mark.parametrize("has_learned", [False, True])
    def test_it_is_the_best_of_all(self, name, has_learned):
        scheme, labels = LABELS[name]
        moves = transitions(labels, scheme)
        rng = np.random.default_rng(3)
        repaired = 0
        for words in [1, 2, 3, 4, 5] * 4:
            scores = rng.normal(size=(words, len(labels))) * 2
            learned = drawn_moves(rng, len(labels)) if has_learned else None
            paths = all_paths(scores, moves, learned)
            path = best_path(scores, moves, learned)
            assert tuple(path) == max(paths, key=paths.get)
            repaired += not moves.allow(scores.argmax(axis=1))
        assert name in {"plain", "IO"} or repaired > 3

    @given(data=st.data(), name=st.sampled_from(sorted(FULL)))
    @settings(max_examples=150, deadline=None)
    def test_nothing_invalid_comes_out(self, data, name):
        scheme, letters = FULL[name]
        labels = full(letters)
        words = data.draw(st.integers(0, 7))
        values = st.one_of(st.floats(-1e6, 1e6), st.just(-np.inf), st.sampled_from([0.0, -1.0]))
        flat = data.draw(
            st.lists(values, min_size=words * len(labels), max_size=words * len(labels))
        )
        scores = np.array(flat, dtype=np.float32).reshape(words, len(labels))
        path = best_path(scores, transitions(labels, scheme))
        assert len(path) == words
        assert scheme.fault([Spelling().read(labels[number]) for number in path]) is None

    def test_no_words(self):
        moves = transitions(["O", "B-A"], BIO)
        learned = MoveScores(np.zeros(2), np.zeros((2, 2)), np.zeros(2))
        for scores in (None, learned):
            assert best_path(np.zeros((0, 2)), moves, scores).shape == (0,)

    def test_what_has_no_best_path(self):
        moves = transitions(["O", "B-A"], BIO)
        with pytest.raises(AssertionError, match="not numbers"):
            best_path(np.array([[np.nan, 0.0]]), moves)
        nowhere = moves._replace(start=np.zeros(2, bool))
        with pytest.raises(AssertionError, match="no path"):
            best_path(np.zeros((1, 2)), nowhere)
