"""Looking at a model: what it is, its logits, its attention, how similar texts are."""

import numpy as np
import pytest
import torch

import clozeworks as cw
from clozeworks.errors import HubError, InputError, SettingError, UnknownName
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.tag import Tag

TEXTS = ["The cat sat on the mat.", "Paris lies on the Seine, and the dog lay in the garden."]


@pytest.fixture(scope="module")
def bert(tiny_models):
    return cw.load(tiny_models["bert"])


def test_where_the_weights_are_and_what_they_are(bert, tiny_models):
    assert (bert.device, bert.dtype) == (torch.device("cpu"), torch.float32)
    assert cw.load(tiny_models["bert"], dtype="bfloat16").dtype == torch.bfloat16


def test_logits_of_the_vocabulary_are_those_of_fill(bert):
    found = bert.logits("The [MASK] sat.")
    assert found.head == "vocabulary" and found.tokens[0] == "[CLS]"
    row = found.logits[found.tokens.index("[MASK]")].astype(np.float64)
    probabilities = np.exp(row - row.max()) / np.exp(row - row.max()).sum()
    guess = bert.fill("The [MASK] sat.", top=1).gaps[0][0]
    assert probabilities.max() == pytest.approx(guess.score, rel=1e-4)


def test_logits_of_labels_are_those_of_classify(bert):
    model = bert.for_task(Classify(labels=("bad", "good", "odd")))
    found = model.logits(TEXTS)
    assert [each.logits.shape for each in found] == [(3,), (3,)]
    for each, answer in zip(found, model.classify(TEXTS), strict=True):
        exponents = np.exp(each.logits)
        expected = exponents / exponents.sum()
        assert [answer.scores[label] for label in ("bad", "good", "odd")] == pytest.approx(
            expected.tolist(), rel=1e-5
        )


def test_logits_of_pairs_and_of_words(bert):
    pairs = bert.for_task(Compare(labels=("no", "yes")))
    alone = pairs.logits((TEXTS[0], TEXTS[1]))
    assert alone.logits.shape == (2,) and alone.tokens.count("[SEP]") == 2
    assert pairs.logits([(TEXTS[0], TEXTS[1])])[0].logits.tolist() == alone.logits.tolist()
    words = bert.for_task(Tag(labels=("O", "B-X", "I-X")))
    found = words.logits(TEXTS[0])
    assert found.logits.shape == (len(found.tokens), 3)
    with pytest.raises(InputError) as caught:
        pairs.logits([TEXTS[0], (TEXTS[0], TEXTS[1])])
    assert str(caught.value) == (
        "some texts are pairs and some are not; give texts, or pairs of texts."
    )


def test_a_text_of_one_token_has_one_row(writers):
    model = cw.load(writers["gpt2"])
    assert model.logits("a").logits.shape[0] == len(model.logits("a").tokens)


def test_logits_of_an_encoder_decoder_predict_the_target(writers):
    model = cw.load(writers["t5"])
    found = model.logits("the cat is good", targets="yes")
    assert found.logits.shape[0] == len(found.tokens) and found.tokens[-1] == "</s>"
    rows = found.logits.astype(np.float64)
    shifted = rows - rows.max(axis=1, keepdims=True)
    logprobs = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
    ids = model.tokenizer.encode(["yes"])[0].ids
    expected = model.score("the cat is good", "yes").logprobs
    assert logprobs[range(len(ids)), ids].tolist() == pytest.approx(expected, abs=1e-4)
    with pytest.raises(InputError, match="needs a target for each text; give targets"):
        model.logits("the cat is good")


def test_which_head_is_meant(bert):
    with pytest.raises(UnknownName, match="head"):
        bert.logits(TEXTS[0], head="labels")
    with pytest.raises(InputError, match="reads the texts alone; leave out targets"):
        bert.logits(TEXTS[0], targets="x")
    two = cw.new("bert-tiny", bert.tokenizer, heads=["vocabulary", "next_sentence", "pooler"])
    with pytest.raises(SettingError) as caught:
        two.logits(TEXTS[0])
    assert str(caught.value) == (
        "head is missing; the model has vocabulary, next_sentence; name one of them."
    )
    assert two.logits(TEXTS[0], head="next_sentence").logits.shape == (2,)


@pytest.mark.parametrize("kind", ["bert", "roberta"])
def test_attention_adds_up_and_does_not_depend_on_neighbours(tiny_models, kind):
    model = cw.load(tiny_models[kind])
    first, second = model.attention(TEXTS)
    layers = len(model.blueprint.encoder.running_order())
    heads = model.blueprint.encoder.layers[0][0].part.heads
    for each in (first, second):
        length = len(each.tokens)
        assert each.weights.shape == (layers, heads, length, length)
        np.testing.assert_allclose(each.weights.sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(model.attention(TEXTS[0]).weights, first.weights, atol=1e-6)


def test_a_decoder_attends_to_the_past_alone(writers):
    weights = cw.load(writers["gpt2"]).attention("the cat is good").weights
    assert np.triu(weights, 1).max() == 0.0 and (np.tril(weights) > 0).any()


def test_similarity_of_texts_and_of_vectors(bert):
    vectors = bert.embed(TEXTS)
    of_texts = bert.similarity(TEXTS)
    np.testing.assert_allclose(of_texts, bert.similarity(vectors), atol=1e-6)
    np.testing.assert_allclose(np.diag(of_texts), 1.0, atol=1e-6)
    assert bert.similarity(TEXTS[0], TEXTS).shape == (1, 2)
    np.testing.assert_allclose(
        bert.similarity(torch.tensor(vectors), kind="dot"), vectors @ vectors.T, rtol=1e-5
    )
    distance = np.linalg.norm(vectors[0] - vectors[1])
    assert bert.similarity(TEXTS, kind="euclidean")[0, 1] == pytest.approx(-distance, rel=1e-5)
    blocks = np.abs(vectors[0] - vectors[1]).sum()
    assert bert.similarity(TEXTS, kind="manhattan")[0, 1] == pytest.approx(-blocks, rel=1e-5)
    with pytest.raises(UnknownName, match="similarity"):
        bert.similarity(TEXTS, kind="cosinus")
    with pytest.raises(InputError) as caught:
        bert.similarity(TEXTS, np.zeros((1, 3)))
    assert str(caught.value) == (
        "vectors of width 32 cannot be compared with vectors of width 3; embed both with the same "
        "model."
    )


def test_the_folder_says_what_similarity_is(bert_model):
    (bert_model / "config_sentence_transformers.json").write_text('{"similarity_fn_name": "dot"}')
    model = cw.load(bert_model)
    np.testing.assert_array_equal(model.similarity(TEXTS), model.similarity(TEXTS, kind="dot"))


def test_a_model_says_what_it_is(bert):
    said = repr(bert)
    assert said.startswith("LanguageModel ")
    assert "family: bert (Devlin et al. 2019)" in said
    assert "2 layers of width 32" in said and "float32 on cpu" in said
    assert "heads: vocabulary" in said and "task" not in said
    labelled = bert.for_task(Classify(labels=tuple(f"label {n}" for n in range(9))))
    assert "methods: embed, fill\n" in said and "methods: embed, classify\n" in repr(labelled)
    assert "classify texts: label 0, label 1, label 2, label 3, label 4, label 5 and 3 more" in (
        repr(labelled)
    )


def test_a_description_shows_markup_and_control_characters_and_obeys_none(bert):
    model = bert.for_task(Classify(labels=("<script>x</script>", "\x1b[31mred")))
    page = model._repr_html_()
    assert "<script>" not in page and "&lt;script&gt;" in page
    assert "\x1b" not in page and "\x1b" not in repr(model)


class Api:
    """What the hub's library is asked for; keeps the files it is given."""

    def __init__(self, token=None):
        self.calls.append(("token", token))

    def create_repo(self, name, **settings):
        self.calls.append((name, settings))
        return type("Repository", (), {"repo_id": name if "/" in name else f"me/{name}"})

    def upload_folder(self, *, folder_path, **settings):
        self.calls.append(({path.name for path in folder_path.iterdir()}, settings))
        return "https://hub.example/commit/1"


def test_a_model_goes_to_the_hub(bert, monkeypatch):
    Api.calls = []
    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    address = bert.push_to_hub("tiny", private=True, card="# Tiny\n")
    assert address == "https://hub.example/commit/1"
    (_, token), (name, settings), (files, sent) = Api.calls
    assert (token, name, settings) == (None, "tiny", {"private": True, "exist_ok": True})
    assert {"config.json", "model.safetensors", "tokenizer.json", "README.md"} <= files
    assert sent == {"repo_id": "me/tiny", "commit_message": "Upload model", "revision": None}


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (
            "token",
            "the hub does not let you write 'me/tiny'; log in with: hf auth login, with a token "
            "that may write, and check whose the name is.",
        ),
        (
            "network",
            "the hub cannot be reached to upload 'me/tiny' (no route); go online and try again, or "
            "save a folder.",
        ),
    ],
)
def test_a_hub_that_refuses(bert, monkeypatch, error, sentence):
    from huggingface_hub import errors

    def refuse(self, *_, **__):
        if error == "token":
            raise errors.LocalTokenNotFoundError("Token is required")
        raise ConnectionError("no route")

    Api.calls = []
    monkeypatch.setattr(Api, "create_repo", refuse)
    monkeypatch.setattr("huggingface_hub.HfApi", Api)
    with pytest.raises(HubError) as caught:
        bert.push_to_hub("me/tiny")
    assert str(caught.value) == sentence


def test_a_name_that_cannot_be(bert):
    with pytest.raises(HubError, match=r"^'a/b/c' cannot be a hub name; write user/model\.$"):
        bert.push_to_hub("a/b/c")
