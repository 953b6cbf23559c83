"""What clients of text-embeddings-inference ask, and what they get."""

import math

import numpy as np
import pytest
from starlette.testclient import TestClient

import clozeworks as cw
from clozeworks.checkpoints.sentence import Prompts
from clozeworks.serve.app import Answering
from clozeworks.serve.dialects import tei
from clozeworks.serve.dialects.tei import tei_endpoints
from clozeworks.serve.models import ServedModel, ServedModels
from clozeworks.serve.scheduler import Scheduler
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.rerank.task import Rerank

TEXTS = ["the cat sat on the mat", "the dog", "a garden of the house"]
LONG = "the dog " * 600


@pytest.fixture(scope="module")
def models(tiny_models):
    def bert():
        return cw.load(tiny_models["bert"])

    embedder = bert()
    embedder.checkpoint.prompts = Prompts({"query": "the cat: "})
    return {
        "embedder": embedder,
        "reranker": bert().for_task(Rerank()),
        "classifier": bert().for_task(Classify(labels=("bad", "good"))),
        "several": bert().for_task(Classify(labels=("a", "b", "c"), problem="several")),
        "pairs": bert().for_task(Compare(labels=("no", "yes", "perhaps"))),
        "number": bert().for_task(Classify(labels=("stars",), problem="number")),
    }


@pytest.fixture(scope="module")
def scheduler():
    made = Scheduler()
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def asking(models, scheduler):
    def make(*names):
        served = [ServedModel(name, models[name], truncate_dims=(8, 16)) for name in names]
        return TestClient(Answering(ServedModels(served), scheduler, tei_endpoints()).app())

    return make


@pytest.fixture(scope="module")
def client(asking):
    return asking("embedder", "reranker", "classifier")


def test_vectors(client, models):
    answer = client.post("/embed", json={"inputs": TEXTS})
    own = models["embedder"].embed(TEXTS, normalize=True)
    np.testing.assert_allclose(answer.json(), own, atol=1e-6)
    assert np.linalg.norm(answer.json(), axis=1) == pytest.approx([1, 1, 1], abs=1e-6)
    tokens = sum(map(len, models["embedder"].tokenizer.encode(TEXTS)))
    assert answer.headers["x-compute-tokens"] == str(tokens)
    assert {"x-total-time", "x-queue-time", "x-inference-time"} <= set(answer.headers)
    one = client.post("/embed", json={"inputs": TEXTS[0], "normalize": False}).json()
    np.testing.assert_allclose(one, models["embedder"].embed(TEXTS[:1]), atol=1e-6)


def test_token_ids_are_the_text_they_stand_for(client, models):
    tokenizer = models["embedder"].tokenizer
    whole, inner = (
        [each.ids for each in tokenizer.encode(TEXTS[:2], special=special)]
        for special in (True, False)
    )
    expected = client.post("/embed", json={"inputs": TEXTS[:2]}).json()
    for ids in (whole, inner, [whole[0], TEXTS[1]]):
        found = client.post("/embed", json={"inputs": ids}).json()
        np.testing.assert_allclose(found, expected, atol=1e-6)
    alone = client.post("/embed", json={"inputs": inner[0]}).json()
    np.testing.assert_allclose(alone, expected[:1], atol=1e-6)
    refused = client.post("/embed", json={"inputs": [[tokenizer.unknown_id, inner[0][0]]]})
    assert refused.status_code == 422
    assert refused.json()["error"].startswith("input 1 is a list of token ids that no text has")


def test_prompts_by_name(client, models):
    found = client.post("/embed", json={"inputs": "sat", "prompt_name": "query"}).json()
    expected = models["embedder"].embed(["sat"], prompt="query", normalize=True)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    wrong = client.post("/embed", json={"inputs": "sat", "prompt_name": "qury"}).json()
    assert wrong["error_type"] == "Validation" and "'query'" in wrong["error"]


def test_dimensions_that_the_model_was_trained_for(client, models):
    found = client.post("/embed", json={"inputs": TEXTS, "dimensions": 8}).json()
    own = models["embedder"].embed(TEXTS, normalize=True, truncate_dim=8)
    np.testing.assert_allclose(found, own, atol=1e-6)
    assert np.linalg.norm(found, axis=1) == pytest.approx([1, 1, 1], abs=1e-6)
    full = client.post("/embed", json={"inputs": TEXTS, "dimensions": 32}).json()
    assert np.shape(full) == (3, 32)
    refused = client.post("/embed", json={"inputs": TEXTS, "dimensions": 12})
    assert refused.status_code == 422
    assert refused.json()["error"] == (
        "dimensions is 12; embedder has vectors of 8, 16, 32 dimensions, and was not trained for "
        "others; choose one of these, or leave it out."
    )


def test_nothing_is_cut_unless_it_is_asked_for(client, models):
    for path in ("/embed", "/embed_all"):
        refused = client.post(path, json={"inputs": LONG})
        assert refused.status_code == 422 and "at most 512 are allowed" in refused.json()["error"]
    cut = client.post("/embed", json={"inputs": LONG, "truncate": True}).json()
    own = models["embedder"].embed([LONG], truncate=True, normalize=True)
    np.testing.assert_allclose(cut, own, atol=1e-6)
    left = {"inputs": "sat", "truncate": True, "truncation_direction": "Left"}
    assert "at their end only" in client.post("/embed", json=left).json()["error"]


def test_vectors_of_tokens(client, models):
    found = client.post("/embed_all", json={"inputs": TEXTS}).json()
    own = models["embedder"].hidden_states(TEXTS)
    for mine, theirs in zip(found, own, strict=True):
        np.testing.assert_allclose(mine, theirs.vectors, atol=1e-6)
    (prompted,) = client.post("/embed_all", json={"inputs": "sat", "prompt_name": "query"}).json()
    expected = models["embedder"].hidden_states("the cat: sat").vectors
    np.testing.assert_allclose(prompted, expected, atol=1e-6)


def test_no_more_vectors_of_tokens_than_can_be_sent(client, models, monkeypatch):
    width = models["embedder"].blueprint.width
    monkeypatch.setattr(tei, "_MOST_NUMBERS", 5 * width)
    assert client.post("/embed_all", json={"inputs": "the cat sat"}).status_code == 200
    refused = client.post("/embed_all", json={"inputs": ["the cat sat", "sat"]})
    assert refused.status_code == 413 and refused.json()["error"] == (
        "vectors of 8 tokens are asked for, at most those of 5 are sent; send less at a time."
    )


@pytest.mark.parametrize("path", ["/rerank", "/"])
def test_ranks(client, models, path):
    ranks = client.post(path, json={"query": "the cat", "texts": TEXTS}).json()
    own = models["reranker"].rerank("the cat", TEXTS)
    assert [each["index"] for each in ranks] == [each.index for each in own]
    assert [each["score"] for each in ranks] == pytest.approx([each.score for each in own])
    assert set(ranks[0]) == {"index", "score"}
    body = {"query": "the cat", "texts": TEXTS, "raw_scores": True, "return_text": True}
    raw = client.post(path, json=body).json()
    for each, ours in zip(raw, own, strict=True):
        assert each["text"] == TEXTS[each["index"]] == ours.document
        assert 1 / (1 + math.exp(-each["score"])) == pytest.approx(ours.score, abs=1e-6)


def test_a_text_that_does_not_fit_beside_the_query(client):
    body = {"query": "the cat", "texts": ["a dog", LONG]}
    refused = client.post("/rerank", json=body)
    assert refused.status_code == 422
    assert refused.json()["error"] == (
        "text 2 does not fit beside the query; shorten it, or allow it to be cut with "
        "truncate = true."
    )
    assert len(client.post("/rerank", json={**body, "truncate": True}).json()) == 2


def test_predictions(client, models):
    own = models["classifier"].classify(TEXTS)
    one = client.post("/predict", json={"inputs": TEXTS[0]}).json()
    assert one == [
        {"score": pytest.approx(score, abs=1e-6), "label": label}
        for label, score in sorted(own[0].scores.items(), key=lambda each: -each[1])
    ]
    several = client.post("/predict", json={"inputs": [[text] for text in TEXTS]}).json()
    for found, ours in zip(several, own, strict=True):
        assert {each["label"]: each["score"] for each in found} == pytest.approx(ours.scores)
    raw = client.post("/predict", json={"inputs": TEXTS[0], "raw_scores": True}).json()
    logits = {each["label"]: each["score"] for each in raw}
    chance = 1 / (1 + math.exp(logits["bad"] - logits["good"]))
    assert chance == pytest.approx(own[0].scores["good"], abs=1e-6)


def test_predictions_of_pairs(asking, models):
    client = asking("pairs")
    own = models["pairs"].compare([("the cat", "the dog"), ("a", "the")])
    pair = client.post("/predict", json={"inputs": ["the cat", "the dog"]}).json()
    assert {each["label"]: each["score"] for each in pair} == pytest.approx(own[0].scores)
    several = client.post("/predict", json={"inputs": [["the cat", "the dog"], ["a", "the"]]})
    assert [len(each) for each in several.json()] == [3, 3]
    wrong = client.post("/predict", json={"inputs": [["a", "b", "c"]]}).json()
    assert wrong["error"].startswith("input 1 has 3 texts; give one, or a pair")


def test_predictions_of_several_labels_and_of_numbers(asking, models):
    found = asking("several").post("/predict", json={"inputs": TEXTS[0]}).json()
    own = models["several"].classify(TEXTS[0])
    assert {each["label"]: each["score"] for each in found} == pytest.approx(own.scores)
    (number,) = asking("number").post("/predict", json={"inputs": TEXTS[0]}).json()
    own = models["number"].classify(TEXTS[0])
    assert number == {"label": "stars", "score": pytest.approx(own.label, abs=1e-6)}
    long = asking("several").post("/predict", json={"inputs": LONG}).json()
    assert {each["label"]: each["score"] for each in long} == pytest.approx(
        models["several"].classify(LONG).scores, abs=1e-6
    )


def test_a_reranker_scores_pairs(asking, models):
    (found,) = asking("reranker").post("/predict", json={"inputs": ["the cat", TEXTS[0]]}).json()
    own = models["reranker"].rerank("the cat", TEXTS[:1])[0].score
    assert found == {"label": "LABEL_0", "score": pytest.approx(own, abs=1e-6)}


def test_similarity(client, models):
    inputs = {"source_sentence": TEXTS[0], "sentences": TEXTS[1:]}
    found = client.post("/similarity", json={"inputs": inputs}).json()
    assert found == pytest.approx(models["embedder"].similarity(TEXTS[0], TEXTS[1:])[0], abs=1e-6)
    named = {"inputs": inputs, "parameters": {"prompt_name": "query"}}
    own = models["embedder"].similarity(TEXTS[0], TEXTS[1:], prompt="query")[0]
    assert client.post("/similarity", json=named).json() == pytest.approx(own, abs=1e-6)


def test_tokens_there_and_back(client, models):
    text = "the cat, 北京 sat"
    body = {"inputs": [text], "model": "embedder"}
    (tokens,) = client.post("/tokenize", json=body).json()
    ids = models["embedder"].tokenizer.encode([text])[0].ids
    assert [each["id"] for each in tokens] == ids
    assert tokens[0]["special"] and tokens[0]["start"] is None and tokens[-1]["special"]
    for each in tokens[1:-1]:
        assert text[each["start"] : each["stop"]] == each["text"] and not each["special"]
    (plain,) = client.post("/tokenize", json={**body, "add_special_tokens": False}).json()
    assert [each["id"] for each in plain] == ids[1:-1]
    decoded = client.post("/decode", json={"ids": [ids, ids[1:3]], "model": "embedder"}).json()
    assert decoded == [models["embedder"].tokenizer.decode(each) for each in (ids, ids[1:3])]
    assert len(client.post("/decode", json={"ids": ids, "model": "embedder"}).json()) == 1


def test_info(asking, client):
    info = client.get("/info").json()
    assert info["model_id"] == "embedder" and info["max_input_length"] == 512
    assert info["model_type"] == {"embedding": {"pooling": "mean"}}
    assert not info["auto_truncate"] and info["max_client_batch_size"] == 10_000
    assert set(info["models"]) == {"embedder", "reranker", "classifier"}
    labels = asking("classifier").get("/info").json()["model_type"]["classifier"]
    assert labels == {"id2label": {"0": "bad", "1": "good"}, "label2id": {"bad": 0, "good": 1}}
    assert "reranker" in asking("reranker").get("/info").json()["model_type"]


def test_errors_have_teis_statuses(asking, client):
    unable = asking("classifier").post("/rerank", json={"query": "a", "texts": []})
    assert (unable.status_code, unable.json()["error_type"]) == (422, "Validation")
    unknown = client.post("/embed", json={"inputs": "a", "model": "other"})
    assert (unknown.status_code, unknown.json()["error_type"]) == (424, "Backend")
    large = client.post("/embed", json={"inputs": ["a"] * 10_001})
    assert (large.status_code, large.json()["error_type"]) == (413, "Validation")
    assert client.post("/embed", content=b"{").json()["error_type"] == "Validation"
    empty = client.post("/embed", json={"inputs": ["a", " "]}).json()
    assert empty["error"].startswith("text 2 is only white space")


def test_every_example_works(client):
    for endpoint in tei_endpoints():
        for body in endpoint.examples.values():
            named = {**body, "model": "embedder"} if "code" in endpoint.path[3:] else body
            named = {**body, "model": "embedder"} if endpoint.path == "/tokenize" else named
            answer = client.post(endpoint.path, json=named)
            assert answer.status_code == 200, (endpoint.path, answer.text)
