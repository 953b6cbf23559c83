"""Words in contexts: places, vectors, the baseline, clusters, senses."""

import json

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.errors import InputError, SettingError
from clozeworks.look.contexts import WordSpan, find_word, span_vectors
from clozeworks.look.senses import centroids, known_senses, measured_senses, nearest_senses
from clozeworks.text.training.train import train_from_iterator

MONEY = "money loan credit cash account teller deposit interest"
RIVER = "river water mud fish reeds boat flood stream"
OTHER = "the a of is was in on by with near"


@pytest.fixture(scope="module")
def toy():
    """Texts of two kinds with one word in common, and a model that never saw either."""
    generator = np.random.default_rng(1)
    texts, labels = [], []
    for number in range(24):
        words = list(generator.choice((MONEY if number % 2 else RIVER).split(), 7, replace=False))
        words.insert(int(generator.integers(1, 7)), "bank")
        texts.append(" ".join(words))
        labels.append("money" if number % 2 else "river")
    tokenizer = train_from_iterator([f"{MONEY} {RIVER} {OTHER} bank"] * 9, kind="bpe", size=500)
    model = cw.new(
        "modernbert-base", tokenizer, hidden_size=64, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64,
    )  # fmt: skip
    scale = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.model.encoder.parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape, generator=scale) * 0.08)
    return model, texts, labels


def test_two_senses_separate(toy):
    model, texts, labels = toy
    view = model.look.contexts("bank", texts, labels=labels, layer=2)
    assert len(view.occurrences) == 24
    pairs = {(each.label, each.cluster) for each in view.occurrences}
    assert len(pairs) == view.clusters > 1  # no cluster has both senses
    assert view.senses.right == view.senses.macro == 1
    assert view.senses.most_frequent == 0.5
    same = [view.occurrences[each.nearest[0][0]].label == each.label for each in view.occurrences]
    assert all(same)
    wrong = model.look.contexts("bank", texts, labels=sorted(labels), layer=2)
    assert wrong.senses.right < 0.8  # labels that have nothing to do with the texts


def test_without_positions_the_embeddings_know_no_context(toy):
    model, texts, _ = toy
    layers = model.look.contexts("bank", texts).layers
    assert layers[0].self_similarity == pytest.approx(1, abs=1e-6)
    assert layers[1].self_similarity < 0.999
    assert len(layers) == 3
    assert layers[1].adjusted == layers[1].self_similarity - layers[1].baseline


def test_vectors_are_means_of_pieces_and_windows_do_not_matter(inside):
    model = inside("bert")
    text = "The cat sat on the mat. " * 8 + "The Seine and the dog."
    spans = find_word("seine", [text])
    assert [text[each.begin : each.end] for each in spans] == ["Seine"]
    vectors, there = span_vectors(
        model.model, model.tokenizer, [text], spans, ["2"], max_length=None
    )
    assert there == [0]
    whole = model.hidden_states(text, layer=2)
    own = [n for n, (a, b) in enumerate(whole.offsets) if a < spans[0].end and b > spans[0].begin]
    np.testing.assert_allclose(vectors["2"][0], whole.vectors[own].mean(axis=0), atol=1e-5)
    windowed, _ = span_vectors(model.model, model.tokenizer, [text], spans, ["0"], max_length=24)
    assert windowed["0"].shape == (1, 32)


def test_places_of_a_word():
    texts = ["Set the set; a subset, sets!", "我爱苹果。苹果公司", "no"]
    assert find_word("set", texts) == [WordSpan(0, 0, 3), WordSpan(0, 8, 11)]
    assert find_word("set", texts, forms=["sets"])[-1] == WordSpan(0, 23, 27)
    assert find_word("苹果", texts) == [WordSpan(1, 2, 4), WordSpan(1, 5, 7)]
    assert find_word(" ", texts) == []


def test_senses_are_those_of_the_nearest_centroid():
    vectors = np.array([[1.0, 0.0], [2.0, 0.2], [0.0, 1.0], [0.1, 3.0]], np.float32)
    senses, means = centroids(vectors, ["b", "b", "a", "a"])
    assert senses == ["a", "b"]
    assert nearest_senses(vectors, senses, means) == ["b", "b", "a", "a"]
    measured = measured_senses(["a", "b", "b", "b"], ["b", "b", "b", "b"], "b")
    assert (measured.right, measured.macro, measured.most_frequent) == (0.75, 0.5, 0.75)
    assert measured.per_sense == (("a", 0.0, 1), ("b", 1.0, 3))


def test_an_occurrence_is_not_told_its_sense_by_itself():
    vectors = np.array([[1.0, 0.0], [0.0, 1.0], [0.9, 1.0], [1.0, 1.2]])
    known = known_senses(vectors, ["a", "a", "b", "b"])
    assert known.per_sense == (("a", 0.0, 2), ("b", 1.0, 2))
    assert known_senses(vectors, ["a", "a", "b", None]) is None


@pytest.mark.parametrize("correction", ["raw", "centred", "whitened"])
def test_corrections_and_the_record(toy, correction):
    model, texts, _ = toy
    view = model.look.contexts("bank", texts, correction=correction, neighbours=2)
    record = json.loads(json.dumps(view.to_dict()))
    assert record["correction"] == correction
    assert len(record["occurrences"][0]["nearest"]) == 2
    assert "The map shows two directions" in record["notes"][0]
    assert view == model.look.contexts("bank", texts, correction=correction, neighbours=2)


def test_refusals(toy):
    model, texts, labels = toy
    with pytest.raises(InputError, match=r"'money' stands in 0 places .* nothing to compare"):
        model.look.contexts("money", ["a bank", "the bank"])
    with pytest.raises(InputError, match="labels has 1 entries and texts 24"):
        model.look.contexts("bank", texts, labels=labels[:1])
    with pytest.raises(SettingError, match="correction is 'none'; it must be one of raw"):
        model.look.contexts("bank", texts, correction="none")
    with pytest.raises(SettingError, match="this model has 2 layers"):
        model.look.contexts("bank", texts, layer=7)
    notes = model.look.contexts("bank", ["a bank", "the bank"]).notes()
    assert any("give more texts" in note for note in notes)
