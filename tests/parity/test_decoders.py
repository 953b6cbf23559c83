"""GPT, GPT-2, LLaMA, T5 and mT5 against transformers: scores, losses, gradients, saved folders."""

import pytest
import torch
import torch.nn.functional as F
import transformers

from clozeworks.checkpoints import folder as folders
from clozeworks.core.context import AttentionSource, Trace
from clozeworks.core.layout import Layout

pytestmark = pytest.mark.parity

LENGTHS = ([1], [40], [1, 40, 7, 7, 7, 12, 12, 39, 2, 40])
BIASES = {"attention_bias": True, "mlp_bias": True}
SLOWER = {
    "rope_type": "llama3",
    "rope_theta": 50.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES = [
    ("GPT2LMHeadModel", "vocabulary", {}),
    ("GPT2LMHeadModel", "vocabulary", {"n_inner": 50, "activation_function": "relu"}),
    ("GPT2LMHeadModel", "vocabulary", {"tie_word_embeddings": False}),
    ("GPT2ForSequenceClassification", "classes", {}),
    ("GPT2ForTokenClassification", "tokens", {}),
    ("GPT2ForQuestionAnswering", "answer", {}),
    ("OpenAIGPTLMHeadModel", "vocabulary", {}),
    ("OpenAIGPTForSequenceClassification", "classes", {}),
    ("LlamaForCausalLM", "vocabulary", {}),
    ("LlamaForCausalLM", "vocabulary", {"num_key_value_heads": 4, "head_dim": 10, **BIASES}),
    ("LlamaForCausalLM", "vocabulary", {"tie_word_embeddings": True, "rope_parameters": SLOWER}),
    (
        "LlamaForCausalLM",
        "vocabulary",
        {"rope_parameters": {"rope_type": "linear", "rope_theta": 70.0, "factor": 3.0}},
    ),
    ("LlamaForSequenceClassification", "classes", {}),
    ("LlamaForTokenClassification", "tokens", {}),
]
GATED = {"feed_forward_proj": "gated-gelu", "tie_word_embeddings": False}
ANSWERING = [
    ("T5ForConditionalGeneration", {}),
    ("T5ForConditionalGeneration", GATED),
    ("T5ForConditionalGeneration", {"feed_forward_proj": "gated-silu"}),
    (
        "T5ForConditionalGeneration",
        {"relative_attention_num_buckets": 8, "relative_attention_max_distance": 20},
    ),
    ("MT5ForConditionalGeneration", {}),
]


def close(left, right, tolerance=1e-5):
    scale = max(1.0, right.abs().max().item())
    difference = (left - right).abs().max().item()
    assert difference <= tolerance * scale, f"{difference} at scale {scale}"


def loaded(theirs, folder):
    theirs.save_pretrained(folder)
    checkpoint = folders.load(folder)
    report = checkpoint.report
    assert not (report.missing or report.unexpected or report.absent), report.lines()
    return checkpoint


def same_gradients(model, theirs, checkpoint, gradients_of):
    gradients = gradients_of(theirs, checkpoint)
    for name, parameter in model.named_parameters():
        close(parameter.grad, gradients.pop(name))
    assert not gradients


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: f"{len(lengths)}texts")
@pytest.mark.parametrize(("architecture", "head", "variant"), CASES)
def test_decoders(architecture, head, variant, lengths, mode, peer, batch, gradients_of, tmp_path):
    theirs = peer(architecture, **variant)
    checkpoint = loaded(theirs, tmp_path / "peer")
    model = checkpoint.model.train(mode == "train")
    theirs.train(mode == "train")
    data, layout = batch(lengths, types=False), Layout(lengths)
    real = data["mask"].bool()
    expected = theirs(
        input_ids=data["padded_ids"], attention_mask=data["mask"], output_hidden_states=True
    )
    trace = Trace(attention=None)
    hidden = model(data["ids"], layout, trace=trace)
    for left, right in zip(trace.hidden_states, expected.hidden_states, strict=True):
        close(left, right[real])
    if head == "answer":
        right = torch.stack([expected.start_logits, expected.end_logits], dim=-1)[real]
    else:
        right = expected.logits if head == "classes" else expected.logits[real]
    scores = model.head(head).logits(hidden, layout)
    close(scores, right)
    labels = torch.arange(len(right)) % right.shape[-1]
    loss, expected_loss = F.cross_entropy(scores, labels), F.cross_entropy(right, labels)
    assert abs(loss.item() - expected_loss.item()) <= 1e-5 * max(1.0, expected_loss.item())
    loss.backward()
    expected_loss.backward()
    same_gradients(model, theirs, checkpoint, gradients_of)


def test_left_padding_changes_nothing(peer, batch, tmp_path):
    lengths = [3, 17, 40, 9]
    for architecture in ("GPT2LMHeadModel", "LlamaForCausalLM"):
        theirs = peer(architecture)
        model = loaded(theirs, tmp_path / architecture).model
        data = batch(lengths, types=False, left=True)
        places = (data["mask"].cumsum(1) - 1).clamp(min=0)
        with torch.no_grad():
            expected = theirs(
                data["padded_ids"], attention_mask=data["mask"], position_ids=places
            ).logits[data["mask"].bool()]
            hidden = model(data["ids"], Layout(lengths))
            close(model.head("vocabulary").logits(hidden, Layout(lengths)), expected)


def untied(theirs, variant):
    """A peer with a table of its own for the output, as checkpoints of v1.1 have it.

    Trap: made from a config, it would share the input's whatever the config says.
    """
    if variant.get("tie_word_embeddings", "MT5" not in type(theirs).__name__):
        return theirs
    generator = torch.Generator().manual_seed(5)
    weight = torch.randn(theirs.lm_head.weight.shape, generator=generator)
    theirs.lm_head.weight = torch.nn.Parameter(0.2 * weight)
    return theirs


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: f"{len(lengths)}texts")
@pytest.mark.parametrize(("architecture", "variant"), ANSWERING)
def test_encoder_decoders(
    architecture, variant, lengths, mode, peer, batch, gradients_of, tmp_path
):
    theirs = untied(peer(architecture, **variant), variant)
    checkpoint = loaded(theirs, tmp_path / "peer")
    model = checkpoint.model.train(mode == "train")
    theirs.train(mode == "train")
    data, layout = batch(lengths, types=False), Layout(lengths)
    answers, answered = batch(lengths[::-1], types=False, seed=1), Layout(lengths[::-1])
    expected = theirs(
        input_ids=data["padded_ids"],
        attention_mask=data["mask"],
        decoder_input_ids=answers["padded_ids"],
        decoder_attention_mask=answers["mask"],
    )
    encoded = model(data["ids"], layout)
    close(encoded, expected.encoder_last_hidden_state[data["mask"].bool()])
    hidden = model.decode(answers["ids"], answered, AttentionSource(encoded, layout))
    scores = model.head("vocabulary").logits(hidden, answered)
    right = expected.logits[answers["mask"].bool()]
    close(scores, right)
    labels = torch.arange(len(right)) % right.shape[-1]
    loss, expected_loss = F.cross_entropy(scores, labels), F.cross_entropy(right, labels)
    assert abs(loss.item() - expected_loss.item()) <= 1e-5 * max(1.0, expected_loss.item())
    loss.backward()
    expected_loss.backward()
    same_gradients(model, theirs, checkpoint, gradients_of)


@pytest.mark.parametrize(
    ("architecture", "variant"),
    [(name, variant) for name, _, variant in CASES] + ANSWERING,
)
def test_they_load_what_we_save(architecture, variant, peer, tmp_path):
    theirs = peer(architecture, **variant)
    if "T5" in architecture:
        theirs = untied(theirs, variant)
    checkpoint = loaded(theirs, tmp_path / "peer")
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=2**40)
    again, said = getattr(transformers, architecture).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not said["missing_keys"] and not said["unexpected_keys"]
    state = again.state_dict()
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(state[name], tensor), name
