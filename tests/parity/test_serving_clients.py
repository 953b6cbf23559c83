"""The real client libraries against a running server: they get what the model's methods return.

huggingface_hub, cohere, infinity_client and llama-index's client of TEI, as they are published;
`make clients` installs them. The server speaks all dialects at once.
"""

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.serve.limits import Keys, digest
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.rerank.task import Rerank
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.text_to_text.task import TextToText

pytestmark = pytest.mark.parity
TEXT = "the cat sat on the mat, the dog in its garden"
OTHERS = ["the dog lay on the rug", "the cat sat on the mat"]
GAP = "the [MASK] sat on the mat"
QUESTION = "the dog ?"
LABELS = ["animals", "the city", "good"]
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
CHAT = [{"role": "user", "content": "the cat"}]
KEY = "a-key-of-the-test"
SEVERAL = ("bert", "classifier", "reranker", "gpt2")


@pytest.fixture(scope="module")
def models(tiny_models, writers):
    def bert():
        return cw.load(tiny_models["bert"])

    gpt2 = cw.load(writers["gpt2"])
    gpt2.checkpoint.tokenizer = gpt2.tokenizer.with_chat_template(TEMPLATE)
    return {
        "bert": bert(),
        "classifier": bert().for_task(Classify(labels=("bad", "good"))),
        "reranker": bert().for_task(Rerank()),
        "tagger": bert().for_task(Tag(labels=("B-X", "B-Y", "I-Y"), scheme="BIO")),
        "answerer": bert().for_task(Answer()),
        "nli": bert().for_task(Compare(labels=("entailment", "neutral", "contradiction"))),
        "gpt2": gpt2,
        "translator": cw.load(writers["t5"]).for_task(TextToText(prefix="translate: ")),
    }


@pytest.fixture(scope="module")
def several(clients, models, serving):
    """A server of several models."""
    with serving({name: models[name] for name in SEVERAL}) as url:
        yield url


def close(value):
    return pytest.approx(value, abs=1e-6)


# huggingface_hub: what is asked, as the server or path, the method, and its arguments.

HUB_CALLS = {
    "features": ["bert", "", "feature_extraction", {"text": TEXT}],
    "normalized": [
        "bert", "", "feature_extraction", {"text": TEXT, "normalize": True, "truncate": True},
    ],
    "similarity": [
        "bert", "", "sentence_similarity", {"sentence": TEXT, "other_sentences": OTHERS},
    ],
    "fill": ["bert", "", "fill_mask", {"text": GAP, "top_k": 3}],
    "targets": ["bert", "", "fill_mask", {"text": GAP, "targets": ["cat", "dog"]}],
    "classify": ["classifier", "", "text_classification", {"text": TEXT}],
    "top": [
        "classifier", "", "text_classification",
        {"text": TEXT, "top_k": 1, "function_to_apply": "softmax"},
    ],
    "tag": [
        "tagger", "", "token_classification", {"text": TEXT, "aggregation_strategy": "simple"},
    ],
    "words": [
        "tagger", "", "token_classification", {"text": TEXT, "aggregation_strategy": "none"},
    ],
    "answer": ["answerer", "", "question_answering", {"question": QUESTION, "context": TEXT}],
    "answers": [
        "answerer", "", "question_answering",
        {
            "question": QUESTION, "context": TEXT, "top_k": 3, "max_answer_len": 5,
            "align_to_words": True,
        },
    ],
    "zero": [
        "nli", "", "zero_shot_classification", {"text": TEXT, "candidate_labels": LABELS},
    ],
    "zero several": [
        "nli", "", "zero_shot_classification",
        {
            "text": TEXT, "candidate_labels": LABELS, "multi_label": True,
            "hypothesis_template": "it is {}",
        },
    ],
    "generate": ["gpt2", "", "text_generation", {"prompt": "the cat", "max_new_tokens": 9}],
    "details": [
        "gpt2", "", "text_generation", {"prompt": "the cat", "max_new_tokens": 9, "details": True},
    ],
    "drawn": [
        "gpt2", "", "text_generation",
        {
            "prompt": "the cat", "max_new_tokens": 9, "do_sample": True, "seed": 3,
            "temperature": 1.4, "return_full_text": True,
        },
    ],
    "stream": [
        "gpt2", "", "text_generation", {"prompt": "the cat", "max_new_tokens": 9, "stream": True},
    ],
    "stream details": [
        "gpt2", "", "text_generation",
        {"prompt": "the cat", "max_new_tokens": 9, "stream": True, "details": True},
    ],
    "chat": [
        "gpt2", "", "chat_completion", {"messages": CHAT, "max_tokens": 9, "temperature": 0},
    ],
    "chat stream": [
        "gpt2", "", "chat_completion",
        {"messages": CHAT, "max_tokens": 9, "temperature": 0, "stream": True},
    ],
    "summary": ["translator", "", "summarization", {"text": "the cat is good"}],
    "translation": ["translator", "", "translation", {"text": "the cat is good"}],
    "several": [
        "several", "/pipeline/text-classification", "text_classification", {"text": TEXT},
    ],
    "several chat": [
        "several", "", "chat_completion", {"messages": CHAT, "max_tokens": 9, "temperature": 0},
    ],
    "invalid": ["gpt2", "", "text_generation", {"prompt": "the cat", "top_p": 7.0}],
    "refused": ["several", "", "text_classification", {"text": TEXT}],
    "info": ["bert", "", "get_endpoint_info", {}],
    "healthy": ["bert", "", "health_check", {}],
}  # fmt: skip

HUB = """
import asyncio
from dataclasses import asdict, is_dataclass

import numpy as np
from huggingface_hub import AsyncInferenceClient, InferenceClient


def plain(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    return asdict(value) if is_dataclass(value) else value


def told(error):
    return [type(error).__name__, str(error)]


def now(server, path, method, options):
    client = InferenceClient(model=asked["url"][server] + path, provider="hf-inference")
    try:
        value = getattr(client, method)(**options)
        return plain(list(value) if options.get("stream") else value)
    except Exception as error:
        return told(error)


async def later(server, path, method, options):
    client = AsyncInferenceClient(model=asked["url"][server] + path, provider="hf-inference")
    try:
        value = await getattr(client, method)(**options)
        return plain([each async for each in value] if options.get("stream") else value)
    except Exception as error:
        return told(error)


async def all_later():
    return [await later(*each) for each in asked["calls"].values()]


found["now"] = {name: now(*each) for name, each in asked["calls"].items()}
found["later"] = dict(zip(asked["calls"], asyncio.run(all_later())))
"""


@pytest.fixture(scope="module")
def both(clients, models, serving, several):
    """What the hub's two clients got."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        url = {name: stack.enter_context(serving({name: model})) for name, model in models.items()}
        return clients(HUB, url={**url, "several": several}, calls=HUB_CALLS)


@pytest.fixture(scope="module", params=["now", "later"])
def hub(both, request):
    """What one of them got."""
    return both[request.param]


def test_vectors_of_the_hub(hub, models):
    own = models["bert"].embed([TEXT])
    np.testing.assert_allclose(hub["features"], own, atol=1e-6)
    scaled = models["bert"].embed([TEXT], normalize=True)
    np.testing.assert_allclose(hub["normalized"], scaled, atol=1e-6)
    assert hub["similarity"] == close(models["bert"].similarity(TEXT, OTHERS)[0])


def test_gaps_of_the_hub(hub, models):
    own = models["bert"].fill(GAP, top=3)
    assert [each["token_str"] for each in hub["fill"]] == [each.word for each in own.gaps[0]]
    assert [each["score"] for each in hub["fill"]] == close([e.score for e in own.gaps[0]])
    assert hub["fill"][0]["sequence"] == own.best
    targets = models["bert"].fill(GAP, words=["cat", "dog"]).gaps[0]
    assert [each["token_str"] for each in hub["targets"]] == [each.word for each in targets]


def test_labels_and_entities_of_the_hub(hub, models):
    own = models["classifier"].classify(TEXT)
    assert {e["label"]: e["score"] for e in hub["classify"]} == close(own.scores)
    assert {e["label"]: e["score"] for e in hub["several"]} == close(own.scores)
    assert hub["top"] == [{"label": own.label, "score": close(own.score)}]
    tagged = models["tagger"].tag(TEXT)
    assert tagged.entities
    for mine, theirs in zip(tagged.entities, hub["tag"], strict=True):
        assert (mine.type, mine.text) == (theirs["entity_group"], theirs["word"])
        assert (mine.begin, mine.end) == (theirs["start"], theirs["end"])
        assert theirs["score"] == close(mine.score)
    inside = [tag for tag in tagged.tags if tag != "O"]
    assert [each["entity"] for each in hub["words"]] == inside


def test_answers_of_the_hub(hub, models):
    own = models["answerer"].answer(QUESTION, TEXT)
    expected = {"answer": own.text, "start": own.begin, "end": own.end, "score": close(own.score)}
    assert hub["answer"] == expected
    assert len(hub["answers"]) == 3
    for each in hub["answers"]:
        assert TEXT[each["start"] : each["end"]] == each["answer"]


def test_zero_shot_of_the_hub(hub, models):
    assert sum(each["score"] for each in hub["zero"]) == close(1)
    for each in hub["zero several"]:
        chances = models["nli"].compare(TEXT, f"it is {each['label']}").scores
        both = chances["entailment"] + chances["contradiction"]
        assert each["score"] == close(chances["entailment"] / both)


def test_texts_of_the_hub(hub, models):
    own = models["gpt2"].generate("the cat", max_new_tokens=9)
    assert hub["generate"] == own.text == "".join(hub["stream"])
    assert hub["details"]["generated_text"] == own.text
    logs = [each["logprob"] for each in hub["details"]["details"]["tokens"]]
    assert logs == close([each.log for each in own.tokens])
    last = hub["stream details"][-1]
    assert last["generated_text"] == own.text and last["details"]["finish_reason"] == "length"
    drawn = models["gpt2"].generate("the cat", max_new_tokens=9, seed=3, temperature=1.4).text
    assert hub["drawn"] == "the cat" + drawn
    written = models["translator"].text_to_text("the cat is good").text
    assert hub["summary"]["summary_text"] == written
    assert hub["translation"]["translation_text"] == written


def test_chats_of_the_hub(hub, models):
    own = models["gpt2"].generate("the cat", chat=True, max_new_tokens=9).text
    for name in ("chat", "several chat"):
        assert hub[name]["choices"][0]["message"]["content"] == own
    parts = [each["choices"][0]["delta"]["content"] or "" for each in hub["chat stream"]]
    assert "".join(parts) == own


def test_the_hub_reads_errors(hub):
    kind, sentence = hub["invalid"]
    assert kind == "ValidationError" and "top_p" in sentence
    kind, sentence = hub["refused"]
    assert kind == "HfHubHTTPError"
    assert "inputs could be for bert (feature-extraction), cl" in sentence


def test_the_hub_knows_what_the_server_is(hub):
    assert hub["healthy"] is True
    assert hub["info"]["model_id"] == "bert"


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
    assert [each["id"] for each in found["models"]["data"]] == list(SEVERAL)
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
