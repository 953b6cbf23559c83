"""Logits, attention and similarity beside those of transformers and sentence-transformers."""

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM, AutoTokenizer

import clozeworks as cw

pytestmark = pytest.mark.parity
TEXTS = ["The cat sat on the mat.", "Paris lies on the Seine."]


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_logits_and_attention(tiny_models, kind):
    ours = cw.load(tiny_models[kind])
    tokenizer = AutoTokenizer.from_pretrained(tiny_models[kind])
    named = AutoModelForMaskedLM.from_pretrained(tiny_models[kind]).eval()
    plain = AutoModel.from_pretrained(tiny_models[kind], attn_implementation="eager").eval()
    for text, logits, weights in zip(TEXTS, ours.logits(TEXTS), ours.attention(TEXTS), strict=True):
        inputs = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            expected = named(**inputs).logits[0].numpy()
            attention = plain(**inputs, output_attentions=True).attentions
        assert logits.tokens == tokenizer.convert_ids_to_tokens(inputs["input_ids"][0])
        np.testing.assert_allclose(logits.logits, expected, atol=1e-5)
        np.testing.assert_allclose(weights.weights, torch.cat(attention).numpy(), atol=1e-5)


@pytest.mark.parametrize("kind", ["cosine", "dot", "euclidean", "manhattan"])
def test_similarity(kind):
    from sentence_transformers import SimilarityFunction

    from clozeworks.inference.similarity import similarity

    generator = np.random.default_rng(2)
    first, second = generator.normal(size=(4, 7)), generator.normal(size=(3, 7))
    expected = SimilarityFunction.to_similarity_fn(kind)(first, second).numpy()
    found = similarity(first.astype(np.float32), second.astype(np.float32), kind)
    np.testing.assert_allclose(found, expected, atol=1e-5)
