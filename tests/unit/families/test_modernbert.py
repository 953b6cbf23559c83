"""ModernBERT's config, its windows and its heads."""

import dataclasses

import pytest
import torch

import clozeworks as cw
from clozeworks.cli.main import run
from clozeworks.core.attention.attention import SelfAttention
from clozeworks.core.attention.masks import Full, Window
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.initialize import initialize
from clozeworks.core.layers.sublayer import PreNorm, Residual
from clozeworks.core.layout import Layout
from clozeworks.core.positions.rotary import Rotary
from clozeworks.errors import CheckpointError, SettingError, UnknownName, UnsupportedError
from clozeworks.families.family import Config
from clozeworks.families.modernbert import FAMILY
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.tag import Tag
from clozeworks.text.training.train import train_from_iterator

SMALL = {
    "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 4,
}  # fmt: skip


def blueprint(*parts, **changes):
    values = {"model_type": "modernbert", "vocab_size": 31, **SMALL, **changes}
    return FAMILY.blueprint(Config(values), frozenset(parts))


def new(**changes):
    tokenizer = train_from_iterator(["the fox ran"] * 5, kind="bpe", size=280, style=FAMILY.style)
    return cw.new("modernbert-base", tokenizer, **{**SMALL, **changes})


def test_every_third_layer_sees_everything():
    layers = FAMILY.blueprint(FAMILY.published("modernbert-base"), frozenset()).encoder.layers
    assert len(layers) == 22
    for number, (attention, _) in enumerate(layers):
        assert isinstance(attention.part, SelfAttention)
        sees, theta = (Window(reach=64), 10_000.0) if number % 3 else (Full(), 160_000.0)
        assert attention.part.mask == sees and attention.part.positions == Rotary(theta=theta)
        assert isinstance(attention, PreNorm if number else Residual)


def test_configs_in_both_spellings_are_one():
    types = ["full_attention", "sliding_attention"] * 2
    older = blueprint(
        global_attn_every_n_layers=2, global_rope_theta=7, local_rope_theta=5.0, local_attention=9
    )
    newer = blueprint(
        layer_types=types,
        rope_parameters={
            "full_attention": {"rope_type": "default", "rope_theta": 7.0},
            "sliding_attention": {"rope_theta": 5.0},
        },
        local_attention=8,
        # What is stated twice counts in the newer spelling.
        global_rope_theta=9.0,
        global_attn_every_n_layers=1,
    )
    assert older == newer
    written = FAMILY.config(older)
    assert written["layer_types"] == types and written["local_attention"] == 8
    assert written["rope_parameters"]["sliding_attention"]["rope_theta"] == 5.0


def test_without_local_layers_there_is_no_window_to_write():
    written = FAMILY.config(blueprint(layer_types=["full_attention"] * 4))
    assert "local_attention" not in written and list(written["rope_parameters"]) == [
        "full_attention"
    ]


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        (
            {"layer_types": ["full_attention", "slided_attention"] * 2},
            "config.json: layer_types[1] is 'slided_attention'; known: full_attention, "
            "sliding_attention. Did you mean 'sliding_attention'?",
        ),
        (
            {"layer_types": ["full_attention"]},
            "config.json: layer_types is ['full_attention']; it must be a list of 4 types, one for "
            "each layer; correct it.",
        ),
        (
            {"hidden_size": 36, "num_attention_heads": 12},
            "config.json: hidden_size is 36 and num_attention_heads is 12, so a head is 3 wide; "
            "rotary positions turn pairs of numbers, so it must be even; change one of them.",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_type": "yarn", "rope_theta": 1e4}}},
            "config.json: rope_parameters.full_attention.rope_type is 'yarn'; scaled positions are "
            "another model; Clozeworks computes only 'default'.",
        ),
        (
            {"rope_scaling": {"type": "linear", "factor": 2.0}},
            "config.json: rope_scaling.rope_type is 'linear'; scaled positions are another model; "
            "Clozeworks computes only 'default'.",
        ),
        (
            {"rope_scaling": 2.0},
            "config.json: rope_scaling is 2.0; it must be a table; correct it.",
        ),
        (
            {"rope_parameters": "default"},
            "config.json: rope_parameters is 'default'; it must be a table by type of layer; "
            "correct it.",
        ),
        (
            {"local_rope_theta": 0},
            "config.json: local_rope_theta is 0; it must be a number above 0; correct it.",
        ),
        (
            {"rope_parameters": {"full_attention": {"rope_theta": "10k"}}},
            "config.json: rope_parameters.full_attention.rope_theta is '10k'; it must be a number "
            "above 0; correct it.",
        ),
        (
            {"position_embedding_type": "relative_key"},
            "config.json: position_embedding_type is 'relative_key'; positions of this family are "
            "rotary; leave it out.",
        ),
        (
            {"layer_types": [["full_attention"]] * 4},
            "config.json: layer_types[0] is \"['full_attention']\"; known: full_attention, "
            "sliding_attention. Did you mean 'full_attention'?",
        ),
        (
            {"classifier_pooling": "max"},
            "config.json: classifier_pooling is 'max'; known: cls, mean.",
        ),
    ],
)
def test_what_cannot_be_read_is_said(changes, sentence):
    with pytest.raises((CheckpointError, UnknownName)) as caught:
        blueprint("vocabulary", **changes)
    assert str(caught.value) == sentence


def test_odd_heads_of_a_blueprint_are_refused_when_it_is_built():
    plain = blueprint()
    odd = dataclasses.replace(
        plain,
        encoder=dataclasses.replace(
            plain.encoder,
            layers=(
                (Residual(part=SelfAttention(heads=2, head_width=5, positions=Rotary(theta=9.0))),),
            ),
        ),
    )
    with pytest.raises(SettingError) as caught:
        odd.build()
    assert str(caught.value) == (
        "head_width is 5; rotary positions turn pairs of numbers, so it must be even; change the "
        "width or the heads."
    )


def test_what_a_config_cannot_say_is_not_saved():
    plain = blueprint()
    first, *others = plain.encoder.layers
    narrow = PreNorm(
        part=dataclasses.replace(others[0][0].part, mask=Window(reach=3)), norm=others[0][0].norm
    )
    changed = dataclasses.replace(
        plain.encoder, layers=(first, others[0], (narrow, others[1][1]), others[2])
    )
    with pytest.raises(UnsupportedError, match=r"encoder\.layers\[2\].*reach is 3"):
        FAMILY.config(dataclasses.replace(plain, encoder=changed))


def test_a_local_layer_sees_no_further_than_its_window():
    """Two tokens further apart than all layers reach together do not know of each other."""
    made = blueprint(layer_types=["sliding_attention"] * 4, local_attention=4).build().double()
    initialize(made, seed=1, std=0.3)
    ids = torch.arange(20)
    other = ids.clone()
    other[0] = 29
    with torch.no_grad():
        moved = (made(ids, Layout([20])) - made(other, Layout([20]))).abs().amax(dim=1) > 0
    assert moved[:9].all() and not moved[9:].any()


def test_a_blueprint_goes_through_json():
    made = blueprint("classes", classifier_pooling="mean")
    assert Blueprint.from_json(made.to_json()) == made


@pytest.mark.parametrize(
    ("task", "head"),
    [
        (Classify(labels=("bad", "good")), "classes.classes"),
        (Tag(labels=("O", "B-A")), "tokens"),
        (Answer(), "answer"),
    ],
    ids=["classify", "tag", "answer"],
)
def test_heads_begin_with_the_layer_that_named_tokens(task, head, tmp_path):
    """As they do where a published folder is loaded with another class."""
    model = new()
    with torch.no_grad():
        model.model.heads["vocabulary"].norm.weight.uniform_(0.5, 2)
    made = model.for_task(task, seed=3)
    before, after = model.model.heads["vocabulary"], made.model.get_submodule(f"heads.{head}")
    assert torch.equal(before.dense.weight, after.dense.weight)
    assert torch.equal(before.norm.weight, after.norm.weight)
    made.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    assert again.task == task and not again.report.missing and not again.report.unexpected
    for key, value in made.model.state_dict().items():
        assert torch.equal(value, again.model.state_dict()[key])


def test_a_regression_on_its_vectors_cannot_be_its_head_for_tags(tmp_path, capsys):
    new().save(tmp_path / "model")
    (tmp_path / "t.conll").write_text("the O\nfox B-A\n\nran O\nfox B-A\n\n" * 4)
    command = ["probe", "tag", str(tmp_path / "model"), str(tmp_path / "t.conll")]
    assert run([*command, "--out", str(tmp_path / "out")]) == 2
    assert "the tagging head of modernbert has a further layer" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_it_is_shown_with_its_parts(capsys):
    assert run(["show", "modernbert-base", "--heads", "vocabulary"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("modernbert-base (modernbert, Warner et al. 2024)\ntexts of any length")
    for line in ("mask: Window(reach=64)", "positions: Rotary(theta=160000.0)", "Su et al. 2021"):
        assert line in shown
    assert "149,655,232" in shown
    # Layers take turns; each kind is spelled out once.
    assert "layer 21, as layer 3 " in shown
    assert "layers 19 to 20 (2 alike, 5,015,040 each), as layers 1 to 2 " in shown
    assert shown.count("Rotary(theta=10000.0)") == 1


def test_a_decoder_without_a_bias_is_built_saved_and_drawn_from(tmp_path):
    made = new(decoder_bias=False)
    head = made.model.head("vocabulary")
    assert head.decoder.bias is None and head.dense.bias is None
    made.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    assert again.blueprint == made.blueprint and again.checkpoint.config["decoder_bias"] is False
    with torch.no_grad():
        head.decoder.weight.mul_(1e5)
    x = torch.randn(4, 16, generator=torch.Generator().manual_seed(0))
    drawn = head.draw(x, [4], [1])
    assert torch.equal(drawn, head(x).argmax(dim=-1))  # logits so large leave no choice
    assert head.loss(x, drawn).total < head.loss(x, (drawn + 1) % 280).total
