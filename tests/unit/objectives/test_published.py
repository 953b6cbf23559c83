"""The published combinations from text to gradient: tokenizer, corpus, arrangement, objective."""

import dataclasses

import numpy as np
import pytest
import torch

from clozeworks.checkpoints import folder
from clozeworks.core.initialize import initialize
from clozeworks.data.examples.single_sequences import SingleSequences
from clozeworks.data.examples.whole_sentences import FullSentences
from clozeworks.families.bert import FAMILY
from clozeworks.families.family import Config
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.combine import Sum
from clozeworks.objectives.contrastive import Contrastive
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.next_sentence import NextSentence
from clozeworks.objectives.published import published as by_name
from clozeworks.objectives.replaced_tokens import ReplacedTokens
from clozeworks.objectives.sentence_order import SentenceOrder
from clozeworks.objectives.span_boundary import SpanBoundary
from clozeworks.text.tokenizer.tokenizer import Tokenizer

TEXTS = [
    ["The cat sat on the mat.", "The dog lay on the rug in the garden.", "Paris is in France."],
    ["北京是中国的首都。", "The house of the dog is beside the garden.", "The Seine is in Paris."],
    ["The dog sat.", "And the cat lay beside the house, on the mat of the dog."],
] * 4


def published():
    one = SingleSequences(length=48)
    spans = dataclasses.replace(MaskedLM.spanbert(), examples=one)
    roberta = dataclasses.replace(MaskedLM.roberta(), examples=FullSentences(length=40))
    return {
        "bert": Sum(parts=(MaskedLM.bert(), NextSentence())),
        "roberta": roberta,
        "albert": Sum(parts=(MaskedLM.albert(), SentenceOrder())),
        "spanbert": Sum(parts=(spans, SpanBoundary())),
        "electra": ReplacedTokens(examples=FullSentences(length=40)),
        "deberta": by_name("deberta", 40),
        "deberta-v3": by_name("deberta-v3", 40),
        "simcse": Contrastive(),
    }


@pytest.fixture(scope="module")
def tokenizer(tiny_models):
    return Tokenizer.load(tiny_models["bert"])


@pytest.fixture(scope="module")
def split(tokenizer, in_memory):
    documents = [
        [item.ids for item in tokenizer.encode(sentences, special=False)] for sentences in TEXTS
    ]
    pieces = list(tokenizer.vocabulary())
    begins = np.array([not piece.startswith("##") for piece in pieces])
    return in_memory(documents, tokenizer.size, begins)


@pytest.mark.parametrize("name", published())
def test_from_text_to_gradient(name, tokenizer, split, tiny_models):
    objective = published()[name]
    source = Vocabularies.of(tokenizer, split)
    arrangement = objective.chosen_examples().arrange(split, tokenizer, 0)
    numbers = np.arange(min(6, arrangement.size(0)))
    clean = arrangement.take(0, numbers)
    batch = objective.batch(clean, 0, source)
    assert all(batch.counts().values())
    special = np.array(sorted(set(source.special_ids) - {tokenizer.mask_id, tokenizer.unknown_id}))
    assert np.isin(clean.ids[clean.special], special).all()
    assert (batch.ids == clean.ids)[clean.special].all()
    if "masked_lm" in batch.targets:
        assert (batch.ids == tokenizer.mask_id).any()

    plain = folder.load(tiny_models["bert"]).model.blueprint
    parts = frozenset({"pooler", "vocabulary", "next_sentence"})
    blueprint = FAMILY.blueprint(Config(FAMILY.config(plain)), parts)
    model = objective.equip(blueprint).build()
    initialize(model, seed=0)
    torch.manual_seed(0)
    loss = objective.loss(model.train(), batch.tensors())
    loss.value().backward()
    # An untrained model knows nothing: its cost is that of guessing.
    guess = {"masked_lm": np.log(tokenizer.size), "span_boundary": np.log(tokenizer.size)}
    guess |= {"next_sentence": np.log(2), "sentence_order": np.log(2)}
    guess["replaced_tokens"] = np.log(2)
    for part, mean in loss.means().items():
        if part in guess:
            assert mean == pytest.approx(guess[part], rel=0.1), part
    assert model.embeddings.tokens.weight.grad.any()
