"""How much a server takes on: of one request, of all together, and for how long."""

import threading

import pytest

from clozeworks.serve.application import all_endpoints
from clozeworks.serve.endpoint import Endpoint
from clozeworks.serve.limits import ServerLimits
from clozeworks.serve.replies import NATIVE

LONG, MANY, LABELS = "the cat " * 12 + "sat", ["a"] * 10, [*"abcdefghij"]


def wrong(response, status):
    assert response.status_code == status, response.text
    error = response.json()["error"]
    assert error["status"] == status and error["request_id"] == response.headers["x-request-id"]
    return error["message"]


def test_limits(asking):
    limits = ServerLimits(body_bytes=500, inputs=3)
    with asking("bert", limits=limits) as client:
        large = client.post("/v1/embed", json={"inputs": "a" * 600})
        assert wrong(large, 413) == ("the request is larger than 500 bytes; send less at a time.")

        def parts():  # nobody says beforehand how much it is
            for _ in range(100):
                yield b"a" * 100

        assert wrong(client.post("/v1/embed", content=parts()), 413).startswith("the request is")
        many = client.post("/v1/embed", json={"inputs": ["a", "b", "c", "d"]})
        assert wrong(many, 413) == (
            "inputs has 4 entries, at most 3 are taken; send less at a time."
        )
        inside = client.post("/v1/embed", json={"inputs": {"a": [{"b": ["c"] * 4}]}})
        assert wrong(inside, 413).startswith("inputs.a.0.b has 4 entries")
        tokens = {"inputs": [0] * 200}
        assert client.post("/v1/embed", json=tokens).status_code == 422  # tokens are no texts


def test_what_multiplies_is_limited(asking):
    limits = ServerLimits(inputs=5)
    with asking("pairs", "gpt2", endpoints=all_endpoints(), limits=limits) as client:
        labels = {"inputs": ["a", "b"], "labels": ["c", "d", "e"]}
        assert wrong(client.post("/v1/zero-shot", json=labels), 413) == (
            "there are 6 pairs of a text and a label, at most 5 are taken; send less at a time."
        )
        prompts = {"inputs": ["the", "cat"], "sample": True, "num_return_sequences": 3}
        sentence = "there are 6 texts to be written, at most 5 are taken; send less at a time."
        assert wrong(client.post("/v1/generate", json=prompts), 413) == sentence
        body = {"prompt": ["the", "cat"], "n": 3}
        refused = client.post("/v1/completions", json=body)
        assert refused.status_code == 413 and refused.json()["error"]["message"] == sentence


@pytest.mark.parametrize(
    ("path", "body", "what", "characters"),
    [
        ("/v1/embed", {"prompt": LONG, "inputs": MANY}, "prompt stands before each text", 990),
        ("/v1/embeddings", {"prompt": LONG, "input": MANY}, "prompt stands before each text", 990),
        ("/v1/rerank", {"query": LONG, "documents": MANY, "top": 1}, "query is read with", 990),
        ("/v1/rerank", {"query": LONG, "documents": MANY}, "query is read with", 990),
        ("/v2/rerank", {"query": LONG, "documents": MANY}, "query is read with", 990),
        ("/rerank", {"query": LONG, "texts": MANY}, "query is read with each document", 990),
        ("/score", {"text_1": LONG, "text_2": MANY}, "text_1 is read with each text_2", 1000),
        ("/v1/zero-shot", {"inputs": LONG, "labels": LABELS}, "each text is read with", 1190),
        (
            "/v1/zero-shot",
            {"inputs": "b", "labels": [LONG], "template": "{}" * 9},
            "each text is read with the template and each label",
            910,
        ),
    ],
)
def test_what_is_read_several_times_counts_as_often(asking, path, body, what, characters):
    limits = ServerLimits(body_bytes=500)
    with asking("pairs", "bert", endpoints=all_endpoints(), limits=limits) as client:
        name = "bert" if "prompt" in body else "pairs"
        refused = client.post(path, json={**body, "model": name})
        assert refused.status_code == 413
        sentence = f"which makes {characters:,} characters; at most 500 are taken; send less at a"
        assert what in refused.text and sentence in refused.text


@pytest.mark.parametrize("field", ["inputs", "prompt"])
def test_no_more_tokens_are_listed_than_are_taken_in_hand(asking, field):
    with asking("bert", endpoints=all_endpoints(), limits=ServerLimits(tokens=5)) as client:
        assert client.post("/tokenize", json={field: "the cat sat"}).status_code == 200
        refused = client.post("/tokenize", json={field: "the cat sat on"})
        assert refused.status_code == 413
        assert "of 6 tokens are asked for, at most those of 5 are given; send" in refused.text


def test_no_more_prompts_are_scored_than_are_taken_in_hand(asking):
    body = {"prompt": ["the cat"] * 10, "max_tokens": 0, "echo": True}
    with asking("gpt2", endpoints=all_endpoints(), limits=ServerLimits(tokens=15)) as client:
        assert client.post("/v1/completions", json=body).status_code == 200
        refused = client.post("/v1/completions", json={**body, "logprobs": 1})
        assert refused.status_code == 413 and "log probabilities of" in refused.text


def test_requests_that_are_large_together_wait(asking):
    release = threading.Event()
    limits = ServerLimits(body_bytes=1_000)
    with asking("bert", endpoints=[held(release)], limits=limits) as client:
        large = {"content": b"[" + b" " * 900 + b"]"}
        threads = [
            threading.Thread(target=client.post, args=("/hold",), kwargs=large) for _ in range(2)
        ]
        for thread in threads:
            thread.start()
        while client.answering.bytes_in_hand < 2 * 902:
            assert any(thread.is_alive() for thread in threads)
        refused = client.post("/hold", **large)
        assert wrong(refused, 429).startswith("2,706 bytes of requests are in hand, at most 2,000")
        assert refused.headers["retry-after"] == "1"
        release.set()
        for thread in threads:
            thread.join()
        assert client.answering.bytes_in_hand == 0
        assert client.post("/hold", **large).status_code == 200


def held(release):
    """An endpoint that answers once it is allowed to."""

    def answer(call, body):
        release.wait(10)
        return {}

    return Endpoint(path="/hold", summary="waits", answer=answer, dialect=NATIVE)


def test_no_more_than_can_be_answered_at_a_time(asking):
    release = threading.Event()
    limits = ServerLimits(requests=2)
    with asking("bert", endpoints=[held(release)], limits=limits) as client:
        threads = [threading.Thread(target=client.post, args=("/hold",)) for _ in range(2)]
        for thread in threads:
            thread.start()
        while len(client.answering.in_flight) < 2:
            assert any(thread.is_alive() for thread in threads)
        refused = client.post("/hold", json={})
        assert wrong(refused, 429).startswith("2 requests are being answered; ask again")
        assert refused.headers["retry-after"] == "1"
        client.answering.draining = True
        assert "about to end" in wrong(client.post("/hold", json={}), 503)
        assert client.get("/ready").status_code == 503
        release.set()
        for thread in threads:
            thread.join()


def test_a_deadline(asking):
    with asking("bert", limits=ServerLimits(timeout=0.0)) as client:
        message = wrong(client.post("/v1/embed", json={"inputs": "the cat"}), 504)
        assert message.startswith("the answer took longer than 0 s;")
