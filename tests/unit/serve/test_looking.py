"""Looking inside over HTTP: what Python gives, run by the scheduler, bounded, cancellable."""

import base64
import time
from threading import Thread

import numpy as np
import pytest

from clozeworks.serve.inside import endpoints as looking
from clozeworks.serve.inside.endpoints import look_endpoints
from clozeworks.serve.native import native_endpoints
from clozeworks.serve.scheduler import Scheduler

TEXT, GAP = "The cat sat on the mat.", "The cat sat on the [MASK]."
EVERYTHING = ("spam", "pairs", "ner", "qa", "bert", "gpt2", "t5")


@pytest.fixture(scope="module")
def client(asking):
    endpoints = [*native_endpoints(), *look_endpoints()]
    with asking(*EVERYTHING, endpoints=endpoints) as client:
        yield client


def ask(client, view, **body):
    response = client.post(f"/v1/look/{view}", json=body)
    assert response.status_code == 200, response.text
    return response.json()["output"]


def refused(client, view, **body):
    response = client.post(f"/v1/look/{view}", json=body)
    assert 400 <= response.status_code < 500, response.text
    return response.json()["error"]["message"]


def test_what_can_be_looked_at(client):
    models = {each["name"]: each for each in client.get("/v1/look/models").json()["models"]}
    assert set(models) == set(EVERYTHING)
    assert "lens" in models["bert"]["views"] and "lens" not in models["spam"]["views"]
    assert models["spam"]["labels"] == ["bad", "good"]
    assert models["t5"]["writes"] and models["gpt2"]["follows"] and models["pairs"]["pairs"]
    assert models["bert"]["mask"] == "[MASK]"
    assert models["ner"]["per_word"]


def test_one_text_for_a_model_that_reads_two(client):
    sentence = refused(client, "attributions", model="pairs", inputs=TEXT)
    assert sentence.startswith("the text cannot be used: there is 1 text; give a tuple of")


def test_attention_is_that_of_python_a_layer_at_a_time(client, language_models):
    expected = language_models["bert"].look.attention(TEXT, layers=[1])
    found = ask(client, "attention", model="bert", inputs=TEXT, layer=1)
    assert found == expected.to_dict()
    (stream,) = found["streams"]
    assert [each["layer"] for each in stream["layers"]] == [1]
    short = ask(client, "attention", model="bert", inputs=TEXT, packed=True)["streams"][0]
    matrix = short["layers"][0]["weights"]
    numbers = np.frombuffer(base64.b64decode(matrix["base64"]), "<u2").reshape(matrix["shape"])
    last = language_models["bert"].look.attention(TEXT, layers=[-1]).streams[0].layers[0].weights
    np.testing.assert_allclose(numbers * matrix["scale"], last, atol=1e-4)
    one = ask(client, "attention", model="bert", inputs=TEXT, head=2)["streams"][0]
    assert one["head"] == 2 and len(one["layers"][0]["weights"]) == 1
    assert "this model has 2 heads" in refused(
        client, "attention", model="bert", inputs=TEXT, head=9
    )


def test_of_long_texts_a_head_is_sent(client, monkeypatch):
    monkeypatch.setattr(looking, "MOST_AT_ONCE", 4)
    assert ask(client, "attention", model="bert", inputs=TEXT)["streams"][0]["head"] == 1


def test_other_views(client, language_models):
    lens = ask(client, "lens", model="bert", inputs=GAP, right=["cat"])
    assert lens == language_models["bert"].look.lens(GAP, right=["cat"]).to_dict()
    found = ask(client, "attributions", model="spam", inputs=TEXT, label="good", steps=10)
    expected = language_models["spam"].look.attribute(TEXT, label="good", steps=10).to_dict()
    assert [each["text"] for each in found["words"]] == [e["text"] for e in expected["words"]]
    for own, other in zip(found["words"], expected["words"], strict=True):
        assert own["integrated"] == pytest.approx(other["integrated"], rel=2e-2, abs=1e-6)
    written = ask(client, "attributions", model="t5", inputs="a cat", target="good dog", steps=5)
    assert {each["part"] for each in written["words"]} == {0, 1}
    pair = ask(client, "attributions", model="qa", inputs="who sat", pair=TEXT, steps=5)
    assert pair["target"].startswith("the logits of the answer")
    texts = [TEXT, "A cat lay.", "我爱北京。", "The cat!"]
    contexts = ask(client, "contexts", model="bert", word="cat", texts=texts)
    assert len(contexts["occurrences"]) == 3
    assert contexts == language_models["bert"].look.contexts("cat", texts).to_dict()
    pieces = ask(client, "tokens", model="bert", inputs="我爱北京")["pieces"]
    assert pieces[1]["text"] == "我"


def test_refusals_are_sentences(client):
    for view in ("attention", "lens", "attributions"):  # of a model without a limit of its own
        long = "a cat " * 2000
        sentence = refused(client, view, model="t5", inputs=long, target="a")
        assert "2,048" in sentence and "look at a part of it" in sentence
    assert "at most" in refused(client, "attention", model="bert", inputs="the cat " * 400)
    assert "no vocabulary head" in refused(client, "lens", model="spam", inputs=TEXT)
    assert "one of several" in refused(client, "lens", inputs=TEXT) or "name one" in refused(
        client, "lens", inputs=TEXT
    )
    assert "steps" in refused(client, "attributions", model="spam", inputs=TEXT, steps=10**6)
    assert "nothing to compare" in refused(
        client, "contexts", model="bert", word="zzz", texts=[TEXT]
    )


def test_gradients_are_dropped_when_nobody_waits(asking):
    scheduler = Scheduler()
    endpoints = [*native_endpoints(), *look_endpoints()]
    with asking("spam", endpoints=endpoints, scheduler=scheduler) as client:
        body = {"model": "spam", "inputs": "the cat sat " * 20, "steps": 400}
        answers = []

        def run():
            answers.append(client.post("/v1/look/attributions", json=body))

        thread = Thread(target=run)
        thread.start()
        while not client.answering.in_flight and thread.is_alive():
            time.sleep(0.01)
        for work in list(client.answering.in_flight):
            work.cancel()
        thread.join(timeout=60)
        assert not thread.is_alive()
        ask_again = client.post("/v1/classify", json={"model": "spam", "inputs": TEXT})
        assert ask_again.status_code == 200
        assert scheduler.fatal is None and scheduler.failures == 0
