"""DeBERTa where it differs from its relatives: terms, spans, buckets, convolution, two heads."""

import json

import pytest
import tokenizers
import torch
import transformers
from safetensors.torch import load_file, save_file

import clozeworks as cw
from clozeworks.checkpoints import folder as folders
from clozeworks.core.context import Trace
from clozeworks.core.layout import Layout
from clozeworks.core.model import hidden_states_at

pytestmark = pytest.mark.parity

RAGGED = [1, 40, 7, 7, 12, 39, 2]
# What a config can say of positions, beyond what all architectures are compared with.
SHAPES = {
    "v1 as published": ("DebertaModel", {"max_relative_positions": -1}),
    "v1 content to position": ("DebertaModel", {"pos_att_type": "c2p"}),
    "v1 position to content": ("DebertaModel", {"pos_att_type": ["p2c"]}),
    "v1 absolute too": ("DebertaModel", {"position_biased_input": True}),
    "v1 absolute alone": (
        "DebertaModel",
        {"position_biased_input": True, "relative_attention": False, "pos_att_type": None},
    ),
    "v1 narrow table": ("DebertaModel", {"embedding_size": 12, "type_vocab_size": 0}),
    "v2 own projections": ("DebertaV2Model", {"share_att_key": False}),
    "v2 own projections, one term": (
        "DebertaV2Model",
        {"share_att_key": False, "pos_att_type": "p2c", "position_buckets": -1},
    ),
    "v2 one term": ("DebertaV2Model", {"pos_att_type": "c2p"}),
    "v2 without buckets": ("DebertaV2Model", {"position_buckets": -1, "norm_rel_ebd": "none"}),
    "v2 convolution": ("DebertaV2Model", {"conv_kernel_size": 3, "conv_act": "gelu"}),
    "v2 wide convolution": ("DebertaV2Model", {"conv_kernel_size": 5, "conv_groups": 4}),
    "v2 narrow table": ("DebertaV2Model", {"embedding_size": 12, "position_biased_input": True}),
}


def close(left, right, tolerance=1e-5):
    scale = max(1.0, right.abs().max().item())
    assert (left - right).abs().max().item() <= tolerance * scale


def inputs_of(data):
    names = (
        ("input_ids", "padded_ids"),
        ("attention_mask", "mask"),
        ("token_type_ids", "padded_types"),
    )
    return {theirs: data[ours] for theirs, ours in names}


def loaded(theirs, folder):
    theirs.save_pretrained(folder / "theirs")
    checkpoint = folders.load(folder / "theirs")
    assert not checkpoint.report.missing and not checkpoint.report.unexpected
    return checkpoint


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("shape", SHAPES)
def test_positions(shape, mode, peer, batch, gradients_of, tmp_path):
    """Hidden states and gradients, ragged; then folders both ways."""
    architecture, changes = SHAPES[shape]
    theirs = peer(architecture, **changes)
    checkpoint = loaded(theirs, tmp_path)
    model = checkpoint.model
    theirs.train(mode == "train")
    model.train(mode == "train")
    data, layout = batch(RAGGED, types=model.blueprint.embeddings.types > 1), Layout(RAGGED)
    real = data["mask"].bool()
    expected = theirs(**inputs_of(data), output_hidden_states=True)
    trace = Trace()
    hidden = model(data["ids"], layout, data["types"], trace)
    for left, right in zip(trace.hidden_states, expected.hidden_states, strict=True):
        close(left, right[real])
    weights = torch.linspace(-1, 1, hidden.numel()).view_as(hidden)
    (hidden * weights).sum().backward()
    (expected.last_hidden_state[real] * weights).sum().backward()
    gradients = gradients_of(theirs, checkpoint)
    for name, parameter in model.named_parameters():
        close(parameter.grad, gradients.pop(name), 2e-5)
    assert all(not gradient.abs().any() for gradient in gradients.values())

    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=10**9)
    again, report = getattr(transformers, architecture).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    weights = zip(again.parameters(), theirs.parameters(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)


@pytest.mark.parametrize("length", [5, 64, 513])
@pytest.mark.parametrize("architecture", ["DebertaModel", "DebertaV2Model"])
def test_lengths_up_to_and_beyond_the_published_span(architecture, length, peer, batch, tmp_path):
    changes = {"max_relative_positions": 256} if architecture == "DebertaModel" else {}
    if architecture == "DebertaV2Model":
        changes = {"max_relative_positions": 512, "position_buckets": 256}
    theirs = peer(architecture, max_position_embeddings=520, num_hidden_layers=2, **changes)
    checkpoint = loaded(theirs, tmp_path)
    data = batch([length])
    with torch.no_grad():
        expected = theirs(**inputs_of(data)).last_hidden_state[0]
        close(checkpoint.model(data["ids"], Layout([length]), data["types"]), expected)


def test_attention_weights(peer, batch, tmp_path):
    theirs = peer("DebertaV2Model")
    checkpoint = loaded(theirs, tmp_path)
    lengths = [7, 40, 7, 3]
    data = batch(lengths)
    expected = theirs(**inputs_of(data), output_attentions=True).attentions
    trace = Trace()
    checkpoint.model(data["ids"], Layout(lengths), data["types"], trace)
    for layer, right in zip(trace.attention, expected, strict=True):
        for row, length in enumerate(lengths):
            close(layer[row], right[row, :, :length, :length])


@pytest.mark.parametrize("architecture", ["DebertaForMaskedLM", "DebertaV2ForMaskedLM"])
def test_the_head_that_is_not_legacy(architecture, peer, batch, tmp_path):
    theirs = peer(architecture, legacy=False)
    checkpoint = loaded(theirs, tmp_path)
    data, layout = batch(RAGGED), Layout(RAGGED)
    expected = theirs(**inputs_of(data)).logits[data["mask"].bool()]
    hidden = checkpoint.model(data["ids"], layout, data["types"])
    close(checkpoint.model.head("vocabulary").logits(hidden, layout), expected)
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=10**9)
    before, after = (load_file(tmp_path / n / "model.safetensors") for n in ("theirs", "ours"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    _, report = getattr(transformers, architecture).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))


@pytest.mark.parametrize("architecture", ["DebertaModel", "DebertaV2Model"])
def test_only_distances_count(architecture, peer, batch, tmp_path):
    """Their padding in front of a text moves all of its places, and changes nothing."""
    theirs = peer(architecture)
    checkpoint = loaded(theirs, tmp_path)
    lengths = [3, 40, 11]
    data = batch(lengths, left=True)
    expected = theirs(**inputs_of(data)).last_hidden_state[data["mask"].bool()]
    close(checkpoint.model(data["ids"], Layout(lengths), data["types"]), expected)


@pytest.mark.parametrize("architecture", ["DebertaForMaskedLM", "DebertaV2ForMaskedLM"])
def test_a_folder_as_released_keeps_its_decoder(architecture, peer, tmp_path):
    """No architecture in the config, the head by its newer name, places among the embeddings."""
    theirs = peer(architecture, legacy=False)
    theirs.save_pretrained(tmp_path / "theirs")
    file = tmp_path / "theirs" / "model.safetensors"
    weights = load_file(file)
    weights["deberta.embeddings.position_embeddings.weight"] = torch.randn(40, 32)
    heads = {"vocabulary", "mask_decoder"}
    if architecture == "DebertaV2ForMaskedLM":  # the third version has its discriminator's head too
        heads.add("replaced")
        shapes = {"dense": (32, 32), "classifier": (1, 32), "LayerNorm": (32,)}
        for name, shape in shapes.items():
            weights[f"mask_predictions.{name}.weight"] = torch.randn(shape)
            weights[f"mask_predictions.{name}.bias"] = torch.randn(shape[:1])
    save_file(weights, file, metadata={"format": "pt"})
    config = json.loads((tmp_path / "theirs" / "config.json").read_text())
    del config["architectures"], config["legacy"]
    (tmp_path / "theirs" / "config.json").write_text(json.dumps(config))

    checkpoint = folders.load(tmp_path / "theirs")
    assert not checkpoint.report.missing and not checkpoint.report.unexpected
    assert set(checkpoint.model.blueprint.heads) == heads
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=10**9)
    after = load_file(tmp_path / "ours" / "model.safetensors")
    assert weights.keys() == after.keys()
    assert all(torch.equal(weights[name], after[name]) for name in weights)
    again, report = getattr(transformers, architecture).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert torch.equal(again.lm_predictions.lm_head.bias, theirs.lm_predictions.lm_head.bias)


def test_the_decoder_is_their_last_layer_twice(peer, batch, tmp_path):
    """Their second version can ask with other states than it looks at; so can we."""
    theirs = peer("DebertaV2ForMaskedLM", legacy=False)
    theirs.save_pretrained(tmp_path / "theirs")
    file = tmp_path / "theirs" / "model.safetensors"
    table = 0.3 * torch.randn(40, 32)
    places = {"deberta.embeddings.position_embeddings.weight": table}
    save_file({**load_file(file), **places}, file, metadata={"format": "pt"})
    model = folders.load(tmp_path / "theirs").model
    data, layout = batch(RAGGED), Layout(RAGGED)
    real = data["mask"].bool()
    asked = torch.tensor([0, 1, 17, 40, 41, 60, 100, 107])
    with torch.no_grad():
        below = theirs(**inputs_of(data), output_hidden_states=True).hidden_states[-2]
        encoder = theirs.deberta.encoder
        query = below + table[: below.shape[1]]
        for _ in range(2):
            query = encoder.layer[-1](
                below,
                encoder.get_attention_mask(data["mask"]),
                query_states=query,
                relative_pos=encoder.get_rel_pos(below),
                rel_embeddings=encoder.get_rel_embedding(),
            )[0]
        expected = theirs.lm_predictions(query, theirs.deberta.embeddings.word_embeddings)
        vectors = hidden_states_at(model, data["ids"], layout, data["types"], asked)
        close(model.heads["vocabulary"](vectors), expected[real][asked])


def test_their_tokenizers_are_read_as_they_were_saved(peer, tmp_path):
    marks = ["[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]"]
    letters = sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet())
    words = {name: number for number, name in enumerate([*marks, *letters, "th", "the"])}
    pieces = [(name, 0.0) for name in marks]
    pieces += [(name, -float(at)) for at, name in enumerate(["▁", "▁the", "▁river", *"RTEHer'"])]
    theirs = {
        "DebertaForMaskedLM": transformers.DebertaTokenizer(
            vocab=words, merges=[("t", "h"), ("th", "e")]
        ),
        "DebertaV2ForMaskedLM": transformers.DebertaV2Tokenizer(vocab=pieces, unk_id=3),
    }
    for architecture, tokenizer in theirs.items():
        folder = tmp_path / architecture
        peer(architecture, vocab_size=len(tokenizer)).save_pretrained(folder)
        tokenizer.save_pretrained(folder)
        model = cw.load(folder)
        for text in ("The RIVER", "the  river [MASK]", "", "river 上海", " the\nriver"):
            assert model.tokenizer.encode([text])[0].ids == tokenizer(text)["input_ids"], text
        pair = model.tokenizer.encode(["the"], ["river"])[0]
        assert pair.ids == tokenizer("the", "river")["input_ids"]
        assert model.fill("the [MASK]", top=2).gaps[0][0].word
        model.save(tmp_path / "again", overwrite=True)
        again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
        assert again("The river's")["input_ids"] == tokenizer("The river's")["input_ids"]


def test_negative_control_the_distance_of_the_paper_would_be_seen(peer, batch, tmp_path):
    """Position to content measured from the key, as the paper has it."""
    theirs = peer("DebertaModel", pos_att_type="p2c")
    weights = {}
    theirs.save_pretrained(tmp_path / "theirs")
    for name, tensor in load_file(tmp_path / "theirs" / "model.safetensors").items():
        turned = tensor.roll(-1, 0).flip(0) if "rel_embeddings" in name else tensor
        weights[name] = turned.contiguous()
    checkpoint = folders.load(tmp_path / "theirs")
    save_file(weights, tmp_path / "theirs" / "model.safetensors", metadata={"format": "pt"})
    wrong = folders.load(tmp_path / "theirs")
    data, layout = batch([11]), Layout([11])
    expected = theirs(**inputs_of(data)).last_hidden_state[0]
    close(checkpoint.model(data["ids"], layout, data["types"]), expected)
    with pytest.raises(AssertionError):
        close(wrong.model(data["ids"], layout, data["types"]), expected)
