"""Losses and gradients against transformers and sentence-transformers, from the same ids."""

import numpy as np
import pytest
import torch

from clozeworks.checkpoints import folder as folders
from clozeworks.data.examples.example_arrays import lay_out
from clozeworks.objectives.batch import Vocabularies
from clozeworks.objectives.combine import Sum
from clozeworks.objectives.contrastive import Contrastive
from clozeworks.objectives.masked_lm import MaskedLM
from clozeworks.objectives.next_sentence import NextSentence
from clozeworks.objectives.published import published
from clozeworks.objectives.replaced_tokens import ReplacedTokens
from clozeworks.text.tokenizer.templates import Template

pytestmark = pytest.mark.parity

PAIR = Template(((2,), (3,), (3,)), ((0,), (0,), (1,)), (0, 1))
ONE = Template(((0,), (2,)), ((0,), (0,)), (0,))
SOURCE = Vocabularies(99, mask_id=4, special_ids=(0, 1, 2, 3, 4))


def arranged(template, texts, lengths, seed=0):
    generator = np.random.default_rng(seed)
    rows = []
    for length in lengths:
        cut = generator.integers(1, length) if texts == 2 else length
        sizes = [cut, length - cut][:texts]
        rows.append([(generator.integers(5, 99, n), generator.random(n) < 0.7) for n in sizes])
    return lay_out(
        template,
        np.array([[len(tokens) for tokens, _ in row] for row in rows]),
        *map(np.concatenate, zip(*(text for row in rows for text in row), strict=True)),
        epochs=np.zeros(len(rows), np.int64),
        indices=np.arange(len(rows)),
        labels=generator.integers(0, 2, len(rows)) if texts == 2 else None,
    )


def padded(clean, batch, pad):
    """What the peer is given: rows of ids, types, mask and labels."""
    part = batch.targets["masked_lm"]
    labels = np.full(len(batch.ids), -100)
    labels[part["positions"]] = part["answers"]
    rows = (
        clean.rows(values, fill)
        for values, fill in ((batch.ids, pad), (batch.types, 0), (labels, -100))
    )
    ids, types, labels = (torch.from_numpy(values) for values in rows)
    mask = torch.from_numpy(clean.real.astype(np.int64))
    return {"input_ids": ids, "token_type_ids": types, "attention_mask": mask, "labels": labels}


def compare(ours, theirs, names):
    """Gradients of parameters that both have, by our name and theirs."""
    for left, right in names.items():
        mine, other = ours.get_parameter(left).grad, theirs.get_parameter(right).grad
        scale = max(1.0, other.abs().max().item())
        assert (mine - other).abs().max().item() <= 1e-5 * scale, left


@pytest.mark.parametrize("hide", ["bert", "albert", "whole words"])
def test_bert_pretraining(hide, peer, tmp_path):
    theirs = peer("BertForPreTraining").train()
    theirs.save_pretrained(tmp_path / "peer")
    model = folders.load(tmp_path / "peer").model.train()
    masked = {
        "bert": MaskedLM.bert(),
        "albert": MaskedLM.albert(),
        "whole words": MaskedLM.bert(whole_words=True),
    }[hide]
    objective = Sum(parts=(masked, NextSentence()))
    clean = arranged(PAIR, 2, [37, 2, 12, 12, 30, 5, 19])
    batch = objective.batch(clean, 3, SOURCE)
    expected = theirs(**padded(clean, batch, 0), next_sentence_label=torch.tensor(clean.labels))
    loss = objective.loss(model, batch.tensors())
    assert abs(loss.value().item() - expected.loss.item()) <= 1e-5 * expected.loss.item()
    expected.loss.backward()
    loss.value().backward()
    compare(
        model,
        theirs,
        {
            "embeddings.tokens.weight": "bert.embeddings.word_embeddings.weight",
            "heads.vocabulary.decoder.bias": "cls.predictions.bias",
            "heads.vocabulary.dense.weight": "cls.predictions.transform.dense.weight",
            "heads.next_sentence.project.weight": "cls.seq_relationship.weight",
            "pooler.dense.weight": "bert.pooler.dense.weight",
        },
    )


def test_roberta_pretraining(peer, tmp_path):
    theirs = peer("RobertaForMaskedLM").train()
    theirs.save_pretrained(tmp_path / "peer")
    model = folders.load(tmp_path / "peer").model.train()
    objective = MaskedLM.roberta()
    clean = arranged(ONE, 1, [37, 2, 12, 12, 30, 5, 38])
    batch = objective.batch(clean, 3, Vocabularies(99, mask_id=4, special_ids=(0, 1, 2, 3, 4)))
    expected = theirs(**padded(clean, batch, 1))
    value = objective.loss(model, batch.tensors()).value()
    assert abs(value.item() - expected.loss.item()) <= 1e-5 * expected.loss.item()
    expected.loss.backward()
    value.backward()
    compare(
        model, theirs, {"embeddings.tokens.weight": "roberta.embeddings.word_embeddings.weight"}
    )


def test_albert_pretraining(peer, tmp_path):
    theirs = peer("AlbertForPreTraining", num_labels=2).train()
    theirs.save_pretrained(tmp_path / "peer")
    model = folders.load(tmp_path / "peer").model.train()
    objective = published("albert", 40)
    clean = arranged(PAIR, 2, [37, 2, 12, 12, 30, 5, 19])
    batch = objective.batch(clean, 3, SOURCE)
    expected = theirs(**padded(clean, batch, 0), sentence_order_label=torch.tensor(clean.labels))
    value = objective.loss(model, batch.tensors()).value()
    assert abs(value.item() - expected.loss.item()) <= 1e-5 * expected.loss.item()
    expected.loss.backward()
    value.backward()
    group = "albert.encoder.albert_layer_groups.1.albert_layers.0"
    compare(
        model,
        theirs,
        {
            "embeddings.tokens.weight": "albert.embeddings.word_embeddings.weight",
            "embeddings.widen.weight": "albert.encoder.embedding_hidden_mapping_in.weight",
            "encoder.layers.1.feed_forward.part.up.weight": f"{group}.ffn.weight",
            "heads.vocabulary.decoder.bias": "predictions.bias",
            "heads.sentence_order.project.weight": "sop_classifier.classifier.weight",
            "pooler.dense.weight": "albert.pooler.weight",
        },
    )


def test_electra_pretraining(peer, tmp_path):
    """Two peers, one after the other; what both have in common learns from both."""
    discriminator = peer("ElectraForPreTraining").train()
    small = {"hidden_size": 8, "num_attention_heads": 1, "intermediate_size": 12}
    generator = peer("ElectraForMaskedLM", seed=1, **small).train()
    shared = ("word_embeddings", "position_embeddings")
    for name in shared:
        table = discriminator.electra.embeddings.get_submodule(name).weight.detach()
        generator.electra.embeddings.get_submodule(name).weight.data.copy_(table)
    discriminator.save_pretrained(tmp_path / "discriminator")
    generator.save_pretrained(tmp_path / "generator")
    first, second = (folders.load(tmp_path / name).model for name in ("discriminator", "generator"))

    objective = ReplacedTokens()
    network = objective.equip(first.blueprint).build()
    (own,) = objective.companions(network).values()
    assert own.blueprint == second.blueprint
    network.load_state_dict(first.state_dict(), strict=False)
    own.load_state_dict(second.state_dict())
    clean = arranged(PAIR, 2, [37, 2, 12, 12, 30, 5, 19])
    batch = objective.batch(clean, 3, SOURCE)
    loss = objective.loss(network.train(), batch.tensors())

    inputs = padded(clean, batch, 0)
    guessed = generator(**inputs).loss
    _, ids = objective.replace(own, batch.tensors())
    replaced = ids.numpy() != clean.ids
    replaced[clean.special] = False
    inputs["input_ids"] = torch.from_numpy(clean.rows(ids.numpy(), 0))
    del inputs["labels"]
    judged = torch.from_numpy(clean.rows(~clean.special, False))
    z = discriminator(**inputs).logits[judged]
    labels = torch.from_numpy(clean.rows(replaced.astype(np.float32), 0.0))[judged]
    told = torch.nn.functional.binary_cross_entropy_with_logits(z, labels)
    expected = guessed + 50 * told
    assert 0 < labels.mean() < 0.25
    assert abs(loss.value().item() - expected.item()) <= 1e-5 * expected.item()

    expected.backward()
    loss.value().backward()
    for ours, theirs in (("tokens", "word_embeddings"), ("positions.table", "position_embeddings")):
        mine = network.get_parameter(f"embeddings.{ours}.weight").grad
        left, right = (
            model.electra.embeddings.get_submodule(theirs).weight.grad
            for model in (discriminator, generator)
        )
        # A table's row for padding never learns there; no token here is padding.
        scale = max(1.0, (left + right).abs().max().item())
        assert (mine - left - right)[1:].abs().max().item() <= 1e-5 * scale
    names = {"heads.replaced.dense.weight": "discriminator_predictions.dense.weight"}
    names["embeddings.widen.weight"] = "electra.embeddings_project.weight"
    compare(network, discriminator, names)
    names = {"heads.vocabulary.dense.weight": "generator_predictions.dense.weight"}
    names["heads.vocabulary.decoder.bias"] = "generator_lm_head.bias"
    names["embeddings.widen.weight"] = "electra.embeddings_project.weight"
    compare(own, generator, names)


@pytest.mark.parametrize("views", [2, 3, 4])
def test_multiple_negatives_ranking(views):
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    vectors = torch.randn(7, views, 24, generator=torch.Generator().manual_seed(views))
    mine, other = (vectors.clone().requires_grad_() for _ in range(2))
    loss = losses.MultipleNegativesRankingLoss(model=None, scale=20.0)
    expected = loss.compute_loss_from_embeddings(list(other.unbind(1)), torch.zeros(7))
    scores = Contrastive(projection=None).logits(mine)
    value = torch.nn.functional.cross_entropy(scores, torch.arange(7), reduction="sum") / 7
    assert abs(value.item() - expected.item()) <= 1e-5
    value.backward()
    expected.backward()
    assert (mine.grad - other.grad).abs().max() <= 1e-6


def test_mean_pooled_texts_and_their_ranking(peer, tmp_path):
    """The whole way: texts of a batch through the model, pooled, compared."""
    losses = pytest.importorskip("sentence_transformers.sentence_transformer.losses")
    theirs = peer("BertModel")
    theirs.save_pretrained(tmp_path / "peer")
    model = folders.load(tmp_path / "peer").model
    clean = arranged(Template(((2,), (3,)), ((0,), (0,)), (0,)), 1, [9, 30, 12, 4, 4, 21, 33, 8])
    object.__setattr__(clean, "views", 2)
    objective = Contrastive(pooling="mean", projection=None)
    value = objective.loss(model, objective.batch(clean, 0, SOURCE).tensors()).value()
    mask = torch.from_numpy(clean.real.astype(np.float32))[..., None]
    ids = torch.from_numpy(clean.rows(clean.ids, 0))
    hidden = theirs(input_ids=ids, attention_mask=mask[..., 0].long()).last_hidden_state
    vectors = (hidden * mask).sum(1) / mask.sum(1)
    loss = losses.MultipleNegativesRankingLoss(model=None)
    expected = loss.compute_loss_from_embeddings([vectors[0::2], vectors[1::2]], torch.zeros(4))
    assert abs(value.item() - expected.item()) <= 2e-5
