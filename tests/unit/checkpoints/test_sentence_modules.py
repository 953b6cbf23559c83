"""Modules after the pooling: what is kept, and what a damaged folder is told."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import clozeworks as cw
from clozeworks.checkpoints.pickled import convert
from clozeworks.core.heads.sentence_vectors import NAME, Dense, SentenceVectors, UnitLength
from clozeworks.errors import CheckpointError, InputError, SettingError, UnknownName

TEXTS = ["the cat sat", "Paris", "the dog lay on the rug"]
DENSE = {"in_features": 32, "out_features": 5, "bias": True}
DENSE["activation_function"] = "torch.nn.modules.linear.Identity"


@pytest.fixture
def dense_model(bert_model):
    """A folder with a dense layer, as another library may have written it."""
    model = cw.load(bert_model)
    model.pooling = cw.Pooling(normalize=True)
    model.save(bert_model, overwrite=True)
    (bert_model / "clozeworks.json").unlink()
    entries = json.loads((bert_model / "modules.json").read_text())
    path = "sentence_transformers.base.modules.dense.Dense"
    entries.insert(2, {"idx": 2, "name": "2", "path": "2_Dense", "type": path})
    (bert_model / "modules.json").write_text(json.dumps(entries))
    (bert_model / "2_Dense").mkdir()
    (bert_model / "2_Dense/config.json").write_text(json.dumps(DENSE))
    weights = {"linear.weight": torch.randn(5, 32, generator=torch.manual_seed(2))}
    weights["linear.bias"] = torch.arange(5.0)
    save_file(weights, bert_model / "2_Dense/model.safetensors")
    return bert_model


def test_the_vectors_by_hand(dense_model):
    model = cw.load(dense_model)
    weights = load_file(dense_model / "2_Dense/model.safetensors")
    pooled = model.embed(TEXTS, pooling="mean", normalize=False)
    assert pooled.shape == (3, 32)  # another pooling than the folder's goes without its layer
    expected = pooled @ weights["linear.weight"].numpy().T + np.arange(5)
    np.testing.assert_allclose(model.embed(TEXTS, normalize=False), expected, atol=1e-5)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    np.testing.assert_allclose(model.embed(TEXTS), expected, atol=1e-6)
    assert model.embed([]).shape == (0, 5)
    np.testing.assert_allclose(
        np.linalg.norm(model.embed(TEXTS, truncate_dim=2), axis=1), 1.0, atol=1e-6
    )


def test_a_second_layer_and_an_activation_nobody_names(dense_model):
    """A layer takes what the one before it gives; without a name its activation is tanh."""
    model = cw.load(dense_model)
    before = model.embed(TEXTS, normalize=False)
    entries = json.loads((dense_model / "modules.json").read_text())
    path = "sentence_transformers.models.Dense"
    entries.insert(3, {"idx": 3, "name": "x", "path": "x_Dense", "type": path})
    (dense_model / "modules.json").write_text(json.dumps(entries))
    (dense_model / "x_Dense").mkdir()
    config = {"in_features": 5, "out_features": 2, "bias": False}
    (dense_model / "x_Dense/config.json").write_text(json.dumps(config))
    weight = torch.randn(2, 5, generator=torch.manual_seed(3))
    save_file({"linear.weight": weight}, dense_model / "x_Dense/model.safetensors")
    found = cw.load(dense_model)
    expected = np.tanh(before @ weight.numpy().T)
    np.testing.assert_allclose(found.embed(TEXTS, normalize=False), expected, atol=1e-5)
    assert str(found.pooling) == (
        "mean pooling, then dense to 5, then dense to 2 and tanh, scaled to length 1 (as the model "
        "folder says)"
    )


def test_another_pooling_keeps_the_layer_or_drops_it(dense_model, tmp_path):
    model = cw.load(dense_model)
    before = model.embed(TEXTS, normalize=False)
    model.pooling = replace(model.pooling, normalize=False)
    np.testing.assert_array_equal(model.embed(TEXTS), before)
    model.pooling = model.pooling.truncated(2)
    np.testing.assert_array_equal(model.embed(TEXTS), before[:, :2])
    assert str(model.pooling) == (
        "mean pooling, then dense to 5, then the first 2 dimensions (as the model folder says)"
    )
    np.testing.assert_array_equal(cw.load(model.save(tmp_path / "cut")).embed(TEXTS), before[:, :2])
    steps = model.pooling.steps
    model.pooling = cw.Pooling()
    assert model.embed(TEXTS).shape == (3, 32) and model.model.sentence is None
    with pytest.raises(SettingError) as caught:
        model.pooling = cw.Pooling(steps=steps)
    assert str(caught.value) == (
        "pooling is mean, then dense to 5, then the first 2 dimensions; the model has no weights "
        "for it; take the steps of `model.pooling`."
    )
    assert not (model.save(tmp_path / "plain") / "2_Dense").exists()


def test_the_layer_is_no_weight_of_the_encoder(dense_model, tmp_path):
    folder = cw.load(dense_model).save(tmp_path / "again")
    assert not any("sentence" in name for name in load_file(folder / "model.safetensors"))
    assert "heads" not in json.loads((folder / "clozeworks.json").read_text())
    for name in ("config.json", "model.safetensors"):
        assert f"2_Dense/{name}" in json.loads((folder / "clozeworks.json").read_text())["files"]
    cw.load(folder).save(folder, overwrite=True)  # a folder that may be replaced


@pytest.mark.parametrize("inside", [False, True])
def test_the_last_scaling_may_be_in_the_head_or_not(bert_model, tmp_path, inside):
    """A task trains a head without it, since losses scale vectors themselves."""
    model = cw.load(bert_model)
    steps = (Dense(width=4), UnitLength()) if inside else (Dense(width=4),)
    head = SentenceVectors(steps=steps)
    network = model.model
    network.set_head(NAME, head, head.build(32, network.blueprint.embeddings))
    model.checkpoint.pooling = cw.Pooling(normalize=not inside, stated=True)
    assert str(model.pooling) == (
        "mean pooling, then dense to 4, scaled to length 1 (as the model folder says)"
    )
    np.testing.assert_allclose(np.linalg.norm(model.embed(TEXTS), axis=1), 1, atol=1e-6)
    again = cw.load(model.save(tmp_path / "again"))
    assert again.pooling == model.pooling
    np.testing.assert_array_equal(again.embed(TEXTS), model.embed(TEXTS))


def test_a_task_takes_the_encoder_alone(dense_model):
    model = cw.load(dense_model).for_task(cw.tasks.Classify(labels=("a", "b")))
    assert model.pooling.steps == () and model.embed(TEXTS).shape == (3, 32)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"in_features": 31},
            "2_Dense/config.json: it takes vectors of width 31, and gets those of width 32; "
            "restore the folder.",
        ),
        (
            {"out_features": 6},
            "2_Dense: the weight linear.weight has the shape [5, 32], and its config.json says "
            "[6, 32]; take both from the same model.",
        ),
        (
            {"out_features": "5"},
            "2_Dense/config.json: out_features is '5'; it must be a whole number of at least 1; "
            "restore the file.",
        ),
        (
            {"bias": 1},
            "2_Dense/config.json: bias is 1; it must be true or false; restore the file.",
        ),
        (
            {"use_residual": True},
            "2_Dense has no weight residual.weight; restore its model.safetensors.",
        ),
        (
            {"module_input_name": "token_embeddings"},
            "2_Dense/config.json: module_input_name is 'token_embeddings'; only "
            "'sentence_embedding' is computed here, the vector of a text; use another model.",
        ),
    ],
)
def test_configs_that_do_not_fit(dense_model, change, sentence):
    (dense_model / "2_Dense/config.json").write_text(json.dumps(DENSE | change))
    with pytest.raises(CheckpointError) as caught:
        cw.load(dense_model)
    assert str(caught.value) == f"{dense_model}/{sentence}"


@pytest.mark.parametrize("name", ["my.own.Tanh", "torch.nn.Softplus", 5])
def test_activations_that_are_not_known(dense_model, name):
    config = DENSE | {"activation_function": name}
    (dense_model / "2_Dense/config.json").write_text(json.dumps(config))
    with pytest.raises(UnknownName, match=f"activation_function is '{name}'; known: torch.nn.mod"):
        cw.load(dense_model)


def test_a_rate_that_is_none(dense_model):
    entries = json.loads((dense_model / "modules.json").read_text())
    entries.append({"path": "4_Dropout", "type": "sentence_transformers.models.Dropout"})
    (dense_model / "modules.json").write_text(json.dumps(entries))
    assert cw.load(dense_model).pooling.steps[-1].dropout == 0.2  # theirs without a file, too
    (dense_model / "4_Dropout").mkdir()
    (dense_model / "4_Dropout/config.json").write_text('{"dropout": 1}')
    with pytest.raises(CheckpointError) as caught:
        cw.load(dense_model)
    assert str(caught.value) == (
        f"{dense_model}/4_Dropout/config.json: dropout is 1; it must be a number of at least 0 and "
        "below 1; restore the file."
    )


def test_pickled_weights_of_a_module_are_converted(dense_model, tmp_path):
    weights = load_file(dense_model / "2_Dense/model.safetensors")
    expected = cw.load(dense_model).embed(TEXTS)
    (dense_model / "2_Dense/model.safetensors").unlink()
    torch.save(weights, dense_model / "2_Dense/pytorch_model.bin")
    with pytest.raises(CheckpointError) as caught:
        cw.load(dense_model)
    assert str(caught.value) == (
        f"{dense_model}/2_Dense holds its weights as pytorch_model.bin, a format that can run code "
        "when it is opened; Clozeworks reads only safetensors. Convert it once: clozeworks convert "
        f"{dense_model} --out {dense_model}-safetensors"
    )
    done = convert(dense_model, tmp_path / "converted")
    assert done.files == (dense_model / "2_Dense/pytorch_model.bin",) and done.tensors == 2
    np.testing.assert_array_equal(cw.load(tmp_path / "converted").embed(TEXTS), expected)


def test_weights_of_tokens_are_counted_in_texts(bert_model, tmp_path):
    model = cw.load(bert_model)
    texts = ["the cat sat", "the dog", "the cat the cat"]
    model.weigh_tokens(texts)
    assert str(model.pooling) == "tf_idf_mean pooling (as the model folder says)"
    states = model.hidden_states("the cat the")
    weights = np.array([1, 1, np.log(4 / 3) + 1, 1, 1])  # of [CLS], the, cat, the, [SEP]
    expected = weights @ states.vectors / weights.sum()
    np.testing.assert_allclose(model.embed("the cat the"), expected, atol=1e-5)
    again = cw.load(model.save(tmp_path / "again"))
    assert again.pooling == model.pooling
    np.testing.assert_array_equal(again.embed(texts), model.embed(texts))
    config = json.loads((tmp_path / "again/1_WordWeights/config.json").read_text())
    assert config["word_weights"]["dog"] == pytest.approx(np.log(4 / 2) + 1)
    assert config["word_weights"]["Paris".lower()] == pytest.approx(np.log(4) + 1)
    with pytest.raises(InputError, match=r"^there are no texts; weights of tokens are counted in"):
        model.weigh_tokens([])


def test_weights_grow_with_the_vocabulary(bert_model):
    model = cw.load(bert_model)
    model.weigh_tokens(["the cat sat", "the dog"])
    before = model.embed("the cat")
    model.extend(["zyzzyva zyzzyva"] * 9, 3)
    assert len(model.model.sentence.pooling.weights) == model.tokenizer.size
    np.testing.assert_allclose(model.embed("the cat"), before, atol=1e-6)


def test_a_query_begins_as_the_mean_and_is_kept(bert_model, tmp_path):
    model = cw.load(bert_model)
    expected = model.embed(TEXTS)
    model.pooling = cw.Pooling(modes=("attention_mean",), include_prompt=False)
    np.testing.assert_allclose(model.embed(TEXTS), expected, atol=1e-6)
    with torch.no_grad():
        model.model.sentence.pooling.query.normal_(generator=torch.manual_seed(0))
    assert not np.allclose(model.embed(TEXTS), expected, atol=1e-4)
    again = cw.load(model.save(tmp_path / "again"))
    assert again.pooling == model.pooling
    np.testing.assert_array_equal(again.embed(TEXTS), model.embed(TEXTS))
    config = json.loads((tmp_path / "again/1_AttentionMean/config.json").read_text())
    assert config["about"] == (
        "A learned query weighs the tokens of a text. sentence-transformers has no such module and "
        "refuses this folder; Clozeworks reads it."
    )


def test_poolings_without_weights_are_refused(bert_model):
    model = cw.load(bert_model)
    with pytest.raises(SettingError) as caught:
        model.pooling = cw.Pooling(modes=("tf_idf_mean",))
    assert str(caught.value) == (
        "pooling is tf_idf_mean; the model has no weights for it; call weigh_tokens with texts."
    )
    with pytest.raises(SettingError) as caught:
        model.embed(TEXTS, pooling="attention_mean")
    assert str(caught.value) == (
        f"pooling is 'attention_mean'; {bert_model} has no weights for it; use one without weights."
    )


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (
            {"word_weights": {"the": -1}},
            "1_WordWeights/config.json must have vocab, a list of tokens, and word_weights, a "
            "number of at least 0 for each; restore the file.",
        ),
        (
            {"vocab": "the"},
            "1_WordWeights/config.json must have vocab, a list of tokens, and word_weights, a "
            "number of at least 0 for each; restore the file.",
        ),
    ],
)
def test_weights_of_tokens_that_are_none(bert_model, change, sentence):
    model = cw.load(bert_model)
    model.weigh_tokens(TEXTS)
    model.save(bert_model, overwrite=True)
    (bert_model / "clozeworks.json").unlink()
    path = bert_model / "1_WordWeights/config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(CheckpointError) as caught:
        cw.load(bert_model)
    assert str(caught.value) == f"{bert_model}/{sentence}"


def test_weights_of_tokens_before_another_pooling(bert_model):
    model = cw.load(bert_model)
    model.weigh_tokens(TEXTS)
    model.save(bert_model, overwrite=True)
    (bert_model / "clozeworks.json").unlink()
    (bert_model / "2_Pooling/config.json").write_text('{"pooling_mode": "max"}')
    with pytest.raises(CheckpointError) as caught:
        cw.load(bert_model)
    assert str(caught.value) == (
        f"{bert_model}/2_Pooling/config.json: WordWeights before another pooling than the mean are "
        "not computed here; use another model."
    )
