"""Replaced-token detection: what counts as replaced, what is shared, what is learned from what."""

import dataclasses
import json

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clozeworks import config
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.initialize import initialize
from clozeworks.core.tree import tree
from clozeworks.errors import SettingError, TokenizerError, UnsupportedError
from clozeworks.families.electra import FAMILY
from clozeworks.families.family import Config, family
from clozeworks.objectives.combine import Sum, Weighted
from clozeworks.objectives.next_sentence import NextSentence
from clozeworks.objectives.noise.corruption import Corruption
from clozeworks.objectives.objective import Objective
from clozeworks.objectives.replaced_tokens import Generator, ReplacedTokens

TOKENS, POSITIONS = "embeddings.tokens.weight", "embeddings.positions.table.weight"
SMALL = {
    "hidden_size": 32, "embedding_size": 12, "num_hidden_layers": 2, "num_attention_heads": 4,
    "intermediate_size": 48, "vocab_size": 200, "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
SIZES = [9, 30, 4, 1, 25]


def blueprint_of(size=None, **changes):
    settings = {**FAMILY.published(size or "electra-small"), **({} if size else SMALL), **changes}
    return FAMILY.blueprint(Config(settings), frozenset({"replaced"}))


def built(objective, **changes):
    model = objective.equip(blueprint_of(**changes)).build()
    initialize(model, seed=3, std=0.3)
    return model.double().train()


@pytest.fixture
def batch(examples, source):
    return ReplacedTokens().batch(examples(SIZES), 5, source)


def generator_of(model):
    return model.heads["generator"].network


@pytest.mark.parametrize(
    ("size", "share", "published"),
    [
        ("electra-small", 1.0, "electra-small-generator"),
        ("electra-base", 1 / 3, "electra-base-generator"),
        ("electra-large", 0.25, "electra-large-generator"),
    ],
)
def test_generators_of_the_published_sizes(size, share, published):
    made = Generator(width=share).blueprint(blueprint_of(size), same_tables=True)
    assert made == FAMILY.blueprint(FAMILY.published(published), frozenset({"vocabulary"}))


def test_half_of_the_layers_and_a_running_order():
    whole = blueprint_of(num_hidden_layers=4)
    half = Generator(width=1.0, layers=0.5).blueprint(whole, same_tables=True)
    assert half.encoder.layers == whole.encoder.layers[:2]
    shared = dataclasses.replace(whole.encoder, layers=whole.encoder.layers[:1], order=(0,) * 4)
    made = Generator(layers=0.5).blueprint(
        dataclasses.replace(whole, encoder=shared), same_tables=True
    )
    assert made.encoder.order == (0, 0) and len(made.encoder.layers) == 1


def test_the_generator_of_a_t5_encoder_has_a_table_for_its_own_heads(batch):
    t5 = family("t5")
    settings = {**t5.published("t5-small"), "vocab_size": 200, "num_layers": 2, "d_model": 64}
    objective = ReplacedTokens()
    model = objective.equip(t5.blueprint(Config(settings), frozenset())).build()
    initialize(model, seed=3)
    generator = generator_of(model)
    heads = generator.blueprint.encoder.layers[0][0].part.heads
    assert generator.encoder.positions.table.weight.shape[1] == heads < settings["num_heads"]
    assert torch.isfinite(objective.loss(model, batch.tensors()).value())


def test_all_that_is_text_is_judged_and_hidden_tokens_are_masks(examples, source):
    clean = examples(SIZES)
    batch = ReplacedTokens().batch(clean, 5, source)
    part, hidden = batch.targets["replaced_tokens"], batch.targets["masked_lm"]
    assert part["judged"].tolist() == np.flatnonzero(~clean.special).tolist()
    assert (part["answers"] == clean.ids[part["judged"]]).all()
    assert len(part["seeds"]) == len(set(part["seeds"].tolist())) == len(SIZES)
    assert (batch.ids[hidden["positions"]] == source.mask_id).all()
    assert set(hidden["positions"]) <= set(part["judged"])


def test_a_right_guess_counts_as_written(batch, monkeypatch):
    """Half of the draws are the right token; only the others were replaced."""
    objective = ReplacedTokens()
    model, tensors = built(objective), batch.tensors()
    part = tensors.targets["masked_lm"]
    wrong = torch.arange(len(part["answers"])) % 2 == 1
    drawn = torch.where(wrong, (part["answers"] + 1) % 200, part["answers"])
    monkeypatch.setattr("clozeworks.core.heads.vocabulary.drawn_entries", lambda *_: drawn.clone())
    loss = objective.loss(model, tensors)
    ids = tensors.ids.clone()
    ids[part["positions"]] = drawn
    judged = tensors.targets["replaced_tokens"]["judged"]
    labels = torch.zeros(len(ids))
    labels[part["positions"][wrong]] = 1
    hidden = model(ids, tensors.layout, tensors.types)
    z = model.head("replaced").logits(hidden, tensors.layout)[:, 1]
    expected = F.binary_cross_entropy_with_logits(
        z[judged], labels[judged].double(), reduction="sum"
    )
    cost = loss.terms["replaced_tokens"]
    torch.testing.assert_close(cost.total, expected)
    assert cost.count == len(judged) and cost.weight == 50.0
    means = loss.means()
    assert loss.value().item() == pytest.approx(
        means["masked_lm"] + 50 * means["replaced_tokens"], rel=1e-9
    )
    # The usual mistake: whatever was hidden counts as replaced.
    labels[part["positions"]] = 1
    mistaken = F.binary_cross_entropy_with_logits(
        z[judged], labels[judged].double(), reduction="sum"
    )
    assert abs(mistaken - expected) > 1e-3


def test_what_is_drawn_stands_at_hidden_places_only(batch):
    objective = ReplacedTokens()
    model, tensors = built(objective), batch.tensors()
    _, ids = objective.replace(generator_of(model), tensors)
    places = tensors.targets["masked_lm"]["positions"]
    changed = (ids != tensors.ids).nonzero().squeeze(1)
    assert set(changed.tolist()) <= set(places.tolist())
    _, again = objective.replace(generator_of(model), tensors)
    assert torch.equal(ids, again)
    assert not ids.requires_grad


def test_shared_tables_are_one_parameter(batch):
    model = built(ReplacedTokens())
    second = generator_of(model)
    assert second.embeddings.tokens.weight is model.embeddings.tokens.weight
    assert second.heads["vocabulary"].decoder.weight is model.embeddings.tokens.weight
    assert second.embeddings.positions.table.weight is model.embeddings.positions.table.weight
    assert second.embeddings.types.weight is not model.embeddings.types.weight
    names = dict(model.named_parameters())
    assert TOKENS in names and f"heads.generator.network.{TOKENS}" not in names
    assert second.embeddings.widen.weight.shape == (8, 12)


def test_tables_of_their_own(batch):
    model = built(ReplacedTokens(sharing="none"))
    second = generator_of(model)
    assert second.embeddings.tokens.weight is not model.embeddings.tokens.weight
    assert second.heads["vocabulary"].decoder.weight is second.embeddings.tokens.weight
    assert second.embeddings.tokens.weight.shape == (200, 8)


@pytest.mark.parametrize("part", ["masked_lm", "replaced_tokens"])
def test_each_network_learns_from_its_own_questions(batch, part):
    """Nothing is learned through the draws: with tables of their own the two do not touch."""
    objective = ReplacedTokens(sharing="none")
    model = built(objective)
    objective.loss(model, batch.tensors()).terms[part].total.backward()
    for name, parameter in model.named_parameters():
        of_generator = name.startswith("heads.generator.")
        if name.endswith("key.bias"):
            continue
        if of_generator == (part == "masked_lm"):
            assert parameter.grad is not None and parameter.grad.any(), name
        else:
            assert parameter.grad is None, name


@pytest.mark.parametrize("part", ["masked_lm", "replaced_tokens"])
def test_shared_tables_learn_from_both(batch, part):
    objective = ReplacedTokens()
    model = built(objective)
    objective.loss(model, batch.tensors()).terms[part].total.backward()
    assert model.get_parameter(TOKENS).grad.any() and model.get_parameter(POSITIONS).grad.any()


def test_a_blueprint_with_a_second_network_is_json(batch):
    made = ReplacedTokens().equip(blueprint_of())
    assert Blueprint.from_json(made.to_json()) == made
    assert made.count() == sum(p.numel() for p in made.build("meta").parameters())


@pytest.mark.parametrize("sharing", ["shared", "none"])
def test_the_tree_counts_what_is_shared_once(sharing):
    made = ReplacedTokens(sharing=sharing).equip(blueprint_of())
    top = tree(made)
    assert sum(node.parameters for node in top.children) == made.count()
    (label,) = [node.label for node in top.children if node.label.startswith("heads.generator")]
    assert ("shares the token table and position table" in label) == (sharing == "shared")


def test_a_family_without_the_head_gets_one(model, examples, source):
    objective = ReplacedTokens()
    assert objective.required_heads({"vocabulary", "pooler"}) == frozenset()
    assert objective.required_heads({"vocabulary", "replaced"}) == {"replaced"}
    assert list(objective.heads(blueprint_of())) == ["generator"]
    network = model(objective)
    assert {"replaced", "generator"} <= set(network.heads)
    loss = objective.loss(network, objective.batch(examples(SIZES), 5, source).tensors())
    assert torch.isfinite(loss.value())


def test_a_recipe_can_write_it():
    objective = ReplacedTokens(generator=Generator(width=0.5), sharing="none", weight=10.0)
    plain = json.loads(json.dumps(config.plain(objective)))
    assert config.read(Objective, plain) == objective


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"generator": {"width": 1.5}},
         "generator.width is 1.5; it must be above 0 and at most 1; a generator is not wider "
         "than its discriminator; 0.25 is what ELECTRA has."),
        ({"generator": {"width": 0.0}}, "generator.width is 0.0; it must be above 0"),
        ({"generator": {"layers": 2.0}},
         "generator.layers is 2.0; it must be above 0 and at most 1; a generator has no more "
         "layers than its discriminator."),
        ({"weight": 0.0}, "weight is 0.0; it must be above 0."),
        ({"sharing": "gradient"},
         "sharing is 'gradient'; it must be one of 'shared', 'none', 'disentangled'."),
        ({"show": {"mask": 0.0, "random": 0.5, "keep": 0.5}},
         "show.mask is 0; the generator of replaced_tokens fills masks"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be(settings, sentence):
    with pytest.raises(SettingError) as caught:
        config.read(Objective, {"kind": "replaced_tokens", **settings})
    assert sentence in str(caught.value)


def test_a_tokenizer_without_a_mask(examples, source):
    bare = dataclasses.replace(source, mask_id=None)
    with pytest.raises(TokenizerError) as caught:
        ReplacedTokens().batch(examples(SIZES), 5, bare)
    assert str(caught.value) == (
        "the tokenizer's mask token is None; the generator of replaced_tokens fills masks; train a "
        "tokenizer with a mask token."
    )


@pytest.mark.parametrize(
    "make",
    [
        lambda: Sum(parts=(ReplacedTokens(), NextSentence())),
        lambda: Weighted(objective=ReplacedTokens(), weight=2.0),
    ],
)
def test_it_stands_alone(make):
    with pytest.raises(SettingError) as caught:
        make()
    assert str(caught.value) == (
        "kind is 'replaced_tokens'; it runs the model in a way that no other objective can read, "
        "so it stands neither in a sum nor under a weight; make it the whole objective."
    )


def test_a_part_that_cannot_become_smaller():
    whole = blueprint_of()
    part = dataclasses.replace(whole.encoder.layers[0][0], part=Odd())
    odd = dataclasses.replace(whole, encoder=dataclasses.replace(whole.encoder, layers=((part,),)))
    with pytest.raises(UnsupportedError, match="how a Odd becomes smaller is not known"):
        Generator().blueprint(odd, same_tables=True)


@dataclasses.dataclass(frozen=True)
class Odd:
    """No part that anybody knows."""


def test_the_codes_way_of_showing(examples, source):
    objective = ReplacedTokens(show=Corruption(mask=0.85, random=0.0, keep=0.15))
    clean = examples([100] * 60)
    batch = objective.batch(clean, 5, source)
    places = batch.targets["masked_lm"]["positions"]
    assert (batch.ids[places] == clean.ids[places]).mean() == pytest.approx(0.15, abs=0.04)


def test_an_example_is_replaced_otherwise_in_every_epoch(examples, source):
    objective = ReplacedTokens()

    def seeds(epoch):
        batch = objective.batch(examples(SIZES, epoch=epoch), 5, source)
        return batch.targets["replaced_tokens"]["seeds"].tolist()

    assert seeds(0) == seeds(0)
    drawn = [seed for epoch in range(4) for seed in seeds(epoch)]
    assert len(set(drawn)) == 4 * len(SIZES)
