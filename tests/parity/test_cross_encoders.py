"""Cross-encoders: our folders score the same in sentence-transformers, and theirs here."""

import json

import pytest
import torch

import clozeworks as cw
from clozeworks.tasks.rerank.task import Rerank

pytestmark = pytest.mark.parity
QUERY = "the cat sat on the mat"
DOCUMENTS = [
    "the dog lay on the rug",
    "the cat",
    "北京的天气",
    "a cat and a dog sat in the garden and " * 12,  # longer than the model
    "the mat",
]


def theirs(folder, **options):
    from sentence_transformers import CrossEncoder

    return CrossEncoder(str(folder), device="cpu", **options)


def same(model, encoder):
    pairs = [(QUERY, document) for document in DOCUMENTS]
    pairs.append((DOCUMENTS[3], DOCUMENTS[3]))  # both are cut
    ours = [each.scores[0] for each in model.predict(pairs)]
    assert ours == pytest.approx(encoder.predict(pairs).tolist(), abs=1e-6)
    assert len({round(score, 5) for score in ours}) == len(ours)
    right = encoder.rank(QUERY, DOCUMENTS)
    ranking = model.rerank(QUERY, DOCUMENTS)
    assert [each.index for each in ranking] == [each["corpus_id"] for each in right]
    assert [each.score for each in ranking] == pytest.approx([e["score"] for e in right], abs=1e-6)


def with_head(model):
    """The same model, its head saying something."""
    generator = torch.Generator().manual_seed(3)
    for name, parameter in model.model.named_parameters():
        if name.startswith("heads."):
            parameter.data.normal_(std=0.5, generator=generator)
    return model


@pytest.fixture
def ours(tiny_models):
    """Makes a reranker."""

    def make(kind="bert", **settings):
        return with_head(cw.load(tiny_models[kind]).for_task(Rerank(**settings)))

    return make


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_ours_there(ours, tmp_path, kind):
    from torch.nn import Identity, Sigmoid

    for activation, cls in (("identity", Identity), ("sigmoid", Sigmoid)):
        model = ours(kind, activation=activation)
        folder = model.save(tmp_path / activation)
        encoder = theirs(folder)
        assert isinstance(encoder.activation_fn, cls)
        same(model, encoder)


def test_theirs_here_and_back(ours, tmp_path):
    """Their newest layout with modules, saved by them, read here, saved here, read there."""
    from torch.nn import Identity

    plain = ours(activation="sigmoid").save(tmp_path / "plain")
    encoder = theirs(plain, activation_fn=Identity(), max_length=20)
    encoder.save_pretrained(str(tmp_path / "theirs"))
    assert (tmp_path / "theirs" / "modules.json").exists()
    model = cw.load(tmp_path / "theirs")
    assert model.task == Rerank(activation="identity")
    same(model, encoder)
    again = model.save(tmp_path / "again")
    same(cw.load(again), theirs(again))
    assert cw.load(again).task == model.task


def test_older_folders_and_such_that_say_nothing(ours, tmp_path):
    folder = ours(activation="identity").save(tmp_path / "model")
    (folder / "clozeworks.json").unlink()
    config = json.loads((folder / "config.json").read_text())
    del config["sentence_transformers"]
    (folder / "config.json").write_text(json.dumps(config))
    silent = cw.load(folder)
    ranking, right = silent.rerank(QUERY, DOCUMENTS), theirs(folder).rank(QUERY, DOCUMENTS)
    assert [each.score for each in ranking] == pytest.approx([e["score"] for e in right], abs=1e-6)
    config["sbert_ce_default_activation_function"] = "torch.nn.modules.linear.Identity"
    (folder / "config.json").write_text(json.dumps(config))
    assert cw.load(folder).task == Rerank(activation="identity")
    same(cw.load(folder), theirs(folder))


def test_a_sentence_model_that_became_a_reranker(ours, tmp_path):
    """What it said of its pooling must not lead them to pool."""
    from dataclasses import replace

    start = ours(activation="sigmoid")
    start.checkpoint.pooling = replace(start.pooling, stated=True)
    folder = start.save(tmp_path / "sentence")
    model = with_head(cw.load(folder).for_task(Rerank(activation="sigmoid")))
    same(model, theirs(model.save(tmp_path / "model")))
