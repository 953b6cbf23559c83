"""Probes: what is separable is separated, dev only measures, and a folder answers as measured."""

import random
from itertools import pairwise

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.data.labelled.reading import Reading, read_items
from clozeworks.errors import ClozeworksError
from clozeworks.inference.cloze import GapItem
from clozeworks.inference.features import features
from clozeworks.jobs.probe.job import probe
from clozeworks.jobs.probe.model import check_written, with_probe
from clozeworks.tasks.task import read_labelled
from clozeworks.text.training.train import train_from_iterator

WORDS = ["the", "sat", "on", "mat", "rug", "garden", "house", "city", "old", "new"]
ANIMALS = ["cat", "dog", "cow"]
SMALL = {"hidden_size": 16, "num_hidden_layers": 4, "num_attention_heads": 2}
SMALL |= {"intermediate_size": 32, "max_position_embeddings": 40}


@pytest.fixture(scope="module")
def model():
    tokenizer = train_from_iterator([" ".join(WORDS + ANIMALS)] * 5, kind="wordpiece", size=90)
    return cw.new("bert-tiny", tokenizer, **SMALL, initializer_range=0.2)


@pytest.fixture
def rows(tmp_path):
    """Writes texts in which one animal occurs, with what the label is made of."""

    def write(name, label, count=40, seed=0, length=3, pairs=False, animals=2):
        rng = random.Random(seed)
        lines = ["first\tsecond\tlabel" if pairs else "text\tlabel"]
        for number in range(count):
            animal = ANIMALS[number % animals]
            words = [*rng.choices(WORDS, k=length), animal, animal]
            rng.shuffle(words)
            second = f"\tthe {animal}" if pairs else ""
            lines.append(f"{' '.join(words)}{second}\t{label(animal, words)}")
        path = tmp_path / name
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return write


def named(animal, words):
    return animal


def labelled(path, task="classify", **options):
    return read_labelled(path, task, Reading(**options))


def wrong(sentence, *arguments, **options):
    with pytest.raises(ClozeworksError) as caught:
        probe(*arguments, **options)
    assert str(caught.value) == sentence


def test_what_is_separable_by_construction_is_separated(model, rows):
    train = labelled(rows("a.tsv", named, animals=3, count=60))
    dev = labelled(rows("b.tsv", named, animals=3, count=30, seed=1))
    found = probe(model, train, dev)
    assert [row.layers for row in found.rows] == [
        "last",
        "sum_last_four",
        "concatenate_last_four",
        "mix",
    ]
    for row in found.rows:
        assert (row.measured.primary, row.measured.value) == ("accuracy", 1.0)
        assert row.measured.intervals["accuracy"] == (1.0, 1.0)
    assert found.baseline.measured.value == pytest.approx(1 / 3)
    assert (found.train, found.dev, found.long, found.notes) == (60, 30, 0, ())
    assert len(found.rows[3].layer_weights) == 5
    assert found.best is found.rows[0]


def test_the_same_seed_finds_the_same_and_another_draws_others(model, rows):
    noise = random.Random(5)
    train = labelled(rows("a.tsv", lambda animal, words: noise.choice("xy"), count=50))
    settings = {"layers": ["last", "mix"], "limit": 30}
    first, again = (probe(model, train, **settings, seed=3) for _ in range(2))
    other = probe(model, train, **settings, seed=4)
    for one, two in zip(first.rows, again.rows, strict=True):
        assert one.measured == two.measured and one.strength == two.strength
        np.testing.assert_array_equal(one.linear.weight, two.linear.weight)
    assert np.abs(first.rows[0].linear.weight - other.rows[0].linear.weight).max() > 1e-6
    assert first.notes == (
        f"No development file was given; held out of {train.files[0]} (seed 3): 10 of 50 items.",
        "Drawn with seed 3: 30 of 40 train items.",
    )


def test_the_number_of_threads_is_as_it_was(model, rows):
    threads = torch.get_num_threads()
    probe(model, labelled(rows("a.tsv", named)), layers=["mix"])
    assert torch.get_num_threads() == threads


def test_development_items_only_measure(model, rows):
    train = labelled(rows("a.tsv", named))
    right = labelled(rows("b.tsv", named, count=20))
    swap = {"cat": "dog", "dog": "cat"}
    swapped = labelled(rows("c.tsv", lambda animal, words: swap[animal], count=20))
    good = probe(model, train, right)
    bad = probe(model, train, swapped)
    for one, two in zip(good.rows, bad.rows, strict=True):
        assert (one.measured.value, two.measured.value) == (1.0, 0.0)
        assert one.strength == two.strength
        np.testing.assert_array_equal(one.linear.weight, two.linear.weight)


@pytest.mark.parametrize("pooling", ["first", "mean", "max"])
def test_a_folder_answers_as_the_regression_does(model, rows, tmp_path, pooling):
    train = labelled(rows("a.tsv", named, animals=3))
    found = probe(model, train, layers=["0", "last"], pooling=pooling)
    with_probe(model, found).save(tmp_path / "made")
    made = cw.load(tmp_path / "made")
    texts = [item.text for item in train.items]
    windows = found.task.windows_of(train.items, model.tokenizer, model.max_length)
    vectors = features(model.model, windows, ["last"], pooling=pooling)["last"]
    scores = found.rows[1].linear.logits(vectors).astype(np.float64)
    shares = np.exp(scores) / np.exp(scores).sum(axis=1, keepdims=True)
    said = [[answer.scores[label] for label in made.task.labels] for answer in made.classify(texts)]
    assert made.task.labels == ("cat", "cow", "dog") and made.task.pooling == pooling
    np.testing.assert_allclose(said, shares, atol=1e-5)
    assert np.ptp(shares[:, 0]) > 0.01  # else equal answers would say little


def test_numbers_by_ridge_and_their_folder(model, rows):
    train = labelled(rows("a.tsv", lambda animal, words: len(animal) + words.count("old") + 0.5))
    found = probe(model, labelled(train.files[0], labels="numbers"), layers=["last"])
    assert found.task.labels == ("label",) and found.rows[0].measured.primary == "spearman"
    assert found.baseline.layers == "mean"
    mean = np.mean([float(item.label) for item in train.items])
    assert found.baseline.linear.bias[0] == pytest.approx(mean, abs=0.2)
    made = with_probe(model, found)
    windows = found.task.windows_of(train.items, model.tokenizer, model.max_length)
    vectors = features(model.model, windows, ["last"], pooling="mean")["last"]
    said = [answer.label for answer in made.predict(train.items)]
    np.testing.assert_allclose(said, found.rows[0].linear.logits(vectors)[:, 0], atol=1e-5)
    assert np.ptp(said) > 0.1


def test_several_labels(model, rows):
    path = rows("a.tsv", lambda animal, words: f"{animal}|{words[0]}", count=60)
    found = probe(model, labelled(path, label_separator="|"), layers=["last"])
    assert found.task.problem == "several" and found.rows[0].measured.primary == "micro_f1"
    assert found.rows[0].measured.better_than(found.baseline.measured)


def test_pairs(model, rows):
    train = labelled(rows("a.tsv", named, pairs=True), "compare")
    found = probe(model, train, layers=["last"], pooling="first")
    assert found.rows[0].measured.value == 1.0
    assert with_probe(model, found).compare(("the old mat", "the dog")).label == "dog"


@pytest.fixture
def sentences(tmp_path):
    """Sentences in which animals are entities."""

    def write(name, count=40, seed=0, length=6):
        rng = random.Random(seed)
        lines = []
        for _ in range(count):
            for _ in range(rng.randint(2, length)):
                if rng.random() < 0.3:
                    lines += ["old B-X", f"{rng.choice(ANIMALS)} I-X"]
                lines.append(f"{rng.choice(WORDS[:6])} O")
            lines.append("")
        path = tmp_path / name
        path.write_text("\n".join(lines), encoding="utf-8")
        return path

    return write


def test_tags_are_always_valid_and_a_folder_gives_the_same(model, sentences):
    train = labelled(sentences("a.bio"), "tag")
    dev = labelled(sentences("b.bio", seed=1, length=60, count=6), "tag")
    found = probe(model, train, dev, layers=["last", "1", "mix"])
    assert found.long > 2 and found.baseline.measured.value == 0.0
    assert found.rows[0].measured.primary == "f1" and found.best.measured.value > 0.3
    made = with_probe(model, found)
    answers = made.predict(dev.items)
    tags = [tag for answer in answers for tag in ("O", *answer.tags)]
    assert ("O", "I-X") not in set(pairwise(tags))
    windows = found.task.windows_of(dev.items, model.tokenizer, model.max_length)
    vectors = features(model.model, windows, ["last"], pooling=None)["last"]
    freely = found.rows[0].linear.logits(vectors).argmax(axis=1)
    assert ("O", "I-X") in set(pairwise(found.task.labels[number] for number in freely))
    # Words are decoded window by window in both, so also long texts agree.
    measured = made.task.measure(dev.items, answers, intervals=True)
    assert measured == found.rows[0].measured


def test_long_texts_are_pooled_over_windows(model, rows):
    train = labelled(rows("a.tsv", named, length=45, count=12))
    found = probe(model, train, layers=["last"])
    assert found.long == 12 and found.rows[0].linear.weight.shape == (2, 16)


def test_labels_that_cannot_be_learned(model, rows, tmp_path):
    one = rows("one.tsv", lambda animal, words: "same")
    wrong(
        f"{one}: the only label is 'same'; there must be at least two to learn from; add rows with "
        "others.",
        model,
        labelled(one),
    )
    bare = tmp_path / "bare.tsv"
    bare.write_text("text\tlabel\n" + "the cat\t\n" * 4, encoding="utf-8")
    with pytest.raises(ClozeworksError, match=r"bare\.tsv has no labels, and training needs them"):
        probe(model, labelled(bare))
    rare = rows("rare.tsv", lambda animal, words: animal, count=2)
    rare.write_text(rare.read_text() + "\nthe old mat\tcat" * 60, encoding="utf-8")
    wrong(
        "all 3 training items have the same label; there must be at least two labels; add rows "
        "with others, "
        "or raise the limit.",
        model,
        labelled(rare),
        labelled(rows("dev.tsv", named)),
        limit=3,
    )
    few = labelled(rows("few.tsv", named, count=2))
    wrong(
        "2 items are too few to train on; there must be two with the same label; add rows.",
        model,
        few,
        few,
    )


def test_settings_that_do_not_fit(model, rows, sentences):
    train = labelled(rows("a.tsv", named))
    tagged = labelled(sentences("a.bio"), "tag")
    wrong("limit is 1; it must be at least 2.", model, train, limit=1)
    wrong("pooling is 'mean'; words are not pooled; leave it out.", model, tagged, pooling="mean")
    wrong("pooling is 'mode'; known: first, max, mean.", model, train, pooling="mode")
    wrong(
        "task is 'fill'; only classify, compare, tag can be probed.",
        model,
        read_items(train.files[0], GapItem),
    )
    with pytest.raises(ClozeworksError) as caught:
        check_written(["0", "mix"])
    assert str(caught.value) == (
        "layers is 0,mix; the head of a model reads the last layer; add last."
    )
    check_written(None)
