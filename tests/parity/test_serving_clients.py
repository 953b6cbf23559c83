"""The real client libraries against a running server: they get what the model's methods return.

The libraries are in an environment of their own, whose interpreter CLOZEWORKS_CLIENTS names:
huggingface_hub, cohere, infinity_client and llama-index's client of TEI.
"""

import json
import os
import subprocess
import threading
from queue import Queue

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.serve.app import Answering
from clozeworks.serve.dialects.hub_inference import hub_endpoints
from clozeworks.serve.dialects.rerankers import reranker_endpoints
from clozeworks.serve.dialects.tei import tei_endpoints
from clozeworks.serve.models import ServedModel, ServedModels
from clozeworks.serve.scheduler import Scheduler
from clozeworks.serve.server import run
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.rerank.task import Rerank
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.text_to_text.task import TextToText

pytestmark = pytest.mark.parity
CLIENTS = os.environ.get("CLOZEWORKS_CLIENTS")
TEXT = "the cat sat on the mat, the dog in its garden"
OTHERS = ["the dog lay on the rug", "the cat sat on the mat"]
GAP = "the [MASK] sat on the mat"
QUESTION = "the dog ?"
LABELS = ["animals", "the city", "good"]

SCRIPT = """
import asyncio, json, sys
from dataclasses import asdict, is_dataclass

import cohere
import numpy as np
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from infinity_client import Client
from infinity_client.api.default import rerank
from infinity_client.models import RerankInput
from llama_index.embeddings.text_embeddings_inference import TextEmbeddingsInference

asked = json.load(sys.stdin)
url, text, others = asked["url"], asked["text"], asked["others"]
found = {}


def hub(name, path=""):
    return InferenceClient(model=url[name] + path, provider="hf-inference")


def plain(value):
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if is_dataclass(value):
        return asdict(value)
    return value


def sentence(call):
    try:
        call()
    except Exception as error:
        return [type(error).__name__, str(error)]


found["features"] = hub("bert").feature_extraction(text)
found["normalized"] = hub("bert").feature_extraction(text, normalize=True, truncate=True)
found["similarity"] = hub("bert").sentence_similarity(text, other_sentences=others)
found["fill"] = hub("bert").fill_mask(asked["gap"], top_k=3)
found["targets"] = hub("bert").fill_mask(asked["gap"], targets=["cat", "dog"])
found["classify"] = hub("classifier").text_classification(text)
found["top"] = hub("classifier").text_classification(text, top_k=1, function_to_apply="softmax")
found["tag"] = hub("tagger").token_classification(text, aggregation_strategy="simple")
found["words"] = hub("tagger").token_classification(text, aggregation_strategy="none")
answerer = hub("answerer")
found["answer"] = answerer.question_answering(question=asked["question"], context=text)
found["answers"] = answerer.question_answering(
    question=asked["question"], context=text, top_k=3, max_answer_len=5, align_to_words=True
)
found["zero"] = hub("nli").zero_shot_classification(text, asked["labels"])
found["zero several"] = hub("nli").zero_shot_classification(
    text, asked["labels"], multi_label=True, hypothesis_template="it is {}"
)
gpt2 = hub("gpt2")
found["generate"] = gpt2.text_generation("the cat", max_new_tokens=9)
found["details"] = gpt2.text_generation("the cat", max_new_tokens=9, details=True)
found["drawn"] = gpt2.text_generation(
    "the cat", max_new_tokens=9, do_sample=True, seed=3, temperature=1.4, return_full_text=True
)
found["stream"] = list(gpt2.text_generation("the cat", max_new_tokens=9, stream=True))
found["stream details"] = list(
    gpt2.text_generation("the cat", max_new_tokens=9, stream=True, details=True)
)
found["invalid"] = sentence(lambda: gpt2.text_generation("the cat", top_p=7.0))
found["summary"] = hub("translator").summarization("the cat is good")
found["translation"] = hub("translator").translation("the cat is good")
found["several"] = hub("all", "/pipeline/text-classification").text_classification(text)
found["refused"] = sentence(lambda: hub("all").text_classification(text))
found["info"] = hub("bert").get_endpoint_info()
found["healthy"] = hub("bert").health_check()

first = cohere.Client(api_key="any", base_url=url["all"])
second = cohere.ClientV2(api_key="any", base_url=url["all"])
asking = {"model": "reranker", "query": text, "documents": others}
for name, answer in {
    "v1": first.rerank(**asking),
    "v1 objects": first.rerank(
        query=text, documents=[{"text": each, "id": str(n)} for n, each in enumerate(others)],
        top_n=9, return_documents=True, rank_fields=["text"],
    ),
    "v2": second.rerank(**asking, top_n=1, max_tokens_per_doc=50),
}.items():
    found[name] = json.loads(answer.json())
found["cohere refused"] = sentence(lambda: second.rerank(**{**asking, "model": "other"}))

client = Client(base_url=url["all"])
body = RerankInput(query=text, documents=others, return_documents=True)
found["infinity"] = rerank.sync(client=client, body=body).to_dict()
wrong = RerankInput(query=text, documents=others, top_n=0)
found["infinity refused"] = rerank.sync(client=client, body=wrong).to_dict()

tei = TextEmbeddingsInference(
    model_name="any", base_url=url["all"], text_instruction="", query_instruction="the cat:"
)
found["tei texts"] = tei.get_text_embedding_batch(others)
found["tei query"] = tei.get_query_embedding("sat")
found["tei async"] = asyncio.run(tei.aget_text_embedding(text))
json.dump({name: plain(value) for name, value in found.items()}, sys.stdout, default=float)
"""


@pytest.fixture(scope="module")
def models(tiny_models, writers):
    def bert():
        return cw.load(tiny_models["bert"])

    return {
        "bert": bert(),
        "classifier": bert().for_task(Classify(labels=("bad", "good"))),
        "reranker": bert().for_task(Rerank()),
        "tagger": bert().for_task(Tag(labels=("B-X", "B-Y", "I-Y"), scheme="BIO")),
        "answerer": bert().for_task(Answer()),
        "nli": bert().for_task(Compare(labels=("entailment", "neutral", "contradiction"))),
        "gpt2": cw.load(writers["gpt2"]),
        "translator": cw.load(writers["t5"]).for_task(TextToText(prefix="translate: ")),
    }


@pytest.fixture(scope="module")
def serve():
    started = []

    def start(served):
        endpoints = [*hub_endpoints(), *tei_endpoints(), *reranker_endpoints()]
        answering = Answering(ServedModels(served), Scheduler(), endpoints)
        ready: Queue[str] = Queue()
        thread = threading.Thread(
            target=run, args=(answering,), kwargs={"port": 0, "ready": ready.put}
        )
        thread.start()
        started.append((answering, thread))
        return ready.get(timeout=30)

    yield start
    for answering, _ in started:
        answering.draining = True
    for _, thread in started:
        thread.join(30)


@pytest.fixture(scope="module")
def found(models, serve):
    """What the clients got."""
    if not CLIENTS:
        pytest.skip("CLOZEWORKS_CLIENTS does not name the interpreter that has the clients")
    url = {name: serve([ServedModel(name, model)]) for name, model in models.items()}
    several = ("bert", "classifier", "reranker", "gpt2")
    url["all"] = serve([ServedModel(name, models[name]) for name in several])
    asked = {"url": url, "text": TEXT, "others": OTHERS, "gap": GAP, "question": QUESTION}
    done = subprocess.run(
        [CLIENTS, "-c", SCRIPT],
        input=json.dumps({**asked, "labels": LABELS}),
        capture_output=True,
        encoding="utf-8",
        timeout=300,
        env={**os.environ, "HF_HUB_DISABLE_TELEMETRY": "1"},
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def close(value):
    return pytest.approx(value, abs=1e-6)


def test_vectors(found, models):
    own = models["bert"].embed([TEXT])
    np.testing.assert_allclose(found["features"], own, atol=1e-6)
    scaled = models["bert"].embed([TEXT, *OTHERS], normalize=True)
    np.testing.assert_allclose(found["normalized"], scaled[:1], atol=1e-6)
    np.testing.assert_allclose(found["tei texts"], scaled[1:], atol=1e-6)
    np.testing.assert_allclose(found["tei async"], scaled[0], atol=1e-6)
    query = models["bert"].embed("the cat: sat", normalize=True)
    np.testing.assert_allclose(found["tei query"], query, atol=1e-6)
    assert found["similarity"] == close(models["bert"].similarity(TEXT, OTHERS)[0])


def test_gaps(found, models):
    own = models["bert"].fill(GAP, top=3)
    assert [each["token_str"] for each in found["fill"]] == [each.word for each in own.gaps[0]]
    assert [each["score"] for each in found["fill"]] == close([e.score for e in own.gaps[0]])
    assert found["fill"][0]["sequence"] == own.best
    targets = models["bert"].fill(GAP, words=["cat", "dog"]).gaps[0]
    assert [each["token_str"] for each in found["targets"]] == [each.word for each in targets]


def test_labels_and_entities(found, models):
    own = models["classifier"].classify(TEXT)
    assert {e["label"]: e["score"] for e in found["classify"]} == close(own.scores)
    assert found["several"] == found["classify"]
    assert found["top"] == [{"label": own.label, "score": close(own.score)}]
    tagged = models["tagger"].tag(TEXT)
    assert tagged.entities
    for mine, theirs in zip(tagged.entities, found["tag"], strict=True):
        assert (mine.type, mine.text) == (theirs["entity_group"], theirs["word"])
        assert (mine.begin, mine.end) == (theirs["start"], theirs["end"])
        assert theirs["score"] == close(mine.score)
    inside = [tag for tag in tagged.tags if tag != "O"]
    assert [each["entity"] for each in found["words"]] == inside


def test_answers(found, models):
    own = models["answerer"].answer(QUESTION, TEXT)
    expected = {"answer": own.text, "start": own.begin, "end": own.end, "score": close(own.score)}
    assert found["answer"] == expected
    assert len(found["answers"]) == 3
    for each in found["answers"]:
        assert TEXT[each["start"] : each["end"]] == each["answer"]


def test_zero_shot(found, models):
    assert sum(each["score"] for each in found["zero"]) == close(1)
    for each in found["zero several"]:
        chances = models["nli"].compare(TEXT, f"it is {each['label']}").scores
        both = chances["entailment"] + chances["contradiction"]
        assert each["score"] == close(chances["entailment"] / both)


def test_texts(found, models):
    own = models["gpt2"].generate("the cat", max_new_tokens=9)
    assert found["generate"] == own.text == "".join(found["stream"])
    assert found["details"]["generated_text"] == own.text
    logs = [each["logprob"] for each in found["details"]["details"]["tokens"]]
    assert logs == close([each.log for each in own.tokens])
    last = found["stream details"][-1]
    assert last["generated_text"] == own.text and last["details"]["finish_reason"] == "length"
    drawn = models["gpt2"].generate("the cat", max_new_tokens=9, seed=3, temperature=1.4).text
    assert found["drawn"] == "the cat" + drawn
    written = models["translator"].text_to_text("the cat is good").text
    assert found["summary"]["summary_text"] == written
    assert found["translation"]["translation_text"] == written
    kind, sentence = found["invalid"]
    assert kind == "ValidationError" and "top_p" in sentence


def test_ranks(found, models):
    own = models["reranker"].rerank(TEXT, OTHERS)
    for name in ("v1", "v1 objects"):
        results = found[name]["results"]
        assert [each["index"] for each in results] == [each.index for each in own]
        assert [each["relevance_score"] for each in results] == close([e.score for e in own])
        assert found[name]["meta"]["tokens"]["input_tokens"] > 0
    best = found["v1 objects"]["results"][0]["document"]
    assert best == {"text": own[0].document, "id": str(own[0].index)}
    assert [each["index"] for each in found["v2"]["results"]] == [own[0].index]
    infinity = found["infinity"]
    assert [each["document"] for each in infinity["results"]] == [each.document for each in own]
    assert infinity["model"] == "reranker" and infinity["usage"]["total_tokens"] > 0


def test_errors_are_read(found):
    kind, sentence = found["refused"]
    assert (
        kind == "HfHubHTTPError" and "inputs could be for bert (feature-extraction), cl" in sentence
    )
    kind, sentence = found["cohere refused"]
    assert kind == "NotFoundError" and "model is 'other'; this server has 4 models" in sentence
    assert found["infinity refused"]["detail"][0]["msg"].startswith("top_n cannot be used")


def test_the_server_says_what_it_is(found):
    assert found["healthy"] is True
    assert found["info"]["model_id"] == "bert"
