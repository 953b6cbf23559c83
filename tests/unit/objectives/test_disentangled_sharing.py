"""DeBERTa v3: differences that alone learn from what was replaced, its head, its generator."""

import dataclasses

import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.initialize import initialize
from clozeworks.core.layout import Layout
from clozeworks.errors import SettingError
from clozeworks.families import electra
from clozeworks.families.family import Config, families
from clozeworks.objectives.replaced_tokens import Generator, ReplacedTokens

SECOND = families()["deberta-v2"]
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 48,
    "vocab_size": 200, "max_relative_positions": 20, "position_buckets": 8,
    "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
}  # fmt: skip
GENERATOR = Generator(width=1.0, layers=0.5, positions=40)
DISENTANGLED = ReplacedTokens(generator=GENERATOR, sharing="disentangled")
SIZES = [9, 30, 4, 1, 25]
TOKENS, POSITIONS = "embeddings.tokens.weight", "embeddings.positions.table.weight"


def blueprint(**changes):
    config = Config({**SECOND.published("deberta-v3-base"), **SMALL, **changes}, "x")
    return SECOND.blueprint(config, frozenset({"replaced"}))


def built(objective=DISENTANGLED, **changes):
    model = objective.equip(blueprint(**changes)).build()
    initialize(model, seed=3, std=0.3)
    return model.double().train()


@pytest.fixture
def batch(examples, source):
    return DISENTANGLED.batch(examples(SIZES), 5, source)


@pytest.mark.parametrize("at_input", [False, True])
def test_it_begins_as_if_all_were_shared(at_input, batch):
    model = built(position_biased_input=at_input)
    assert not any(each.any() for each in model.heads["table_differences"].parameters())
    found = DISENTANGLED.loss(model, batch.tensors()).means()
    shared = dataclasses.replace(DISENTANGLED, sharing="shared")
    other = built(shared, position_biased_input=at_input)
    assert found == pytest.approx(shared.loss(other, batch.tensors()).means(), rel=1e-12)


@pytest.mark.parametrize("at_input", [False, True])
def test_each_table_learns_from_its_own_loss(at_input, batch):
    model = built(position_biased_input=at_input)
    generator = model.heads["generator"].network
    names = [TOKENS, POSITIONS] if at_input else [TOKENS]
    for part, moved in (("masked_lm", "generator"), ("replaced_tokens", "differences")):
        model.zero_grad()
        DISENTANGLED.loss(model, batch.tensors()).terms[part].total.backward()
        for name in names:
            table = model.get_parameter(name)
            assert generator.get_parameter(name) is table
            difference = model.heads["table_differences"].get_parameter(
                "tokens.weight" if name == TOKENS else "positions.weight"
            )
            learned = {"generator": table.grad, "differences": difference.grad}
            for which, gradient in learned.items():
                assert (gradient is not None and bool(gradient.any())) == (which == moved)


def test_negative_control_a_shared_table_learns_from_both(batch):
    shared = dataclasses.replace(DISENTANGLED, sharing="shared")
    model = built(shared)
    shared.loss(model, batch.tensors()).terms["replaced_tokens"].total.backward()
    assert model.get_parameter(TOKENS).grad.any()


def test_the_gradient_of_the_difference_is_that_of_the_sum(batch):
    """As if the discriminator had one table of its own, the sum."""
    model = built()
    differences = model.heads["table_differences"]
    initialize(differences.tokens, seed=9)
    differences.tokens.weight.data.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    tensors = batch.tensors()
    _, ids = DISENTANGLED.replace(model.heads["generator"].network, tensors)
    hidden = DISENTANGLED._read(model, ids, tensors)
    hidden.square().sum().backward()

    plain = blueprint().build().double()
    weights = {name: each for name, each in model.state_dict().items() if name in
               plain.state_dict()}  # fmt: skip
    weights[TOKENS] = differences.merged(model.embeddings)[TOKENS]
    plain.load_state_dict(weights)
    expected = plain(ids, tensors.layout, tensors.types)
    assert (expected - hidden).abs().max() < 1e-12
    expected.square().sum().backward()
    gradient = plain.get_parameter(TOKENS).grad
    assert (gradient - differences.tokens.weight.grad).abs().max() < 1e-9 * gradient.abs().max()


def test_what_is_saved_has_the_sums():
    network = built(position_biased_input=True)
    differences = network.heads["table_differences"]
    for each in differences.parameters():
        each.data.normal_(0, 0.3, generator=torch.Generator().manual_seed(1))
    model = blueprint(position_biased_input=True).build().double()
    before = network.get_parameter(TOKENS).clone()
    DISENTANGLED.settle(network, model)
    assert torch.equal(model.get_parameter(TOKENS), before + differences.tokens.weight)
    places = network.get_parameter(POSITIONS) + differences.positions.weight
    assert torch.equal(model.get_parameter(POSITIONS), places)
    assert torch.equal(network.get_parameter(TOKENS), before), "the generator keeps its own"


def test_a_narrow_table_and_positions_from_an_offset(examples, source):
    """Any family can share so: ELECTRA's tables are narrower than its model."""
    settings = {**electra.FAMILY.published("electra-small"), **SMALL, "embedding_size": 12}
    plain = electra.FAMILY.blueprint(Config(settings), frozenset({"replaced"}))
    objective = ReplacedTokens(sharing="disentangled")
    model = objective.equip(plain).build()
    initialize(model, seed=3, std=0.3)
    batch = objective.batch(examples(SIZES), 5, source)
    objective.loss(model, batch.tensors()).value().backward()
    differences = model.heads["table_differences"]
    assert differences.tokens.weight.shape == (200, 12) and differences.tokens.weight.grad.any()
    assert differences.positions.weight.grad.any()


def test_its_generator_is_half_as_deep_and_as_wide():
    made = DISENTANGLED.equip(blueprint()).heads["generator"].network
    whole = blueprint()
    assert (made.width, len(made.encoder.layers)) == (32, 2)
    assert made.encoder.layers == whole.encoder.layers[:2]
    assert made.encoder.positions == whole.encoder.positions
    assert set(made.heads) == {"vocabulary", "mask_decoder"}
    assert made.heads["mask_decoder"].count == 40
    saved = SECOND.config(made)
    assert saved["max_position_embeddings"] == 40 and saved["legacy"] is False
    plain = dataclasses.replace(DISENTANGLED, generator=Generator(width=1.0, layers=0.5))
    assert set(plain.equip(blueprint()).heads["generator"].network.heads) == {"vocabulary"}


def test_a_narrower_generator_scales_its_scores_by_its_own_heads():
    part = Generator(width=0.3).blueprint(blueprint(), same_tables=False).encoder.layers[0][0].part
    assert part.heads == 1
    assert part.scale == pytest.approx((10 * 3) ** -0.5)
    convolved = Generator(width=0.5).blueprint(blueprint(conv_kernel_size=3), same_tables=False)
    assert convolved.encoder.layers[0][2] == blueprint(conv_kernel_size=3).encoder.layers[0][2]


def test_its_head_hears_the_first_token():
    model = blueprint().build().double().eval()
    initialize(model, seed=3, std=0.3)
    layout, hidden = Layout([3, 5]), torch.randn(8, 32, dtype=torch.float64)
    first = hidden[[0, 0, 0, 3, 3, 3, 3, 3]]
    head = model.heads["replaced"]
    expected = head.score(F.gelu(head.dense(head.norm(hidden + first))))
    found = model.head("replaced").logits(hidden, layout)
    assert (found[:, :1] == 0).all() and (found[:, 1:] - expected).abs().max() < 1e-12
    asked = torch.tensor([1, 4, 7])
    some = model.head("replaced").logits(hidden, layout, asked)
    assert (some - found[asked]).abs().max() < 1e-12


def test_settings_that_cannot_be():
    with pytest.raises(SettingError) as caught:
        Generator(positions=0)
    assert str(caught.value) == (
        "positions is 0; it must be at least 1; leave it out for a generator without a mask "
        "decoder."
    )
