"""Small models that write, for several files of tests."""

import pytest
import torch

import clozeworks as cw
from clozeworks.text.tokenizer.styles import GPT2_STYLE, T5_STYLE
from clozeworks.text.training.train import train_from_iterator

SENTENCES = [
    "The capital of France is Paris, and Paris lies on the Seine.",
    "The cat sat on the mat and the dog lay on the rug.",
    "我爱北京，北京是中国的首都。",
] * 4
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 2, "n_positions": 64}
T5 = {
    "d_model": 32, "d_kv": 8, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 2, "d_ff": 48,
}  # fmt: skip


@pytest.fixture(scope="module")
def models():
    bytes_ = train_from_iterator(SENTENCES, kind="bpe", size=400, style=GPT2_STYLE)
    pieces = train_from_iterator(SENTENCES, kind="unigram", size=200, style=T5_STYLE)
    made = {
        "gpt2": cw.new("gpt2", bytes_, seed=1, **GPT2),
        "t5": cw.new("t5-small", pieces, heads=("vocabulary", "decoder"), **T5),
    }
    with torch.no_grad():
        for model in made.values():
            for weight in model.model.parameters():
                weight.mul_(4)
            model.model.double()
    return made


@pytest.fixture(params=["gpt2", "t5"])
def model(request, models):
    return models[request.param]


@pytest.fixture
def shapes():
    """The small shapes they have."""
    return {"gpt2": GPT2, "t5": T5}
