"""Attention beside that of transformers, attributions beside those of captum."""

import numpy as np
import pytest
import torch

from clozeworks.checkpoints import folder as folders
from clozeworks.look.attention import look_at_attention
from clozeworks.text.tokenizer.encoding import Encoded

pytestmark = pytest.mark.parity
ENCODERS = [
    "AlbertForMaskedLM", "BertForMaskedLM", "CamembertForMaskedLM", "DebertaForMaskedLM",
    "DebertaV2ForMaskedLM", "DistilBertForMaskedLM", "ElectraForMaskedLM", "ErnieForMaskedLM",
    "ModernBertForMaskedLM", "RobertaForMaskedLM", "XLMRobertaForMaskedLM", "XLNetLMHeadModel",
]  # fmt: skip
DECODERS = [
    "GPT2LMHeadModel", "OpenAIGPTLMHeadModel", "LlamaForCausalLM", "MistralForCausalLM",
    "Qwen2ForCausalLM", "SmolLM3ForCausalLM",
]  # fmt: skip


class Numbered:
    """A tokenizer of texts that are numbers already: "7 8 9"."""

    mask_id = None

    def encode(self, texts, pairs=None, *, max_length=None, offsets=False):
        ids = list(map(int, texts[0].split()))
        n = len(ids)
        return [Encoded(ids, [0] * n, [False] * n, [(0, 0)] * n, [0] * n, [0] * n)]

    def token_of(self, token):
        return str(token)


@pytest.mark.parametrize("architecture", ENCODERS + DECODERS)
def test_attention(architecture, peer, tmp_path):
    theirs = peer(architecture)
    theirs.save_pretrained(tmp_path / "peer")
    model = folders.load(tmp_path / "peer").model
    ids = torch.randint(5, 99, (1, 14), generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        expected = theirs(input_ids=ids, output_attentions=True).attentions
    text = " ".join(map(str, ids[0].tolist()))
    stream = look_at_attention(model, Numbered(), text).streams[0]
    assert len(stream.layers) == len(expected)
    for layer, right in zip(stream.layers, expected, strict=True):
        np.testing.assert_allclose(layer.weights, right[0].numpy(), atol=1e-5)


@pytest.mark.parametrize(
    "architecture", ["T5ForConditionalGeneration", "MT5ForConditionalGeneration"]
)
def test_attention_of_encoder_decoders(architecture, peer, tmp_path):
    theirs = peer(architecture)
    theirs.save_pretrained(tmp_path / "peer")
    model = folders.load(tmp_path / "peer").model
    read, written = [9, 8, 7, 30, 41, 1], [0, 12, 13, 44]
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor([read]),
            decoder_input_ids=torch.tensor([written]),
            output_attentions=True,
        )
    # The last token of a target is predicted, not read.
    view = look_at_attention(
        model, Numbered(), " ".join(map(str, read)), target="12 13 44 1", start=0
    )
    for kind, right in (
        ("encoder", expected.encoder_attentions),
        ("decoder", expected.decoder_attentions),
        ("cross", expected.cross_attentions),
    ):
        layers = view.stream(kind).layers
        assert len(layers) == len(right)
        for layer, weights in zip(layers, right, strict=True):
            np.testing.assert_allclose(layer.weights, weights[0].numpy(), atol=1e-5)


def test_attention_of_a_query_stream(peer, tmp_path):
    theirs = peer("XLNetLMHeadModel")
    theirs.save_pretrained(tmp_path / "peer")
    model = folders.load(tmp_path / "peer").model
    ids, gap = [9, 8, 7, 6, 30, 41, 12], 3
    hidden = torch.zeros(1, len(ids), len(ids))
    hidden[:, :, gap] = 1
    wanted = torch.zeros(1, 1, len(ids))
    wanted[0, 0, gap] = 1
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor([ids]),
            perm_mask=hidden,
            target_mapping=wanted,
            output_attentions=True,
        ).attentions
    tokenizer = Numbered()
    tokenizer.mask_id = 6
    stream = look_at_attention(model, tokenizer, " ".join(map(str, ids))).stream("queries")
    assert len(stream.layers) == len(expected)
    for layer, (_, right) in zip(stream.layers, expected, strict=True):
        row = right[0][:, [gap]]  # there is one for each token, of which only this asks
        np.testing.assert_allclose(layer.weights, row.numpy(), atol=1e-5)


def test_integrated_gradients_are_those_of_captum(tiny_models, tmp_path):
    attr = pytest.importorskip("captum.attr", reason="captum is not installed")
    from transformers import AutoModelForSequenceClassification, AutoTokenizer

    import clozeworks as cw
    from clozeworks.tasks.classify import Classify

    model = cw.load(tiny_models["bert"]).for_task(Classify(labels=("bad", "good")))
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.model.parameters():
            if weight.dim() > 1:
                weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
    folder = model.save(tmp_path / "model")
    theirs = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    tokenizer = AutoTokenizer.from_pretrained(folder)
    text = "The cat sat on the mat and the dog lay on the rug."
    inputs = tokenizer(text, return_tensors="pt")
    special = torch.tensor(tokenizer.get_special_tokens_mask(
        inputs["input_ids"][0].tolist(), already_has_special_tokens=True
    ))  # fmt: skip
    baseline = torch.where(special.bool(), inputs["input_ids"][0], tokenizer.mask_token_id)[None]
    explain = attr.LayerIntegratedGradients(
        lambda ids: theirs(ids).logits[:, 1], theirs.bert.embeddings.word_embeddings
    )
    expected = explain.attribute(
        inputs["input_ids"], baselines=baseline, n_steps=50, method="gausslegendre"
    ).sum(dim=-1)[0]
    found = model.look.attribute(text, label="good", steps=50, leave_out=False)
    assert found.steps == 50
    np.testing.assert_allclose(found.piece_values, expected.detach().numpy(), atol=1e-4)
    assert max(map(abs, found.piece_values)) > 1e-2
