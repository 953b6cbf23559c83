"""T5's classes and answers are read from the decoder, which reads the text once more."""

import dataclasses
from functools import cache

import pytest
import torch

import clozeworks as cw
from clozeworks.core.context import AttentionSource
from clozeworks.core.layout import Layout
from clozeworks.errors import SettingError
from clozeworks.families.t5 import FAMILY
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.tag import Tag
from clozeworks.text.training.train import train_from_iterator

SENTENCE = "the fox ran from London to New York and the lazy dog slept"
SIZE = {"d_model": 16, "num_layers": 1, "num_heads": 2, "d_kv": 8, "d_ff": 24}
TASKS = {
    "classify": Classify(labels=("bad", "good")),
    "mean": Classify(labels=("bad", "good"), pooling="mean"),
    "tag": Tag(labels=("O", "B-LOC")),
    "answer": Answer(),
}
ARCHITECTURES = {
    "classify": "T5ForSequenceClassification",
    "mean": "T5EncoderModel",
    "tag": "T5ForTokenClassification",
    "answer": "T5ForQuestionAnswering",
}


@cache
def writer():
    tokenizer = train_from_iterator([SENTENCE] * 5, kind="unigram", size=160, style=FAMILY.style)
    return cw.new("t5-small", tokenizer, **SIZE)


@pytest.mark.parametrize("name", TASKS)
def test_a_model_that_writes_becomes_one_that_judges(name, tmp_path):
    model = writer().for_task(TASKS[name])
    old, new = writer().model.state_dict(), model.model.state_dict()
    body = {key for key in new if not key.startswith(("heads.", "pooler."))}
    assert all(torch.equal(old[key], new[key]) for key in body)
    assert (model.model.decoder is not None) == (name in ("classify", "answer"))
    model.save(tmp_path / "model")
    again = cw.load(tmp_path / "model")
    assert again.checkpoint.config["architectures"] == [ARCHITECTURES[name]]
    assert again.task == TASKS[name]
    assert again.blueprint == model.blueprint
    assert again.checkpoint.report.lines()[1:] == []


def test_the_decoder_is_shown_the_text_one_position_later():
    model = writer().for_task(TASKS["answer"]).model.eval()
    ids, layout = torch.tensor([5, 6, 7, 1, 8, 1]), Layout([4, 0, 2])
    with torch.no_grad():
        encoded = AttentionSource(model.encode(ids, layout), layout)
        expected = model.decode(torch.tensor([0, 5, 6, 7, 0, 8]), layout, encoded)
        assert torch.equal(model(ids, layout), expected)


def test_vectors_of_texts_are_those_of_the_encoder():
    model = writer().for_task(TASKS["classify"])
    before, said = model.embed([SENTENCE]), model.classify(SENTENCE).scores
    with torch.no_grad():
        model.model.decoder.norm.weight.mul_(-3)
    assert (model.embed([SENTENCE]) == before).all()
    assert model.classify(SENTENCE).scores != said
    assert model.embed([SENTENCE]) == pytest.approx(writer().embed([SENTENCE]), abs=1e-6)


def test_where_it_begins_must_be_a_token_of_a_model_with_a_decoder():
    blueprint = writer().for_task(TASKS["answer"]).blueprint
    size = blueprint.embeddings.tokens
    with pytest.raises(SettingError, match=f"rereads is {size}; it must be a token from 0 to"):
        dataclasses.replace(blueprint, rereads=size).check()
    with pytest.raises(SettingError, match="decoder is None; `rereads` needs one; add it, or"):
        dataclasses.replace(blueprint, decoder=None).check()
