"""What every request meets: names, keys, errors as sentences, headers."""

import hashlib
import json

import numpy as np
import pytest

from clozeworks.serve.endpoint import Endpoint, Stream
from clozeworks.serve.limits import Keys
from clozeworks.serve.models import ServedModel
from clozeworks.serve.replies import NATIVE
from clozeworks.serve.work import Overloaded
from clozeworks.tasks.task import command_name, task_classes

EVERYTHING = ("spam", "pairs", "ner", "qa", "bert", "gpt2", "t5")


@pytest.fixture(scope="module")
def client(asking):
    with asking(*EVERYTHING) as client:
        yield client


def wrong(response, status):
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["status"] == status and error["request_id"] == response.headers["x-request-id"]
    return error["message"]


def same(found, expected):
    """Equal but for rounding."""
    if isinstance(expected, dict):
        assert found.keys() == expected.keys()
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for pair in zip(found, expected, strict=True):
            same(*pair)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=1e-5)
    else:
        assert found == expected


@pytest.mark.parametrize(
    ("name", "ask", "inputs"),
    [
        ("spam", "classify", "the cat sat"),
        ("pairs", "compare", {"first": "the cat", "second": "a dog"}),
        ("ner", "tag", "the cat sat on the mat"),
        ("qa", "answer", {"question": "who sat", "context": "the cat sat on the mat"}),
    ],
)
def test_tasks_answer_as_in_python(client, language_models, name, ask, inputs):
    model = language_models[name]
    (expected,) = model.predict([inputs])
    one = client.post(f"/v1/{ask}", json={"model": name, "inputs": inputs})
    assert one.status_code == 200, one.text
    found = one.json()
    assert found["model"] == name and found["usage"]["input_tokens"] > 0
    same(found["outputs"], json.loads(json.dumps(expected.to_dict(None))))
    several = client.post(f"/v1/{ask}", json={"model": name, "inputs": [inputs, inputs]}).json()
    assert len(several["outputs"]) == 2


def test_every_task_has_an_endpoint_with_an_example(client):
    description = client.get("/openapi.json").json()
    for kind, task in task_classes().items():
        assert f"/v1/{command_name(kind)}" in description["paths"], task
    for path, operations in description["paths"].items():
        for operation in operations.values():
            assert operation["summary"] and "405" in operation["responses"], path
    assert "text/html" in description["paths"]["/"]["get"]["responses"]["200"]["content"]
    for schema in description["components"]["schemas"].values():
        assert "$defs" not in schema


def test_vectors_and_rankings(client, language_models):
    bert = language_models["bert"]
    found = client.post("/v1/embed", json={"model": "bert", "inputs": ["the cat", "a dog"]})
    np.testing.assert_allclose(found.json()["outputs"], bert.embed(["the cat", "a dog"]), atol=1e-6)
    body = {"model": "pairs", "query": "the cat", "documents": ["a dog", "the cat sat"], "top": 2}
    ranked = client.post("/v1/rerank", json=body).json()["outputs"]
    expected = language_models["pairs"].rerank("the cat", ["a dog", "the cat sat"])
    assert [each["index"] for each in ranked] == [each.index for each in expected]
    filled = client.post("/v1/fill", json={"inputs": "the [MASK] sat", "top": 2, "model": "bert"})
    assert filled.json()["outputs"]["best"] == bert.fill("the [MASK] sat", top=2).best


def test_a_stream_is_the_whole_text(client, language_models):
    body = {"model": "gpt2", "inputs": "the cat", "max_new_tokens": 12}
    whole = client.post("/v1/generate", json=body).json()["outputs"]
    assert whole["text"] == language_models["gpt2"].generate("the cat", max_new_tokens=12).text
    with client.stream("POST", "/v1/generate", json={**body, "stream": True}) as response:
        assert response.headers["content-type"].startswith("text/event-stream")
        lines = [line for line in response.iter_lines() if line]
    events = [json.loads(line.removeprefix("data: ")) for line in lines]
    assert "".join(each.get("text", "") for each in events) == whole["text"]
    assert events[-2]["whole"] == whole
    assert events[-1]["usage"]["output_tokens"] == len(whole["tokens"]) == 12
    assert not client.answering.in_flight


def test_names_of_models(client):
    text = {"inputs": "the cat"}
    assert wrong(client.post("/v1/embed", json=text), 404) == (
        "model is missing; bert, gpt2, t5 could be meant; name one of them."
    )
    assert client.post("/v1/classify", json=text).json()["model"] == "spam"  # the only one
    assert wrong(client.post("/v1/classify", json={**text, "model": "spamm"}), 404).endswith(
        "Did you mean 'spam'?"
    )
    assert wrong(client.post("/v1/classify", json={**text, "model": "gpt2"}), 404) == (
        "gpt2 cannot classify: it can embed, text-to-text, generate, score; spam can."
    )


def test_bodies_that_cannot_be_used(client):
    post = client.post
    assert "the request is not JSON" in wrong(post("/v1/embed", content=b"{"), 400)
    assert "is not JSON" in wrong(post("/v1/embed", content=b'{"inputs": NaN}'), 400)
    assert "is not JSON" in wrong(post("/v1/embed", content=b"[" * 100_000), 400)
    assert "is not JSON" in wrong(post("/v1/embed", content=b'{"inputs": "\xff"}'), 400)
    assert wrong(post("/v1/embed", json=["a"]), 422).startswith("the request must be a JSON object")
    assert wrong(post("/v1/embed", json={"model": "bert"}), 422).startswith("inputs is missing;")
    unknown = wrong(post("/v1/embed", json={"inputs": "a", "modle": "bert"}), 422)
    assert unknown.startswith("modle is not a field of /v1/embed; known: model, inputs,")
    blank = wrong(post("/v1/embed", json={"model": "bert", "inputs": ["the cat", ""]}), 422)
    assert blank.startswith("text 2 is empty; a vector needs at least one word")
    long = wrong(post("/v1/embed", json={"model": "bert", "inputs": "cat " * 3_000}), 422)
    assert "tokens" in long
    cut = post("/v1/embed", json={"model": "bert", "inputs": "cat " * 3_000, "truncate": True})
    assert cut.status_code == 200 and cut.json()["usage"]["input_tokens"] == 512
    setting = wrong(post("/v1/generate", json={"model": "gpt2", "inputs": "a", "top_kk": 3}), 422)
    assert "top_kk" in setting and "top_k" in setting
    prompt = {"model": "gpt2", "inputs": "the cat " * 100}
    assert "has positions for 96" in wrong(post("/v1/generate", json=prompt), 422)


@pytest.mark.parametrize(
    ("path", "body", "sentence"),
    [
        ("/v1/generate", {"inputs": "a", "stream": "maybe"}, "stream cannot be used: Input should"),
        ("/v1/embed", {"inputs": "a", "strange": 1}, "strange is not a field of /v1/embed; known:"),
        ("/v1/classify", {"inputs": [{"txt": "a"}]}, "inputs.0.text is missing; /v1/classify"),
        ("/v1/compare", {"inputs": {"first": 5}}, "inputs.first cannot be used: Input should be a"),
        (
            "/v1/compare",
            {"inputs": ["a"]},
            "inputs.0 cannot be used: Input should be a JSON object;",
        ),
    ],
)
def test_a_wrong_field_is_named_as_the_client_wrote_it(client, path, body, sentence):
    assert wrong(client.post(path, json=body), 422).startswith(sentence)


def test_paths_and_methods_that_are_not_there(client):
    lost = client.post("/v1/embd", json={})
    assert wrong(lost, 404) == (
        "there is nothing at '/v1/embd'; did you mean /v1/embed? see /openapi.json."
    )
    other = client.get("/v1/embed")
    assert wrong(other, 405) == "/v1/embed takes no GET; send POST."
    assert other.headers["allow"] == "POST, OPTIONS"
    assert wrong(client.post("/health"), 405) == "/health takes no POST; see /openapi.json."
    assert client.post("/v1/embed/", json={}).status_code == 404  # nobody is sent elsewhere
    head = client.head("/v1/abilities")
    assert head.status_code == 200 and head.headers["content-type"] == "application/json"
    options = client.options("/v1/abilities", headers={"origin": "https://example.org"})
    assert options.status_code == 204 and options.headers["allow"] == "GET, HEAD, OPTIONS"
    assert "access-control-allow-origin" not in options.headers
    host = client.get("/v1/abilities", headers={"host": "a/b?c"})
    assert host.status_code == 200


def test_a_stream_that_is_refused_has_its_status(asking):
    def refused(call, body):
        def events():
            raise Overloaded("there is too much; ask again.")
            yield

        return Stream(events())

    def broken(call, body):
        def events():
            yield "a piece"
            raise RuntimeError("broken")

        return Stream(events())

    endpoints = [
        Endpoint(path=f"/{answer.__name__}", summary="streams", answer=answer, dialect=NATIVE)
        for answer in (refused, broken)
    ]
    with asking("bert", endpoints=endpoints) as client:
        response = client.post("/refused")
        assert wrong(response, 429) == "there is too much; ask again."
        assert response.headers["retry-after"] == "1"
        late = client.post("/broken")
        first, second = late.text.split("\n\n")[:2]
        assert late.status_code == 200 and first == "data: a piece"
        assert json.loads(second.removeprefix("data: "))["error"]["status"] == 500
        assert 'path="/broken",status="500"' in client.get("/metrics").text


def test_pages_of_other_origins_may_ask_if_they_are_named(asking):
    with asking("bert", origins=("https://example.org",)) as client:
        headers = {
            "origin": "https://example.org",
            "access-control-request-method": "POST",
            "access-control-request-headers": "content-type",
        }
        allowed = client.options("/v1/embed", headers=headers).headers
        assert allowed["access-control-allow-origin"] == "https://example.org"
        assert allowed["access-control-allow-methods"] == "POST, OPTIONS"
        assert allowed["access-control-allow-headers"] == "content-type"
        others = client.options("/v1/embed", headers={**headers, "origin": "https://a.example"})
        assert "access-control-allow-origin" not in others.headers


def test_keys(asking, tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"# two people\n{hashlib.sha256(b'secret').hexdigest()}\nkey: oth#er # b\n")
    with asking("bert", keys=Keys.read(path)) as client:
        body = {"inputs": "the cat"}
        refused = client.post("/v1/embed", json=body)
        assert wrong(refused, 401).startswith("the key is missing or unknown")
        assert refused.headers["www-authenticate"] == "Bearer"
        for headers in (
            {"authorization": "Bearer secret"},
            {"authorization": "bearer oth#er"},
            {"authorization": "secret"},  # some clients leave the word out
            {"x-api-key": "oth#er"},
        ):
            assert client.post("/v1/embed", json=body, headers=headers).status_code == 200
        for wrong_key in ("Bearer wrong", "Basic secret", "Bearer oth"):
            headers = {"authorization": wrong_key}
            assert client.post("/v1/embed", json=body, headers=headers).status_code == 401
        assert client.get("/health").status_code == 200
    path.write_text("not a hash\n")
    with pytest.raises(Exception, match=r"keys, line 1: this is not a sha256"):
        Keys.read(path)
    path.write_text("\n")
    with pytest.raises(Exception, match="holds no key; nobody could ask"):
        Keys.read(path)


def test_headers(asking):
    with asking("bert", origins=("https://example.org",)) as client:
        own = {"x-request-id": "mine-7", "origin": "https://example.org"}
        response = client.post("/v1/embed", json={"inputs": "the cat"}, headers=own)
        assert response.headers["x-request-id"] == "mine-7"
        assert response.headers["access-control-allow-origin"] == "https://example.org"
        for name in ("x-total-time", "x-queue-time", "x-inference-time"):
            assert response.headers[name].isdigit()
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "default-src 'none'" in response.headers["content-security-policy"]
        other = {"x-request-id": "a\tb" * 99, "origin": "https://example.com"}
        response = client.post("/v1/embed", json={"inputs": "the cat"}, headers=other)
        assert len(response.headers["x-request-id"]) == 32
        assert "access-control-allow-origin" not in response.headers


def test_what_is_nobodys_mistake_stays_in_the_log(asking, caplog):
    def broken(call, body):
        raise RuntimeError("a secret path")

    endpoint = Endpoint(path="/broken", summary="fails", answer=broken, dialect=NATIVE)
    with asking("bert", endpoints=[endpoint]) as client:
        message = wrong(client.post("/broken", json={}), 500)
        assert message.startswith("something went wrong inside the server; its log says what")
        assert "secret" not in message
    assert any(record.exc_info for record in caplog.records)


def test_a_model_that_could_not_be_loaded(asking):
    broken = ServedModel("broken", unloadable="broken is not a model folder; name another.")
    with asking("bert", served=[broken]) as client:
        assert client.post("/v1/embed", json={"inputs": "the cat"}).status_code == 200
        message = wrong(client.post("/v1/embed", json={"inputs": "a", "model": "broken"}), 404)
        assert message == (
            "broken could not be loaded: broken is not a model folder; name another."
        )
        assert client.get("/ready").json()["models"] == ["bert"]


def test_metrics(asking):
    with asking("bert") as client:
        client.post("/v1/embed", json={"inputs": ["the cat", "a dog"]})
        text = client.get("/metrics").text
    assert 'clozeworks_requests_total{path="/v1/embed",status="200"} 1.0' in text
    assert 'clozeworks_stage_seconds_count{stage="inference"} 1.0' in text
    for name in ("queue_inputs", "batches_total", "batch_tokens_total", "in_flight"):
        assert f"\nclozeworks_{name} " in text
    assert 'clozeworks_tokens_total{direction="read"} 8.0' in text


@pytest.mark.parametrize("log_texts", [False, True])
def test_the_log_holds_texts_only_if_asked(asking, caplog, log_texts):
    caplog.set_level("INFO", logger="clozeworks.serve")
    with asking("spam", log_texts=log_texts) as client:
        client.post("/v1/classify", json={"inputs": "the cat"}, headers={"x-request-id": "mine"})
    (record,) = (each for each in caplog.records if each.getMessage() == "request")
    assert (record.request_id, record.status, record.path) == ("mine", 200, "/v1/classify")
    assert ("the cat" in str(vars(record))) is log_texts


@pytest.mark.parametrize(("ask", "name"), [("classify", "spam"), ("generate", "gpt2")])
def test_each_stage_is_timed(asking, ask, name):
    with asking(name) as client:
        client.post(f"/v1/{ask}", json={"inputs": "the cat " * 20})
        text = client.get("/metrics").text
    sums = dict(line.rsplit(" ", 1) for line in text.splitlines() if "seconds_sum" in line)
    for stage in ("tokenization", "queue", "inference"):
        assert 0 < float(sums[f'clozeworks_stage_seconds_sum{{stage="{stage}"}}']) < 30, stage


def test_a_long_text_is_refused_in_the_words_of_http(client):
    asked = {"model": "bert", "inputs": "the cat " * 400}
    sentence = wrong(client.post("/v1/embed", json=asked), 422)
    assert sentence.endswith('shorten it, or have it cut with "truncate": true.')
    cut = client.post("/v1/embed", json={**asked, "truncate": True})
    assert cut.status_code == 200
