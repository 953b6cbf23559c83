"""Heads that score texts to choose among them, against transformers."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F
import transformers

import clozeworks as cw
from clozeworks.checkpoints import folder as folders
from clozeworks.core.layout import Layout
from clozeworks.errors import SettingError
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.parity

CHOICES = [
    "AlbertForMultipleChoice", "BertForMultipleChoice", "DebertaV2ForMultipleChoice",
    "DistilBertForMultipleChoice", "ElectraForMultipleChoice", "ModernBertForMultipleChoice",
    "RobertaForMultipleChoice", "XLNetForMultipleChoice",
]  # fmt: skip
# Two questions with three choices each.
LENGTHS = [4, 17, 9, 30, 30, 5]
WITHOUT_TYPES = ("distilbert", "modernbert", "roberta")


def close(left, right, tolerance=1e-5):
    scale = max(1.0, right.abs().max().item())
    assert (left - right).abs().max().item() <= tolerance * scale


def loaded(theirs, folder):
    theirs.save_pretrained(folder)
    checkpoint = folders.load(folder)
    report = checkpoint.report
    assert not (report.missing or report.unexpected or report.absent), report.lines()
    return checkpoint


def compare_gradients(model, gradients):
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            close(parameter.grad, gradients.pop(name))
    assert all(not gradient.abs().any() for gradient in gradients.values())


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("architecture", CHOICES)
def test_encoders(architecture, mode, peer, batch, gradients_of, tmp_path):
    theirs = peer(architecture, summary_last_dropout=0.0)
    checkpoint = loaded(theirs, tmp_path)
    family = theirs.config.model_type
    model = checkpoint.model.train(mode == "train")
    theirs.train(mode == "train")
    # Padding stands on the left where the last token speaks for its text.
    data = batch(
        LENGTHS,
        types=family not in WITHOUT_TYPES,
        left=family == "xlnet",
        pad=theirs.config.pad_token_id or 0,
    )
    inputs = {"input_ids": data["padded_ids"], "attention_mask": data["mask"]}
    if family not in WITHOUT_TYPES:
        inputs["token_type_ids"] = data["padded_types"]
    right = torch.tensor([2, 0])
    expected = theirs(**{key: x.view(2, 3, -1) for key, x in inputs.items()}, labels=right)
    layout = Layout(LENGTHS)
    hidden = model(data["ids"], layout, data["types"])
    ours = model.head("choice").logits(hidden, layout).view(2, 3)
    close(ours, expected.logits)
    loss = F.cross_entropy(ours, right)
    assert loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)
    loss.backward()
    expected.loss.backward()
    compare_gradients(model, gradients_of(theirs, checkpoint))


@pytest.mark.parametrize("mode", ["eval", "train"])
@pytest.mark.parametrize("architecture", ["GPT2DoubleHeadsModel", "OpenAIGPTDoubleHeadsModel"])
def test_double_heads(architecture, mode, peer, batch, gradients_of, tmp_path):
    theirs = peer(architecture, summary_first_dropout=0.0)
    checkpoint = loaded(theirs, tmp_path)
    model = checkpoint.model.train(mode == "train")
    theirs.train(mode == "train")
    data, layout = batch(LENGTHS, types=False), Layout(LENGTHS)
    real, right = data["mask"].bool(), torch.tensor([2, 0])
    # No mask: padding comes later, and GPT's class cannot take one of this shape.
    expected = theirs(
        input_ids=data["padded_ids"].view(2, 3, -1),
        mc_token_ids=torch.tensor(LENGTHS).view(2, 3) - 1,
    )
    hidden = model(data["ids"], layout)
    words = model.head("vocabulary").logits(hidden, layout)
    choices = model.head("choice").logits(hidden, layout).view(2, 3)
    close(words, expected.logits.flatten(0, 1)[real])
    close(choices, expected.mc_logits)
    labels = torch.arange(len(words)) % words.shape[-1]
    cost = F.cross_entropy(words, labels) + F.cross_entropy(choices, right)
    other = F.cross_entropy(expected.logits.flatten(0, 1)[real], labels)
    other = other + F.cross_entropy(expected.mc_logits, right)
    assert cost.item() == pytest.approx(other.item(), rel=1e-5)
    cost.backward()
    other.backward()
    compare_gradients(model, gradients_of(theirs, checkpoint))


def test_choosing_is_what_their_class_says(tmp_path):
    sentence = "the fox ran from London to New York and the lazy dog slept"
    tokenizer = train_from_iterator([sentence] * 5, kind="wordpiece", size=120)
    model = cw.new(
        "bert-tiny", tokenizer, heads=("pooler", "choice"), initializer_range=0.5, hidden_size=32
    )
    model.save(tmp_path / "ours")
    theirs, report = transformers.AutoModelForMultipleChoice.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"] and not report["unexpected_keys"]
    reader = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    choices = ["the dog", "New York", "slept and ran from London"]
    given = reader([sentence] * 3, choices, padding=True, return_tensors="pt")
    with torch.no_grad():
        expected = theirs.eval()(**{key: x[None] for key, x in given.items()}).logits[0]
    chosen = cw.load(tmp_path / "ours").choose(sentence, choices)
    right = expected.log_softmax(0).tolist()
    assert chosen.label == choices[int(np.argmax(right))]
    assert chosen.scores == pytest.approx(dict(zip(choices, right, strict=True)), abs=1e-5)
    with pytest.raises(SettingError, match=r"template is .*; the model has a head to choose with"):
        model.choose(sentence, choices, template="{text} {label}")
