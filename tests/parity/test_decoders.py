"""GPT, GPT-2, LLaMA, T5 and mT5 against transformers: scores, losses, gradients, saved folders."""

import json

import pytest
import torch
import torch.nn.functional as F
import transformers

from clozeworks.checkpoints import folder as folders
from clozeworks.core.attention.kv_cache import GrowingCache
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
# Each twice as transformers knows it: as newer configs state it and as older ones did. Texts of the
# test are up to 40 long, those of training were 16.
YARN = {"rope_theta": 50.0, "factor": 2.5, "original_max_position_embeddings": 16}
PAIRS = {
    "short_factor": [1.0, 1.1, 1.5, 2.0], "long_factor": [1.0, 1.9, 3.0, 4.5],
    "original_max_position_embeddings": 16,
}  # fmt: skip
SCALED = [
    {"rope_type": "yarn", **YARN},
    {"rope_type": "yarn", **YARN, "beta_fast": 4.0, "beta_slow": 0.5, "truncate": False},
    {"rope_type": "yarn", **YARN, "attention_factor": 0.7},
    {"rope_type": "yarn", **YARN, "mscale": 0.8, "mscale_all_dim": 1.7},
    {"type": "yarn", "rope_theta": 50.0, "factor": 4.0},
    {"rope_type": "dynamic", "rope_theta": 50.0, "factor": 2.0},
    {"rope_type": "longrope", "rope_theta": 50.0, "factor": 2.5, **PAIRS},
    {"rope_type": "longrope", "rope_theta": 50.0, "attention_factor": 1.3, **PAIRS},
    {"type": "longrope", **PAIRS},
]
# As Qwen2.5 and SmolLM3 are stretched to longer texts.
YARN_OF_RELATIVES = {
    "rope_type": "yarn",
    "rope_theta": 50.0,
    "factor": 4.0,
    "original_max_position_embeddings": 16,
}
CASES = [
    ("GPT2LMHeadModel", "vocabulary", {}),
    ("GPT2LMHeadModel", "vocabulary", {"n_inner": 50, "activation_function": "relu"}),
    ("GPT2LMHeadModel", "vocabulary", {"tie_word_embeddings": False}),
    ("GPT2LMHeadModel", "vocabulary", {"scale_attn_weights": False}),
    ("GPT2LMHeadModel", "vocabulary", {"scale_attn_by_inverse_layer_idx": True}),
    (
        "GPT2LMHeadModel",
        "vocabulary",
        {
            "scale_attn_weights": False,
            "scale_attn_by_inverse_layer_idx": True,
            "reorder_and_upcast_attn": True,
        },
    ),
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
    *(
        (f"{family}For{task}", head, {})
        for family in ("Mistral", "Qwen2", "SmolLM3")
        for task, head in (
            ("CausalLM", "vocabulary"),
            ("SequenceClassification", "classes"),
            ("TokenClassification", "tokens"),
            ("QuestionAnswering", "answer"),
        )
    ),
    # A token sees itself and six before it; more than most texts have, and fewer.
    ("MistralForCausalLM", "vocabulary", {"sliding_window": 7, "head_dim": 10}),
    ("MistralForTokenClassification", "tokens", {"sliding_window": 39}),
    (
        "Qwen2ForCausalLM",
        "vocabulary",
        {"use_sliding_window": True, "sliding_window": 5, "max_window_layers": 1},
    ),
    ("Qwen2ForCausalLM", "vocabulary", {"sliding_window": 5, "tie_word_embeddings": True}),
    ("Qwen2ForCausalLM", "vocabulary", {"rope_parameters": SLOWER}),
    *(
        (f"{family}ForCausalLM", "vocabulary", {"rope_parameters": YARN_OF_RELATIVES})
        for family in ("Mistral", "Qwen2", "SmolLM3")
    ),
    ("SmolLM3ForCausalLM", "vocabulary", {"no_rope_layers": [0, 1, 0], **BIASES}),
    ("SmolLM3ForCausalLM", "vocabulary", {"no_rope_layers": [0, 0, 0]}),
    ("SmolLM3ForCausalLM", "vocabulary", {"use_sliding_window": True, "sliding_window": 4}),
    ("LlamaForSequenceClassification", "classes", {}),
    ("LlamaForTokenClassification", "tokens", {}),
    ("LlamaForQuestionAnswering", "answer", {}),
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


@pytest.mark.parametrize("key", ["rope_parameters", "rope_scaling"])
@pytest.mark.parametrize("scaling", SCALED, ids=lambda scaling: "-".join(map(str, scaling)))
def test_scaled_turns(scaling, key, peer, batch, gradients_of, tmp_path):
    """Each text by itself, as the longest of a batch decides for all of them in transformers."""
    longest = 16 if {"dynamic"} & set(map(str, scaling.values())) else 40
    stated = {key: dict(scaling), "max_position_embeddings": longest}
    theirs = peer("LlamaForCausalLM", **stated)
    checkpoint = loaded(theirs, tmp_path / "peer")
    path = tmp_path / "peer" / "config.json"
    config = json.loads(path.read_text())
    for other in ("rope_parameters", "rope_scaling", "rope_theta"):
        config.pop(other, None)
    path.write_text(json.dumps({**config, **stated}))  # as an older version wrote it
    assert folders.load(tmp_path / "peer").model.blueprint == checkpoint.model.blueprint
    lengths = [5, 16, 17, 40, 30]
    data, layout = batch(lengths, types=False), Layout(lengths)
    expected = []
    for row, length in enumerate(lengths):
        theirs.model.rotary_emb = type(theirs.model.rotary_emb)(theirs.config)  # forgets the last
        expected.append(theirs(data["padded_ids"][row : row + 1, :length]).logits[0])
    right = torch.cat(expected)
    ours = checkpoint.model.head("vocabulary").logits(checkpoint.model(data["ids"], layout), layout)
    close(ours, right)
    labels = torch.arange(len(right)) % right.shape[-1]
    F.cross_entropy(ours, labels).backward(), F.cross_entropy(right, labels).backward()
    same_gradients(checkpoint.model, theirs, checkpoint, gradients_of)
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=2**40)
    assert folders.load(tmp_path / "ours").model.blueprint == checkpoint.model.blueprint
    again = type(theirs).from_pretrained(tmp_path / "ours", attn_implementation="eager").eval()
    with torch.no_grad():
        close(again(data["padded_ids"][3:4]).logits[0], expected[3])


@pytest.mark.parametrize("scaling", [SCALED[0], SCALED[5], SCALED[6]], ids=lambda s: s["rope_type"])
def test_scaled_turns_of_texts_that_grow(scaling, peer, batch, tmp_path):
    """Greedy texts through the cache, from below the length of training to beyond it."""
    longest = 16 if scaling["rope_type"] == "dynamic" else 40
    theirs = peer("LlamaForCausalLM", rope_parameters=scaling, max_position_embeddings=longest)
    theirs.generation_config.eos_token_id = None
    model = loaded(theirs, tmp_path / "peer").model
    lengths = [9, 20, 14]
    data = batch(lengths, types=False)
    cache = GrowingCache(room=36)
    layout, ids = Layout(lengths), data["ids"]
    written = [[] for _ in lengths]
    with torch.no_grad():
        for _ in range(16):
            hidden = model(ids, layout, cache=cache)
            logits = model.vocabulary(hidden[layout.last(hidden.device)])
            for text, each in zip(written, logits, strict=True):
                text.append(each)
            ids, layout = logits.argmax(-1), cache.following()
        for row, length in enumerate(lengths):
            theirs.model.rotary_emb = type(theirs.model.rotary_emb)(theirs.config)
            prompt = data["padded_ids"][row : row + 1, :length]
            expected = theirs.generate(
                prompt,
                max_new_tokens=16,
                do_sample=False,
                output_logits=True,
                return_dict_in_generate=True,
            )
            close(torch.stack(written[row]), torch.cat(expected.logits))


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


END = 1
JUDGING = [
    ("ForSequenceClassification", "classes", {}),
    ("ForSequenceClassification", "classes", GATED),
    ("ForTokenClassification", "tokens", {}),
    ("ForQuestionAnswering", "answer", {"decoder_start_token_id": 3}),
]


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: f"{len(lengths)}texts")
@pytest.mark.parametrize("family", ["T5", "MT5"])
@pytest.mark.parametrize(("architecture", "head", "variant"), JUDGING)
def test_heads_of_encoder_decoders(
    architecture, head, variant, family, lengths, mode, peer, batch, gradients_of, tmp_path
):
    """Classes and answers are read from the decoder, tags from the encoder."""
    theirs = peer(family + architecture, **variant)
    checkpoint = loaded(theirs, tmp_path / "peer")
    model = checkpoint.model.train(mode == "train")
    theirs.train(mode == "train")
    data, layout = batch(lengths, types=False), Layout(lengths)
    real = data["mask"].bool()
    for row, length in enumerate(lengths):  # texts end as their tokenizer ends them
        data["padded_ids"][row, length - 1] = END
    data["ids"] = data["padded_ids"][real]
    expected = theirs(input_ids=data["padded_ids"], attention_mask=data["mask"])
    hidden = model(data["ids"], layout)
    if head == "answer":
        right = torch.stack([expected.start_logits, expected.end_logits], dim=-1)[real]
        encoder = expected.encoder_last_hidden_state[real]
        close(model.encode(data["ids"], layout), encoder)
        assert (hidden - encoder).abs().max() > 0.1
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
