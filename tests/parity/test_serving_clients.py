"""The packages cohere and infinity_client, and llama-index's client of TEI, as they are published.

They get what the model's methods return. `make clients` installs them. The server speaks all
dialects at once.
"""

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.serve.limits import Keys, digest
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.rerank.task import Rerank

pytestmark = pytest.mark.parity
TEXT = "the cat sat on the mat, the dog in its garden"
OTHERS = ["the dog lay on the rug", "the cat sat on the mat"]
KEY = "a-key-of-the-test"


@pytest.fixture(scope="module")
def models(tiny_models, writers):
    def bert():
        return cw.load(tiny_models["bert"])

    return {
        "bert": bert(),
        "classifier": bert().for_task(Classify(labels=("bad", "good"))),
        "reranker": bert().for_task(Rerank()),
        "gpt2": cw.load(writers["gpt2"]),
    }


@pytest.fixture(scope="module")
def several(clients, models, serving):
    """A server of all models."""
    with serving(models) as url:
        yield url


def close(value):
    return pytest.approx(value, abs=1e-6)


# cohere.

COHERE = """
import asyncio

import cohere

usual = {"api_key": "any", "base_url": asked["url"]}
first, second = cohere.Client(**usual), cohere.ClientV2(**usual)
documents = asked["documents"]
asking = {"model": "reranker", "query": asked["text"], "documents": documents}
objects = [{"text": each, "id": str(number)} for number, each in enumerate(documents)]


async def later():
    return await cohere.AsyncClientV2(**usual).rerank(**asking)


for name, answer in {
    "v1": first.rerank(**asking),
    "v1 objects": first.rerank(
        query=asked["text"], documents=objects, top_n=9, return_documents=True, rank_fields=["text"]
    ),
    "v2": second.rerank(**asking),
    "v2 later": asyncio.run(later()),
    "v2 best": second.rerank(**asking, top_n=1, max_tokens_per_doc=50),
}.items():
    found[name] = json.loads(answer.json())
try:
    second.rerank(**{**asking, "model": "other"})
except Exception as error:
    found["refused"] = [type(error).__name__, error.status_code, str(error)]
"""


def test_cohere(clients, models, several):
    found = clients(COHERE, url=several, text=TEXT, documents=OTHERS)
    own = models["reranker"].rerank(TEXT, OTHERS)
    for name in ("v1", "v1 objects", "v2", "v2 later"):
        results = found[name]["results"]
        assert [each["index"] for each in results] == [each.index for each in own]
        assert [each["relevance_score"] for each in results] == close([e.score for e in own])
        assert found[name]["meta"]["tokens"]["input_tokens"] > 0
    best = found["v1 objects"]["results"][0]["document"]
    assert best == {"text": own[0].document, "id": str(own[0].index)}
    assert [each["index"] for each in found["v2 best"]["results"]] == [own[0].index]
    kind, status, sentence = found["refused"]
    assert (kind, status) == ("NotFoundError", 404)
    assert "model is 'other'; this server has 4 models" in sentence


# infinity.

INFINITY = """
from infinity_client import Client
from infinity_client.api.default import classify, embeddings, health, models, rerank
from infinity_client.models import ClassifyInput, OpenAIEmbeddingInputText, RerankInput

client = Client(base_url=asked["url"])
texts = asked["documents"]


def got(method, body):
    return method.sync(client=client, body=body).to_dict()


found["vectors"] = got(embeddings, OpenAIEmbeddingInputText(input_=texts, model="bert"))
found["one"] = got(embeddings, OpenAIEmbeddingInputText(input_=texts[0], model="bert"))
found["unnamed"] = got(embeddings, OpenAIEmbeddingInputText(input_=texts))
found["empty"] = got(embeddings, OpenAIEmbeddingInputText(input_=""))
found["labels"] = got(classify, ClassifyInput(input_=texts))
found["raw"] = got(classify, ClassifyInput(input_=texts, model="classifier", raw_scores=True))
found["no labels"] = got(classify, ClassifyInput(input_=[]))
ranking = {"query": asked["text"], "documents": texts}
found["ranks"] = got(rerank, RerankInput(**ranking, return_documents=True))
found["no ranks"] = got(rerank, RerankInput(**ranking, top_n=0))
found["models"] = models.sync(client=client).to_dict()
found["health"] = health.sync(client=client).to_dict()
"""


def test_infinity(clients, models, several):
    found = clients(INFINITY, url=several, text=TEXT, documents=OTHERS)
    vectors = models["bert"].embed(OTHERS)
    for name, expected in {"vectors": vectors, "unnamed": vectors, "one": vectors[:1]}.items():
        listed = [each["embedding"] for each in found[name]["data"]]
        np.testing.assert_allclose(listed, expected, atol=1e-6)
        assert found[name]["model"] == "bert" and found[name]["usage"]["total_tokens"] > 0
    labelled = models["classifier"].classify(OTHERS)
    for theirs, own in zip(found["labels"]["data"], labelled, strict=True):
        assert theirs[0]["label"] == own.label
        assert {each["label"]: each["score"] for each in theirs} == close(own.scores)
    for raw, own in zip(found["raw"]["data"], labelled, strict=True):
        logits = np.array([each["score"] for each in raw])
        chances = np.exp(logits) / np.exp(logits).sum()
        assert dict(zip([e["label"] for e in raw], chances, strict=True)) == close(own.scores)
    own = models["reranker"].rerank(TEXT, OTHERS)
    ranks = found["ranks"]["results"]
    assert [each["document"] for each in ranks] == [each.document for each in own]
    assert [each["relevance_score"] for each in ranks] == close([each.score for each in own])
    assert found["ranks"]["model"] == "reranker" and found["ranks"]["usage"]["total_tokens"] > 0
    assert [each["id"] for each in found["models"]["data"]] == list(models)
    assert found["health"] == {"status": "ok"}


def test_infinity_reads_errors(clients, several):
    found = clients(INFINITY, url=several, text=TEXT, documents=OTHERS)
    assert found["empty"]["detail"][0]["msg"].startswith("input[0] is empty")
    assert found["no labels"]["detail"][0]["msg"].startswith("input is empty")
    assert found["no ranks"]["detail"][0]["msg"].startswith("top_n cannot be used")


# llama-index.

LLAMA_INDEX = """
import asyncio

from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

model = TextEmbeddingsInference(
    model_name="any", base_url=asked["url"], text_instruction="", query_instruction="the cat:",
    auth_token=asked["key"],
)
texts = asked["texts"]
found["texts"] = model.get_text_embedding_batch(texts)
found["query"] = model.get_query_embedding("sat")
found["later"] = asyncio.run(model.aget_text_embedding(texts[0]))
found["several later"] = asyncio.run(model.aget_text_embedding_batch(texts))
"""


def test_llama_index(clients, models, serving):
    with serving({"bert": models["bert"]}, keys=Keys([digest(KEY)])) as url:
        found = clients(LLAMA_INDEX, url=url, texts=[TEXT, *OTHERS], key=KEY)
    scaled = models["bert"].embed([TEXT, *OTHERS], normalize=True)
    np.testing.assert_allclose(found["texts"], scaled, atol=1e-6)
    np.testing.assert_allclose(found["several later"], scaled, atol=1e-6)
    np.testing.assert_allclose(found["later"], scaled[0], atol=1e-6)
    query = models["bert"].embed("the cat: sat", normalize=True)
    np.testing.assert_allclose(found["query"], query, atol=1e-6)
