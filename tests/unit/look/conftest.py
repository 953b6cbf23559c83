"""Small models of every kind, with weights large enough for mistakes to show."""

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
SMALL = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
SHAPES = {
    "bert": ("bert-tiny", "wordpiece", None, {**SMALL, "intermediate_size": 48}),
    "roberta": ("roberta-base", "bpe", None, {**SMALL, "intermediate_size": 48}),
    "albert": (
        "albert-base-v2", "unigram", None,
        {**SMALL, "embedding_size": 16, "intermediate_size": 48},
    ),
    "deberta": ("deberta-v3-base", "unigram", None, {**SMALL, "intermediate_size": 48}),
    "modernbert": (
        "modernbert-base", "bpe", None,
        {**SMALL, "num_hidden_layers": 4, "intermediate_size": 48, "local_attention": 4},
    ),
    "xlnet": (
        "xlnet-base", "unigram", None,
        {"d_model": 32, "n_layer": 3, "n_head": 4, "d_inner": 48},
    ),
    "gpt2": (
        "gpt2", "bpe", GPT2_STYLE, {"n_embd": 32, "n_layer": 3, "n_head": 4, "n_positions": 64},
    ),
    "t5": (
        "t5-small", "unigram", T5_STYLE,
        {"d_model": 32, "d_kv": 8, "num_layers": 2, "num_decoder_layers": 2, "num_heads": 4,
         "d_ff": 48},
    ),
}  # fmt: skip
HEADS = {
    "gpt2": ("vocabulary",),
    "t5": ("vocabulary", "decoder"),
    "xlnet": ("vocabulary", "query_start"),
    "deberta": ("vocabulary", "mask_decoder"),
}


@pytest.fixture(scope="session")
def inside():
    """Makes a small model of a kind, once; leave it as it is."""
    made = {}

    def make(kind):
        if kind not in made:
            size, tokens, style, changes = SHAPES[kind]
            extra = {} if style is None else {"style": style}
            tokenizer = train_from_iterator(SENTENCES, kind=tokens, size=400, **extra)
            heads = {"heads": HEADS[kind]} if kind in HEADS else {}
            model = cw.new(size, tokenizer, seed=1, **heads, **changes)
            generator = torch.Generator().manual_seed(0)
            with torch.no_grad():
                for name, weight in model.model.named_parameters():
                    if weight.dim() > 1 and "norm" not in name:
                        weight.copy_(torch.randn(weight.shape, generator=generator) * 0.2)
            made[kind] = model
        return made[kind]

    return make


@pytest.fixture
def kinds():
    """The kinds of models there are."""
    return tuple(SHAPES)
