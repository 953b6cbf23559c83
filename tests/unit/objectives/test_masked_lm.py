"""Masked language modelling as a whole: epochs, presets, logits where they are asked."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.initialize import initialize
from clozeworks.data.examples.example_arrays import ExampleArrays
from clozeworks.errors import SettingError
from clozeworks.objectives.combine import Sum
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.next_sentence import NextSentence
from clozeworks.objectives.noise.budget import Exact
from clozeworks.objectives.noise.ngrams import NGrams
from clozeworks.objectives.noise.single_tokens import SingleTokens
from clozeworks.objectives.noise.spans import Spans
from clozeworks.objectives.noise.whole_words import WholeWords


def masks(objective, clean, source, seed=0):
    return objective.batch(clean, seed, source).targets["masked_lm"]["positions"].tolist()


def test_a_new_mask_every_epoch(examples, source):
    seen = [masks(MaskedLM(), examples([60] * 4, epoch=epoch), source) for epoch in range(25)]
    assert len({tuple(mask) for mask in seen}) == 25
    assert masks(MaskedLM(), examples([60] * 4, epoch=7), source) == seen[7]
    assert masks(MaskedLM(), examples([60] * 4, epoch=7), source, seed=1) != seen[7]


def test_ten_masks_come_back_in_turn(examples, source):
    static = MaskedLM(masks=10)
    batches = [static.batch(examples([60] * 4, epoch=e), 0, source) for e in range(25)]
    seen = [tuple(batch.ids.tolist()) for batch in batches]
    assert len(set(seen)) == 10
    assert seen[3] == seen[13] == seen[23]
    # The first ten are those of a run without repetition.
    dynamic = MaskedLM().batch(examples([60] * 4, epoch=3), 0, source)
    assert seen[3] == tuple(dynamic.ids.tolist())


def test_neighbours_and_order_change_nothing(examples, source):
    for objective in (MaskedLM(), MaskedLM.roberta(), MaskedLM.albert(), MaskedLM.spanbert()):
        clean = examples([60, 5, 128, 60, 31])
        together = objective.batch(clean, 3, source)
        pieces = np.split(together.ids, np.cumsum(clean.lengths)[:-1])
        for number, size in enumerate([60, 5, 128, 60, 31]):
            begin = clean.starts[number]
            stretch = slice(begin, begin + size + 2)
            alone = ExampleArrays(
                ids=clean.ids[stretch],
                types=clean.types[stretch],
                special=clean.special[stretch],
                word_starts=clean.word_starts[stretch],
                lengths=clean.lengths[number : number + 1],
                epochs=clean.epochs[number : number + 1],
                indices=clean.indices[number : number + 1],
            )
            single = objective.batch(alone, 3, source)
            assert single.ids.tolist() == pieces[number].tolist()


def test_presets_are_what_the_papers_did():
    bert = MaskedLM.bert(max_predictions=20)
    assert bert == MaskedLM(hide=SingleTokens(budget=Exact(fraction=0.15, max_count=20)), masks=10)
    assert isinstance(MaskedLM.bert(whole_words=True).hide, WholeWords)
    assert MaskedLM.roberta().masks is None and MaskedLM.roberta().show.random_from == "ordinary"
    assert MaskedLM.albert().hide == NGrams(longest=3, budget=Exact(fraction=0.15))
    spanbert = MaskedLM.spanbert()
    assert spanbert.hide == Spans(p=0.2, longest=10)
    assert (spanbert.show.unit, spanbert.show.random_from) == ("span", "corpus")


def test_logits_exist_only_where_they_are_asked(examples, source, model):
    objective = MaskedLM()
    batch = objective.batch(examples([60, 20, 33]), 0, source)
    built, tensors = model(objective), batch.tensors()
    sizes = []
    norm = built.heads["vocabulary"].norm  # what comes out of it is what the decoder reads
    norm.register_forward_hook(lambda module, given, made: sizes.append(len(made)))
    loss = objective.loss(built, tensors)
    asked = len(batch.targets["masked_lm"]["positions"])
    assert sizes == [asked] and asked < len(batch.ids) / 5
    # They are those of the full table, and the mean is over tokens, not over examples.
    hidden = built(tensors.ids, tensors.layout, tensors.types)
    everywhere = built.head("vocabulary").logits(hidden, tensors.layout)
    labels = torch.full((len(batch.ids),), -100)
    labels[tensors.targets["masked_lm"]["positions"]] = tensors.targets["masked_lm"]["answers"]
    assert (loss.value() - F.cross_entropy(everywhere, labels)).abs() < 1e-12
    best = everywhere.argmax(1)[labels >= 0] == labels[labels >= 0]
    assert loss.accuracies()["masked_lm"] == pytest.approx(best.double().mean().item())


def test_what_it_needs(model):
    with pytest.raises(SettingError) as caught:
        model(MaskedLM(), heads=("next_sentence",))
    assert str(caught.value) == (
        "heads is ['next_sentence']; masked_lm needs 'vocabulary'; make the model with --heads "
        "vocabulary and what else it needs."
    )
    with pytest.raises(SettingError, match=r"^masks is 0; it must be at least 1.$"):
        MaskedLM(masks=0)
    with pytest.raises(SettingError) as caught:
        MaskedLM().chosen_examples()
    assert str(caught.value) == (
        "objective.examples of masked_lm is None; it must say what forms an example; set it, "
        'such as examples = {kind = "full_sentences", length = 128}.'
    )


def test_a_small_model_learns_thirty_two_examples_by_heart(examples, source, model):
    objective = Sum(parts=(MaskedLM(masks=1), NextSentence()))
    built = model(objective, width=64).float()
    initialize(built, seed=1, std=0.05)
    optimizer = torch.optim.Adam(built.parameters(), lr=3e-3)
    labels = [number % 2 for number in range(32)]
    for epoch in range(80):
        clean = examples([(10, 12)] * 32, labels=labels, epoch=epoch)
        loss = objective.loss(built, objective.batch(clean, 0, source).tensors())
        optimizer.zero_grad()
        loss.value().backward()
        optimizer.step()
        if epoch == 0:
            assert loss.means()["masked_lm"] > 4 and loss.means()["next_sentence"] > 0.5
    assert loss.accuracies()["masked_lm"] > 0.95
    assert loss.accuracies()["next_sentence"] == 1
