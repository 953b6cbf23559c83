"""ModernBERT against transformers: windows, biases, pooling, joint weights, old and new configs."""

import json

import pytest
import torch
import torch.nn.functional as F
import transformers

import clozeworks as cw
from clozeworks.checkpoints import folder as folders
from clozeworks.checkpoints.tasks import with_task
from clozeworks.core.context import Trace
from clozeworks.core.layout import Layout
from clozeworks.families.family import Config
from clozeworks.families.modernbert import FAMILY
from clozeworks.tasks.tag import Tag
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.parity

# The window reaches four places to each side.
LENGTHS = ([1], [40], [1, 40, 7, 7, 7, 12, 12, 39, 2, 40], list(range(1, 41)))
CASES = [
    ("ModernBertForMaskedLM", "vocabulary"),
    ("ModernBertForSequenceClassification", "classes"),
    ("ModernBertForTokenClassification", "tokens"),
    ("ModernBertForQuestionAnswering", "answer"),
]
BIASES = dict.fromkeys(("norm_bias", "attention_bias", "mlp_bias", "classifier_bias"), True)
# What a config may say beside the sizes.
VARIANTS = [
    {},
    {"classifier_pooling": "mean", **BIASES},
    {"decoder_bias": False},
    {
        "hidden_activation": "silu",
        "classifier_activation": "relu",
        "tie_word_embeddings": False,
        "decoder_bias": False,
        "layer_types": ["sliding_attention", "full_attention", *["sliding_attention"] * 3],
        "rope_parameters": {
            "full_attention": {"rope_type": "default", "rope_theta": 777.0},
            "sliding_attention": {"rope_type": "default", "rope_theta": 33.0},
        },
        "local_attention": 7,
    },
]
SMALL = {
    "hidden_size": 16, "num_attention_heads": 2, "intermediate_size": 24, "num_hidden_layers": 3,
}  # fmt: skip


def close(left, right, tolerance=1e-5):
    scale = max(1.0, right.abs().max().item())
    difference = (left - right).abs().max().item()
    assert difference <= tolerance * scale, f"{difference} at scale {scale}"


def loaded(theirs, folder):
    theirs.save_pretrained(folder)
    checkpoint = folders.load(folder)
    assert not checkpoint.report.missing and not checkpoint.report.unexpected
    return checkpoint


def gradients_of(theirs, checkpoint, architecture):
    """Their gradients by our names, those of joint weights taken apart."""
    names = checkpoint.family.names(architecture)
    forms = checkpoint.family.forms(Config(checkpoint.config))
    found = {}
    for name, parameter in theirs.named_parameters():
        form = next((form for form in forms if name.endswith(form.ending)), None)
        if parameter.grad is None:
            continue
        if form is None:
            found[names.ours(name)] = parameter.grad
            continue
        for piece, gradient in zip(form.pieces, form.apart(parameter.grad), strict=True):
            found[names.ours(f"{name}:{piece}")] = gradient
    return found


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: f"{len(lengths)}texts")
@pytest.mark.parametrize(
    "variant", VARIANTS, ids=["published", "biases and mean", "unbiased", "others"]
)
@pytest.mark.parametrize(("architecture", "head"), CASES)
def test_scores_losses_and_gradients(
    architecture, head, variant, lengths, mode, peer, batch, tmp_path
):
    theirs = peer(architecture, **variant)
    checkpoint = loaded(theirs, tmp_path / "peer")
    model = checkpoint.model
    theirs.train(mode == "train")
    model.train(mode == "train")
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
    gradients = gradients_of(theirs, checkpoint, architecture)
    for name, parameter in model.named_parameters():
        close(parameter.grad, gradients.pop(name))
    assert not gradients


def test_their_own_loss_is_our_sum_over_count(peer, batch, tmp_path):
    theirs = peer("ModernBertForMaskedLM")
    model = loaded(theirs, tmp_path / "peer").model
    lengths = [5, 9, 40]
    data, layout = batch(lengths, types=False), Layout(lengths)
    labels = torch.full_like(data["padded_ids"], -100)
    labels[:, 1:4] = data["padded_ids"][:, 1:4]
    inputs = {"input_ids": data["padded_ids"], "attention_mask": data["mask"]}
    expected = theirs(**inputs, labels=labels).loss
    asked = torch.tensor([start + place for start in layout.starts for place in (1, 2, 3)])
    scores = model.head("vocabulary").logits(model(data["ids"], layout), layout, asked)
    total = F.cross_entropy(scores, data["ids"][asked], reduction="sum")
    torch.testing.assert_close(total / len(asked), expected, atol=1e-5, rtol=1e-5)


def test_attention_weights(peer, batch, tmp_path):
    theirs = peer("ModernBertModel")
    model = loaded(theirs, tmp_path / "peer").model
    lengths = [7, 40, 7, 3]
    data = batch(lengths, types=False)
    expected = theirs(
        input_ids=data["padded_ids"], attention_mask=data["mask"], output_attentions=True
    ).attentions
    trace = Trace()
    model(data["ids"], Layout(lengths), trace=trace)
    for layer, right in zip(trace.attention, expected, strict=True):
        for row, length in enumerate(lengths):
            close(layer[row], right[row, :, :length, :length])
    assert trace.attention[1][1][:, 0, 5:].abs().max() == 0 < trace.attention[0][1][:, 0, 5:].min()


@pytest.mark.parametrize("reach", [3, 5])
def test_negative_control_another_window_would_be_seen(reach, peer, batch, tmp_path):
    theirs = peer("ModernBertModel")
    peer("ModernBertModel", local_attention=2 * reach).save_pretrained(tmp_path / "other")
    model = folders.load(tmp_path / "other").model
    data = batch([40], types=False)
    expected = theirs(input_ids=data["padded_ids"]).last_hidden_state[0]
    with pytest.raises(AssertionError):
        close(model(data["ids"], Layout([40])), expected)


def test_a_text_longer_than_those_of_training_goes_on(peer, batch, tmp_path):
    theirs = peer("ModernBertModel")
    assert theirs.config.max_position_embeddings == 16
    model = loaded(theirs, tmp_path / "peer").model
    assert model.blueprint.max_length() is None
    lengths = [700, 33]
    data = batch(lengths, types=False)
    expected = theirs(input_ids=data["padded_ids"], attention_mask=data["mask"])
    hidden = model(data["ids"], Layout(lengths))
    close(hidden, expected.last_hidden_state[data["mask"].bool()])


OLD = {
    "global_attn_every_n_layers": 2,
    "global_rope_theta": 555.0,
    "local_rope_theta": 44.0,
    "local_attention": 6,
    "position_embedding_type": "absolute",
    "reference_compile": None,
    "gradient_checkpointing": False,
}


def test_configs_of_released_folders_mean_the_same(peer, batch, tmp_path):
    """Keys of before transformers 5: both sides read them, and what we write says the same."""
    peer("ModernBertForMaskedLM").save_pretrained(tmp_path / "old")
    place = tmp_path / "old" / "config.json"
    config = json.loads(place.read_text())
    del config["layer_types"], config["rope_parameters"]
    place.write_text(json.dumps({**config, **OLD}))
    checkpoint = folders.load(tmp_path / "old")
    folders.save(checkpoint, tmp_path / "new", overwrite=False, shard_bytes=10**9)
    data = batch([40], types=False)
    hidden = checkpoint.model(data["ids"], Layout([40]))
    for folder in ("old", "new"):
        theirs = transformers.ModernBertModel.from_pretrained(
            tmp_path / folder, attn_implementation="eager"
        )
        types = ["full_attention", "sliding_attention"]
        assert theirs.config.layer_types == [*types, *types, types[0]]
        assert theirs.config.rope_parameters["full_attention"]["rope_theta"] == 555.0
        close(hidden, theirs(input_ids=data["padded_ids"]).last_hidden_state[0])
    assert folders.load(tmp_path / "new").model.blueprint == checkpoint.model.blueprint


def test_a_new_tokenizer_is_the_same_there(tmp_path):
    sentence = "the fox ran from London to New York and slept"
    tokenizer = train_from_iterator([sentence] * 9, kind="bpe", size=330, style=FAMILY.style)
    model = cw.new("modernbert-base", tokenizer, **SMALL)
    model.save(tmp_path / "model")
    theirs = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    assert theirs.model_input_names == ["input_ids", "attention_mask"]
    pairs = [
        ("the fox [MASK] to York é 🙂", None),
        ("the fox ran", "slept in New York"),
        ("", None),
    ]
    for first, second in pairs:
        texts = [second] if second is not None else None
        ours = tokenizer.encode([first], texts, offsets=True)[0]
        expected = theirs(first, second, return_offsets_mapping=True)
        assert ours.ids == expected["input_ids"] and ours.offsets == expected["offset_mapping"]
        assert set(ours.types) == {0}
    filled = transformers.pipeline("fill-mask", model=str(tmp_path / "model"))(pairs[0][0])
    ours = cw.load(tmp_path / "model").fill(pairs[0][0]).gaps[0]
    assert [guess.token for guess in ours[:3]] == theirs.convert_ids_to_tokens(
        [guess["token"] for guess in filled[:3]]
    )


def test_a_classifier_begins_with_what_theirs_begins_with(peer, tmp_path):
    """Where a folder of a masked language model is loaded for another task."""
    peer("ModernBertForMaskedLM").save_pretrained(tmp_path / "masked")
    theirs = transformers.ModernBertForTokenClassification.from_pretrained(tmp_path / "masked")
    ours = with_task(folders.load(tmp_path / "masked"), Tag(labels=("O", "B-A", "I-A"))).model
    head = ours.heads["tokens"]
    assert torch.equal(head.dense.weight, theirs.head.dense.weight)
    assert torch.equal(head.norm.weight, theirs.head.norm.weight)
