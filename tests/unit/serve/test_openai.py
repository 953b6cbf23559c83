"""Vectors, lists of models and errors, as clients of OpenAI ask and read them."""

import base64

import numpy as np
import pytest

from clozeworks.serve.dialects.openai import openai_endpoints
from clozeworks.serve.dialects.openai.errors import OPENAI
from clozeworks.serve.endpoint import Endpoint
from clozeworks.serve.limits import Keys, ServerLimits
from clozeworks.serve.limits import digest as hashed
from clozeworks.serve.models import ServedModel
from clozeworks.serve.scheduler import Scheduler
from clozeworks.serve.work import Work

TEXTS = ["the cat sat", "a dog", "the dog lay in the garden of the house"]


@pytest.fixture(scope="module")
def client(asking, language_models):
    narrow = ServedModel("narrow", language_models["bert"], truncate_dims=(8, 16))
    with asking("bert", "gpt2", endpoints=openai_endpoints(), served=[narrow]) as client:
        yield client


def vectors(client, given, status=200, **fields):
    body = {"model": "bert", "input": given, **fields}
    response = client.post("/v1/embeddings", json=body)
    assert response.status_code == status, response.text
    return response


def told(response):
    """The sentence of an error; all four of its fields are there."""
    error = response.json()["error"]
    assert error.keys() == {"message", "type", "param", "code"}
    return error["message"]


def test_vectors_are_those_of_embed(client, language_models):
    found = vectors(client, TEXTS).json()
    assert found["object"] == "list" and found["model"] == "bert"
    assert [each["index"] for each in found["data"]] == [0, 1, 2]
    assert {each["object"] for each in found["data"]} == {"embedding"}
    listed = np.array([each["embedding"] for each in found["data"]])
    np.testing.assert_allclose(listed, language_models["bert"].embed(TEXTS), atol=1e-6)
    tokens = sum(map(len, language_models["bert"].tokenizer.encode(TEXTS)))
    assert found["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
    one = vectors(client, TEXTS[0]).json()["data"][0]["embedding"]
    np.testing.assert_allclose(one, listed[0], atol=1e-6)


def test_base64_holds_the_same_numbers(client, language_models):
    found = vectors(client, TEXTS, encoding_format="base64", user="somebody", later=1).json()
    for each, expected in zip(found["data"], language_models["bert"].embed(TEXTS), strict=True):
        read = np.frombuffer(base64.b64decode(each["embedding"]), "<f4")
        np.testing.assert_allclose(read, expected, atol=1e-6)


def test_dimensions_that_were_trained(client, language_models):
    model = language_models["bert"]
    found = vectors(client, TEXTS, model="narrow", dimensions=8).json()
    expected = model.embed(TEXTS, truncate_dim=8, normalize=True)
    read = np.array([each["embedding"] for each in found["data"]])
    np.testing.assert_allclose(read, expected, atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(read, axis=1), 1, atol=1e-6)
    for name in ("bert", "narrow"):  # all of them are always there
        whole = vectors(client, TEXTS, model=name, dimensions=32).json()["data"][0]["embedding"]
        np.testing.assert_allclose(whole, model.embed(TEXTS[0]), atol=1e-6)
    assert told(vectors(client, TEXTS, 400, model="narrow", dimensions=12)) == (
        "dimensions is 12; vectors of narrow mean something at 8, 16, 32 dimensions, as it was "
        "trained; choose one of these, or leave it out."
    )
    assert "at 32 dimensions" in told(vectors(client, TEXTS, 400, dimensions=8))


@pytest.mark.parametrize("special", [True, False])
def test_token_ids_of_the_model_itself(client, language_models, special):
    model = language_models["bert"]
    ids = [list(each.ids) for each in model.tokenizer.encode(TEXTS, special=special)]
    response = vectors(client, ids)
    read = [each["embedding"] for each in response.json()["data"]]
    np.testing.assert_allclose(read, model.embed(TEXTS), atol=1e-6)
    assert response.headers["x-warning"].startswith("token ids were read as ids of bert's own")
    one = vectors(client, ids[1]).json()["data"]
    np.testing.assert_allclose(one[0]["embedding"], read[1], atol=1e-6)
    assert "x-warning" not in vectors(client, TEXTS).headers


def test_token_ids_can_be_refused(asking):
    limits = ServerLimits(token_ids=False)
    with asking("bert", "gpt2", endpoints=openai_endpoints(), limits=limits) as client:
        assert "this server takes no token ids" in told(vectors(client, [5, 6], status=400))
        asked = {"model": "gpt2", "prompt": [5, 6], "max_tokens": 2}
        assert "send texts" in told(client.post("/v1/completions", json=asked))
        vectors(client, TEXTS)


def test_token_ids_of_another_tokenizer(client, language_models):
    size = language_models["bert"].tokenizer.size
    ids = language_models["bert"].tokenizer.encode(["garden"], special=False)[0].ids
    assert told(vectors(client, [[5], [100_257]], 400)) == (
        f"input[1] holds the token id 100,257; ids of this model go from 0 to {size - 1:,}, so "
        "another tokenizer made it; send texts (in langchain: "
        "OpenAIEmbeddings(check_embedding_ctx_length=False))."
    )
    assert "the token id -1;" in told(vectors(client, [-1], 400))
    sentence = told(vectors(client, [*reversed(ids), *ids, 3], 400))
    assert "that no text has: as text they read as others" in sentence
    assert "check_embedding_ctx_length=False" in sentence
    assert told(vectors(client, [[5], []], 400)).startswith("input[1] is empty")


@pytest.mark.parametrize(
    ("given", "sentence", "param"),
    [
        ("", "input[0] is empty; a vector needs at least one word; drop it.", "input"),
        (["a", " \n"], "input[1] is only white space; a vector needs", "input"),
        ([], "input is empty; there must be at least one text; add one.", "input"),
        (["a"] * 2_049, "input has 2,049 texts; at most 2,048 are taken at a time", "input"),
        ([1, "a"], "input.0 cannot be used: ", "input"),
        ([True], "input.0 cannot be used: ", "input"),
        (None, "input cannot be used: ", "input"),
        (["a", "the cat " * 600], "input[1] has ", "input"),
    ],
)
def test_what_cannot_be_embedded(client, given, sentence, param):
    response = vectors(client, given, 400)
    assert told(response).startswith(sentence)
    error = response.json()["error"]
    assert (error["type"], error["param"]) == ("invalid_request_error", param)


def test_texts_are_cut_only_if_that_is_asked(client, language_models):
    long, model = "the cat " * 600, language_models["bert"]
    cut = vectors(client, long, truncate_prompt_tokens=-1).json()
    assert cut["usage"]["total_tokens"] == model.max_length
    expected = model.embed(long, truncate=True)
    np.testing.assert_allclose(cut["data"][0]["embedding"], expected, atol=1e-6)
    assert vectors(client, long, truncate_prompt_tokens=9).json()["usage"]["total_tokens"] == 9
    assert "truncate_prompt_tokens is 0" in told(
        vectors(client, long, 400, truncate_prompt_tokens=0)
    )


def test_a_prompt_by_name_or_text(client, language_models):
    found = vectors(client, "the cat", prompt="query: ").json()["data"][0]["embedding"]
    expected = language_models["bert"].embed("the cat", prompt="query: ")
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_models_are_listed(client):
    for path in ("/v1/models", "/models"):
        listed = client.get(path).json()
        assert listed["object"] == "list"
        assert [each["id"] for each in listed["data"]] == ["bert", "gpt2", "narrow"]
        for each in listed["data"]:
            assert each["object"] == "model"
            # The client of infinity takes no owner but infinity, and cannot do without `stats`.
            assert each.get("owned_by") == ("clozeworks" if path == "/v1/models" else None)
            assert ("stats" in each) == (path == "/models")
            assert isinstance(each["created"], int)
        assert "generate" in listed["data"][1]["abilities"]
    assert client.post("/embeddings", json={"model": "bert", "input": "a"}).status_code == 200


def test_vectors_as_infinitys_client_asks_for_them(client, language_models):
    body = {"model": "bert", "input": TEXTS, "dimensions": 0, "modality": "text"}
    found = client.post("/embeddings", json=body).json()["data"]
    read = [each["embedding"] for each in found]
    np.testing.assert_allclose(read, language_models["bert"].embed(TEXTS), atol=1e-6)
    for wrong, sentence in (
        ({"input": ""}, "input[0] is empty"),
        ({"dimensions": 8}, "dimensions is 8; vectors of bert"),
        ({"modality": "image"}, "modality cannot be used"),
    ):
        refused = client.post("/embeddings", json={**body, **wrong})
        assert refused.status_code == 422
        assert refused.json()["detail"][0]["msg"].startswith(sentence)
    assert "dimensions cannot be used" in told(vectors(client, TEXTS, 400, dimensions=0))


@pytest.mark.parametrize("name", ["default/not-specified", "dummy"])
def test_names_that_clients_send_where_nobody_named_a_model(asking, language_models, name):
    with asking("bert", "gpt2", endpoints=openai_endpoints()) as client:
        assert vectors(client, TEXTS, model=name).json()["model"] == "bert"
    own = ServedModel(name, language_models["bert"])
    with asking("bert", endpoints=openai_endpoints(), served=[own]) as client:
        assert vectors(client, TEXTS, model=name).json()["model"] == name


def test_errors_have_openais_shape(asking, client, language_models):
    error = vectors(client, "a", 404, model="text-embedding-3-small").json()["error"]
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert "this server has 3 models: bert, gpt2, narrow" in error["message"]
    response = client.post("/v1/embeddings", content=b"{")
    assert response.status_code == 400 and "is not JSON" in told(response)
    missing = client.post("/v1/completions", json={"model": "gpt2"})
    assert missing.status_code == 400 and told(missing).startswith("prompt is missing; ")
    assert missing.json()["error"]["param"] == "prompt"
    keys = Keys([hashed("secret")])
    with asking("bert", endpoints=openai_endpoints(), keys=keys) as closed:
        assert closed.get("/v1/models").status_code == 401
        response = closed.post("/v1/embeddings", json={"input": "a"})
        assert response.status_code == 401
        assert response.json()["error"]["code"] == "invalid_api_key"
        headers = {"authorization": "Bearer secret"}
        assert closed.get("/v1/models", headers=headers).status_code == 200
    with asking("bert", endpoints=openai_endpoints(), limits=ServerLimits(requests=1)) as busy:
        busy.answering.in_flight.add(Work())
        response = busy.post("/v1/embeddings", json={"input": "a"})
        assert response.status_code == 429
        assert response.json()["error"]["type"] == "rate_limit_error"


def test_what_goes_wrong_inside_is_not_told(asking):
    def broken(call, body):
        raise RuntimeError("a secret")

    endpoint = Endpoint(path="/broken", summary="fail", answer=broken, dialect=OPENAI)
    with asking("bert", endpoints=[endpoint], scheduler=Scheduler()) as client:
        response = client.post("/broken", json={})
    assert response.status_code == 500 and "secret" not in response.text
    assert response.json()["error"]["type"] == "server_error"
