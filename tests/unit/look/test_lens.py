"""Lenses: the last layer is the model itself, and a tuned lens learns."""

import json

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.errors import CheckpointError, InputError, UnsupportedError
from clozeworks.look.tuned_lens import TunedLens

TEXT, GAP = "The cat sat on the mat.", "The cat sat on the [MASK]."
KINDS = ("bert", "roberta", "albert", "deberta", "modernbert", "xlnet", "gpt2")


@pytest.mark.parametrize("kind", [each for each in KINDS if each != "gpt2"])
def test_the_last_layer_fills_the_gap_to_the_bit(inside, kind):
    model = inside(kind)
    filled = model.fill(GAP, top=9).gaps[0]
    said = model.look.lens(GAP, top=400).places[0].readings[-1]
    assert said.divergence == 0
    exact = {(word, value) for word, value in said.words}
    assert {(each.word or each.token, each.score) for each in filled} <= exact


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_the_last_layer_is_the_models_own_logits_to_the_bit(inside, kind):
    model = inside(kind)
    options = {"target": "the dog lay"} if kind == "t5" else {}
    view = model.look.lens(TEXT, top=1, **options)
    targets = {"targets": "the dog lay"} if kind == "t5" else {}
    logits = torch.from_numpy(model.logits(TEXT, head="vocabulary", **targets).logits)
    exact = logits.softmax(dim=-1)
    assert len(view.places) == len(exact)
    for place, row in zip(view.places, exact, strict=True):
        assert place.readings[-1].words[0][1] == row.max().item()


def test_ranks_and_probabilities_are_those_of_the_right_word(inside):
    model = inside("bert")
    view = model.look.lens(GAP, right=["cat"], top=500)
    for reading in view.places[0].readings:
        words = [word for word, _ in reading.words]
        assert reading.rank == words.index("cat") + 1
        assert reading.probability == dict(reading.words)["cat"]
        own = np.array([p for _, p in reading.words])
        assert reading.entropy == pytest.approx(-(own * np.log(own)).sum(), rel=1e-2)
    assert len(view.places[0].readings) == 4


def test_without_gaps_tokens_name_themselves_and_decoders_what_follows(inside):
    places = inside("bert").look.lens(TEXT).places
    assert places[1].right == "the" == places[1].piece.text.lower()
    written = inside("gpt2").look.lens("The cat").places
    pieces = inside("gpt2").look.tokens("The cat").pieces
    assert [place.right for place in written[:-1]] == [piece.text.strip() for piece in pieces[1:]]
    assert written[-1].right is None


def test_a_lens_of_zeros_is_the_logit_lens_and_training_brings_it_closer(inside, tmp_path):
    model = inside("bert")
    plain = model.look.lens(TEXT)
    assert model.look.lens(TEXT, tuned=TunedLens.untrained(model.model)).places == plain.places
    texts = [TEXT, "The dog lay on the rug.", "The capital of France is Paris."]
    lens = model.look.train_lens(texts, steps=60, learning_rate=0.01)
    held_out = "The cat and the dog lay [MASK] the mat, and [MASK] sat."
    before = model.look.lens(held_out).divergences()
    after = model.look.lens(held_out, tuned=lens).divergences()
    assert all(a < b for a, b in zip(after[:-1], before[:-1], strict=True))
    assert after[-1] == 0
    again = TunedLens.load(lens.save(tmp_path / "lens.safetensors"), model.model)
    assert torch.equal(again.weight, lens.weight)
    assert torch.equal(again.bias, lens.bias)
    with pytest.raises(CheckpointError, match="not a tuned lens of this model"):
        TunedLens.load(tmp_path / "lens.safetensors", inside("modernbert").model)
    (tmp_path / "broken").write_bytes(b"nothing")
    with pytest.raises(CheckpointError, match="cannot be read as a tuned lens"):
        TunedLens.load(tmp_path / "broken", model.model)


@pytest.mark.parametrize("kind", ["gpt2", "t5", "xlnet", "deberta"])
def test_every_kind_can_be_tuned(inside, kind):
    model = inside(kind)
    targets = {"targets": ["the dog"]} if kind == "t5" else {}
    lens = model.look.train_lens([TEXT], steps=3, **targets)
    assert lens.weight.abs().sum() > 0


def test_a_record_of_a_lens(inside):
    record = inside("bert").look.lens(GAP, right=["cat"]).to_dict()
    assert json.loads(json.dumps(record)) == record
    assert record["notes"][0].startswith("The head was trained on the last layer alone")
    assert "mask decoder" in " ".join(inside("deberta").look.lens(GAP).notes())


def test_refusals(inside):
    with pytest.raises(UnsupportedError, match="no vocabulary head, so no layer can say a word"):
        headless = cw.new("bert-tiny", inside("bert").tokenizer, heads=())
        headless.look.lens(TEXT)
    with pytest.raises(InputError, match="give what it writes as target"):
        inside("t5").look.lens(TEXT)
    with pytest.raises(InputError, match="writes none for it; leave out target"):
        inside("bert").look.lens(TEXT, target="a")
    with pytest.raises(InputError, match="the stream that answers sees no word"):
        inside("xlnet").look.lens(TEXT)
    with pytest.raises(InputError, match="1 gaps that are asked about; give a list of as many"):
        inside("bert").look.lens(GAP, right=["cat", "dog"])
    with pytest.raises(InputError, match="not one token of this model"):
        inside("bert").look.lens(GAP, right=["catcatcat"])
    with pytest.raises(InputError, match="leave out right"):
        inside("gpt2").look.lens(TEXT, right=["a"])
    with pytest.raises(InputError, match="places are 99; the text has"):
        inside("bert").look.lens(TEXT, places=[99])
