"""The model a run begins with: fresh or trained before, with the heads that are asked for."""

from pathlib import Path

import pytest
import torch

import clozeworks as cw
from clozeworks.core import initialize
from clozeworks.data.corpus.corpus import Corpus
from clozeworks.errors import ClozeworksError, SettingError, UnknownName
from clozeworks.families.family import published_sizes
from clozeworks.jobs.pretrain.recipe import Start
from clozeworks.jobs.pretrain.starting import starting_model, trained_network
from clozeworks.objectives.published import published

SIZES = {"hidden_size": 32, "num_attention_heads": 2, "intermediate_size": 64}


@pytest.fixture(scope="module")
def corpus(small_corpus):
    return Corpus.open(small_corpus)


@pytest.fixture
def folder(corpus, tmp_path):
    """Makes a model folder with some heads."""

    def make(heads):
        model = cw.new("bert-tiny", corpus.tokenizer, heads=heads, seed=11, **SIZES)
        return str(model.save(tmp_path / "model"))

    return make


def same(one, other, but=()):
    names = [name for name in one if not name.startswith(but or ("\0",))]
    return all(torch.equal(one[name], other[name]) for name in names)


@pytest.mark.parametrize(
    ("name", "parts"),
    [
        ("bert", {"vocabulary", "next_sentence", "pooler"}),
        ("roberta", {"vocabulary"}),
        ("spanbert", {"vocabulary"}),
    ],
)
def test_a_fresh_model_has_the_heads_its_objective_needs(corpus, name, parts):
    objective = published(name, 24)
    model = starting_model(Start(start="bert-tiny", config=SIZES), objective, corpus, 1)
    assert set(model.blueprint.parts) == parts
    assert model.model.embeddings.tokens.weight.shape == (corpus.tokenizer.size, 32)
    again = starting_model(Start(start="bert-tiny", config=SIZES), objective, corpus, 1)
    other = starting_model(Start(start="bert-tiny", config=SIZES), objective, corpus, 2)
    assert same(model.model.state_dict(), again.model.state_dict())
    assert not same(model.model.state_dict(), other.model.state_dict())


def test_a_folder_keeps_its_weights_and_gets_the_heads_it_lacks(corpus, folder):
    start = folder(["vocabulary"])
    before = cw.load(start).model.state_dict()
    model = starting_model(Start(start=start), published("bert", 24), corpus, 5)
    after = model.model.state_dict()
    assert same(before, after)
    added = {name.split(".")[0] + "." + name.split(".")[1] for name in after.keys() - before.keys()}
    assert any("next_sentence" in name for name in added) and any("pooler" in n for n in added)
    again = starting_model(Start(start=start), published("bert", 24), corpus, 5)
    assert same(after, again.model.state_dict()), "the fresh head is a function of the seed"


def test_a_folder_that_has_every_head_is_taken_as_it_is(corpus, folder):
    start = folder(["vocabulary", "next_sentence", "pooler"])
    model = starting_model(Start(start=start), published("bert", 24), corpus, 5)
    assert same(cw.load(start).model.state_dict(), model.model.state_dict())
    alone = starting_model(Start(start=start), published("roberta", 24), corpus, 5)
    assert same(model.model.state_dict(), alone.model.state_dict())


@pytest.mark.parametrize("name", ["spanbert", "simcse", "electra", "bert"])
def test_what_is_trained_is_what_is_saved(corpus, name):
    objective = published(name, 24)
    model = starting_model(Start(start="bert-tiny", config=SIZES), objective, corpus, 1)
    network = trained_network(model, objective, 1)
    kept, trained = dict(model.model.named_parameters()), dict(network.named_parameters())
    assert kept.keys() <= trained.keys()
    assert all(kept[name] is trained[name] for name in kept)
    brought = {name.split(".")[1] for name in trained.keys() - kept.keys()}
    assert bool(brought) == (name != "bert")
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.fill_(0.5)
    assert all(bool((value == 0.5).all()) for value in model.model.state_dict().values())


@pytest.mark.parametrize("name", ["spanbert", "bert"])
def test_nothing_is_drawn_that_is_known(corpus, folder, name, monkeypatch):
    objective = published(name, 24)
    start = folder(["vocabulary"])
    drawn = []
    cut_normal = initialize._cut_normal

    def noted(parameter, *more):
        drawn.append(parameter)
        cut_normal(parameter, *more)

    known = {name for name, _ in cw.load(start).model.named_parameters()}
    monkeypatch.setattr(initialize, "_cut_normal", noted)
    model = starting_model(Start(start=start), objective, corpus, 5)
    network = trained_network(model, objective, 5)
    fresh = {name: p for name, p in network.named_parameters() if name not in known}
    tables = [parameter for parameter in fresh.values() if parameter.ndim > 1]
    assert tables and sorted(p.shape for p in drawn) == sorted(p.shape for p in tables)
    # The values are those a whole network would have been given.
    whole = objective.equip(model.blueprint).build()
    initialize.initialize(whole, seed=5)
    wanted = dict(whole.named_parameters())
    assert all(torch.equal(parameter, wanted[name]) for name, parameter in fresh.items())


def test_tied_weights_stay_one(corpus):
    objective = published("spanbert", 24)
    model = starting_model(Start(start="bert-tiny", config=SIZES), objective, corpus, 1)
    network = trained_network(model, objective, 1)
    table = network.embeddings.tokens.weight
    assert model.model.embeddings.tokens.weight is table
    for built in (model.model, network):
        uses = [p for p in built.parameters() if p.shape == table.shape]
        assert len(uses) == 1 and uses[0] is table


def test_names_that_are_nearly_a_size(corpus):
    with pytest.raises(UnknownName) as caught:
        starting_model(Start(start="bert-bse"), published("bert", 24), corpus, 1)
    known = ", ".join(sorted(published_sizes()))
    assert str(caught.value) == (
        f"model.start is 'bert-bse'; known: {known}. Did you mean 'bert-base'?"
    )


def test_a_size_and_a_folder_of_one_name(corpus, folder, tmp_path, monkeypatch):
    """Who has a folder may mean it, and fresh weights would be noticed late."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert-tiny").mkdir()
    fresh = Start(start="bert-tiny", config=SIZES)
    assert starting_model(fresh, published("bert", 24), corpus, 1).blueprint.width == 32
    (tmp_path / "bert-tiny").rmdir()
    Path(folder(["vocabulary"])).rename(tmp_path / "bert-tiny")
    with pytest.raises(SettingError) as caught:
        starting_model(Start(start="bert-tiny"), published("bert", 24), corpus, 1)
    assert str(caught.value) == (
        "model.start is 'bert-tiny'; a published size and a model folder here have this name; "
        "write './bert-tiny' to go on from the folder, or move it away for fresh "
        "weights."
    )
    begun = starting_model(fresh, published("bert", 24), corpus, 1, begun=True)
    assert begun.blueprint.width == 32, "a run that has begun goes on"
    named = starting_model(Start(start="./bert-tiny"), published("roberta", 24), corpus, 1)
    assert named.blueprint.width == 32


def test_an_encoder_decoder_is_not_asked_what_encoders_are(corpus):
    with pytest.raises(SettingError) as caught:
        starting_model(Start(start="t5-small"), published("roberta", 24), corpus, 1)
    assert str(caught.value) == (
        "model.start is 't5-small'; its vocabulary head is on its decoder, and masked_lm needs "
        "one on the encoder; choose another objective, such as span_corruption, or a family "
        "of encoders."
    )


def test_a_config_beside_a_folder(corpus, folder):
    with pytest.raises(SettingError, match=r"it changes a published size, but `model\.start` is"):
        starting_model(
            Start(start=folder(["vocabulary"]), config=SIZES), published("bert", 24), corpus, 1
        )


def test_another_tokenizer(corpus, tiny_models):
    start = str(tiny_models["bert"])
    with pytest.raises(ClozeworksError, match="tokenizer"):
        starting_model(Start(start=start), published("bert", 24), corpus, 1)
