"""Vectors of sentence folders, with prompts, are those of sentence-transformers."""

import json
import shutil

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.core.heads.pooling import POOLINGS

pytestmark = pytest.mark.parity
sentence_transformers = pytest.importorskip("sentence_transformers")

TEXTS = ["The cat sat on the mat", "Paris", "北京的天气很好", "the dog lay on THE rug, in Paris."]
PROMPTS = {"query": "The dog: ", "passage": "in the garden of "}


@pytest.fixture(params=["bert", "roberta"])
def folder(request, tiny_models, tmp_path):
    return shutil.copytree(tiny_models[request.param], tmp_path / "model")


def made(folder, pooling, **content):
    """Our model and theirs, of a folder with this pooling and these prompts."""
    model = cw.load(folder)
    model.pooling = pooling
    model.save(folder, overwrite=True)
    (folder / "config_sentence_transformers.json").write_text(json.dumps(content))
    (folder / "clozeworks.json").unlink()  # as if another library had written it
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    return cw.load(folder), theirs


def same(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("mode", POOLINGS)
def test_prompts(folder, mode, include):
    pooling = cw.Pooling(modes=(mode,), include_prompt=include)
    ours, theirs = made(folder, pooling, prompts=PROMPTS, default_prompt_name="passage")
    by_default = ours.embed(TEXTS)
    same(by_default, theirs.encode(TEXTS))
    by_name = ours.embed(TEXTS, prompt="query")
    same(by_name, theirs.encode(TEXTS, prompt_name="query"))
    same(ours.embed(TEXTS, prompt="THE mat "), theirs.encode(TEXTS, prompt="THE mat "))
    without = ours.embed(TEXTS, prompt="")
    same(without, theirs.encode(TEXTS, prompt=""))
    same(ours.embed(TEXTS, prompt="document"), theirs.encode(TEXTS, prompt_name="document"))
    for one, other in ((by_default, by_name), (by_default, without), (by_name, without)):
        assert not np.allclose(one, other, atol=1e-4)


def test_a_prompt_left_out_is_still_read(folder):
    """Neither the vector with the prompt's tokens nor the one of the text alone."""
    whole, _ = made(folder, cw.Pooling(), prompts=PROMPTS)
    part, theirs = made(folder, cw.Pooling(include_prompt=False), prompts=PROMPTS)
    found = part.embed(TEXTS, prompt="query")
    same(found, theirs.encode(TEXTS, prompt_name="query"))
    assert not np.allclose(found, whole.embed(TEXTS, prompt="query"), atol=1e-4)
    assert not np.allclose(found, whole.embed(TEXTS), atol=1e-4)


@pytest.mark.parametrize("lowercase", [True, False])
def test_small_letters(folder, lowercase):
    path = folder / "tokenizer_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps({**config, "do_lower_case": False}))
    (folder / "clozeworks.json").unlink()
    ours, theirs = made(folder, cw.Pooling(lowercase=lowercase, normalize=True))
    same(ours.embed(TEXTS), theirs.encode(TEXTS))
    upper = ours.embed([text.upper() for text in TEXTS])
    assert np.allclose(upper, ours.embed(TEXTS), atol=1e-5) == lowercase


def test_what_we_save_they_read(folder, tmp_path):
    content = {"prompts": PROMPTS, "default_prompt_name": "query", "similarity_fn_name": "dot"}
    ours, _ = made(folder, cw.Pooling(include_prompt=False, max_length=20), **content)
    ours.save(tmp_path / "again")
    theirs = sentence_transformers.SentenceTransformer(str(tmp_path / "again"), device="cpu")
    assert theirs.similarity_fn_name == "dot" and theirs.default_prompt_name == "query"
    same(ours.embed(TEXTS), theirs.encode(TEXTS))


def test_what_they_save_we_read(folder, tmp_path):
    content = {"prompts": PROMPTS, "default_prompt_name": "query"}
    _, theirs = made(folder, cw.Pooling(include_prompt=False, normalize=True), **content)
    theirs.save(str(tmp_path / "theirs"))
    ours = cw.load(tmp_path / "theirs")
    same(ours.embed(TEXTS), theirs.encode(TEXTS))
    ours.save(tmp_path / "ours")
    before = json.loads((tmp_path / "theirs/config_sentence_transformers.json").read_text())
    after = json.loads((tmp_path / "ours/config_sentence_transformers.json").read_text())
    assert after == before
