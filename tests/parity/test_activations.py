"""Activations against transformers: every published spelling, its value and its gradient."""

import json

import pytest
import torch
from transformers.activations import ACT2CLS, ACT2FN

from clozeworks.checkpoints import folder as folders
from clozeworks.core.layers.activation import activation_named
from clozeworks.core.layout import Layout
from clozeworks.errors import UnknownName
from clozeworks.families.family import ACTIVATIONS

pytestmark = pytest.mark.parity

# These have weights of their own.
LEARNED = {"prelu", "xielu"}
KEYS = {
    "BertForMaskedLM": "hidden_act",
    "GPT2LMHeadModel": "activation_function",
    "LlamaForCausalLM": "hidden_act",
    "ModernBertForMaskedLM": "hidden_activation",
    "XLNetLMHeadModel": "ff_activation",
}


def test_every_spelling_without_weights_is_known():
    assert set(ACTIVATIONS) == set(ACT2CLS) - LEARNED


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_values_and_gradients(name, dtype):
    x = torch.cat([torch.linspace(-30, 30, 1201), torch.linspace(-3, 3, 1201)]).to(dtype)
    # Trap: gelu_fast rounds a constant after ten digits, so that it alone differs in float64.
    tolerance = 1e-5 if dtype == torch.float32 else 1e-9
    left, right = x.clone().requires_grad_(), x.clone().requires_grad_()
    ours, theirs = activation_named(ACTIVATIONS[name])(left), ACT2FN[name](right)
    torch.testing.assert_close(ours, theirs, atol=tolerance, rtol=tolerance)
    ours.sum().backward(), theirs.sum().backward()
    torch.testing.assert_close(left.grad, right.grad, atol=tolerance, rtol=tolerance)


@pytest.mark.parametrize("architecture", KEYS)
@pytest.mark.parametrize(
    "name", ["gelu_python", "gelu_fast", "gelu_10", "quick_gelu", "relu2", "mish"]
)
def test_models_compute_the_same_and_keep_the_spelling(architecture, name, peer, batch, tmp_path):
    theirs = peer(architecture, **{KEYS[architecture]: name})
    theirs.save_pretrained(tmp_path / "theirs")
    checkpoint = folders.load(tmp_path / "theirs")
    data, layout = batch([5, 30], types=False), Layout([5, 30])
    with torch.no_grad():
        expected = theirs(input_ids=data["padded_ids"], attention_mask=data["mask"]).logits
        hidden = checkpoint.model(data["ids"], layout)
        ours = checkpoint.model.head("vocabulary").logits(hidden, layout)
    right = expected[data["mask"].bool()]
    assert (ours - right).abs().max() <= 1e-5 * max(1.0, right.abs().max().item())
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=2**40)
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert config[KEYS[architecture]] == name


@pytest.mark.parametrize("family", ["T5", "MT5"])
@pytest.mark.parametrize(
    "projection",
    ["relu", "gelu", "gelu_new", "silu", "quick_gelu", "gated-gelu", "gated-gelu_new",
     "gated-relu", "gated-silu", "gated-relu2"],
)  # fmt: skip
def test_t5_feed_forwards(family, projection, peer, batch, tmp_path):
    theirs = peer(f"{family}EncoderModel", feed_forward_proj=projection)
    theirs.save_pretrained(tmp_path / "theirs")
    checkpoint = folders.load(tmp_path / "theirs")
    assert not checkpoint.report.unexpected
    data = batch([5, 30], types=False)
    with torch.no_grad():
        expected = theirs(input_ids=data["padded_ids"], attention_mask=data["mask"])[0]
        ours = checkpoint.model(data["ids"], Layout([5, 30]))
    right = expected[data["mask"].bool()]
    assert (ours - right).abs().max() <= 1e-5 * max(1.0, right.abs().max().item())
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=2**40)
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert config["feed_forward_proj"] == projection
    again = type(theirs).from_pretrained(tmp_path / "ours")
    assert again.config.dense_act_fn == theirs.config.dense_act_fn


@pytest.mark.parametrize("name", sorted(LEARNED))
def test_what_has_weights_is_refused(name, peer, tmp_path):
    peer("BertModel").save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "hidden_act": name}))
    with pytest.raises(UnknownName, match=f"hidden_act is '{name}'; known: gelu, "):
        folders.load(tmp_path)
