"""XLNet's own head for answers beside transformers: what it is worth, what it learns, folders."""

import numpy as np
import pytest
import torch
import transformers

import clozeworks as cw
from clozeworks.checkpoints import folder as folders
from clozeworks.core.heads.answer_beam import AnswerBeamModule
from clozeworks.core.layout import Layout
from clozeworks.families.family import BEAM_HEAD
from clozeworks.families.xlnet import FAMILY
from clozeworks.inference.predict import window_logits
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.parity

SENTENCE = "the fox ran from London to New York and the lazy dog slept"
SIZE = {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 48}
LENGTHS = [12, 40, 7, 7, 5]


def loaded(theirs, tmp_path):
    theirs.save_pretrained(tmp_path / "peer")
    checkpoint = folders.load(tmp_path / "peer")
    assert not checkpoint.report.missing and not checkpoint.report.unexpected
    return checkpoint


def inputs_of(data):
    return {
        "input_ids": data["padded_ids"],
        "attention_mask": data["mask"],
        "token_type_ids": data["padded_types"],
    }


@pytest.fixture
def beam(peer):
    return peer("XLNetForQuestionAnswering", start_n_top=4, end_n_top=3)


def test_beginnings_ends_and_the_doubt_are_theirs(beam, batch, tmp_path):
    model = loaded(beam, tmp_path).model
    data, layout = batch(LENGTHS, left=True, pad=5), Layout(LENGTHS)
    # Padding is never first: the peer is told so, as for tokens that are not in the context.
    expected = beam(**inputs_of(data), p_mask=1.0 - data["mask"])
    found = model.head(BEAM_HEAD).logits(model(data["ids"], layout, data["types"]), layout)
    assert found.shape == (sum(LENGTHS), 4 + 2)
    longest = max(LENGTHS)
    for row, each in enumerate(layout.split(found)):
        pad = longest - LENGTHS[row]
        first = each[:, 0].softmax(dim=0).topk(4)
        torch.testing.assert_close(first.values, expected.start_top_log_probs[row])
        assert torch.equal(first.indices + pad, expected.start_top_index[row])
        ends = each[:, 1:5].softmax(dim=0).topk(3, dim=0)
        torch.testing.assert_close(ends.values.flatten(), expected.end_top_log_probs[row])
        assert torch.equal(ends.indices.flatten() + pad, expected.end_top_index[row])
        torch.testing.assert_close(each[:, 5], expected.cls_logits[row].expand(LENGTHS[row]))


def test_only_some_tokens_may_be_in_answers(beam, batch, tmp_path):
    model = loaded(beam, tmp_path).model
    data, layout = batch([9, 9], pad=5), Layout([9, 9])
    outside = torch.zeros(2, 9)
    outside[:, [0, 3, 8]] = 1
    expected = beam(**inputs_of(data), p_mask=outside)
    inside = (outside.flatten() == 0).nonzero()[:, 0]
    states = model(data["ids"], layout, data["types"])
    found = model.head(BEAM_HEAD).logits(states, layout, inside)
    for row, each in enumerate(found.split(6)):
        best = each[:, 0].argsort(descending=True)[:4]
        assert torch.equal(inside[:6][best], expected.start_top_index[row])
        ends = each[:, 1:5].softmax(dim=0).topk(3, dim=0).values.flatten()
        torch.testing.assert_close(ends, expected.end_top_log_probs[row])
        torch.testing.assert_close(each[0, 5], expected.cls_logits[row])


@pytest.mark.parametrize("mode", ["eval", "train"])
def test_losses_and_gradients(mode, beam, batch, gradients_of, tmp_path):
    theirs = beam.train(mode == "train")
    checkpoint = loaded(theirs, tmp_path)
    model = checkpoint.model.train(mode == "train")
    data, layout = batch([9, 9, 9], pad=5), Layout([9, 9, 9])
    ends, missing = torch.tensor([[2, 4], [0, 0], [5, 5]]), torch.tensor([0.0, 1.0, 0.0])
    at = torch.where(missing[:, None] == 1, 8, ends)
    expected = theirs(
        **inputs_of(data), start_positions=at[:, 0], end_positions=at[:, 1],
        is_impossible=missing, cls_index=torch.tensor([8, 8, 8]),
    ).loss  # fmt: skip
    head = model.head(BEAM_HEAD)
    assert isinstance(head, AnswerBeamModule)
    costs, _ = head.losses(model(data["ids"], layout, data["types"]), layout, ends)
    torch.testing.assert_close(costs.mean(), expected)
    costs.mean().backward()
    expected.backward()
    gradients = gradients_of(theirs, checkpoint)
    compared = 0
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            torch.testing.assert_close(parameter.grad, gradients[name], atol=1e-5, rtol=1e-5)
            compared += 1
    assert compared > 30


def test_they_load_what_we_save_and_answer_alike(tmp_path):
    tokenizer = train_from_iterator([SENTENCE] * 5, kind="unigram", size=60, style=FAMILY.style)
    model = cw.new("xlnet-base", tokenizer, initializer_range=0.3, **SIZE)
    task = Answer(beam=True, longest=100)
    model = model.for_task(task, seed=3)
    with torch.no_grad():
        for name, parameter in model.model.named_parameters():
            if name.startswith("heads."):
                parameter.mul_(20)
    model.save(tmp_path / "ours")
    again = cw.load(tmp_path / "ours")
    theirs, report = transformers.XLNetForQuestionAnswering.from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert again.task == task
    assert not report["unexpected_keys"] and set(report["missing_keys"]) <= {"transformer.mask_emb"}
    item = QuestionItem("the fox ran", SENTENCE)
    (window,) = task.windows_of([item], model.tokenizer, None)
    (rows,) = window_logits(task, again.model, [window])
    outside = torch.ones(1, len(window))
    outside[0, window.moving] = 0
    with torch.no_grad():
        expected = theirs(
            input_ids=torch.tensor([window.encoded.ids]),
            token_type_ids=torch.tensor([window.encoded.types]),
            p_mask=outside,
        )
    np.testing.assert_allclose(rows[0, -1], expected.cls_logits[0], atol=1e-5)
    answered = again.answer(item.question, item.context)
    first, last = expected.start_top_index[0], expected.end_top_index[0].view(-1, 5)
    logs = expected.start_top_log_probs[0].log() + expected.end_top_log_probs[0].view(-1, 5).log()
    offsets = window.encoded.offsets
    ends_later = last >= first
    end, start = divmod(int(logs.where(ends_later, -torch.inf).argmax()), 5)
    begin = int(offsets[first[start]][0])
    stop = int(offsets[last[end, start]][1])
    assert answered.text == SENTENCE[begin:stop].strip() != ""
    assert answered.candidates[0].points == pytest.approx(float(logs[end, start]), abs=1e-4)


@pytest.mark.parametrize(("shift", "text"), [(100.0, ""), (-100.0, "something")])
def test_the_doubt_decides_whether_there_is_an_answer(shift, text, tmp_path):
    tokenizer = train_from_iterator([SENTENCE] * 5, kind="unigram", size=60, style=FAMILY.style)
    model = cw.new("xlnet-base", tokenizer, **SIZE).for_task(Answer(beam=True, threshold=0.0))
    with torch.no_grad():
        model.model.heads[BEAM_HEAD].none_dense.bias.fill_(10.0)
        model.model.heads[BEAM_HEAD].none.weight.fill_(shift / 32)
    answered = model.answer("the fox ran", SENTENCE)
    assert bool(answered.text) == bool(text)
    assert answered.lead == pytest.approx(shift, rel=1e-3)
