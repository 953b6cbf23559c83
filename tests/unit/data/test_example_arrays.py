"""Special tokens are put around texts as the template says."""

import numpy as np
import pytest

from clozeworks.data.examples.example_arrays import ExampleArrays, assemble
from clozeworks.text.tokenizer.templates import Template

BERT = Template(((2,), (3,), (3,)), ((0,), (0,), (1,)), (0, 1))
ROBERTA = Template(((0,), (2, 2), (2,)), ((0,), (0, 0), (0,)), (0, 0))
SINGLE = Template(((2,), (3,)), ((0,), (0,)), (0,))
BARE = Template(((), ()), ((), ()), (0,))
XLNET = Template(((), (4,), (4, 3)), ((), (0,), (1, 2)), (0, 1))

NUMBERS = {"epochs": np.array([0, 0]), "indices": np.array([4, 9])}


@pytest.fixture(scope="module")
def split(in_memory):
    return in_memory([[[10, 11, 12, 13, 14], [15, 16, 17]]], 100, np.arange(100) % 2 == 0)


def by_hand(template, texts):
    """One token at a time: ids, types, special, lengths."""
    ids, types, special, lengths = [], [], [], []
    for example in texts:
        before = len(ids)
        for number in range(len(template.special)):
            for token, kind in zip(
                template.special[number], template.special_types[number], strict=True
            ):
                ids.append(token)
                types.append(kind)
                special.append(True)
            if number < len(example):
                ids += example[number]
                types += [template.text_types[number]] * len(example[number])
                special += [False] * len(example[number])
        lengths.append(len(ids) - before)
    return ids, types, special, lengths


@pytest.mark.parametrize("template", [BERT, ROBERTA, XLNET])
def test_two_texts(template, split):
    begins, ends = np.array([[0, 5], [6, 2]]), np.array([[2, 8], [7, 6]])
    arranged = assemble(split, template, begins, ends, labels=np.array([0, 1]), **NUMBERS)
    texts = [[[10, 11], [15, 16, 17]], [[16], [12, 13, 14, 15]]]
    check(arranged, by_hand(template, texts))
    starts = {10, 12, 14, 15, 16}
    expected = [
        token in starts and not special
        for token, special in zip(arranged.ids, arranged.special, strict=True)
    ]
    assert arranged.word_starts.tolist() == expected
    assert arranged.labels.tolist() == [0, 1] and arranged.indices.tolist() == [4, 9]


@pytest.mark.parametrize("template", [SINGLE, BARE])
def test_one_text(template, split):
    begins, ends = np.array([[0], [3]]), np.array([[1], [8]])
    arranged = assemble(split, template, begins, ends, **NUMBERS)
    check(arranged, by_hand(template, [[[10]], [[13, 14, 15, 16, 17]]]))
    assert arranged.labels is None and arranged.views == 1


def check(arranged, expected):
    ids, types, special, lengths = expected
    assert arranged.ids.tolist() == ids
    assert arranged.types.tolist() == types
    assert arranged.special.tolist() == special
    assert arranged.lengths.tolist() == lengths
    assert arranged.starts.tolist() == np.cumsum([0, *lengths])[:-1].tolist()
    for name in ("ids", "types", "lengths", "starts"):
        assert getattr(arranged, name).dtype == np.int64


@pytest.mark.parametrize("template", [BERT, SINGLE, BARE])
def test_no_examples(template, split):
    nothing = np.zeros((0, len(template.text_types)), dtype=np.int64)
    numbers = {"epochs": np.zeros(0, np.int64), "indices": np.zeros(0, np.int64)}
    arranged = assemble(split, template, nothing, nothing, **numbers)
    check(arranged, ([], [], [], []))
    assert arranged.real.shape == (0, 0)


def test_an_empty_text(split):
    arranged = assemble(split, BERT, np.array([[0, 5]]), np.array([[0, 6]]), **NUMBERS)
    check(arranged, by_hand(BERT, [[[], [15]]]))


def test_views_are_noted(split):
    bounds = np.array([[0], [1]]), np.array([[1], [2]])
    assert assemble(split, SINGLE, *bounds, views=2, **NUMBERS).views == 2


def test_batches_join_in_order(split):
    bounds = np.array([[0, 5], [6, 2]]), np.array([[2, 8], [7, 6]])
    whole = assemble(split, BERT, *bounds, labels=np.array([0, 1]), **NUMBERS)
    halves = [
        assemble(
            split,
            BERT,
            *(bound[[row]] for bound in bounds),
            labels=np.array([row]),
            epochs=np.array([0]),
            indices=NUMBERS["indices"][[row]],
        )
        for row in range(2)
    ]
    joined = ExampleArrays.join(halves)
    for name in ("ids", "types", "special", "word_starts", "lengths", "indices", "labels"):
        assert np.array_equal(getattr(joined, name), getattr(whole, name))
    assert ExampleArrays.join([whole]) is whole


def test_rows_are_filled_behind_the_end(split):
    arranged = assemble(split, BARE, np.array([[0], [5]]), np.array([[4], [6]]), **NUMBERS)
    assert arranged.rows(arranged.ids, -1).tolist() == [[10, 11, 12, 13], [15, -1, -1, -1]]
    assert arranged.real.tolist() == [[True] * 4, [True, False, False, False]]


class TestCut:
    @staticmethod
    def batch(lengths, views=1):
        total, count = sum(lengths), len(lengths)
        return ExampleArrays(
            ids=np.arange(total),
            types=np.arange(total) % 2,
            special=np.arange(total) % 3 == 0,
            word_starts=np.arange(total) % 5 == 0,
            lengths=np.array(lengths),
            epochs=np.arange(count),
            indices=np.arange(count) + 7,
            labels=np.arange(count) % 2,
            views=views,
        )

    @pytest.mark.parametrize("pieces", [1, 2, 3, 7, 50])
    @pytest.mark.parametrize("views", [1, 2])
    def test_pieces_joined_are_the_whole(self, pieces, views):
        whole = self.batch([5, 1, 9, 3, 128, 2, 7, 7], views)
        parts = whole.cut(pieces)
        joined = ExampleArrays.join(parts)
        for name in ("ids", "types", "special", "word_starts", "lengths", "epochs", "labels"):
            assert (getattr(joined, name) == getattr(whole, name)).all()
        assert 1 <= len(parts) <= min(pieces, 8 // views)
        assert all(len(part) % views == 0 and len(part) for part in parts)

    def test_equal_examples_make_equal_pieces(self):
        assert [len(part) for part in self.batch([128] * 32).cut(4)] == [8] * 4
        assert [len(part) for part in self.batch([10] * 7).cut(2)] in ([4, 3], [3, 4])
