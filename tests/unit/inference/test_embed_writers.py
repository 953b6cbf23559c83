"""Vectors from models that write: of a decoder's last token, of an encoder-decoder's encoder."""

import json

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.checkpoints.sentence import Pooling
from clozeworks.text.tokenizer.styles import GPT2_STYLE
from clozeworks.text.training.train import train_from_iterator

TEXTS = ["The cat sat on the mat.", "A dog", "北京 is a city, and the cat is not in it."]
DECODERS = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 40},
    "llama-2-7b": {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 1, "intermediate_size": 48,
    },
}  # fmt: skip
ENCODER = {"d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 2}


@pytest.fixture(scope="module")
def tokenizer():
    return train_from_iterator(TEXTS * 3, kind="bpe", size=300, style=GPT2_STYLE)


@pytest.fixture(scope="module")
def decoder(tokenizer):
    return cw.new("gpt2", tokenizer, initializer_range=0.2, **DECODERS["gpt2"])


@pytest.fixture(scope="module")
def answering():
    return cw.new("byt5-small", heads=("decoder", "vocabulary"), num_decoder_layers=1, **ENCODER)


def test_vectors_have_length_one_if_that_is_wanted(decoder):
    plain = decoder.embed(TEXTS, normalize=False)
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    assert (np.abs(lengths - 1) > 0.1).all()
    np.testing.assert_allclose(decoder.embed(TEXTS, normalize=True), plain / lengths, atol=1e-6)


def test_a_decoder_speaks_with_its_last_token(decoder):
    assert str(decoder.pooling) == "last pooling (the default of decoders)"
    vectors = decoder.embed(TEXTS)
    for vector, tokens in zip(vectors, decoder.hidden_states(TEXTS), strict=True):
        np.testing.assert_allclose(vector, tokens.vectors[-1], atol=1e-6)
    # Trap: a mean is possible, and something else.
    assert np.abs(vectors - decoder.embed(TEXTS, pooling="mean")).max() > 0.01


def test_neighbours_change_nothing(decoder, answering):
    for model in (decoder, answering):
        alone = np.stack([model.embed(text) for text in TEXTS])
        np.testing.assert_allclose(model.embed(TEXTS), alone, atol=1e-6)


def test_an_encoder_decoder_speaks_with_its_encoder(answering):
    assert str(answering.pooling) == "mean pooling (the default)"
    vectors = answering.embed(TEXTS)
    for vector, tokens in zip(vectors, answering.hidden_states(TEXTS), strict=True):
        np.testing.assert_allclose(vector, tokens.vectors.mean(axis=0), atol=1e-6)


def test_the_folder_may_say_otherwise(decoder, tmp_path):
    folder = decoder.save(tmp_path / "model")
    assert cw.load(folder).pooling.modes == ("last",)
    model = cw.load(folder)
    model.pooling = Pooling(modes=("mean",))
    assert cw.load(model.save(tmp_path / "mean")).pooling.modes == ("mean",)


def test_the_command_says_how(decoder, answering, command, tmp_path):
    for name, model, said in (
        ("decoder", decoder, "Pooling: last pooling (the default of decoders).\n"),
        ("answering", answering, "Pooling: mean pooling (the default).\n"),
    ):
        outcome = command("embed", model.save(tmp_path / name), TEXTS[0])
        assert outcome.code == 0 and said in outcome.err
        vector = json.loads(outcome.out)
        assert len(next(value for value in vector.values() if isinstance(value, list))) == 32


@pytest.mark.parity
@pytest.mark.parametrize("size", DECODERS)
def test_decoders_as_transformers_computes_them(size, tokenizer, tmp_path):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    model = cw.new(size, tokenizer, initializer_range=0.2, **DECODERS[size])
    folder = model.save(tmp_path / size)
    compare(model, transformers.AutoModel.from_pretrained(folder), torch)
    for text, vector in zip(TEXTS, model.embed(TEXTS), strict=True):
        ids = torch.tensor([tokenizer.encode([text])[0].ids])
        last = transformers.AutoModel.from_pretrained(folder)(ids).last_hidden_state[0, -1]
        np.testing.assert_allclose(vector, last.detach().numpy(), atol=1e-5)


@pytest.mark.parity
def test_t5_as_transformers_computes_it(answering, tmp_path):
    transformers, torch = pytest.importorskip("transformers"), pytest.importorskip("torch")
    peer = transformers.T5EncoderModel.from_pretrained(answering.save(tmp_path / "t5"))
    compare(answering, peer, torch)


def compare(model, peer, torch):
    for text in TEXTS:
        ids = torch.tensor([model.tokenizer.encode([text])[0].ids])
        with torch.no_grad():
            states = peer.eval()(ids, output_hidden_states=True).hidden_states
        for layer, state in enumerate(states):
            found = model.hidden_states(text, layer=layer).vectors
            np.testing.assert_allclose(found, state[0].numpy(), atol=2e-5)
