"""What is remembered is found again, also after other things were forgotten."""

import numpy as np

from clozeworks.text.fast import word_memory
from clozeworks.text.fast.word_memory import WordMemory


def pairs(count: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(seed).integers(0, 2**62, (count, 2), dtype=np.uint64)
    return numbers[:, 0], numbers[:, 1]


def test_many_pairs_are_found_and_others_are_not():
    memory = WordMemory()
    first, second = pairs(100_000)
    for begin in range(0, 100_000, 7_000):  # the table grows on the way
        part = slice(begin, begin + 7_000)
        memory.learn_pairs(first[part], second[part], [[n] for n in range(begin, 100_000)][:7_000])
    ids, sizes = memory.ids_of(memory.codes_of_pairs(first[::-1], second[::-1]))
    assert (ids == np.arange(100_000)[::-1]).all() and (sizes == 1).all()
    assert (memory.codes_of_pairs(first, second + np.uint64(1)) == -1).all()
    assert (memory.codes_of_pairs(first + np.uint64(1), second) == -1).all()


def test_pairs_that_fall_on_one_another_are_kept_apart(monkeypatch):
    monkeypatch.setattr(
        word_memory._Table, "_slots", lambda table, first, second: np.zeros(len(first), np.int64)
    )
    memory = WordMemory()
    first, second = pairs(50)
    memory.learn_pairs(first[:20], second[:20], [[n, n] for n in range(20)])
    memory.learn_pairs(first[20:], second[20:], [[n, n] for n in range(20, 50)])
    ids, _ = memory.ids_of(memory.codes_of_pairs(first, second))
    assert ids.tolist() == [n for n in range(50) for _ in range(2)]


def test_the_frequent_half_survives_under_its_own_ids(monkeypatch):
    monkeypatch.setattr(word_memory, "MOST_WORDS", 40)
    memory = WordMemory()
    first, second = pairs(30)
    memory.learn_pairs(first, second, [[n] * (n % 3) for n in range(30)])
    words = [f"word{n}" for n in range(12)]
    memory.learn(words, [[100 + n] for n in range(12)])
    memory.ids_of(memory.codes_of_pairs(first[5:10], second[5:10]))
    memory.ids_of(memory.codes_of(words[3:5]))
    memory.forget()
    assert len(memory) == 20
    assert memory.ids_of(memory.codes_of(words[3:5]))[0].tolist() == [103, 104]
    ids, sizes = memory.ids_of(memory.codes_of_pairs(first[5:10], second[5:10]))
    assert ids.tolist() == [5, 5, 7, 8, 8] and sizes.tolist() == [2, 0, 1, 2, 0]
    assert (memory.codes_of(words) == -1).sum() + (
        memory.codes_of_pairs(first, second) == -1
    ).sum() == 22
