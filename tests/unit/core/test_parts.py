"""Small parts against their equations."""

import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.context import ForwardContext
from clozeworks.core.heads.pooled import PooledClasses, Pooler
from clozeworks.core.heads.vocabulary import Vocabulary
from clozeworks.core.initialize import CUT_SPREAD, initialize
from clozeworks.core.layers.activation import ACTIVATIONS, activation_named
from clozeworks.core.layers.embeddings import Embeddings
from clozeworks.core.layers.feed_forward import GatedMlp, Mlp
from clozeworks.core.layers.norm import LayerNorm, RmsNorm
from clozeworks.core.layers.sublayer import PostNorm, PreNorm, Residual
from clozeworks.core.layers.tower import Tower, sublayer_names
from clozeworks.core.layout import Layout
from clozeworks.core.positions.learned import Learned
from clozeworks.core.tree import tree
from clozeworks.errors import SettingError, UnknownName

FLOW = ForwardContext(Layout([4, 6]))


def tower(**changes):
    attention = SelfAttention(heads=2)
    layer = (
        PostNorm(part=attention, norm=LayerNorm()),
        PostNorm(part=Mlp(inner=12), norm=LayerNorm()),
    )
    return Tower(**{"layers": (layer, layer), **changes})


def blueprint(**changes):
    embeddings = Embeddings(tokens=20, types=2, positions=Learned(count=10), norm=LayerNorm())
    return Blueprint(**{"width": 8, "embeddings": embeddings, "encoder": tower(), **changes})


def test_sublayers_are_their_equations():
    x = torch.randn(10, 8)
    for sub, equation in [
        (PostNorm(part=Mlp(inner=12), norm=LayerNorm()), lambda m: m.norm(x + m.part(x, FLOW))),
        (PreNorm(part=Mlp(inner=12), norm=RmsNorm()), lambda m: x + m.part(m.norm(x), FLOW)),
        (Residual(part=GatedMlp(inner=12)), lambda m: x + m.part(x, FLOW)),
    ]:
        module = sub.build(8)
        assert torch.equal(module(x, FLOW), equation(module))


def test_feed_forwards_are_their_equations():
    x = torch.randn(10, 8)
    mlp = Mlp(inner=12, activation="relu").build(8)
    assert torch.equal(mlp(x, FLOW), mlp.down(F.relu(mlp.up(x))))
    gated = GatedMlp(inner=12, activation="silu").build(8)
    assert torch.equal(gated(x, FLOW), gated.down(F.silu(gated.gate(x)) * gated.up(x)))
    assert gated.up.bias is None


def test_the_two_gelus_differ_as_much_as_they_should():
    x = torch.linspace(-5, 5, 20001)
    assert (
        activation_named("gelu")(x) - activation_named("gelu_tanh")(x)
    ).abs().max() == pytest.approx(4.7e-4, rel=0.02)
    with pytest.raises(UnknownName, match=r"activation is 'gelo'; known: .* Did you mean 'gelu'\?"):
        activation_named("gelo")


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations_overwrite_only_in_inference_mode(name):
    bend = activation_named(name)
    x = torch.randn(50)
    kept = x.clone()
    expected = bend(x)
    assert torch.equal(x, kept), "training needs the argument for the gradient"
    with torch.no_grad():
        assert bend(x) is not x or name == "linear", "a hook may hold it"
    fresh, overwriting = ACTIVATIONS[name]
    with torch.inference_mode():
        result = bend(x)
    assert (result is x) == (fresh is not overwriting or name == "linear")
    torch.testing.assert_close(result, expected)


def test_rms_norm():
    x = torch.randn(10, 8)
    expected = x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(RmsNorm().build(8)(x), expected)


def test_embeddings_add_then_normalise():
    embeddings = Embeddings(
        tokens=20, types=2, positions=Learned(count=9, offset=2), norm=LayerNorm()
    ).build(8)
    ids, types, layout = torch.tensor([3, 4, 5]), torch.tensor([0, 1, 1]), Layout([2, 1])
    places = embeddings.positions.table.weight[[2, 3, 2]]
    expected = embeddings.norm(
        embeddings.tokens.weight[ids] + embeddings.types.weight[types] + places
    )
    torch.testing.assert_close(embeddings(ids, layout, types), expected)
    torch.testing.assert_close(
        embeddings(ids, layout), embeddings(ids, layout, torch.zeros_like(ids))
    )


def test_factorised_width():
    small = blueprint(
        embeddings=Embeddings(tokens=20, width=4),
        heads={"vocabulary": Vocabulary(norm=LayerNorm())},
    )
    model = small.build()
    assert model.embeddings.tokens.weight.shape == (20, 4)
    assert model.heads["vocabulary"].decoder.weight is model.embeddings.tokens.weight
    hidden = model(torch.arange(5), Layout([5]))
    assert hidden.shape == (5, 8)
    assert model.head("vocabulary").logits(hidden, Layout([5])).shape == (5, 20)


def test_a_stated_width_has_its_projection_even_where_it_is_the_models():
    plain, stated = (blueprint(embeddings=Embeddings(tokens=20, width=w)) for w in (None, 8))
    assert stated.count() - plain.count() == 8 * 8 + 8
    model = stated.build()
    initialize(model)
    embeddings, ids = model.embeddings, torch.arange(5)
    expected = embeddings.widen(embeddings.tokens(ids))
    torch.testing.assert_close(embeddings(ids, Layout([5])), expected)


def test_running_order_shares_layers():
    shared = blueprint(encoder=tower(layers=tower().layers[:1], order=(0, 0, 0)))
    model = shared.build()
    initialize(model)
    x = torch.randn(10, 8)
    layer = list(model.encoder.layers[0].children())
    expected = x
    for _ in range(3):
        for sublayer in layer:
            expected = sublayer(expected, FLOW)
    assert torch.equal(model.encoder(x, FLOW), expected)
    assert shared.count() < blueprint().count()


def test_a_role_may_stand_twice_in_a_layer():
    first, second = Residual(part=Mlp(inner=2)), PreNorm(part=Mlp(inner=3), norm=RmsNorm())
    layer = (first, Residual(part=SelfAttention(heads=2)), second)
    assert sublayer_names(layer) == ("feed_forward", "attention", "feed_forward_1")
    made = blueprint(encoder=Tower(layers=(layer,)))
    model = made.build()
    initialize(model, std=0.5)
    parts = model.encoder.layers[0]
    x = torch.randn(10, 8)
    expected = parts["attention"](parts["feed_forward"](x, FLOW), FLOW)
    expected = parts["feed_forward_1"](expected, FLOW)
    assert torch.equal(model.encoder(x, FLOW), expected)
    labels = [node.label.split(":")[0] for _, node in tree(made).walk()]
    assert labels.index("feed_forward") < labels.index("attention") < labels.index("feed_forward_1")


def test_scores_only_at_asked_positions_equal_all_scores_gathered():
    model = blueprint(heads={"vocabulary": Vocabulary(norm=LayerNorm())}).build()
    initialize(model)
    layout = Layout([4, 6])
    hidden = model(torch.arange(10), layout)
    asked = torch.tensor([1, 7, 3])
    seen = []
    model.heads["vocabulary"].decoder.register_forward_hook(
        lambda module, args, out: seen.append(len(out))
    )
    some = model.head("vocabulary").logits(hidden, layout, asked)
    assert seen == [3], "the decoder must see the asked positions only"
    torch.testing.assert_close(some, model.head("vocabulary").logits(hidden, layout)[asked])


def test_pooled_classes_read_the_first_token():
    model = blueprint(pooler=Pooler(), heads={"classes": PooledClasses(count=3)}).build()
    initialize(model)
    layout = Layout([4, 6])
    hidden = torch.randn(10, 8)
    expected = model.heads["classes"].project(torch.tanh(model.pooler.dense(hidden[[0, 4]])))
    torch.testing.assert_close(model.head("classes").logits(hidden, layout), expected)


def test_tied_parameters_count_once_and_stay_tied():
    untied = blueprint(heads={"vocabulary": Vocabulary(norm=LayerNorm(), tied=False)})
    tied = blueprint(heads={"vocabulary": Vocabulary(norm=LayerNorm())})
    assert untied.count() - tied.count() == 20 * 8
    assert tied.build().tied() == {"heads.vocabulary.decoder.weight": "embeddings.tokens.weight"}


def test_initialisation_is_a_cut_normal():
    from scipy import stats

    model = blueprint(embeddings=Embeddings(tokens=20000, norm=LayerNorm())).build()
    initialize(model, seed=3)
    values = model.embeddings.tokens.weight.detach().flatten().numpy()
    assert abs(values).max() <= 0.04
    cut = stats.truncnorm(-2, 2, scale=0.02)
    assert stats.kstest(values, cut.cdf).pvalue > 1e-3
    assert values.std() == pytest.approx(CUT_SPREAD * 0.02, rel=0.01)
    # Negative control: what an uncut normal distribution would give is told apart.
    uncut = stats.norm(scale=0.02).rvs(len(values), random_state=0)
    assert stats.kstest(uncut, cut.cdf).pvalue < 1e-3
    norm = model.encoder.layers[0]["attention"].norm
    assert torch.equal(norm.weight, torch.ones(8)) and not norm.bias.any()
    assert not model.encoder.layers[0]["attention"].part.query.bias.any()


def test_initialisation_depends_on_seed_and_name_alone():
    plain, headed = blueprint().build(), blueprint(pooler=Pooler()).build()
    initialize(plain, seed=5)
    initialize(headed, seed=5)
    other = headed.state_dict()
    assert all(torch.equal(tensor, other[name]) for name, tensor in plain.state_dict().items())
    initialize(headed, seed=6)
    assert not torch.equal(plain.embeddings.tokens.weight, headed.embeddings.tokens.weight)


def test_dropout_only_in_training():
    layer = (PostNorm(part=SelfAttention(heads=2, dropout=0.5), norm=LayerNorm(), dropout=0.5),)
    model = blueprint(encoder=Tower(layers=(layer,))).build()
    initialize(model, std=0.5)
    ids, layout = torch.arange(10), Layout([10])
    model.eval()
    assert torch.equal(model(ids, layout), model(ids, layout))
    model.train()
    assert not torch.equal(model(ids, layout), model(ids, layout))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"width": 0}, "width is 0; it must be at least 1."),
        ({"width": 9}, "encoder.layers[0].attention.heads is 2; `width`, 9, must be divisible by "
         "it; change one of them, or set `head_width`."),
        ({"encoder": tower(order=(0, 2))},
         "encoder.order[1] is 2; it must be a layer from 0 to 1."),
        ({"heads": {"classes": PooledClasses(count=2)}},
         "pooler is None; `heads.classes` reads it; add the pooler."),
        ({"embeddings": Embeddings(tokens=5, dropout=1.5)},
         "embeddings.dropout is 1.5; it must be at least 0 and below 1."),
        ({"embeddings": Embeddings(tokens=5, positions=Learned(count=2, offset=2))},
         "embeddings.positions is a table with room for 0 tokens; it needs room for at least 1; "
         "raise count or lower offset."),
    ],
)  # fmt: skip
def test_rules_that_span_parts(changes, message):
    with pytest.raises(SettingError) as error:
        blueprint(**changes).check()
    assert str(error.value) == message


def test_blueprints_are_values():
    one, two = blueprint(), blueprint()
    assert one == two
    assert replace(one, width=16) != two
    assert Blueprint.from_json(one.to_json()) == one


def test_attention_scale():
    plain = SelfAttention(heads=2).build(8)
    scaled = SelfAttention(heads=2, scale=1 / math.sqrt(4)).build(8)
    scaled.load_state_dict(plain.state_dict())
    x = torch.randn(10, 8)
    torch.testing.assert_close(plain(x, FLOW), scaled(x, FLOW))
    scaled.scale = 1.0
    assert not torch.allclose(plain(x, FLOW), scaled(x, FLOW))
