"""The packages openai and langchain-openai, as they are published, get what Python gets.

They are installed in an environment of their own, whose interpreter CLOZEWORKS_CLIENTS names.
"""

import dataclasses
import json
import os
import subprocess
import threading

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.serve.app import Answering
from clozeworks.serve.dialects.openai import openai_endpoints
from clozeworks.serve.limits import Keys, digest
from clozeworks.serve.models import ServedModel, ServedModels
from clozeworks.serve.scheduler import Scheduler
from clozeworks.serve.server import run

CLIENTS = os.environ.get("CLOZEWORKS_CLIENTS")
pytestmark = [
    pytest.mark.parity,
    pytest.mark.skipif(
        CLIENTS is None,
        reason="CLOZEWORKS_CLIENTS is not set; it must name a Python with openai and langchain.",
    ),
]
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TEXTS = ["the cat sat", "a dog", "the dog lay in the garden of the house"]
KEY = "a-key-of-the-test"
BEGIN = """
import json, sys, openai
url, texts = sys.argv[1], json.loads(sys.argv[2])
client = openai.OpenAI(base_url=url + "/v1", api_key="a-key-of-the-test", max_retries=0)
def failed(call):
    try:
        call()
    except openai.APIError as error:
        return [type(error).__name__, getattr(error, "status_code", None), error.code, str(error)]
def out(found):
    print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def models(tiny_models, writers):
    gpt2 = cw.load(writers["gpt2"])
    template = gpt2.tokenizer.with_chat_template(TEMPLATE)
    point = dataclasses.replace(gpt2.checkpoint, tokenizer=template)
    return {"bert": cw.load(tiny_models["bert"]), "gpt2": cw.LanguageModel(point, "gpt2")}


@pytest.fixture(scope="module")
def address(models):
    """A server on a port of its own, in a thread."""
    served = ServedModels([ServedModel(*each) for each in models.items()])
    answering = Answering(served, Scheduler(), openai_endpoints(), keys=Keys([digest(KEY)]))
    found, ready = [], threading.Event()

    def begun(url):
        found.append(url)
        ready.set()

    thread = threading.Thread(
        target=run, args=(answering,), kwargs={"port": 0, "ready": begun}, daemon=True
    )
    thread.start()
    assert ready.wait(30)
    yield found[0]
    answering.draining = True  # which ends the server once nothing is being answered
    thread.join(30)
    assert not thread.is_alive()


@pytest.fixture
def client(address):
    """Runs lines of Python in the other environment and returns what they hand out."""

    def ran(lines):
        arguments = [CLIENTS, "-c", BEGIN + lines, address, json.dumps(TEXTS)]
        done = subprocess.run(arguments, capture_output=True, encoding="utf-8", timeout=120)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return ran


def test_vectors_by_either_encoding(client, models):
    found = client("""
usual = client.embeddings.create(model="bert", input=texts)
listed = client.embeddings.create(model="bert", input=texts, encoding_format="float")
one = client.embeddings.create(model="bert", input=texts[0])
out({
    "usual": [each.embedding for each in usual.data],
    "listed": [each.embedding for each in listed.data],
    "one": one.data[0].embedding, "usage": usual.usage.total_tokens,
})
""")
    expected = models["bert"].embed(TEXTS)
    np.testing.assert_allclose(found["usual"], expected, atol=1e-6)
    np.testing.assert_allclose(found["listed"], expected, atol=1e-6)
    np.testing.assert_allclose(found["one"], expected[0], atol=1e-6)
    assert found["usage"] == sum(map(len, models["bert"].tokenizer.encode(TEXTS)))


def test_completions_whole_and_as_they_come(client, models):
    found = client("""
asked = dict(model="gpt2", prompt=texts[:2], max_tokens=12, temperature=0)
whole = client.completions.create(**asked, logprobs=2, echo=True)
chunks = list(client.completions.create(
    **asked, stream=True, stream_options={"include_usage": True}
))
texts = ["", ""]
for chunk in chunks[:-1]:
    texts[chunk.choices[0].index] += chunk.choices[0].text
out({
    "whole": [each.text for each in whole.choices], "streamed": texts,
    "logs": [each.logprobs.token_logprobs for each in whole.choices],
    "usage": [whole.usage.total_tokens, chunks[-1].usage.total_tokens],
    "reasons": [each.finish_reason for each in whole.choices],
})
""")
    model = models["gpt2"]
    expected = model.generate(TEXTS[:2], max_new_tokens=12)
    pairs = zip(TEXTS, expected, strict=False)
    assert found["whole"] == [prompt + each.text for prompt, each in pairs]
    assert found["streamed"] == [each.text for each in expected]
    assert found["reasons"] == ["stop" if e.finish_reason == "end" else "length" for e in expected]
    for logs, text, written in zip(found["logs"], TEXTS, expected, strict=False):
        scored = [*model.score(text).logprobs, *(each.log for each in written.tokens)]
        assert logs[0] is None and logs[1:] == pytest.approx(scored, abs=1e-5)
    assert found["usage"][0] == found["usage"][1]


def test_chats_whole_and_as_they_come(client, models):
    found = client("""
asked = dict(
    model="gpt2", messages=[{"role": "user", "content": "the cat"}], temperature=0,
    max_completion_tokens=10,
)
whole = client.chat.completions.create(**asked, logprobs=True, top_logprobs=2)
chunks = list(client.chat.completions.create(**asked, stream=True))
out({
    "whole": whole.choices[0].message.content,
    "logs": [each.logprob for each in whole.choices[0].logprobs.content],
    "streamed": "".join(each.choices[0].delta.content or "" for each in chunks),
    "others": [len(each.top_logprobs) for each in whole.choices[0].logprobs.content],
})
""")
    expected = models["gpt2"].generate("the cat", chat=True, max_new_tokens=10)
    assert found["whole"] == found["streamed"] == expected.text
    assert found["logs"] == pytest.approx([each.log for each in expected.tokens], abs=1e-5)
    assert set(found["others"]) == {2}


def test_errors_are_the_packages_own(client):
    found = client("""
stranger = openai.OpenAI(base_url=url + "/v1", api_key="another", max_retries=0)
out([
    failed(lambda: client.embeddings.create(model="bert", input="")),
    failed(lambda: client.embeddings.create(model="ada", input="a")),
    failed(lambda: client.embeddings.create(model="bert", input="a", dimensions=8)),
    failed(lambda: stranger.models.list()),
    [each.id for each in client.models.list()],
])
""")
    empty, unknown, narrow, stranger, listed = found
    assert empty[:3] == ["BadRequestError", 400, None]
    assert "input[0] is empty; a vector needs at least one word" in empty[3]
    assert unknown[:3] == ["NotFoundError", 404, "model_not_found"]
    assert narrow[0] == "BadRequestError" and "at 32 dimensions, as it was trained" in narrow[3]
    assert stranger[:3] == ["AuthenticationError", 401, "invalid_api_key"]
    assert listed == ["bert", "gpt2"]


LANGCHAIN = """
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings
usual = dict(base_url=url + "/v1", api_key="a-key-of-the-test", max_retries=0)
"""


def test_langchain(client, models):
    found = client(
        LANGCHAIN
        + """
embeddings = OpenAIEmbeddings(model="bert", check_embedding_ctx_length=False, **usual)
written = OpenAI(model="gpt2", temperature=0, max_tokens=9, **usual)
chat = ChatOpenAI(model="gpt2", temperature=0, max_tokens=9, **usual)
out({
    "documents": embeddings.embed_documents(texts), "query": embeddings.embed_query(texts[0]),
    "text": written.invoke("the cat"), "streamed": "".join(written.stream("the cat")),
    "chat": chat.invoke("the cat").content,
    "chunks": "".join(each.content for each in chat.stream("the cat")),
})
"""
    )
    expected = models["bert"].embed(TEXTS)
    np.testing.assert_allclose(found["documents"], expected, atol=1e-6)
    np.testing.assert_allclose(found["query"], expected[0], atol=1e-6)
    text = models["gpt2"].generate("the cat", max_new_tokens=9).text
    assert found["text"] == found["streamed"] == text
    said = models["gpt2"].generate("the cat", chat=True, max_new_tokens=9).text
    assert found["chat"] == found["chunks"] == said


def test_langchain_with_ids_of_another_tokenizer_is_told_what_to_set(client):
    """As it would send them: token ids of its own tokenizer, which needs the network to be had."""
    found = client(
        LANGCHAIN
        + """
import tiktoken
class Far:
    def encode(self, text, **options): return [100_256 + len(word) for word in text.split()]
    def encode_ordinary(self, text): return self.encode(text)
    def decode(self, ids): return " ".join("x" * (each - 100_256) for each in ids)
tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: Far()
embeddings = OpenAIEmbeddings(model="bert", **usual)
out(failed(lambda: embeddings.embed_documents(texts)))
"""
    )
    assert found[:2] == ["BadRequestError", 400]
    assert "OpenAIEmbeddings(check_embedding_ctx_length=False)" in found[3]
