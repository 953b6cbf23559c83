"""What every family must keep, whoever wrote it: run over the files of the folder."""

import dataclasses
import json

import pytest
import torch
from safetensors.torch import load_file, save_file

from clozeworks.checkpoints import folder as folders
from clozeworks.checkpoints.folder import Checkpoint
from clozeworks.checkpoints.report import LoadReport
from clozeworks.checkpoints.sentence import Pooling
from clozeworks.checkpoints.tasks import blueprint_for, with_task
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.context import AttentionSource, Trace
from clozeworks.core.initialize import initialize
from clozeworks.core.layers.dropout import Dropout
from clozeworks.core.layout import Layout
from clozeworks.errors import UnsupportedError
from clozeworks.families.family import Config, families
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.labels.standardization import Standardization

FAMILIES = families()
# Every family names width, depth, heads and inner width in its own words.
SMALL = {
    "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48,
    "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 48,
    "d_model": 32, "n_layer": 2, "n_head": 4, "d_inner": 48,
    "n_embd": 32, "n_positions": 50, "num_key_value_heads": 2, "head_dim": 8,
    "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4, "d_kv": 8, "d_ff": 48,
    "vocab_size": 61, "max_position_embeddings": 50,
    "max_relative_positions": 20, "position_buckets": 16,
}  # fmt: skip
CASES = [
    pytest.param(family, name, id=name)
    for family in FAMILIES.values()
    for name in family.architectures
]


def small(family, parts) -> Blueprint:
    size = next(iter(family.sizes))
    known = family.config(family.blueprint(family.published(size), frozenset()))
    changes = {key: value for key, value in SMALL.items() if key in known}
    return family.blueprint(Config({**family.published(size), **changes}), parts)


def built(family, name, spread=0.2):
    blueprint = small(family, family.architectures[name].parts)
    model = blueprint.build()
    initialize(model, seed=1, std=spread)
    return model


def checkpoint_of(family, model) -> Checkpoint:
    return Checkpoint(
        model=model, family=family, config={}, tokenizer=None, pooling=Pooling(),
        report=LoadReport(),
    )  # fmt: skip


def tokens(lengths, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(5, 61, (length,), generator=generator) for length in lengths]


def run(model, texts):
    """The vectors of packed texts; with a decoder, of the same texts as their own answers."""
    ids, layout = torch.cat(texts), Layout([len(text) for text in texts])
    hidden = model(ids, layout)
    if model.decoder is None or model.blueprint.rereads is not None:
        return hidden
    return model.decode(ids, layout, AttentionSource(hidden, layout))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_the_key_for_places_is_one_of_its_config(family):
    blueprint = small(family, frozenset())
    if blueprint.max_length() is not None:
        assert family.max_positions_key in family.config(blueprint)


@pytest.mark.parametrize(("family", "name"), CASES)
@pytest.mark.parametrize("mode", ["eval", "train"])
def test_packed_equals_one_by_one(family, name, mode):
    model = built(family, name).double()  # so that rounding cannot hide a leak
    without_dropout(model).train(mode == "train")
    lengths = [1, 12, 48, 12, 12, 11, 30, 2, 48, 7]
    texts = tokens(lengths)
    with torch.no_grad():
        together = run(model, texts).split(lengths)
        for text, packed in zip(texts, together, strict=True):
            alone = run(model, [text])
            assert (alone - packed).abs().max() <= 1e-12


def without_dropout(model):
    for module in model.modules():
        if isinstance(module, Dropout):
            module.p = 0.0
        elif hasattr(module, "dropout") and isinstance(module.dropout, float):
            module.dropout = 0.0
    return model


@pytest.mark.parametrize(("family", "name"), CASES)
def test_neighbours_change_nothing(family, name):
    model = built(family, name).double().eval()
    text = tokens([17])[0]
    with torch.no_grad():
        for seed, around in enumerate(([3, 40], [17, 17], [16, 1], [48, 48, 2])):
            before, after = tokens(around[:1], seed + 9)[0], tokens(around[1:], seed + 5)
            hidden = run(model, [before, text, *after])[around[0] : around[0] + 17]
            assert (hidden - run(model, [text])).abs().max() <= 1e-12


CLASSIFIERS = [
    pytest.param(family, pooling, id=f"{name}-{pooling}")
    for name, family in FAMILIES.items()
    for pooling in ("pooler", "mean", "attention")
    if pooling != "pooler" or "classes" in family.paths
]


# The last layer of these computes first tokens alone; others have norms first, or two towers.
APART = {
    "albert", "bert", "camembert", "deberta", "deberta-v2", "distilbert", "electra", "ernie",
    "roberta", "xlm-roberta", "xlnet",
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)
def test_first_tokens_alone_are_those_of_the_whole_pass(family):
    """Their vectors and every gradient, whether or not the last layer leaves out the others."""
    model = without_dropout(built(family, plain_architecture(family))).double()
    texts = tokens([7, 3, 3, 12, 1])
    ids, layout = torch.cat(texts), Layout([len(text) for text in texts])
    whole = model(ids, layout)[layout.first(ids.device)]
    alone = model.first_tokens(ids, layout)
    assert torch.allclose(alone, whole, atol=1e-12)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    direction = torch.randn(whole.shape, generator=torch.Generator().manual_seed(2)).double()
    first, second = (
        torch.autograd.grad((each * direction).sum(), weights, allow_unused=True, retain_graph=True)
        for each in (whole, alone)
    )
    for one, other in zip(first, second, strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.allclose(one, other, atol=1e-10)
    assert model.computes_some == (family.model_type in APART)


@pytest.mark.parametrize(("family", "pooling"), CLASSIFIERS)
def test_a_head_of_numbers_predicts_the_same_in_every_unit(family, pooling):
    task = Classify(labels=("stars",), problem="number", pooling=pooling)
    encoder = built(family, plain_architecture(family))
    config = family.config(encoder.blueprint)
    plain = with_task(dataclasses.replace(checkpoint_of(family, encoder), config=config), task)
    centred = blueprint_for(plain, task).heads[task.head].has_bias
    seen = Standardization(mean=7.0 if centred else 0.0, deviation=3.0)
    units = dataclasses.replace(task, standardization=seen)
    trained = with_task(plain, units)
    back = with_task(trained, trained_task := units.to_save())
    assert trained_task == task
    texts = tokens([9, 17, 4])
    layout = Layout([len(text) for text in texts])
    with torch.no_grad():
        before, inside, after = (
            model.head(task.head).logits(run(model.eval(), texts), layout)
            for model in (plain.model, trained.model, back.model)
        )
    torch.testing.assert_close(inside * seen.deviation + seen.mean, before, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(after, before, atol=1e-5, rtol=1e-5)


def plain_architecture(family):
    """The architecture with the fewest parts."""
    return min(family.architectures, key=lambda name: len(family.architectures[name].parts))


@pytest.mark.parametrize(("family", "name"), CASES)
def test_every_parameter_learns(family, name):
    model = built(family, name).train()
    lengths = [5, 9, model.blueprint.max_length() or 50]
    types = torch.arange(sum(lengths)) % max(1, model.blueprint.embeddings.types)
    layout = Layout(lengths)
    hidden = model(torch.cat(tokens(lengths)), layout, types)
    total = hidden.square().mean()
    if model.decoder is not None:
        hidden = model.decode(torch.cat(tokens(lengths)), layout, AttentionSource(hidden, layout))
        total = total + hidden.square().mean()
    for head in model.blueprint.heads:
        scores = model.head(head).logits(hidden, layout)
        # One logit of a text alone says nothing; it is compared with those of others.
        scores = scores.T if scores.shape[-1] == 1 else scores
        total = total + torch.nn.functional.cross_entropy(scores, scores.argmin(dim=-1))
    if model.pooler is not None:
        total = total + model.pooler.pool(hidden, layout).square().mean()
    total.backward()
    still = [
        key
        for key, parameter in model.named_parameters()
        if parameter.grad is None or not parameter.grad.abs().any()
    ]
    # These add the same to all scores of a query, or to all choices, so softmax cannot see it.
    unseen = ("key.bias", "choice.project.bias", "choice.classes.project.bias")
    assert [key for key in still if not key.endswith(unseen)] == []
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(("family", "name"), CASES)
def test_blueprint_round_trips(family, name):
    blueprint = small(family, family.architectures[name].parts)
    assert Blueprint.from_json(blueprint.to_json()) == blueprint
    config = family.config(blueprint)
    assert json.loads(json.dumps(config)) == config
    assert family.blueprint(Config(config), blueprint.parts) == blueprint


@pytest.mark.parametrize(("family", "name"), CASES)
def test_names_are_reversible_and_distinct(family, name):
    model = built(family, name)
    names = family.names(name)
    for prefixed in (True, False):
        theirs = [names.theirs(key, prefixed=prefixed) for key in model.state_dict()]
        assert len(set(theirs)) == len(theirs)
        assert [names.ours(key) for key in theirs] == list(model.state_dict())


@pytest.mark.parametrize(("family", "name"), CASES)
def test_folder_round_trip(family, name, tmp_path):
    model = built(family, name)
    folders.save(checkpoint_of(family, model), tmp_path / "a", overwrite=False, shard_bytes=10**9)
    again = folders.load(tmp_path / "a")
    assert again.model.blueprint == model.blueprint
    assert again.config["architectures"] == [family.fitting(model.blueprint.parts)]
    assert family.architectures[again.config["architectures"][0]].parts == model.blueprint.parts
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, again.model.state_dict()[key]), key
    folders.save(again, tmp_path / "b", overwrite=False, shard_bytes=3000)
    sharded = folders.load(tmp_path / "b")
    assert len(list((tmp_path / "b").glob("model-*.safetensors"))) > 1
    for key, tensor in model.state_dict().items():
        assert torch.equal(tensor, sharded.model.state_dict()[key]), key


@pytest.mark.parametrize(("family", "name"), CASES)
def test_the_prefix_may_be_there_or_not(family, name, tmp_path):
    model = built(family, name)
    folders.save(checkpoint_of(family, model), tmp_path / "a", overwrite=False, shard_bytes=10**9)
    file = tmp_path / "a" / "model.safetensors"
    (tmp_path / "a" / "clozeworks.json").unlink()  # as if another library had written it
    names = family.names(name)
    for prefixed in (True, False):
        weights = {
            names.theirs(names.ours(key), prefixed=prefixed): tensor
            for key, tensor in load_file(file).items()
        }
        save_file(weights, file, metadata={"format": "pt"})
        again = folders.load(tmp_path / "a")
        assert not again.report.missing and not again.report.unexpected


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_a_foreign_part_cannot_be_saved_silently(family, tmp_path):
    blueprint = small(family, frozenset())
    layer = blueprint.encoder.layers[0]
    # In no published family do two layers take turns; sharing alone is what ALBERT can say.
    turns = dataclasses.replace(blueprint.encoder, layers=(layer, layer), order=(0, 1, 0, 1))
    with pytest.raises(UnsupportedError, match="encoder"):
        family.config(dataclasses.replace(blueprint, encoder=turns))


@pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES.keys())
def test_trace_keeps_every_layer(family):
    model = built(family, family.base).eval()
    trace = Trace()
    with torch.no_grad():
        hidden = model(torch.cat(tokens([4, 9])), Layout([4, 9]), trace=trace)
    assert len(trace.hidden_states) == 3
    assert torch.equal(trace.hidden_states[-1], hidden)
    assert [weights.shape for weights in trace.attention[0]] == [(4, 4, 4), (4, 9, 9)]
    assert all(torch.allclose(w.sum(-1), torch.ones(())) for w in trace.attention[1])


# Published numbers of parameters: size, parts beside the body, count.
COUNTS = [
    ("albert-base-v1", {"pooler"}, 11_683_584),
    ("albert-large-v1", {"pooler"}, 17_683_968),
    ("albert-xlarge-v2", {"pooler"}, 58_724_864),
    ("albert-xxlarge-v2", {"pooler"}, 222_595_584),
    ("bert-base", {"pooler"}, 109_482_240),
    ("bert-base", set(), 108_891_648),
    ("bert-base", {"pooler", "vocabulary", "next_sentence"}, 110_106_428),
    ("bert-base-cased", {"pooler"}, 108_310_272),
    ("bert-base-chinese", {"pooler"}, 102_267_648),
    ("bert-large", {"pooler"}, 335_141_888),
    ("bert-large", {"pooler", "vocabulary", "next_sentence"}, 336_226_108),
    ("roberta-base", set(), 124_055_040),
    ("roberta-base", {"pooler"}, 124_645_632),
    ("roberta-base", {"vocabulary"}, 124_697_433),
    ("roberta-large", {"vocabulary"}, 355_412_057),
    ("xlm-roberta-base", {"pooler"}, 278_043_648),
    ("xlm-roberta-base", {"vocabulary"}, 278_295_186),
    ("xlm-roberta-large", {"pooler"}, 559_890_432),
    ("bge-m3", {"pooler"}, 567_754_752),
    ("camembert-base", {"pooler"}, 110_621_952),
    ("ernie-3.0-base", {"pooler"}, 117_944_832),
    ("distilbert-base", set(), 66_362_880),
    ("distilbert-base", {"vocabulary"}, 66_985_530),
    ("electra-small", {"replaced"}, 13_549_057),
    ("electra-base", {"replaced"}, 109_483_009),
    ("electra-large", {"replaced"}, 335_142_913),
    ("electra-small-generator", {"vocabulary"}, 13_546_682),
    ("electra-base-generator", {"vocabulary"}, 33_740_602),
    ("electra-large-generator", {"vocabulary"}, 51_295_290),
    ("deberta-base", set(), 138_601_728),
    ("deberta-v3-base", set(), 183_831_552),
    ("modernbert-base", set(), 149_014_272),
    ("modernbert-base", {"vocabulary"}, 149_655_232),
    ("modernbert-large", {"vocabulary"}, 395_881_664),
    ("openai-gpt", {"vocabulary"}, 116_534_784),
    ("gpt2", {"vocabulary"}, 124_439_808),
    ("gpt2-medium", {"vocabulary"}, 354_823_168),
    ("gpt2-large", {"vocabulary"}, 774_030_080),
    ("gpt2-xl", {"vocabulary"}, 1_557_611_200),
    ("llama-7b", {"vocabulary"}, 6_738_415_616),
    ("llama-3.1-8b", {"vocabulary"}, 8_030_261_248),
    ("llama-3.2-1b", {"vocabulary"}, 1_235_814_400),
    ("llama-3.2-3b", {"vocabulary"}, 3_212_749_824),
    ("llama-3-8b", {"vocabulary"}, 8_030_261_248),
    ("mistral-7b-v0.1", {"vocabulary"}, 7_241_732_096),
    ("mistral-7b-v0.3", {"vocabulary"}, 7_248_023_552),
    ("mistral-nemo-12b", {"vocabulary"}, 12_247_782_400),
    ("qwen2.5-0.5b", {"vocabulary"}, 494_032_768),
    ("qwen2.5-1.5b", {"vocabulary"}, 1_543_714_304),
    ("qwen2.5-7b", {"vocabulary"}, 7_615_616_512),
    ("smollm3-3b", {"vocabulary"}, 3_075_098_624),
    ("t5-small", {"decoder", "vocabulary"}, 60_506_624),
    ("t5-base", {"decoder", "vocabulary"}, 222_903_552),
    ("t5-large", {"decoder", "vocabulary"}, 737_668_096),
    ("t5-v1_1-base", {"decoder", "vocabulary"}, 247_577_856),
    ("t5-v1_1-xl", {"decoder", "vocabulary"}, 2_849_757_184),
    ("t5-v1_1-xxl", {"decoder", "vocabulary"}, 11_135_332_352),
    ("mt5-xl", {"decoder", "vocabulary"}, 3_742_619_648),
    ("mt5-xxl", {"decoder", "vocabulary"}, 12_921_057_280),
    ("byt5-small", {"decoder", "vocabulary"}, 299_637_760),
    ("mt5-small", {"decoder", "vocabulary"}, 300_176_768),
    ("xlnet-base", {"vocabulary", "query_start"}, 116_750_336),
    ("xlnet-large", {"vocabulary", "query_start"}, 360_300_800),
]


@pytest.mark.parametrize(("size", "parts", "count"), COUNTS)
def test_published_parameter_counts(size, parts, count):
    family = next(family for family in FAMILIES.values() if size in family.sizes)
    assert family.blueprint(family.published(size), frozenset(parts)).count() == count


def test_every_family_has_a_published_count():
    counted = {size for size, _, _ in COUNTS}
    for family in FAMILIES.values():
        assert counted & set(family.sizes), f"{family.model_type} has no count to check"
