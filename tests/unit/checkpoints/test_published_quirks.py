"""Folders as they are found in the wild, and what others make of ours."""

import json

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import clozeworks as cw
from clozeworks.errors import OutputError, SettingError


def change_config(folder, **changes):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    config.update(changes)
    path.write_text(json.dumps(config))
    (folder / "clozeworks.json").unlink(missing_ok=True)  # as if another library had written it


def change_weights(folder, **changes):
    path = folder / "model.safetensors"
    save_file({**load_file(path), **changes}, path, metadata={"format": "pt"})
    (folder / "clozeworks.json").unlink(missing_ok=True)  # as if another library had written it


def test_where_two_biases_differ_the_decoders_own_counts(bert_model):
    own = torch.randn(cw.load(bert_model).tokenizer.size)
    change_weights(bert_model, **{"cls.predictions.decoder.bias": own})
    model = cw.load(bert_model)
    assert torch.equal(model.model.heads["vocabulary"].decoder.bias, own)
    assert model.report.unexpected == ["cls.predictions.bias"]
    assert model.report.duplicates == []


def test_an_unknown_architecture_lends_its_encoder(bert_model):
    change_config(bert_model, architectures=["BertForFictionalTasks"])
    change_weights(bert_model, **{"classifier.weight": torch.ones(1, 32)})
    model = cw.load(bert_model)
    assert "classifier.weight" in model.report.unexpected
    assert model.report.notes[0] == (
        "the architecture 'BertForFictionalTasks' is not known; only its encoder is used, and saved"
    )
    assert model.embed("the cat").shape == (32,)


def test_a_missing_architecture_is_guessed_aloud(bert_model):
    change_config(bert_model, architectures=None)
    notes = cw.load(bert_model).report.notes
    assert notes[0] == "config.json names no architecture; the weights look like BertForMaskedLM"


def test_saved_folders_state_their_limit(bert_model):
    stated = json.loads((bert_model / "tokenizer_config.json").read_text())
    assert stated["model_max_length"] == cw.load(bert_model).blueprint.max_length()


def test_dtype_as_torch_says_it(bert_model, tmp_path):
    change_config(bert_model, torch_dtype="float32")
    model = cw.load(bert_model, dtype=torch.bfloat16)
    assert next(model.model.parameters()).dtype == torch.bfloat16
    model.save(tmp_path / "half")
    config = json.loads((tmp_path / "half" / "config.json").read_text())
    assert config["dtype"] == "bfloat16" and "torch_dtype" not in config


def test_training_mode_does_not_reach_vectors(bert_model):
    model = cw.load(bert_model)
    expected = model.embed("the cat")
    model.model.train()
    assert np.array_equal(model.embed("the cat"), expected)
    assert model.model.training


def test_heads_bring_their_settings(bert_model):
    tokenizer = cw.Tokenizer.load(bert_model)
    model = cw.new("bert-tiny", tokenizer, heads=("pooler", "classes"), num_labels=3)
    assert model.blueprint.heads["classes"].count == 3


def test_roberta_wants_a_tokenizer_with_its_padding(bert_model):
    with pytest.raises(SettingError) as error:
        cw.new("roberta-base", cw.Tokenizer.load(bert_model))
    assert str(error.value) == (
        "pad_token_id is 1; the tokenizer's is 0, and roberta-base counts positions from it; "
        "train the tokenizer with --kind bpe."
    )


def test_a_folder_that_serves_other_purposes_is_not_replaced(bert_model):
    (bert_model / "src").mkdir()
    with pytest.raises(OutputError) as error:
        cw.load(bert_model).save(bert_model, overwrite=True)
    assert str(error.value) == (
        f"{bert_model} also holds 'src', which is not part of a model, so it is not replaced; "
        "choose another name, or move that away."
    )
