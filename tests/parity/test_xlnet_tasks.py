"""Tasks on XLNet: texts end with `<sep> <cls>`, and the last token speaks for its text."""

import json

import numpy as np
import pytest
import torch
import transformers

import clozeworks as cw
from clozeworks.families.xlnet import FAMILY
from clozeworks.inference.predict import window_logits
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.compare import Compare, PairItem
from clozeworks.tasks.spans.questions import QuestionItem
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.text.training.train import train_from_iterator

pytestmark = pytest.mark.parity

SENTENCE = "the fox ran from London to New York and the lazy dog slept"
TEXTS = [SENTENCE, "the dog", "New York slept and ran"]
SIZE = {"d_model": 32, "n_layer": 2, "n_head": 2, "d_inner": 48}
CASES = {
    "classify": (
        Classify(labels=("bad", "good", "so so")), "SequenceClassification",
        [TextItem(text) for text in TEXTS],
    ),
    "compare": (
        Compare(labels=("same", "other")), "SequenceClassification",
        [PairItem(text, "the dog") for text in TEXTS],
    ),
    "tag": (
        Tag(labels=("O", "B-LOC", "I-LOC")), "TokenClassification",
        [WordsItem.of_words(text.split()) for text in TEXTS],
    ),
    "answer": (
        Answer(), "QuestionAnswering", [QuestionItem("the fox ran", text) for text in TEXTS],
    ),
}  # fmt: skip


def made(task):
    tokenizer = train_from_iterator([SENTENCE] * 5, kind="unigram", size=60, style=FAMILY.style)
    heads = ("vocabulary", "query_start")
    model = cw.new("xlnet-base", tokenizer, heads=heads, initializer_range=0.3, **SIZE)
    start = model.model.heads["query_start"].vector.detach().clone()
    model = model.for_task(task)
    generator = torch.Generator().manual_seed(5)
    with torch.no_grad():
        for name, parameter in model.model.named_parameters():
            if name.startswith(("heads.", "pooler.")) and "query_start" not in name:
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * 0.5)
    return model, start


def written(item):
    pairs = {PairItem: ("first", "second"), QuestionItem: ("question", "context")}
    return tuple(getattr(item, name) for name in pairs.get(type(item), ("text",)))


@pytest.mark.parametrize("name", CASES)
def test_they_load_what_we_save_and_say_the_same(name, tmp_path):
    task, head, items = CASES[name]
    model, start = made(task)
    model.save(tmp_path / "ours")
    auto = getattr(transformers, f"AutoModelFor{head}")
    theirs, report = auto.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
    assert torch.equal(theirs.transformer.mask_emb.flatten(), start), "what it began with stays"
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "ours")
    given = tokenizer(*map(list, zip(*map(written, items), strict=True)), padding=True)
    with torch.no_grad():
        said = theirs.eval()(**given.convert_to_tensors("pt"))
    assert given["attention_mask"][1][0] == 0, "padding stands on the left"
    windows = task.windows_of(items, model.tokenizer, model.max_length)
    for row, ours in enumerate(window_logits(task, model.model, windows)):
        real = given["attention_mask"][row].bool()
        if name == "answer":
            right = torch.stack([said.start_logits, said.end_logits], dim=-1)[row][real]
        elif name == "tag":
            places = [given.char_to_token(row, begin) for begin, _ in items[row].spans]
            right = said.logits[row][places]
        else:
            right = said.logits[row]
        np.testing.assert_allclose(ours, right.numpy(), atol=1e-5, rtol=1e-5)


def test_gaps_of_a_folder_are_filled_and_its_config_is_xlnets(tmp_path):
    model, _ = made(CASES["tag"][0])
    model.save(tmp_path / "ours")
    config = json.loads((tmp_path / "ours" / "config.json").read_text())
    assert config["architectures"] == ["XLNetForTokenClassification"]
    tokenizer = model.tokenizer
    filling = cw.new("xlnet-base", tokenizer, heads=("vocabulary", "query_start"), **SIZE)
    assert len(filling.fill("the <mask> dog").gaps[0]) == 5
