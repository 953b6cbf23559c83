"""ALBERT where it differs from its relatives: groups, blocks, a table as wide as the model."""

import pytest
import torch
import torch.nn.functional as F
import transformers

import clozeworks as cw
from clozeworks.checkpoints import folder as folders
from clozeworks.core.blueprint import Blueprint
from clozeworks.core.context import Trace
from clozeworks.core.layout import Layout

pytestmark = pytest.mark.parity

LENGTHS = [1, 40, 7, 7, 12, 39, 2]
# Layers, groups of them that share their weights, blocks in a group.
SHAPES = [(4, 2, 2), (6, 3, 2), (3, 1, 3), (3, 3, 1), (3, 1, 1)]


def shape(layers, groups, blocks):
    return {
        "num_hidden_layers": layers, "num_hidden_groups": groups, "inner_group_num": blocks,
        "num_labels": 2,
    }  # fmt: skip


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


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize(("layers", "groups", "blocks"), SHAPES)
def test_groups_and_blocks(layers, groups, blocks, mode, peer, batch, tmp_path):
    """Hidden states, both scores, the loss of both and all gradients; then folders both ways."""
    theirs = peer("AlbertForPreTraining", **shape(layers, groups, blocks))
    theirs.save_pretrained(tmp_path / "theirs")
    checkpoint = folders.load(tmp_path / "theirs")
    assert not checkpoint.report.missing and not checkpoint.report.unexpected
    model = checkpoint.model
    assert len(model.encoder.layers) == groups
    assert len(model.encoder.layers[0]) == 2 * blocks
    theirs.train(mode == "train")
    model.train(mode == "train")

    data, layout = batch(LENGTHS), Layout(LENGTHS)
    real = data["mask"].bool()
    labels = torch.where(real, data["padded_ids"], -100)
    swapped = torch.arange(len(LENGTHS)) % 2
    expected = theirs(
        **inputs_of(data), labels=labels, sentence_order_label=swapped, output_hidden_states=True
    )
    trace = Trace()
    hidden = model(data["ids"], layout, data["types"], trace)
    # They keep what every block says, we what every layer says.
    for left, right in zip(trace.hidden_states, expected.hidden_states[::blocks], strict=True):
        close(left, right[real])
    words = model.head("vocabulary").logits(hidden, layout)
    order = model.head("sentence_order").logits(hidden, layout)
    close(words, expected.prediction_logits[real])
    close(order, expected.sop_logits)
    loss = F.cross_entropy(words, data["ids"]) + F.cross_entropy(order, swapped)
    torch.testing.assert_close(loss, expected.loss, atol=1e-5, rtol=1e-5)

    loss.backward()
    expected.loss.backward()
    names = checkpoint.family.names("AlbertForPreTraining")
    gradients = {names.ours(name): each.grad for name, each in theirs.named_parameters()}
    for name, parameter in model.named_parameters():
        close(parameter.grad, gradients.pop(name))
    assert all(gradient is None or not gradient.any() for gradient in gradients.values())

    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=10**9)
    again, report = transformers.AlbertForPreTraining.from_pretrained(
        tmp_path / "ours", output_loading_info=True, attn_implementation="eager"
    )
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    with torch.no_grad():
        assert torch.equal(again.eval()(**inputs_of(data))[0], theirs.eval()(**inputs_of(data))[0])


def test_a_table_as_wide_as_the_model_keeps_its_projection(peer, batch, tmp_path):
    theirs = peer("AlbertForMaskedLM", embedding_size=32)
    theirs.save_pretrained(tmp_path / "theirs")
    checkpoint = folders.load(tmp_path / "theirs")
    assert not checkpoint.report.missing and not checkpoint.report.unexpected
    data, layout = batch(LENGTHS), Layout(LENGTHS)
    hidden = checkpoint.model(data["ids"], layout, data["types"])
    expected = theirs(**inputs_of(data)).logits[data["mask"].bool()]
    close(checkpoint.model.head("vocabulary").logits(hidden, layout), expected)
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=10**9)
    assert folders.load(tmp_path / "ours").model.blueprint == checkpoint.model.blueprint


def test_untied_decoder(peer, batch, tmp_path):
    theirs = peer("AlbertForMaskedLM", tie_word_embeddings=False)
    theirs.save_pretrained(tmp_path / "theirs")
    checkpoint = folders.load(tmp_path / "theirs")
    assert not checkpoint.model.tied()
    data, layout = batch(LENGTHS), Layout(LENGTHS)
    hidden = checkpoint.model(data["ids"], layout, data["types"])
    expected = theirs(**inputs_of(data)).logits[data["mask"].bool()]
    close(checkpoint.model.head("vocabulary").logits(hidden, layout), expected)
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=10**9)
    again = transformers.AlbertForMaskedLM.from_pretrained(tmp_path / "ours")
    assert torch.equal(again.predictions.decoder.bias, theirs.predictions.decoder.bias)


def test_negative_control_the_exact_gelu_would_be_seen(peer, batch, tmp_path):
    theirs = peer("AlbertForMaskedLM")
    theirs.save_pretrained(tmp_path / "theirs")
    model = folders.load(tmp_path / "theirs").model
    plain = model.blueprint.to_json().replace("gelu_tanh", "gelu")
    wrong = Blueprint.from_json(plain).build()
    wrong.load_state_dict(model.state_dict())
    data, layout = batch([40]), Layout([40])
    expected = theirs(**inputs_of(data)).logits[0]
    for which, right in ((model, True), (wrong.eval(), False)):
        hidden = which(data["ids"], layout, data["types"])
        scores = which.head("vocabulary").logits(hidden, layout)
        assert ((scores - expected).abs().max() <= 1e-5 * expected.abs().max()) == right


@pytest.mark.parametrize("lowered", [True, False])
def test_their_tokenizer_is_read_as_it_was_saved(lowered, peer, tmp_path):
    pieces = [
        "<pad>",
        "<unk>",
        "[CLS]",
        "[SEP]",
        "[MASK]",
        "▁",
        "▁the",
        "▁river",
        "▁cafe",
        *"RTEHer'",
    ]
    vocabulary = [(piece, -float(place)) for place, piece in enumerate(pieces)]
    theirs = transformers.AlbertTokenizer(vocab=vocabulary, do_lower_case=lowered)
    peer("AlbertForMaskedLM", vocab_size=len(pieces)).save_pretrained(tmp_path / "model")
    theirs.save_pretrained(tmp_path / "model")
    model = cw.load(tmp_path / "model")
    for text in ("The RIVER", "café  the [MASK]", "``the''", "", "river 上海"):
        assert model.tokenizer.encode([text])[0].ids == theirs(text)["input_ids"], text
    expected, found = theirs("the", "river"), model.tokenizer.encode(["the"], ["river"])[0]
    assert found.ids == expected["input_ids"]
    assert model.fill("the [MASK]", top=2).gaps[0][0].word
    model.save(tmp_path / "again")
    again = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    assert again("The RIVER café")["input_ids"] == theirs("The RIVER café")["input_ids"]
