"""Prefix language modelling: the beginning is shown, the rest is asked for."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.context import AttentionSource as Encoded
from clozeworks.core.layout import Layout
from clozeworks.errors import SettingError
from clozeworks.families.bert import FAMILY as BERT
from clozeworks.families.family import Config
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.prefix_lm import PrefixLM

SOURCE = Vocabularies(200, start_id=0, end_id=1)


def rows(ids, lengths):
    return [row.tolist() for row in np.split(ids, np.cumsum(lengths)[:-1])]


def halves(clean, seed=0):
    batch = PrefixLM().batch(clean, seed, SOURCE)
    part = batch.targets["prefix_lm"]
    return batch, rows(batch.ids, batch.lengths), rows(part["answers"], part["lengths"])


def test_both_halves_are_the_text(examples):
    clean = examples([2, 3, 17, 60], bare=True)
    _, first, second = halves(clean)
    texts = rows(clean.ids, clean.lengths)
    assert [a + b[:-1] for a, b in zip(first, second, strict=True)] == texts
    assert all(answer[-1] == 1 and len(answer) > 1 for answer in second)
    assert all(first)
    one = halves(examples([1], bare=True))
    assert len(one[1][0]) == 1 and one[2] == [[1]]


def test_every_cut_is_equally_likely(examples, fits):
    _, first, _ = halves(examples([11] * 8000, bare=True))
    counts = np.bincount([len(half) for half in first], minlength=12)
    assert counts[0] == counts[11] == 0
    assert fits(counts[1:11], np.ones(10)) > 1e-4
    # The usual mistake: a share of the length, cut off, which may be nothing at all.
    share = np.random.default_rng(0).random(8000)
    assert np.bincount((share * 11).astype(int))[0] > 0


def test_what_the_template_added_is_shown(examples):
    clean = examples([9, 12])
    _, first, second = halves(clean)
    assert all(half[0] == 2 and half[-1] == 3 for half in first)
    assert not any({2, 3} & set(answer) for answer in second)


def test_a_decoder_meets_no_end_in_the_middle(examples):
    clean = examples([9, 12, 1])
    batch = PrefixLM().batch(clean, 0, Vocabularies(200, end_id=3))
    part = batch.targets["prefix_lm"]
    first, second = rows(batch.ids, batch.lengths), rows(part["answers"], part["lengths"])
    texts = rows(clean.ids, clean.lengths)
    assert [a + b for a, b in zip(first, second, strict=True)] == texts


def test_what_stands_between_documents_stays_between_them(examples):
    clean = examples([(6, 6)] * 40)
    _, first, second = halves(clean)
    for text, shown, asked in zip(rows(clean.ids, clean.lengths), first, second, strict=True):
        assert shown[:-1] + asked[:-1] == text[:-1] and shown[-1] == text[-1]
    assert any(3 in asked for asked in second)


def test_an_encoder_decoder_reads_the_first_half(tiny, examples):
    objective = PrefixLM()
    model = tiny("t5", objective)
    batch, first, second = halves(examples([8, 21], bare=True))
    expected = 0
    for shown, asked in zip(first, second, strict=True):
        layout = Layout([len(shown)])
        encoded = Encoded(model(torch.tensor(shown), layout), layout)
        x = model.decode(torch.tensor([0, *asked[:-1]]), Layout([len(asked)]), encoded)
        scores = model.heads["vocabulary"](x)
        expected += F.cross_entropy(scores, torch.tensor(asked), reduction="sum")
    loss = objective.loss(model, batch.tensors())
    assert loss.terms["prefix_lm"].total.item() == pytest.approx(expected.item(), rel=1e-12)


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_a_decoder_alone_is_asked_for_the_second_half_only(name, tiny, examples):
    objective = PrefixLM()
    model = tiny(name, objective)
    batch, first, second = halves(examples([8, 21, 2, 1], bare=True))
    expected, count = 0, 0
    for shown, asked in zip(first, second, strict=True):
        ids = torch.tensor([*shown, *asked])
        scores = model.heads["vocabulary"](model(ids[:-1], Layout([len(ids) - 1])))
        asked_scores = scores[len(shown) - 1 :]
        expected += F.cross_entropy(asked_scores, torch.tensor(asked), reduction="sum")
        count += len(asked)
    loss = objective.loss(model, batch.tensors())
    assert loss.terms["prefix_lm"].count == count
    assert loss.terms["prefix_lm"].total.item() == pytest.approx(expected.item(), rel=1e-12)


def test_tokenizers_and_models(examples):
    batch = PrefixLM().batch(examples([9], bare=True), 0, Vocabularies(200, end_id=1))
    assert batch.targets["prefix_lm"]["read"][0] == 1
    with pytest.raises(
        SettingError, match=r"^objective.kind is 'prefix_lm'; it predicts each token"
    ):
        PrefixLM().check(BERT.blueprint(Config(BERT.published("bert-tiny")), {"vocabulary"}))
