"""Index files: the same examples with them and without, damaged or not, writable or not."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from safetensors.numpy import load, save

from clozeworks.data.examples.index import HELD, narrow
from clozeworks.data.examples.pairs import NextSentencePairs, SentenceOrderPairs
from clozeworks.data.examples.single_sequences import SingleSequences
from clozeworks.data.examples.whole_sentences import DocSentences, FullSentences
from clozeworks.storage.flat_arrays import read_arrays

SPECS = [
    NextSentencePairs(length=32),
    SentenceOrderPairs(length=32),
    SingleSequences(length=32),
    FullSentences(length=32),
    DocSentences(length=32, separators="documents"),
]


@pytest.fixture(scope="module")
def split(drawn):
    return drawn(60, (1, 30), (1, 50))


def ids(examples, epoch=0):
    return examples.take(epoch, np.arange(examples.size(epoch))).ids


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: type(spec).__name__)
def test_a_file_is_written_once_and_used(spec, split, bert, tmp_path, monkeypatch):
    cache = tmp_path / "deep" / "cache"
    expected = ids(spec.arrange(split, bert, seed=3))
    assert np.array_equal(ids(spec.arrange(split, bert, seed=3, cache=cache)), expected)
    (path,) = cache.iterdir()
    kind, digest = path.stem.split("-")
    assert path.suffix == ".safetensors" and len(digest) == 32
    assert kind == path.name.split("-")[0] and kind.islower()
    data = path.read_bytes()
    assert "__metadata__" not in data[:2000].decode("latin-1")

    # A second one reads the file: neither sentences nor random numbers are looked at.
    for module in ("pair_loop", "single_sequences", "whole_sentences"):
        monkeypatch.setattr(f"clozeworks.data.examples.{module}.chain", None)
    again = spec.arrange(split, bert, seed=3, cache=cache)
    assert np.array_equal(ids(again), expected)
    assert path.read_bytes() == data
    monkeypatch.undo()
    path.unlink()
    spec.arrange(split, bert, seed=3, cache=cache).size(0)
    assert path.read_bytes() == data, "the same bytes every time"


def test_files_are_per_copy_and_made_when_asked_for(split, bert, tmp_path):
    examples = NextSentencePairs(length=32, copies=3).arrange(split, bert, 0, tmp_path)
    assert not list(tmp_path.iterdir())
    examples.size(1)
    examples.take(4, np.array([0]))
    assert len(list(tmp_path.iterdir())) == 1
    examples.size(2)
    assert examples.mean_length > 0
    assert len(list(tmp_path.iterdir())) == 3


def test_everything_that_matters_is_in_the_name(split, numbered, bert, roberta, tmp_path):
    variants = [
        (NextSentencePairs(length=32), split, bert, 0),
        (NextSentencePairs(length=32), split, bert, 1),
        (NextSentencePairs(length=33), split, bert, 0),
        (NextSentencePairs(length=32, short=0.2), split, bert, 0),
        (SentenceOrderPairs(length=32), split, bert, 0),
        (SentenceOrderPairs(length=32, pure=True), split, bert, 0),
        (NextSentencePairs(length=32), numbered([[5, 5]]), bert, 0),
        (NextSentencePairs(length=32), numbered([[5], [5]]), bert, 0),
        (NextSentencePairs(length=32), split, roberta, 0),  # four special tokens leave less room
    ]
    for count, (spec, part, tokenizer, seed) in enumerate(variants, 1):
        spec.arrange(part, tokenizer, seed, tmp_path).size(0)
        assert len(list(tmp_path.iterdir())) == count
    # Nothing is random about these, so a seed does not make another file.
    for seed in (0, 1):
        SingleSequences(length=32).arrange(split, bert, seed, tmp_path).size(0)
    assert len(list(tmp_path.iterdir())) == len(variants) + 1


def flip(data, place):
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


DAMAGES = {
    "empty": lambda data: b"",
    "short": lambda data: data[:-100],
    "header only": lambda data: data[:300],
    "a bit of an entry": lambda data: flip(data, len(data) - 200),
    "the last bit": lambda data: flip(data, len(data) - 1),
    "header length": lambda data: b"\xff" * 8 + data[8:],
    "header": lambda data: data[:8] + b"[" + data[9:],
    "no JSON": lambda data: data[:8] + b"\x00" * 40 + data[48:],
    "other arrays": lambda data: save({"x": np.arange(4, dtype=np.uint8)}),
    "a list": lambda data: (2).to_bytes(8, "little") + b"[]",
    "strange type": lambda data: data.replace(b'"U16"', b'"F16"').replace(b'"U8"', b'"I8"'),
    "two dimensions": lambda data: save({"check": np.zeros((2, 2), dtype=np.uint8)}),
    "uneven": lambda data: save(
        {
            name: array if name in ("check", "label") else array[:-1]
            for name, array in load(data).items()
        }
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_built_again(damage, split, bert, tmp_path):
    spec = NextSentencePairs(length=32)
    expected = ids(spec.arrange(split, bert, 0, tmp_path))
    (path,) = tmp_path.iterdir()
    data = path.read_bytes()
    damaged = DAMAGES[damage](data)
    assert damaged != data
    path.write_bytes(damaged)
    assert np.array_equal(ids(spec.arrange(split, bert, 0, tmp_path)), expected)
    assert path.read_bytes() == data


def test_a_folder_that_cannot_be_written_is_no_error(split, bert, tmp_path):
    spec = NextSentencePairs(length=32)
    expected = ids(spec.arrange(split, bert, 0))
    (tmp_path / "file").write_text("here is no folder")
    for cache in (tmp_path / "file", tmp_path / "file" / "below"):
        examples = spec.arrange(split, bert, 0, cache)
        assert np.array_equal(ids(examples), expected)
        assert np.array_equal(ids(examples, epoch=10), expected)
    blocked = tmp_path / "blocked"
    path = spec.arrange(split, bert, 0, blocked)._index.path(0)
    path.mkdir(parents=True)  # a folder stands where the file should be
    assert np.array_equal(ids(spec.arrange(split, bert, 0, blocked)), expected)


def test_few_copies_are_held_in_memory_and_all_sizes_are_known(split, bert):
    examples = NextSentencePairs(length=32).arrange(split, bert, 0)
    sizes = [examples.size(copy) for copy in range(10)]
    assert len(set(sizes)) > 1
    assert len(examples._index._held) == HELD
    first = ids(examples, 0)
    assert [examples.size(copy) for copy in range(10)] == sizes
    assert len(examples._index._held) == HELD
    assert np.array_equal(first, ids(examples, 0))


def test_many_threads_build_each_copy_once(split, bert):
    examples = NextSentencePairs(length=32, copies=2).arrange(split, bert, 0)
    expected = [
        ids(NextSentencePairs(length=32, copies=2).arrange(split, bert, 0), e) for e in (0, 1)
    ]
    build, built = examples._index._build, []
    examples._index._build = lambda copy: built.append(copy) or build(copy)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda epoch: ids(examples, epoch), [0, 1] * 20))
    assert all(np.array_equal(one, expected[i % 2]) for i, one in enumerate(found))
    assert sorted(built) == [0, 1]


def test_entries_are_narrow(split, bert, tmp_path):
    NextSentencePairs(length=32).arrange(split, bert, 0, tmp_path).size(0)
    (path,) = tmp_path.iterdir()
    arrays = read_arrays(path)
    assert arrays.pop("check").nbytes == 16
    assert {name: array.dtype for name, array in arrays.items()} == {
        "first": np.uint16,
        "first_size": np.uint8,
        "second": np.uint16,
        "second_size": np.uint8,
        "label": np.uint8,
    }


@pytest.mark.parametrize(
    ("largest", "dtype"),
    [(0, np.uint8), (255, np.uint8), (256, np.uint16), (2**32 - 1, np.uint32), (2**32, np.uint64)],
)
def test_narrow_keeps_every_number(largest, dtype, tmp_path):
    values = np.array([0, largest])
    narrowed = narrow(values)
    assert narrowed.dtype == dtype and narrowed.tolist() == values.tolist()
    path = tmp_path / "x.safetensors"
    path.write_bytes(save({"x": narrowed}))
    assert read_arrays(path)["x"].tolist() == values.tolist()
    assert narrow(np.zeros(0, np.int64)).dtype == np.uint8
