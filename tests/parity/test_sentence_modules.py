"""Folders with a dense layer and other modules give the same vectors in sentence-transformers."""

import json
import shutil

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.core.heads.pooling import POOLINGS

pytestmark = pytest.mark.parity
sentence_transformers = pytest.importorskip("sentence_transformers")

TEXTS = ["The cat sat on the mat", "Paris", "北京的天气很好", "the dog lay on THE rug, in Paris."]
THEIRS = {"first": "cls", "mean_sqrt_length": "mean_sqrt_len_tokens"}
THEIRS |= {"weighted_mean": "weightedmean", "last": "lasttoken"}
ACTIVATIONS = (
    "Identity", "Tanh", "ReLU", "GELU", "SiLU", "Sigmoid", "LeakyReLU", "ReLU6", "Hardswish", "Mish"
)  # fmt: skip


def same(found, expected):
    np.testing.assert_allclose(found, expected, atol=2e-6)


@pytest.fixture
def built(tiny_models, tmp_path):
    """Makes a model of theirs from modules, saves it, and loads the folder here."""
    from sentence_transformers.sentence_transformer import modules as theirs

    def build(*steps, modes="mean", **options):
        torch.manual_seed(0)
        base = shutil.copytree(tiny_models["bert"], tmp_path / "base", dirs_exist_ok=True)
        transformer = theirs.Transformer(str(base))
        modules = [transformer, theirs.Pooling(32, modes), *(step(theirs) for step in steps)]
        model = sentence_transformers.SentenceTransformer(modules=modules, device="cpu", **options)
        model.save(str(tmp_path / "theirs"))
        return model.eval(), cw.load(tmp_path / "theirs")

    return build


def dense(inputs, outputs, activation=None, **options):
    function = None if activation is None else getattr(torch.nn, activation)()
    return lambda theirs: theirs.Dense(inputs, outputs, activation_function=function, **options)


def normalize(theirs):
    return theirs.Normalize()


def both_ways(theirs, ours, folder):
    """Their vectors, read here, are those of the folder we write, read there."""
    expected = theirs.encode(TEXTS)
    same(ours.embed(TEXTS), expected)
    ours.save(folder)
    again = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    same(again.encode(TEXTS), expected)
    loaded = cw.load(folder)
    assert loaded.pooling == ours.pooling
    np.testing.assert_array_equal(loaded.embed(TEXTS), ours.embed(TEXTS))
    return expected


@pytest.mark.parametrize("mode", POOLINGS)
def test_dense_after_every_pooling(built, mode, tmp_path):
    theirs, ours = built(dense(32, 12, "Tanh"), normalize, modes=THEIRS.get(mode, mode))
    both_ways(theirs, ours, tmp_path / "ours")
    assert str(ours.pooling) == (
        f"{mode} pooling, then dense to 12 and tanh, scaled to length 1 (as the model folder says)"
    )


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(built, activation, tmp_path):
    both_ways(*built(dense(32, 8, activation)), tmp_path / "ours")


def test_a_long_chain_keeps_its_order(built, tmp_path):
    """What others may leave out or move: scaling in the middle, norms, dropout, residuals."""
    chain = (
        normalize,
        lambda theirs: theirs.LayerNorm(64),
        dense(64, 64, "ReLU", use_residual=True),
        lambda theirs: theirs.Dropout(0.5),
        dense(64, 16, "GELU", bias=False, use_residual=True),
        dense(16, 24),
    )
    theirs, _ = built(*chain, modes=("max", "cls"))
    with torch.no_grad():
        theirs[3].norm.weight.uniform_()
        theirs[3].norm.bias.uniform_()
    theirs.save(str(tmp_path / "theirs"))
    both_ways(theirs, cw.load(tmp_path / "theirs"), tmp_path / "ours")
    names = [entry["path"] for entry in json.loads((tmp_path / "ours/modules.json").read_text())]
    assert names == [
        *("", "1_Pooling", "2_Normalize", "3_LayerNorm", "4_Dense", "5_Dropout"),
        *("6_Dense", "7_Dense"),
    ]


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("with_dense", [False, True])
def test_truncated_by_the_folder(built, scaled, with_dense, tmp_path):
    """Theirs truncates after everything else, and what was scaled is no longer of length 1."""
    steps = [dense(32, 24)] * with_dense + [normalize] * scaled
    theirs, ours = built(*steps, truncate_dim=7, prompts={"query": "Paris: "})
    expected = both_ways(theirs, ours, tmp_path / "ours")
    assert expected.shape == (4, 7)
    same(ours.embed(TEXTS, prompt="query"), theirs.encode(TEXTS, prompt_name="query"))
    content = json.loads((tmp_path / "ours/config_sentence_transformers.json").read_text())
    assert content["truncate_dim"] == 7 and content["prompts"]["query"] == "Paris: "


@pytest.mark.parametrize("with_dense", [False, True])
def test_truncated_then_scaled(built, with_dense, tmp_path):
    """As asked, and as a folder that both libraries read alike."""
    theirs, ours = built(*[dense(32, 24)] * with_dense, normalize)
    expected = theirs.encode(TEXTS, truncate_dim=7, normalize_embeddings=True)
    same(ours.embed(TEXTS, truncate_dim=7), expected)
    ours.pooling = ours.pooling.truncated(7)
    same(ours.embed(TEXTS), expected)
    folder = str(ours.save(tmp_path / "cut"))
    both_ways(sentence_transformers.SentenceTransformer(folder), ours, tmp_path / "ours")


def test_an_older_folder(built, tmp_path):
    """Other paths of the classes, flags for the pooling, and no key that came later."""
    theirs, _ = built(dense(32, 8, "Tanh"), normalize)
    folder = tmp_path / "theirs"
    kinds = ["Transformer", "Pooling", "Dense", "Normalize"]
    paths = ["", "1_Pooling", "2_Dense", "3_Normalize"]
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(zip(kinds, paths, strict=True))
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    config = {"in_features": 32, "out_features": 8, "bias": True}
    config["activation_function"] = "torch.nn.modules.activation.Tanh"
    (folder / "2_Dense/config.json").write_text(json.dumps(config))
    shutil.rmtree(folder / "3_Normalize", ignore_errors=True)
    flags = {"word_embedding_dimension": 32, "pooling_mode_mean_tokens": True}
    (folder / "1_Pooling/config.json").write_text(json.dumps(flags))
    same(cw.load(folder).embed(TEXTS), theirs.encode(TEXTS))
    config.pop("activation_function")  # then it is tanh, too
    (folder / "2_Dense/config.json").write_text(json.dumps(config))
    same(cw.load(folder).embed(TEXTS), theirs.encode(TEXTS))


def test_half_precision(built, tmp_path):
    theirs, _ = built(dense(32, 8, "Tanh"), normalize)
    theirs.half().save(str(tmp_path / "half"))
    ours = cw.load(tmp_path / "half", dtype="float16")
    assert ours.model.sentence.steps[0].linear.weight.dtype == torch.float16
    np.testing.assert_allclose(ours.embed(TEXTS), theirs.encode(TEXTS), atol=2e-3)


@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_means_weighted_by_tf_idf(tiny_models, family, include, tmp_path):
    """Our weights there, the same folder as they save it here, with a prompt and without."""
    ours = cw.load(tiny_models[family])
    ours.pooling = cw.Pooling(normalize=include, include_prompt=include)
    ours.weigh_tokens([*TEXTS, "the cat", "the dog"])
    folder = str(ours.save(tmp_path / "ours"))
    theirs = sentence_transformers.SentenceTransformer(folder, device="cpu")
    same(ours.embed(TEXTS), theirs.encode(TEXTS))
    same(ours.embed(TEXTS, prompt="the rug: "), theirs.encode(TEXTS, prompt="the rug: "))
    assert not np.allclose(ours.embed(TEXTS, pooling="mean"), ours.embed(TEXTS), atol=1e-3)
    theirs.save(str(tmp_path / "theirs"))
    same(cw.load(tmp_path / "theirs").embed(TEXTS), theirs.encode(TEXTS))


def test_words_without_a_weight(built):
    def weights(theirs):
        vocabulary = [ours.tokenizer.token_of(number) for number in range(ours.tokenizer.size)]
        return theirs.WordWeights(vocabulary, {"the": 0.25, "cat": 3.0, "PARIS": 9}, 0.5)

    from sentence_transformers.sentence_transformer import modules

    theirs, ours = built()
    theirs = sentence_transformers.SentenceTransformer(
        modules=[theirs[0], weights(modules), theirs[1]], device="cpu"
    )
    folder = ours.name + "-weighted"
    theirs.save(folder)
    same(cw.load(folder).embed(TEXTS), theirs.encode(TEXTS))


@pytest.mark.parametrize("trusted", [False, True])
def test_a_learned_query_is_refused_there(tiny_models, trusted, tmp_path):
    """Rather than read as a mean."""
    ours = cw.load(tiny_models["bert"])
    ours.pooling = cw.Pooling(modes=("attention_mean",))
    folder = str(ours.save(tmp_path / "ours"))
    with pytest.raises((ValueError, ImportError), match="AttentionMean"):
        sentence_transformers.SentenceTransformer(folder, trust_remote_code=trusted)


@pytest.mark.parametrize("method", ["whiten", "centre", "all-but-the-top", "pca"])
def test_mended_folders(tiny_models, method, tmp_path):
    """A repair is a Dense module before Normalize, there as here."""
    rng = np.random.default_rng(0)
    words = ["the", "cat", "sat", "dog", "Paris", "garden", "rug", "house"]
    texts = list(dict.fromkeys(" ".join(rng.choice(words, 5)) for _ in range(200)))
    ours = cw.load(tiny_models["bert"])
    ours.pooling = cw.Pooling(normalize=True)
    before = ours.embed(texts)
    dimensions = 10 if method in ("whiten", "pca") else None
    ours.whiten(texts, method=method, dimensions=dimensions)
    folder = ours.save(tmp_path / "ours")
    kinds = [entry["path"] for entry in json.loads((folder / "modules.json").read_text())]
    assert kinds == ["", "1_Pooling", "2_Dense", "3_Normalize"]
    theirs = sentence_transformers.SentenceTransformer(str(folder), device="cpu")
    found = theirs.encode(texts)
    np.testing.assert_allclose(ours.embed(texts), found, atol=1e-4)
    assert np.corrcoef(before[:50].sum(1), found[:50].sum(1))[0, 1] < 0.999
    cosines = (found @ found.T)[np.triu_indices(len(texts), 1)]
    assert abs(cosines.mean()) < 0.02 < (before @ before.T)[np.triu_indices(len(texts), 1)].mean()
