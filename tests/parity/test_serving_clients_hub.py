"""All that huggingface_hub's two clients can ask about texts, as they are published.

They get what the model's methods return. `make clients` installs them. The server speaks all
dialects at once.
"""

from contextlib import ExitStack

import numpy as np
import pytest

import clozeworks as cw
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


# What is asked: the server, a path there, the method, and its arguments.
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
    with ExitStack() as stack:
        url = {name: stack.enter_context(serving({name: model})) for name, model in models.items()}
        return clients(HUB, url={**url, "several": several}, calls=HUB_CALLS)


@pytest.fixture(scope="module", params=["now", "later"])
def hub(both, request):
    """What one of them got."""
    return both[request.param]


def test_vectors(hub, models):
    own = models["bert"].embed([TEXT])
    np.testing.assert_allclose(hub["features"], own, atol=1e-6)
    scaled = models["bert"].embed([TEXT], normalize=True)
    np.testing.assert_allclose(hub["normalized"], scaled, atol=1e-6)
    assert hub["similarity"] == close(models["bert"].similarity(TEXT, OTHERS)[0])


def test_gaps(hub, models):
    own = models["bert"].fill(GAP, top=3)
    assert [each["token_str"] for each in hub["fill"]] == [each.word for each in own.gaps[0]]
    assert [each["score"] for each in hub["fill"]] == close([e.score for e in own.gaps[0]])
    assert hub["fill"][0]["sequence"] == own.best
    targets = models["bert"].fill(GAP, words=["cat", "dog"]).gaps[0]
    assert [each["token_str"] for each in hub["targets"]] == [each.word for each in targets]


def test_labels_and_entities(hub, models):
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


def test_answers(hub, models):
    own = models["answerer"].answer(QUESTION, TEXT)
    expected = {"answer": own.text, "start": own.begin, "end": own.end, "score": close(own.score)}
    assert hub["answer"] == expected
    assert len(hub["answers"]) == 3
    for each in hub["answers"]:
        assert TEXT[each["start"] : each["end"]] == each["answer"]


def test_zero_shot(hub, models):
    assert sum(each["score"] for each in hub["zero"]) == close(1)
    for each in hub["zero several"]:
        chances = models["nli"].compare(TEXT, f"it is {each['label']}").scores
        both = chances["entailment"] + chances["contradiction"]
        assert each["score"] == close(chances["entailment"] / both)


def test_texts(hub, models):
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


def test_chats(hub, models):
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
