"""Values of labels equal those of scikit-learn, also where a label is missing."""

import numpy as np
import pytest
from sklearn import metrics as peer

from clozeworks.errors import InputError
from clozeworks.tasks.metrics.calibration import BINS, calibration_bins
from clozeworks.tasks.metrics.classification import one_label, several_labels
from clozeworks.tasks.metrics.labels import confusion, per_label

TWO, FOUR = ("no", "yes"), ("a", "b", "c", "d")


def made_up(size, seed, *, items=50):
    """Right labels, and given ones of which some are right."""
    rng = np.random.default_rng(seed)
    gold = rng.integers(0, size, items)
    return gold, np.where(rng.random(items) < 0.6, gold, rng.integers(0, size, items))


CASES = {
    **{f"two, {seed}": (TWO, *made_up(2, seed)) for seed in range(3)},
    **{f"four, {seed}": (FOUR, *made_up(4, seed)) for seed in range(3)},
    "one right label only": (FOUR, np.full(9, 2), np.array([0, 1, 2, 2, 2, 3, 0, 1, 2])),
    "one given label only": (FOUR, np.array([0, 1, 2, 2, 2, 3, 0, 1, 2]), np.full(9, 2)),
    "the same label everywhere": (FOUR, np.full(4, 1), np.full(4, 1)),
    "two constants that differ": (TWO, np.zeros(4, int), np.ones(4, int)),
    "never predicted": (FOUR, np.array([0, 1, 2, 3, 3]), np.array([0, 1, 2, 1, 2])),
    "never right": (FOUR, np.array([0, 1, 2, 1, 2]), np.array([0, 1, 2, 3, 3])),
    "in neither": (FOUR, np.array([0, 1, 1, 0]), np.array([1, 1, 1, 0])),
    "one item": (TWO, np.array([1]), np.array([1])),
}


def scores(gold, said, labels):
    found = {
        "accuracy": peer.accuracy_score(gold, said),
        "macro_f1": peer.f1_score(gold, said, average="macro", zero_division=0),
        "micro_f1": peer.f1_score(gold, said, average="micro", zero_division=0),
        "weighted_f1": peer.f1_score(gold, said, average="weighted", zero_division=0),
        "matthews": peer.matthews_corrcoef(gold, said),
    }
    if len(labels) == 2:
        found["f1"] = peer.f1_score(gold, said, labels=[0, 1], zero_division=0)
        found["accuracy_and_f1"] = (found["accuracy"] + found["f1"]) / 2
    return found


@pytest.mark.parametrize(("labels", "gold", "said"), CASES.values(), ids=CASES.keys())
@pytest.mark.filterwarnings("ignore:A single label was found")
class TestOneLabel:
    def test_values_equal_those_of_scikit_learn(self, labels, gold, said):
        found = one_label(gold, said, labels)
        assert found.values == pytest.approx(scores(gold, said, labels), abs=1e-12)
        assert (found.primary, found.higher_is_better) == ("accuracy", True)
        assert found.count == len(gold)

    def test_tables_equal_those_of_scikit_learn(self, labels, gold, said):
        every = list(range(len(labels)))
        assert (
            confusion(gold, said, labels) == peer.confusion_matrix(gold, said, labels=every)
        ).all()
        columns = peer.precision_recall_fscore_support(gold, said, labels=every, zero_division=0)
        for place, row in enumerate(per_label(gold, said, labels)):
            assert row.label == labels[place]
            assert (row.precision, row.recall, row.f1, row.support) == pytest.approx(
                tuple(column[place] for column in columns)
            )

    def test_intervals_equal_those_of_computing_each_draw_anew(
        self, labels, gold, said, slow_interval
    ):
        found = one_label(gold, said, labels, intervals=True)
        assert found.intervals.keys() == found.values.keys()
        for name in ("macro_f1", "matthews"):
            slow = slow_interval(
                lambda drawn, name=name: one_label(gold[drawn], said[drawn], labels).values[name],
                len(gold),
            )
            assert found.intervals[name] == pytest.approx(slow, abs=1e-12)


@pytest.mark.parametrize(
    ("gold", "said", "notes"),
    [
        ([0, 1, 2, 3], [0, 1, 2, 3], ()),
        ([0, 1, 2, 3], [0, 1, 2, 1], ("never predicted, so precision and F1 are 0: d.",)),
        ([0, 1, 2, 1], [0, 1, 2, 3], ("never right, so recall and F1 are 0: d.",)),
        (
            [0, 1, 1, 0],
            [1, 1, 0, 0],
            ("neither right nor predicted anywhere, so it does not count in macro F1: c, d.",),
        ),
        (
            [0, 1, 2, 3],
            [3, 3, 3, 3],
            (
                "never predicted, so precision and F1 are 0: a, b, c.",
                "all predicted labels are the same, so Matthews is 0.",
            ),
        ),
    ],
)
def test_divisions_by_zero_are_noted(gold, said, notes):
    assert one_label(gold, said, FOUR).notes == notes


def test_notes_name_a_few_labels_only():
    labels = [f"l{number}" for number in range(9)]
    found = one_label([0, 1], [0, 1], labels).notes[0]
    assert found.endswith(": l2, l3, l4, l5, l6 and 2 more.")


def test_of_two_labels_the_second_is_the_positive_one():
    gold, said = np.array([0, 0, 1, 1, 1]), np.array([0, 1, 1, 1, 0])
    found = one_label(gold, said, TWO)
    assert found.values["f1"] == pytest.approx(peer.f1_score(gold, said, pos_label=1))


class TestShares:
    gold, said = np.array([0, 1, 2, 1]), np.array([0, 1, 1, 2])
    shares = np.array([[1, 0, 0], [0.1, 0.7, 0.2], [0.5, 0.5, 0], [0.2, 0.3, 0.5]])

    def test_log_loss_equals_that_of_scikit_learn(self):
        found = one_label(self.gold, self.said, "abc", probabilities=self.shares, intervals=True)
        expected = peer.log_loss(self.gold, self.shares, labels=[0, 1, 2])
        assert found.values["log_loss"] == pytest.approx(expected)
        assert found.values["log_loss"] > 9  # the third right label has a probability of 0
        low, high = found.intervals["log_loss"]
        assert low < found.values["log_loss"] < high
        assert "calibration_error" not in found.intervals

    def test_calibration_error_equals_a_plain_count(self):
        rng = np.random.default_rng(0)
        shares = rng.dirichlet(np.ones(4), 300)
        shares[:20] = [0.6, 0.4, 0, 0]  # an edge of a bin
        shares[20] = [1, 0, 0, 0]
        gold, said = rng.integers(0, 4, 300), shares.argmax(axis=1)
        error = 0.0
        for place in range(15):
            inside = [
                item
                for item in range(300)
                if place / 15 < shares[item, said[item]] <= (place + 1) / 15
            ]
            sure = sum(shares[item, said[item]] for item in inside)
            error += abs(sure - sum(gold[item] == said[item] for item in inside)) / 300
        found = one_label(gold, said, FOUR, probabilities=shares)
        assert found.values["calibration_error"] == pytest.approx(error)

    def test_bins_say_where_they_are(self):
        bins = calibration_bins(np.array([True, False, True]), np.array([0.0, 0.2, 0.21]))
        assert len(bins) == BINS == 15
        assert (bins[0].low, bins[0].count, bins[0].accuracy) == (0, 1, 1)
        assert (bins[2].high, bins[2].count, bins[2].confidence) == pytest.approx((0.2, 1, 0.2))
        assert (bins[3].low, bins[3].count, bins[3].accuracy) == pytest.approx((0.2, 1, 1))
        assert (bins[14].high, bins[14].count, bins[14].confidence) == (1, 0, 0)

    @pytest.mark.parametrize("row", [[0.2, 0.2, 0.2], [1.5, -0.5, 0], [float("nan"), 0, 1]])
    def test_scores_are_no_shares(self, row):
        with pytest.raises(InputError) as error:
            one_label([0, 1], [0, 1], "abc", probabilities=np.array([[1, 0, 0], row]))
        assert str(error.value) == (
            f"probabilities, item 2, are {[float(share) for share in row]}; none may be below 0, "
            "and they must add up to 1; give probabilities, not scores."
        )

    def test_there_is_a_share_for_each_label(self):
        with pytest.raises(InputError) as error:
            one_label([0, 1], [0, 1], "abc", probabilities=np.ones((2, 1)))
        assert str(error.value) == (
            "probabilities has the shape (2, 1); for 2 items and 3 labels it must be (2, 3); give "
            "the probability of each label."
        )


def held(seed, *, items=40, share=0.3):
    return np.random.default_rng(seed).random((items, 4)) < share


SEVERAL = {
    **{
        f"random, {seed}": (held(seed), held(seed) ^ held(seed + 9, share=0.1)) for seed in range(3)
    },
    "never predicted": (held(1), held(1) & [True, True, False, True]),
    "in neither": (held(1) & [True, True, False, True], held(2) & [True, True, False, True]),
    "nothing predicted": (held(1), np.zeros((40, 4), bool)),
    "nothing right": (np.zeros((40, 4), bool), held(1)),
    "nothing at all": (np.zeros((3, 4), bool), np.zeros((3, 4), bool)),
    "everything": (np.ones((3, 4), bool), np.ones((3, 4), bool)),
}


@pytest.mark.parametrize(("gold", "said"), SEVERAL.values(), ids=SEVERAL.keys())
def test_several_labels_equal_scikit_learn(gold, said):
    found = several_labels(gold, said, FOUR, intervals=True)
    assert found.values == pytest.approx(
        {
            "micro_f1": peer.f1_score(gold, said, average="micro", zero_division=0),
            "macro_f1": peer.f1_score(gold, said, average="macro", zero_division=0),
            "exact_match": peer.accuracy_score(gold, said),
        }
    )
    assert (found.primary, found.count) == ("micro_f1", len(gold))
    columns = peer.precision_recall_fscore_support(gold, said, zero_division=0)
    for place, row in enumerate(per_label(gold, said, FOUR)):
        assert (row.precision, row.recall, row.f1, row.support) == pytest.approx(
            tuple(column[place] for column in columns)
        )
    for name, (low, high) in found.intervals.items():
        assert low - 1e-9 <= found.values[name] <= high + 1e-9


def test_intervals_of_several_labels_equal_those_of_computing_each_draw_anew(slow_interval):
    gold, said = SEVERAL["random, 0"]
    found = several_labels(gold, said, FOUR, intervals=True)
    for name in found.values:
        slow = slow_interval(
            lambda drawn, name=name: several_labels(gold[drawn], said[drawn], FOUR).values[name],
            len(gold),
        )
        assert found.intervals[name] == pytest.approx(slow)


def test_a_rare_label_does_not_pull_the_interval_down():
    gold = np.zeros((50, 2), bool)
    gold[:, 0], gold[7, 1] = True, True
    found = several_labels(gold, gold, TWO, intervals=True)
    # The second label is missing from a third of the draws, where a plain mean would be 0.5.
    assert found.intervals["macro_f1"] == (1, 1)


def test_labels_that_occur_nowhere_are_noted():
    gold, said = SEVERAL["in neither"]
    assert several_labels(gold, said, FOUR).notes == (
        "neither right nor predicted anywhere, so it counts as 0 in macro F1: c.",
    )


@pytest.mark.parametrize(
    ("gold", "said", "sentence"),
    [
        (
            [0, 1],
            [0, 4],
            "predicted, item 2, is 4; there are 4 labels, and their numbers begin with 0; give the "
            "number of a label.",
        ),
        (
            [-1, 1],
            [0, 1],
            "gold, item 1, is -1; there are 4 labels, and their numbers begin with 0; give the "
            "number of a label.",
        ),
        ([], [], "there are no items to measure; give at least one."),
    ],
)
def test_what_does_not_fit_is_refused(gold, said, sentence):
    with pytest.raises(InputError) as error:
        one_label(gold, said, FOUR)
    assert str(error.value) == sentence


def test_several_labels_need_the_right_shape():
    with pytest.raises(InputError) as error:
        several_labels(np.ones((2, 4), bool), np.ones((2, 3), bool), FOUR)
    assert str(error.value) == (
        "predicted has the shape (2, 3); for 2 items and 4 labels it must be (2, 4); say of each "
        "item whether each label holds."
    )
