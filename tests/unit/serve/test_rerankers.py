"""Reranking as Cohere and infinity have it; who is asked where paths are the same."""

import math

import pytest
from starlette.testclient import TestClient

import clozeworks as cw
from clozeworks.serve.app import Answering
from clozeworks.serve.dialects.rerankers import reranker_endpoints
from clozeworks.serve.dialects.tei import tei_endpoints
from clozeworks.serve.models import ServedModel, ServedModels
from clozeworks.serve.native import native_endpoints
from clozeworks.serve.scheduler import Scheduler
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.rerank.task import Rerank

QUERY = "the cat sat"
DOCUMENTS = ["the dog", "the cat sat on the mat", "the dog", "a garden of the house"]
BODY = {"query": QUERY, "documents": DOCUMENTS}


@pytest.fixture(scope="module")
def models(tiny_models):
    def bert():
        return cw.load(tiny_models["bert"])

    return {
        "reranker": bert().for_task(Rerank()),
        "identity": bert().for_task(Rerank(activation="identity")),
        "pairs": bert().for_task(Compare(labels=("no", "yes"))),
        "classifier": bert().for_task(Classify(labels=("bad", "good"))),
    }


@pytest.fixture(scope="module")
def scheduler():
    made = Scheduler()
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def asking(models, scheduler):
    def make(*names, endpoints=None):
        served = ServedModels([ServedModel(name, models[name]) for name in names])
        own = endpoints or [*tei_endpoints(), *reranker_endpoints()]
        return TestClient(Answering(served, scheduler, own).app())

    return make


@pytest.fixture(scope="module")
def client(asking):
    return asking("reranker", "classifier")


def test_cohere_v1(client, models):
    own = models["reranker"].rerank(QUERY, DOCUMENTS)
    answer = client.post("/v1/rerank", json={**BODY, "top_n": 9}).json()
    assert set(answer) == {"id", "results", "meta"}
    assert [each["index"] for each in answer["results"]] == [each.index for each in own]
    scores = [each["relevance_score"] for each in answer["results"]]
    assert scores == pytest.approx([each.score for each in own], abs=1e-6)
    # Equal documents are read once.
    pairs = models["reranker"].tokenizer.encode([QUERY] * 3, list(dict.fromkeys(DOCUMENTS)))
    assert answer["meta"]["tokens"]["input_tokens"] == sum(map(len, pairs))
    assert "warnings" not in answer["meta"]
    top = client.post("/v1/rerank", json={**BODY, "top_n": 2}).json()["results"]
    assert top == answer["results"][:2]


def test_objects_are_read_by_their_fields_and_given_back(client, models):
    objects = [
        {"id": "7", "text": "the dog", "title": "a cat"},
        {"id": "8", "text": "the cat", "title": "a house"},
    ]
    body = {"query": QUERY, "documents": objects, "return_documents": True}
    results = client.post("/v1/rerank", json=body).json()["results"]
    assert [each["document"] for each in results] == [objects[each["index"]] for each in results]
    body["rank_fields"] = ["title", "text"]
    results = client.post("/v1/rerank", json=body).json()["results"]
    own = models["reranker"].rerank(QUERY, ["a cat\nthe dog", "a house\nthe cat"])
    assert [each["index"] for each in results] == [each.index for each in own]
    assert results[0]["relevance_score"] == pytest.approx(own[0].score, abs=1e-6)
    body["rank_fields"] = ["body"]
    refused = client.post("/v1/rerank", json=body)
    assert refused.status_code == 422
    assert refused.json()["message"] == (
        "document 1 has no text in 'body'; it has id, text, title; say which fields are read with "
        "rank_fields."
    )
    texts = {**BODY, "return_documents": True}
    first = client.post("/v1/rerank", json=texts).json()["results"][0]
    assert first["document"] == {"text": DOCUMENTS[first["index"]]}


def test_what_could_be_ours_is_answered_in_both_shapes(asking, models):
    ours = [each for each in native_endpoints() if each.path == "/v1/rerank"]
    client = asking("reranker", endpoints=[*ours, *reranker_endpoints()])
    both = client.post("/v1/rerank", json={**BODY, "model": "reranker"}).json()
    native = client.post("/v1/rerank", json={**BODY, "top": 4}).json()
    assert set(native) == {"model", "outputs", "usage"}
    assert set(both) == {"id", "results", "meta", *native}
    assert {name: both[name] for name in native} == native
    cohere = client.post("/v1/rerank", json={**BODY, "top_n": 4}).json()
    assert both["results"] == cohere["results"]
    assert "error" in client.post("/v1/rerank", json={**BODY, "top": 0}).json()
    assert "message" in client.post("/v1/rerank", json={**BODY, "top_n": 0}).json()


def test_cohere_v2_cuts_where_it_is_asked_to_and_says_so(client, models):
    answer = client.post("/v2/rerank", json={**BODY, "model": "reranker", "priority": 1}).json()
    own = models["reranker"].rerank(QUERY, DOCUMENTS)
    assert [each["index"] for each in answer["results"]] == [each.index for each in own]
    assert answer["meta"]["api_version"] == {"version": "2"}
    cut = client.post("/v2/rerank", json={**BODY, "max_tokens_per_doc": 2}).json()
    encoded = models["reranker"].tokenizer.encode(DOCUMENTS, special=False, offsets=True)
    short = [
        text[: each.offsets[min(len(each), 2) - 1][1]]
        for text, each in zip(DOCUMENTS, encoded, strict=True)
    ]
    expected = {each.index: each.score for each in models["reranker"].rerank(QUERY, short)}
    for each in cut["results"]:
        assert each["relevance_score"] == pytest.approx(expected[each["index"]], abs=1e-6)
    count = sum(len(each) > 2 for each in encoded)
    assert cut["meta"]["warnings"] == [f"{count:,} documents cut after max_tokens_per_doc tokens."]
    spans = client.post("/v2/rerank", json={**BODY, "relevant_spans": {}})
    assert spans.status_code == 422 and "relevant_spans is not a field" in spans.json()["message"]


def test_a_document_that_is_cut_is_named(client):
    long = {**BODY, "documents": ["the dog " * 600, "the cat"]}
    answer = client.post("/v1/rerank", json={**long, "top_n": 2}).json()
    assert [each["index"] for each in answer["results"] if each.get("truncated")] == [0]
    assert answer["meta"]["warnings"] == ["1 document cut where it did not fit beside the query."]


def test_infinity(client, models):
    body = {**BODY, "raw_scores": False, "model": "default/not-specified"}
    answer = client.post("/rerank", json=body).json()
    own = models["reranker"].rerank(QUERY, DOCUMENTS)
    assert answer["object"] == "rerank" and answer["model"] == "reranker"
    assert [each["index"] for each in answer["results"]] == [each.index for each in own]
    assert "document" not in answer["results"][0]
    assert answer["usage"]["prompt_tokens"] == answer["usage"]["total_tokens"] > 0
    raw = {**body, "raw_scores": True, "return_documents": True, "top_n": 1}
    (best,) = client.post("/rerank", json=raw).json()["results"]
    assert best["document"] == DOCUMENTS[best["index"]]
    assert 1 / (1 + math.exp(-best["relevance_score"])) == pytest.approx(own[0].score, abs=1e-6)
    wrong = client.post("/rerank", json={**body, "top_n": 0}).json()
    assert wrong["error"]["code"] == 422 and wrong["error"]["message"].startswith("top_n cannot be")
    assert wrong["detail"][0]["msg"] == wrong["error"]["message"]


def test_one_path_three_dialects(client):
    cohere = client.post("/rerank", json={**BODY, "return_documents": True}).json()
    assert cohere["results"][0]["document"] == {"text": DOCUMENTS[cohere["results"][0]["index"]]}
    assert cohere["model"] == "reranker" and cohere["usage"]["total_tokens"] > 0
    tei = client.post("/rerank", json={"query": QUERY, "texts": DOCUMENTS, "raw_scores": False})
    assert isinstance(tei.json(), list)
    assert [each["index"] for each in tei.json()] == [each["index"] for each in cohere["results"]]


def test_scores_are_from_0_to_1_whatever_the_folder_says(asking, models):
    client = asking("identity")
    found = client.post("/v2/rerank", json=BODY).json()["results"]
    own = models["identity"].rerank(QUERY, DOCUMENTS)
    for each, ours in zip(found, own, strict=True):
        assert each["index"] == ours.index
        assert each["relevance_score"] == pytest.approx(1 / (1 + math.exp(-ours.score)), abs=1e-6)


def test_a_model_that_compares_reranks(asking, models):
    client = asking("pairs")
    found = client.post("/v2/rerank", json=BODY).json()["results"]
    own = models["pairs"].rerank(QUERY, DOCUMENTS)
    assert [each["index"] for each in found] == [each.index for each in own]
    assert found[0]["relevance_score"] == pytest.approx(own[0].score, abs=1e-6)
    raw = client.post("/rerank", json={**BODY, "raw_scores": True})
    assert raw.json()["error"]["message"] == (
        "raw_scores is true; pairs compares two texts and has a logit for each label, not one for "
        "the pair; leave raw_scores out."
    )


def test_errors_have_the_shape_of_the_dialect(client):
    missing = client.post("/v2/rerank", json={"query": QUERY}, headers={"x-request-id": "mine"})
    assert missing.status_code == 422
    assert missing.json() == {
        "id": "mine",
        "message": "documents is missing; /v2/rerank takes query, documents, model, top_n, "
        "max_tokens_per_doc, priority.",
    }
    unknown = client.post("/v1/rerank", json={**BODY, "model": "rerank-v3.5"})
    assert unknown.status_code == 404
    assert unknown.json()["message"].startswith("model is 'rerank-v3.5'; this server has 2 models")
    empty = client.post("/v1/rerank", json={"query": " ", "documents": ["a"]})
    assert empty.json()["message"] == "query is empty; write what documents are to answer."
    assert client.post("/v1/rerank", json={"query": "a", "documents": []}).status_code == 422


def test_every_example_works(client):
    for endpoint in reranker_endpoints():
        for body in endpoint.examples.values():
            assert client.post(endpoint.path, json=body).status_code == 200
