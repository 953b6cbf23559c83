"""The server as its command starts it, asked with curl and with the package openai."""

import base64
import json
import re
import shutil
import subprocess
import sys
import time

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.rerank.task import Rerank

pytestmark = pytest.mark.parity
TEXTS = ["the cat sat", "a dog", "the dog lay in the garden of the house"]
KEY = "a-key-of-the-test"


@pytest.fixture(scope="module")
def folders(tiny_models, writers, tmp_path_factory):
    folder = tmp_path_factory.mktemp("curl")
    tasks = {"spam": Classify(labels=("bad", "good")), "order": Rerank()}
    for name, task in tasks.items():
        cw.load(tiny_models["bert"]).for_task(task).save(folder / name)
    made = {name: folder / name for name in tasks}
    return {"words": tiny_models["bert"], "gpt2": writers["gpt2"], **made}


@pytest.fixture(scope="module")
def models(folders):
    return {name: cw.load(folder) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def url(folders, tmp_path_factory):
    """A server in a process of its own, which wants a key."""
    folder = tmp_path_factory.mktemp("command")
    (folder / "keys").write_text(f"key: {KEY}\n")
    named = [f"{name}={path}" for name, path in folders.items()]
    options = ["--truncate-dims", "words=8,16", "--keys", str(folder / "keys"), "--port", "0"]
    words = [sys.executable, "-m", "clozeworks", "serve", *named, *options]
    log = folder / "log"
    with log.open("w") as stream:
        process = subprocess.Popen(words, stderr=stream)
        try:
            until = time.monotonic() + 120
            while (found := re.search(r"Serving at (http\S+);", log.read_text())) is None:
                assert process.poll() is None and time.monotonic() < until, log.read_text()
                time.sleep(0.1)
            yield found[1]
        finally:
            process.terminate()
            process.wait(timeout=90)
    assert process.returncode == 0, log.read_text()


@pytest.fixture(scope="module")
def curl(url):
    """Asks with curl: the status, and what came back."""
    program = shutil.which("curl")
    if program is None:
        pytest.skip("curl is not installed")

    def ask(path, body=None, *options, key=KEY):
        words = [program, "--silent", "--show-error", "--max-time", "60", "--noproxy", "*"]
        words += ["--write-out", "\n%{http_code}", "--header", f"Authorization: Bearer {key}"]
        if body is not None:  # which curl sends as a form if it is not told otherwise
            words += ["--data", json.dumps(body)]
        done = subprocess.run(
            [*words, *options, url + path], capture_output=True, encoding="utf-8", timeout=90
        )
        assert done.returncode == 0, done.stderr
        text, _, status = done.stdout.rpartition("\n")
        return int(status), text

    return ask


@pytest.fixture
def answer(curl):
    """What a question is answered with that nothing is wrong with."""

    def ask(path, body=None):
        status, text = curl(path, body)
        assert status == 200, text
        return json.loads(text)

    return ask


def test_vectors_in_every_dialect(answer, models):
    expected = models["words"].embed(TEXTS)
    listed = answer("/v1/embeddings", {"model": "words", "input": TEXTS})["data"]
    np.testing.assert_allclose([each["embedding"] for each in listed], expected, atol=1e-6)
    coded = {"model": "words", "input": TEXTS, "encoding_format": "base64"}
    read = [
        np.frombuffer(base64.b64decode(each["embedding"]), "<f4")
        for each in answer("/v1/embeddings", coded)["data"]
    ]
    np.testing.assert_allclose(read, expected, atol=1e-6)
    scaled = models["words"].embed(TEXTS, normalize=True)
    body = {"inputs": TEXTS, "model": "words"}
    np.testing.assert_allclose(answer("/embed", body), scaled, atol=1e-6)
    np.testing.assert_allclose(answer("/pipeline/feature-extraction", body), expected, atol=1e-6)
    np.testing.assert_allclose(answer("/v1/embed", body)["outputs"], expected, atol=1e-6)


def test_ranks_in_every_dialect(answer, models):
    query, documents = TEXTS[0], TEXTS[1:]
    own = models["order"].rerank(query, documents)
    body = {"query": query, "documents": documents, "model": "order"}
    order, scores = [each.index for each in own], [each.score for each in own]
    for path, more in (
        ("/v1/rerank", {}), ("/v1/rerank", {"top_n": 9}), ("/v2/rerank", {}), ("/rerank", {}),
        ("/rerank", {"raw_scores": False}),
    ):  # fmt: skip
        found = answer(path, {**body, **more})["results"]
        assert [each["index"] for each in found] == order
        assert [each["relevance_score"] for each in found] == pytest.approx(scores, abs=1e-6)
    for path in ("/rerank", "/"):
        found = answer(path, {"query": query, "texts": documents, "model": "order"})
        assert [each["index"] for each in found] == order
        assert [each["score"] for each in found] == pytest.approx(scores, abs=1e-6)


def test_labels_in_every_dialect(answer, models):
    own = models["spam"].classify(TEXTS[0])
    every = [
        answer("/v1/classify", {"inputs": TEXTS[0], "model": "spam"})["outputs"]["scores"],
        _scores(answer("/predict", {"inputs": TEXTS[0], "model": "spam"})),
        _scores(answer("/pipeline/text-classification", {"inputs": TEXTS[0], "model": "spam"})[0]),
        _scores(answer("/classify", {"input": [TEXTS[0]], "raw_scores": False})["data"][0]),
    ]
    for found in every:
        assert found == pytest.approx(own.scores, abs=1e-6)
    vllm = answer("/classify", {"input": [TEXTS[0]], "model": "spam"})["data"][0]
    assert vllm["label"] == own.label
    assert vllm["probs"] == pytest.approx([own.scores[each] for each in ("bad", "good")], abs=1e-6)


def _scores(found):
    return {each["label"]: each["score"] for each in found}


def test_tokens_in_both_dialects(answer, models):
    (encoded,) = models["gpt2"].tokenizer.encode(TEXTS[:1])
    ids = list(encoded.ids)
    assert answer("/tokenize", {"prompt": TEXTS[0], "model": "gpt2"})["tokens"] == ids
    (found,) = answer("/tokenize", {"inputs": TEXTS[0], "model": "gpt2"})
    assert [each["id"] for each in found] == ids
    assert answer("/detokenize", {"tokens": ids, "model": "gpt2"}) == {"prompt": TEXTS[0]}
    assert answer("/decode", {"ids": ids, "model": "gpt2"}) == [TEXTS[0]]


def test_a_stream_comes_as_events(curl, models):
    asked = {"model": "gpt2", "prompt": TEXTS[0], "max_tokens": 9, "temperature": 0, "stream": True}
    status, text = curl("/v1/completions", asked, "--no-buffer")
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert status == 200 and events[-1] == "[DONE]"
    parts = [json.loads(each)["choices"][0]["text"] for each in events[:-1]]
    assert "".join(parts) == models["gpt2"].generate(TEXTS[0], max_new_tokens=9).text


def test_what_the_server_says_of_itself(curl, answer):
    assert answer("/health") == {"status": "ok"}
    assert answer("/ready")["models"] == ["words", "gpt2", "spam", "order"]
    assert [each["id"] for each in answer("/v1/models")["data"]] == [
        "words",
        "gpt2",
        "spam",
        "order",
    ]
    assert answer("/openapi.json")["openapi"].startswith("3.1")
    assert "# HELP" in curl("/metrics")[1]


def test_errors_have_the_shape_of_the_dialect(curl):
    status, text = curl("/v1/embeddings", {"model": "words", "input": ""})
    assert status == 400 and json.loads(text)["error"]["param"] == "input"
    status, text = curl("/embed", {"model": "words", "inputs": ""})
    assert status == 422 and json.loads(text)["error_type"] == "Validation"
    status, text = curl("/v2/rerank", {"model": "words", "query": "a", "documents": ["b"]})
    assert status == 404 and "message" in json.loads(text)
    status, text = curl("/v1/embed", {"inputs": "a"}, key="another")
    assert status == 401 and "send Authorization: Bearer KEY" in text
    status, text = curl("/v1/embeddings", None, "--data", "{")
    assert status == 400 and "not JSON" in json.loads(text)["error"]["message"]


NARROW = """
import openai

client = openai.OpenAI(base_url=asked["url"] + "/v1", api_key=asked["key"], max_retries=0)
for size in (8, 16, 32):
    for format in ("base64", "float", None):
        options = {} if format is None else {"encoding_format": format}
        vectors = client.embeddings.create(
            model="words", input=asked["texts"], dimensions=size, **options
        ).data
        found[f"{size} {format}"] = [each.embedding for each in vectors]
try:
    client.embeddings.create(model="words", input="a", dimensions=9)
except openai.BadRequestError as error:
    found["refused"] = str(error)
"""


def test_dimensions_that_the_command_allows(clients, url, models):
    found = clients(NARROW, url=url, key=KEY, texts=TEXTS)
    assert "mean something at 8, 16, 32 dimensions" in found.pop("refused")
    for name, vectors in found.items():
        size, _, format = name.partition(" ")
        narrow = {} if size == "32" else {"truncate_dim": int(size), "normalize": True}
        if format == "base64":  # of which the package makes no numbers if it is asked for
            vectors = [np.frombuffer(base64.b64decode(each), "<f4") for each in vectors]
        np.testing.assert_allclose(vectors, models["words"].embed(TEXTS, **narrow), atol=1e-6)
