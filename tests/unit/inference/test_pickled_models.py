"""A model can be copied and pickled by programs that do so, such as scikit-learn's."""

import copy
import pickle

import numpy as np
import pytest

import clozeworks as cw

TEXT = "the cat is good"


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_encoders(tiny_models, kind):
    model = cw.load(tiny_models[kind])
    for other in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(other.embed(TEXT), model.embed(TEXT))
        assert other.model is not model.model


@pytest.mark.parametrize("kind", ["gpt2", "t5"])
def test_generators(writers, kind):
    model = cw.load(writers[kind])
    other = pickle.loads(pickle.dumps(model))
    settings = {"max_new_tokens": 5}
    assert other.generate(TEXT, **settings).text == model.generate(TEXT, **settings).text
