"""Causal language modelling: every token from those before it, and from no other document."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from clozeworks.core.layout import Layout
from clozeworks.data.examples.blocks import Blocks
from clozeworks.data.examples.document_chunks import DocumentPieces
from clozeworks.errors import SettingError
from clozeworks.families.bert import FAMILY as BERT
from clozeworks.families.family import Config
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.causal_lm import CausalLM
from clozeworks.objectives.combine import Sum
from clozeworks.text.tokenizer.styles import GPT2_STYLE, LLAMA_STYLE
from clozeworks.text.tokenizer.tokenizer import Tokenizer

SIZES = [5, 1, 23, 2, 11]
SOURCE = Vocabularies(300)


@pytest.fixture(scope="module")
def byte_level():
    """A tokenizer of bytes: what closes a document is 0 for GPT-2; LLaMA opens with 0, closes 1."""
    from tokenizers.pre_tokenizers import ByteLevel

    def make(style):
        tokens = [*style.leading(), *sorted(ByteLevel.alphabet())]
        vocabulary = {token: number for number, token in enumerate(tokens)}
        return Tokenizer(style.build(vocabulary, []), special=style.special)

    return make


def documents(seed=0):
    generator = np.random.default_rng(seed)
    return [generator.integers(10, 200, size) for size in SIZES]


def losses(objective, model, arrangement):
    """What each question costs, and the document its answer belongs to."""
    clean = arrangement.take(0, np.arange(arrangement.size(0)))
    batch = objective.batch(clean, 0, SOURCE)
    tensors = batch.tensors()
    part = tensors.targets["causal_lm"]
    x = objective.vectors(model, tensors, part["read"])
    scores = model.heads["vocabulary"](x)
    return F.cross_entropy(scores, part["answers"], reduction="none").detach(), batch


@pytest.mark.parametrize("name", ["gpt2", "llama"])
def test_another_document_changes_nothing(name, tiny, byte_level, arranged):
    objective = CausalLM(examples=DocumentPieces(length=8))
    model = tiny(name, objective)
    tokenizer = byte_level(GPT2_STYLE if name == "gpt2" else LLAMA_STYLE)
    before, batch = losses(objective, model, arranged(objective, documents(), tokenizer))
    changed = documents()
    changed[2] = (changed[2] - 10 + 7) % 190 + 10
    after, _ = losses(objective, model, arranged(objective, changed, tokenizer))
    piece = np.repeat(np.arange(len(batch)), batch.targets["causal_lm"]["lengths"])
    own = np.isin(piece, owned(batch, tokenizer, documents()[2]))
    moved = (before - after).abs().numpy() > 0
    assert moved[own].all() and not moved[~own].any()
    # Windows across borders, as GPT-2 was trained: the next document is read with other eyes.
    leaky = CausalLM(examples=Blocks(length=60))
    plain = byte_level(GPT2_STYLE)
    one, _ = losses(leaky, model, arranged(leaky, documents(), plain))
    other, _ = losses(leaky, model, arranged(leaky, changed, plain))
    assert (one - other)[-SIZES[-1] + 1 :].abs().min() > 1e-6


@pytest.fixture
def arranged(in_memory):
    def arrange(objective, texts, tokenizer):
        split = in_memory([[document.tolist()] for document in texts], 300)
        return objective.examples.arrange(split, tokenizer, 0)

    return arrange


def owned(batch, tokenizer, document):
    """The pieces that hold tokens of a document."""
    found, place = [], 0
    for number, length in enumerate(batch.lengths):
        ids = batch.ids[place : place + length]
        place += length
        text = ids[ids >= 10]
        if any(document[i : i + len(text)].tolist() == text.tolist() for i in range(len(document))):
            found.append(number)
    return found


def test_every_token_but_the_first_is_asked_from_the_one_before(tiny, examples, source):
    objective = CausalLM()
    model = tiny("gpt2", objective)
    clean = examples([7, 3, 12], bare=True)
    batch = objective.batch(clean, 0, source)
    assert batch.ids.tolist() == clean.ids.tolist()
    rows = np.split(clean.ids, np.cumsum(clean.lengths)[:-1])
    part = batch.targets["causal_lm"]
    assert part["answers"].tolist() == [token for row in rows for token in row[1:]]
    assert part["read"].tolist() == [token for row in rows for token in row[:-1]]
    assert part["lengths"].tolist() == [6, 2, 11]
    expected = 0
    for row in rows:
        ids = torch.from_numpy(row)
        scores = model.heads["vocabulary"](model(ids, Layout([len(ids)])))
        expected += F.cross_entropy(scores[:-1], ids[1:], reduction="sum")
    loss = objective.loss(model, batch.tensors())
    assert loss.terms["causal_lm"].total.item() == pytest.approx(expected.item(), rel=1e-12)
    beside = Sum(parts=(objective,)).loss(model, batch.tensors())
    assert beside.value().item() == pytest.approx(loss.value().item(), rel=1e-12)


def test_texts_of_one_token_ask_nothing(tiny, examples, source):
    objective = CausalLM()
    batch = objective.batch(examples([1, 1], bare=True), 0, source)
    assert batch.counts() == {"causal_lm": 0}
    assert objective.loss(tiny("gpt2", objective), batch.tensors()).value().item() == 0


def test_models_that_cannot_learn_it(tiny):
    with pytest.raises(SettingError) as caught:
        CausalLM().check(BERT.blueprint(Config(BERT.published("bert-tiny")), {"vocabulary"}))
    assert str(caught.value) == (
        "objective.kind is 'causal_lm'; it predicts each token from those before it, and the "
        "tokens of this model see what comes after them; choose a family that can generate, such "
        "as gpt2 or llama."
    )
    with pytest.raises(SettingError) as caught:
        tiny("t5", CausalLM())
    assert str(caught.value) == (
        "objective.kind is 'causal_lm'; it predicts every token of one text, and the model has a "
        "decoder, which answers the text that its encoder reads; use span_corruption or "
        "prefix_lm, or choose a family without an encoder, such as gpt2 or llama."
    )
