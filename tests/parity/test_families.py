"""Numbers against transformers: hidden states, scores, losses and gradients, eval and train."""

import pytest
import torch
import torch.nn.functional as F
import transformers

from clozeworks.checkpoints import folder as folders
from clozeworks.core.context import Trace
from clozeworks.core.heads import Head
from clozeworks.core.layout import Layout
from clozeworks.errors import InputError, UnknownName
from clozeworks.families.family import families, family

pytestmark = pytest.mark.parity

LENGTHS = ([1], [40], [1, 40, 7, 7, 7, 12, 12, 39, 2, 40], list(range(1, 41)))

# Peer class, our head, the peer's output that holds its scores.
CASES = [
    ("AlbertForPreTraining", "vocabulary", "prediction_logits"),
    ("AlbertForPreTraining", "sentence_order", "sop_logits"),
    ("AlbertForMaskedLM", "vocabulary", "logits"),
    ("AlbertForSequenceClassification", "classes", "logits"),
    ("AlbertForTokenClassification", "tokens", "logits"),
    ("AlbertForQuestionAnswering", "answer", "start_logits"),
    ("BertForPreTraining", "vocabulary", "prediction_logits"),
    ("BertForPreTraining", "next_sentence", "seq_relationship_logits"),
    ("BertForMaskedLM", "vocabulary", "logits"),
    ("BertForNextSentencePrediction", "next_sentence", "logits"),
    ("BertForSequenceClassification", "classes", "logits"),
    ("BertForTokenClassification", "tokens", "logits"),
    ("BertForQuestionAnswering", "answer", "start_logits"),
    ("RobertaForMaskedLM", "vocabulary", "logits"),
    ("RobertaForSequenceClassification", "classes", "logits"),
    ("RobertaForTokenClassification", "tokens", "logits"),
    ("RobertaForQuestionAnswering", "answer", "start_logits"),
    *(
        (f"{family}For{task}", head, output)
        for family in ("XLMRoberta", "Camembert", "Ernie")
        for task, head, output in (
            ("MaskedLM", "vocabulary", "logits"),
            ("SequenceClassification", "classes", "logits"),
            ("TokenClassification", "tokens", "logits"),
            ("QuestionAnswering", "answer", "start_logits"),
        )
    ),
    ("ErnieForPreTraining", "vocabulary", "prediction_logits"),
    ("ErnieForPreTraining", "next_sentence", "seq_relationship_logits"),
    ("ErnieForNextSentencePrediction", "next_sentence", "logits"),
    ("DistilBertForMaskedLM", "vocabulary", "logits"),
    ("DistilBertForSequenceClassification", "classes", "logits"),
    ("DistilBertForTokenClassification", "tokens", "logits"),
    ("DistilBertForQuestionAnswering", "answer", "start_logits"),
    ("ElectraForPreTraining", "replaced", "logits"),
    ("ElectraForMaskedLM", "vocabulary", "logits"),
    ("ElectraForSequenceClassification", "classes", "logits"),
    ("ElectraForTokenClassification", "tokens", "logits"),
    ("ElectraForQuestionAnswering", "answer", "start_logits"),
    ("DebertaForMaskedLM", "vocabulary", "logits"),
    ("DebertaForSequenceClassification", "classes", "logits"),
    ("DebertaForTokenClassification", "tokens", "logits"),
    ("DebertaForQuestionAnswering", "answer", "start_logits"),
    ("DebertaV2ForMaskedLM", "vocabulary", "logits"),
    ("DebertaV2ForSequenceClassification", "classes", "logits"),
    ("DebertaV2ForTokenClassification", "tokens", "logits"),
    ("DebertaV2ForQuestionAnswering", "answer", "start_logits"),
]


def ours(peer_model, tmp_path):
    peer_model.save_pretrained(tmp_path / "peer")
    return folders.load(tmp_path / "peer")


def inputs_of(family, data):
    inputs = {"input_ids": data["padded_ids"], "attention_mask": data["mask"]}
    if family != "distilbert":
        inputs["token_type_ids"] = data["padded_types"]
    return inputs


def close(left, right, tolerance=1e-5):
    """Largest difference, relative to the largest value where that is above 1."""
    scale = max(1.0, right.abs().max().item())
    difference = (left - right).abs().max().item()
    assert difference <= tolerance * scale, f"{difference} at scale {scale}"


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("lengths", LENGTHS, ids=lambda lengths: f"{len(lengths)}texts")
@pytest.mark.parametrize(("architecture", "head", "output"), CASES)
def test_scores_losses_and_gradients(
    architecture, head, output, lengths, mode, peer, batch, gradients_of, tmp_path
):
    theirs = peer(architecture)
    family = theirs.config.model_type
    checkpoint = ours(theirs, tmp_path)
    model = checkpoint.model
    theirs.train(mode == "train")
    model.train(mode == "train")
    data = batch(
        lengths, types=model.blueprint.embeddings.types > 1, pad=theirs.config.pad_token_id
    )
    layout = Layout(lengths)

    expected = theirs(**inputs_of(family, data), output_hidden_states=True)
    trace = Trace()
    hidden = model(data["ids"], layout, data["types"], trace)
    real = data["mask"].bool()
    for layer, (left, right) in enumerate(
        zip(trace.hidden_states, expected.hidden_states, strict=True)
    ):
        close(left, right[real]), layer

    right = getattr(expected, output)
    per_token = type(model.head(head)).read is Head.read
    scores = model.head(head).logits(hidden, layout)
    if head == "answer":
        right = torch.stack([expected.start_logits, expected.end_logits], dim=-1)
    if head == "replaced":  # they give the second score alone; the first is 0
        right = torch.stack([torch.zeros_like(right), right], dim=-1)
    close(scores, right[real] if per_token else right)

    right = right[real] if per_token else right
    labels = torch.arange(len(right)) % right.shape[-1]
    loss, expected_loss = F.cross_entropy(scores, labels), F.cross_entropy(right, labels)
    assert abs(loss.item() - expected_loss.item()) <= 1e-5 * max(1.0, expected_loss.item())
    loss.backward()
    expected_loss.backward()
    gradients = gradients_of(theirs, checkpoint)
    compared = 0
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            close(parameter.grad, gradients.pop(name))
            compared += 1
    assert compared > 10
    # What is left has no gradient on our side either way: padding contributes nothing.
    assert all(not gradient.abs().any() for gradient in gradients.values())


@pytest.mark.parametrize(
    "architecture",
    [
        "AlbertForMaskedLM",
        "BertForMaskedLM",
        "RobertaForMaskedLM",
        "XLMRobertaForMaskedLM",
        "CamembertForMaskedLM",
        "ErnieForMaskedLM",
        "ElectraForMaskedLM",
    ],
)
def test_their_own_loss_is_our_sum_over_count(architecture, peer, batch, tmp_path):
    theirs = peer(architecture)
    checkpoint = ours(theirs, tmp_path)
    lengths = [5, 9, 40]
    data = batch(lengths, types=False, pad=theirs.config.pad_token_id)
    labels = torch.full_like(data["padded_ids"], -100)
    labels[:, 1:4] = data["padded_ids"][:, 1:4]
    expected = theirs(**inputs_of(theirs.config.model_type, data), labels=labels).loss

    layout = Layout(lengths)
    asked = torch.tensor([start + place for start in layout.starts for place in (1, 2, 3)])
    hidden = checkpoint.model(data["ids"], layout)
    scores = checkpoint.model.head("vocabulary").logits(hidden, layout, asked)
    total = F.cross_entropy(scores, data["ids"][asked], reduction="sum")
    torch.testing.assert_close(total / len(asked), expected, atol=1e-5, rtol=1e-5)


def test_their_loss_over_all_tokens_is_ours(peer, batch, tmp_path):
    """Softmax over 0 and a number is its sigmoid."""
    theirs = peer("ElectraForPreTraining")
    checkpoint = ours(theirs, tmp_path)
    lengths = [5, 9, 40]
    data = batch(lengths)
    replaced = (data["padded_ids"] % 3 == 0).long()
    real = data["mask"].bool()
    expected = theirs(**inputs_of("electra", data), labels=replaced).loss
    layout = Layout(lengths)
    hidden = checkpoint.model(data["ids"], layout, data["types"])
    scores = checkpoint.model.head("replaced").logits(hidden, layout)
    torch.testing.assert_close(
        F.cross_entropy(scores, replaced[real]), expected, atol=1e-5, rtol=1e-5
    )


def test_token_vectors_as_wide_as_the_model_have_no_projection(peer, batch, tmp_path):
    theirs = peer("ElectraForPreTraining", embedding_size=32)
    checkpoint = ours(theirs, tmp_path)
    assert not checkpoint.report.missing and not checkpoint.report.unexpected
    data = batch([3, 40, 11])
    expected = theirs(**inputs_of("electra", data)).logits[data["mask"].bool()]
    hidden = checkpoint.model(data["ids"], Layout([3, 40, 11]), data["types"])
    close(checkpoint.model.head("replaced").logits(hidden, Layout([3, 40, 11]))[:, 1], expected)


@pytest.mark.parametrize("architecture", ["ErnieForMaskedLM", "ErnieForSequenceClassification"])
def test_every_text_of_ernie_is_the_first_task(architecture, peer, batch, tmp_path):
    theirs = peer(architecture, use_task_id=True, task_type_vocab_size=5)
    checkpoint = ours(theirs, tmp_path)
    assert not checkpoint.report.missing and not checkpoint.report.unexpected
    data, layout = batch([3, 40, 11]), Layout([3, 40, 11])
    expected = theirs(**inputs_of("ernie", data), output_hidden_states=True)
    hidden = checkpoint.model(data["ids"], layout, data["types"])
    close(hidden, expected.hidden_states[-1][data["mask"].bool()])
    (hidden.square().sum()).backward()
    (expected.hidden_states[-1][data["mask"].bool()].square().sum()).backward()
    close(
        checkpoint.model.embeddings.positions.tasks.weight.grad,
        theirs.ernie.embeddings.task_type_embeddings.weight.grad,
    )
    folders.save(checkpoint, tmp_path / "ours", overwrite=False, shard_bytes=2**40)
    again, said = getattr(transformers, architecture).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not said["missing_keys"] and not said["unexpected_keys"]
    for name, tensor in theirs.state_dict().items():
        assert torch.equal(again.state_dict()[name], tensor), name


@pytest.mark.parametrize("side", ["left", "right"])
def test_roberta_positions_do_not_depend_on_the_side_of_padding(side, peer, batch, tmp_path):
    theirs = peer("RobertaForMaskedLM")
    checkpoint = ours(theirs, tmp_path)
    lengths = [3, 40, 11]
    data = batch(lengths, types=False, pad=1, left=side == "left")
    expected = theirs(**inputs_of("roberta", data)).logits[data["mask"].bool()]
    layout = Layout(lengths)
    hidden = checkpoint.model(data["ids"], layout)
    close(checkpoint.model.head("vocabulary").logits(hidden, layout), expected)


def test_negative_control_zero_based_roberta_positions_would_be_seen(peer, batch, tmp_path):
    theirs = peer("RobertaForMaskedLM")
    checkpoint = ours(theirs, tmp_path)
    checkpoint.model.embeddings.positions.offset = 0
    data = batch([11], types=False, pad=1)
    expected = theirs(**inputs_of("roberta", data)).logits[0]
    hidden = checkpoint.model(data["ids"], Layout([11]))
    with pytest.raises(AssertionError):
        close(checkpoint.model.head("vocabulary").logits(hidden, Layout([11])), expected)


@pytest.mark.parametrize(
    "architecture", ["AlbertModel", "BertModel", "RobertaModel", "DistilBertModel", "ElectraModel"]
)
def test_the_longest_text_fits_and_one_more_is_refused(architecture, peer, batch, tmp_path):
    checkpoint = ours(peer(architecture), tmp_path)
    data = batch([41], types=False)
    checkpoint.model(data["ids"][:40], Layout([40]))
    with pytest.raises(InputError, match="text 1 has 41 tokens; this model takes at most 40"):
        checkpoint.model(data["ids"], Layout([41]))


def test_attention_weights(peer, batch, tmp_path):
    theirs = peer("BertModel")
    checkpoint = ours(theirs, tmp_path)
    lengths = [7, 40, 7, 3]
    data = batch(lengths)
    expected = theirs(**inputs_of("bert", data), output_attentions=True).attentions
    trace = Trace()
    checkpoint.model(data["ids"], Layout(lengths), data["types"], trace)
    assert len(trace.attention) == len(expected)
    for layer, right in zip(trace.attention, expected, strict=True):
        for row, length in enumerate(lengths):
            close(layer[row], right[row, :, :length, :length])


def test_no_published_type_of_others_passes_for_a_misspelling():
    for other in transformers.CONFIG_MAPPING:
        if other not in families():
            with pytest.raises(UnknownName) as caught:
                family(other)
            assert "Did you mean" not in str(caught.value), other
