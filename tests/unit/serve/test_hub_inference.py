"""What `InferenceClient(model=URL)` posts, and what it gets: one path for every task."""

import json

import numpy as np
import pytest
from starlette.testclient import TestClient

import clozeworks as cw
from clozeworks.serve.app import Answering
from clozeworks.serve.dialects.hub_inference import hub_endpoints
from clozeworks.serve.dialects.zero_shot import zero_shot_endpoints
from clozeworks.serve.models import ServedModel, ServedModels
from clozeworks.serve.scheduler import Scheduler
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.text_to_text.task import TextToText

TEXT = "the cat sat on the mat in Paris"
CONTEXT = "the cat sat on the mat and the dog lay on the rug"
QUESTION = {"question": "the dog ?", "context": CONTEXT}


@pytest.fixture(scope="module")
def models(tiny_models, writers):
    def bert():
        return cw.load(tiny_models["bert"])

    t5 = cw.load(writers["t5"])
    return {
        "bert": bert(),
        "roberta": cw.load(tiny_models["roberta"]),
        "classifier": bert().for_task(Classify(labels=("bad", "good", "middling"))),
        "tagger": bert().for_task(Tag(labels=("O", "B-X", "I-X"))),
        "speech": bert().for_task(Tag(labels=("NOUN", "VERB"), scheme="plain")),
        "answerer": bert().for_task(Answer()),
        "nli": bert().for_task(Compare(labels=("entailment", "neutral", "contradiction"))),
        "pairs": bert().for_task(Compare(labels=("no", "yes"))),
        "gpt2": cw.load(writers["gpt2"]),
        "translator": t5.for_task(TextToText(prefix="translate: ")),
    }


@pytest.fixture(scope="module")
def scheduler():
    made = Scheduler()
    made.start()
    yield made
    made.stop()


@pytest.fixture(scope="module")
def asking(models, scheduler):
    def make(*names):
        served = ServedModels([ServedModel(name, models[name]) for name in names])
        endpoints = [*hub_endpoints(), *zero_shot_endpoints()]
        return TestClient(Answering(served, scheduler, endpoints).app())

    return make


def post(client, inputs, path="/", **body):
    answer = client.post(path, json={"inputs": inputs, **body})
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_features(asking, models):
    client = asking("bert")
    own = models["bert"].embed([TEXT, CONTEXT])
    np.testing.assert_allclose(post(client, TEXT), own[:1], atol=1e-6)
    np.testing.assert_allclose(post(client, [TEXT, CONTEXT], parameters={}), own, atol=1e-6)
    scaled = post(client, TEXT, normalize=True, encoding_format="float")
    np.testing.assert_allclose(scaled, models["bert"].embed([TEXT], normalize=True), atol=1e-6)
    answer = client.post("/", json={"inputs": TEXT})
    tokens = len(models["bert"].tokenizer.encode([TEXT])[0])
    assert answer.headers["x-compute-tokens"] == str(tokens)


def test_similar_sentences(asking, models):
    inputs = {"source_sentence": TEXT, "sentences": [CONTEXT, TEXT]}
    own = models["bert"].similarity(TEXT, [CONTEXT, TEXT])[0]
    assert post(asking("bert"), inputs) == pytest.approx(own, abs=1e-6)


def test_labels(asking, models):
    client, own = asking("classifier"), models["classifier"].classify(TEXT).scores
    (found,) = post(client, TEXT)
    assert {each["label"]: each["score"] for each in found} == pytest.approx(own, abs=1e-6)
    assert [each["score"] for each in found] == sorted(own.values(), reverse=True)
    assert post(client, TEXT, parameters={"top_k": 2}) == [found[:2]]
    assert len(post(client, [TEXT, CONTEXT])) == 2
    (softmax,) = post(client, TEXT, parameters={"function_to_apply": "softmax"})
    assert {each["label"]: each["score"] for each in softmax} == pytest.approx(own, abs=1e-6)
    (raw,) = post(client, TEXT, parameters={"function_to_apply": "none"})
    chances = np.exp([each["score"] for each in raw])
    expected = [each["score"] for each in found]
    assert chances / chances.sum() == pytest.approx(expected, abs=1e-6)
    (sigmoid,) = post(client, TEXT, parameters={"function_to_apply": "sigmoid"})
    expected = [1 / (1 + np.exp(-each["score"])) for each in raw]
    assert [each["score"] for each in sigmoid] == pytest.approx(expected)


def test_entities_have_characters(asking, models):
    client = asking("tagger")
    text = "北京 the cat sat on the mat, the dog in its garden"
    own = models["tagger"].tag(text)
    assert own.entities
    expected = [
        {
            "entity_group": each.type,
            "score": pytest.approx(each.score, abs=1e-6),
            "word": text[each.begin : each.end],
            "start": each.begin,
            "end": each.end,
        }
        for each in own.entities
    ]
    assert post(client, text) == expected
    assert post(client, text, parameters={"aggregation_strategy": "simple"}) == expected
    assert post(client, text, parameters={"ignore_labels": ["X"]}) == []
    assert post(client, [text, text]) == [expected, expected]
    words = post(client, text, parameters={"aggregation_strategy": "none", "ignore_labels": []})
    assert [each["entity"] for each in words] == list(own.tags)
    assert [(each["start"], each["end"]) for each in words] == list(own.spans)
    assert [each["index"] for each in words] == list(range(1, len(words) + 1))


def test_tags_that_make_no_entities_are_given_word_by_word(asking, models):
    found, own = post(asking("speech"), TEXT), models["speech"].tag(TEXT)
    assert [each["entity_group"] for each in found] == list(own.tags)
    assert [each["word"] for each in found] == TEXT.split()


def test_answers(asking, models):
    client, own = asking("answerer"), models["answerer"].answer(*QUESTION.values())
    found = post(client, QUESTION)
    assert found == {
        "answer": own.text,
        "score": pytest.approx(own.score, abs=1e-6),
        "start": own.begin,
        "end": own.end,
    }
    assert CONTEXT[found["start"] : found["end"]] == found["answer"]
    several = post(client, QUESTION, parameters={"top_k": 3})
    assert [each["answer"] for each in several] == [each.text for each in own.candidates[:3]]
    short = post(client, QUESTION, parameters={"max_answer_len": 1, "top_k": 4})
    assert max(len(each["answer"].split()) for each in short) == 1
    windows = {"max_seq_len": 16, "doc_stride": 2, "handle_impossible_answer": False}
    assert post(client, QUESTION, parameters=windows)["answer"] in CONTEXT
    none = post(client, QUESTION, parameters={"handle_impossible_answer": True, "top_k": 99})
    assert "" in [each["answer"] for each in none]


@pytest.mark.parametrize(("name", "gap"), [("bert", "[MASK]"), ("roberta", "<mask>")])
def test_gaps(asking, models, name, gap):
    client, text = asking(name), f"The cat sat on {gap} mat"
    own = models[name].fill(text)
    found = post(client, text)
    assert [each["token_str"] for each in found] == [each.word for each in own.gaps[0]]
    scores = [each.score for each in own.gaps[0]]
    assert [each["score"] for each in found] == pytest.approx(scores, abs=1e-6)
    assert found[0]["sequence"] == own.best and gap not in found[3]["sequence"]
    tokens = [models[name].tokenizer.token_of(each["token"]) for each in found]
    assert tokens == [each.token for each in own.gaps[0]]
    two = post(client, f"{gap} cat sat {gap}", parameters={"top_k": 2})
    assert [len(each) for each in two] == [2, 2]
    assert two[0][0]["sequence"].count(gap) == 1
    targets = post(client, text, parameters={"targets": ["the", "cat"]})
    assert {each["token_str"] for each in targets} == {"the", "cat"}


def test_a_gap_need_not_be_filled(asking, models):
    client = asking("bert")
    text = "the [MASK] sat"
    found = post(client, text, path="/pipeline/feature-extraction")
    np.testing.assert_allclose(found, models["bert"].embed([text]), atol=1e-6)
    refused = client.post("/pipeline/fill-mask", json={"inputs": "the cat"})
    assert refused.status_code == 422 and "has no gap" in refused.json()["error"]


def test_prompts_are_continued(asking, models):
    client = asking("gpt2")
    own = models["gpt2"].generate("the cat", max_new_tokens=9, top_logprobs=2)
    (found,) = post(client, "the cat", parameters={"max_new_tokens": 9})
    assert found == {"generated_text": own.text}
    whole = {"max_new_tokens": 9, "details": True, "return_full_text": True, "top_n_tokens": 2}
    (found,) = post(client, "the cat", parameters=whole)
    assert found["generated_text"] == "the cat" + own.text
    details = found["details"]
    assert (details["finish_reason"], details["generated_tokens"]) == ("length", 9)
    logs = [each["logprob"] for each in details["tokens"]]
    assert logs == pytest.approx([each.log for each in own.tokens], abs=1e-6)
    assert [len(each) for each in details["top_tokens"]] == [2] * 9
    drawn = {"max_new_tokens": 9, "do_sample": True, "seed": 5, "typical_p": 0.9}
    (found,) = post(client, "the cat", parameters=drawn)
    sampled = {"max_new_tokens": 9, "sample": True, "seed": 5, "typical": 0.9}
    assert found["generated_text"] == models["gpt2"].generate("the cat", **sampled).text
    (found,) = post(client, "the cat", parameters={"max_new_tokens": 9, "seed": 5})
    assert found["generated_text"] == own.text  # a seed alone draws nothing
    assert len(post(client, ["the cat", "a dog"], parameters={"max_new_tokens": 2})) == 2


@pytest.mark.parametrize("details", [True, False])
def test_streams(asking, models, details):
    own = models["gpt2"].generate("the cat", max_new_tokens=9)
    body = {"inputs": "the cat", "parameters": {"max_new_tokens": 9, "details": details}}
    answer = asking("gpt2").post("/", json={**body, "stream": True})
    events = [json.loads(line[5:]) for line in answer.text.splitlines() if line]
    assert [each["index"] for each in events] == list(range(1, 10))
    assert "".join(each["token"]["text"] for each in events) == own.text
    assert events[-1]["generated_text"] == own.text and events[0]["generated_text"] is None
    assert events[-1]["details"]["finish_reason"] == "length"
    if details:
        logs = [each["token"]["logprob"] for each in events]
        assert logs == pytest.approx([each.log for each in own.tokens], abs=1e-6)


def test_summaries_and_translations(asking, models):
    client, own = asking("translator"), models["translator"].text_to_text("the cat is good")
    (found,) = post(client, "the cat is good")
    assert set(found.values()) == {own.text}
    assert {"generated_text", "summary_text", "translation_text"} <= set(found)
    short = {"generate_parameters": {"max_new_tokens": 2}, "clean_up_tokenization_spaces": True}
    (found,) = post(client, "the cat is good", parameters=short)
    assert own.text.startswith(found["summary_text"])
    unknown = {"generate_parameters": {"max_length": 2}}
    refused = client.post("/", json={"inputs": "the cat", "parameters": unknown})
    assert "generate_parameters.max_length is not known" in refused.json()["error"]
    (bare,) = post(asking("gpt2"), "the cat")
    assert bare["summary_text"] == models["gpt2"].generate("the cat", max_new_tokens=100).text


def test_zero_shot_is_what_transformers_computes(asking, models):
    client, labels = asking("nli"), ["animals", "the city", "good"]
    found = post(client, TEXT, parameters={"candidate_labels": labels})
    pairs = [(TEXT, f"This example is {label}.") for label in labels]
    chances = [each.scores for each in models["nli"].compare(pairs)]
    several = post(client, TEXT, parameters={"candidate_labels": labels, "multi_label": True})
    for label, chance in zip(labels, chances, strict=True):
        score = next(each["score"] for each in several if each["label"] == label)
        expected = chance["entailment"] / (chance["entailment"] + chance["contradiction"])
        assert score == pytest.approx(expected, abs=1e-6)
    assert sum(each["score"] for each in found) == pytest.approx(1)
    assert [each["score"] for each in found] == sorted((e["score"] for e in found), reverse=True)
    native = {"inputs": [TEXT], "labels": labels, "template": "it is {}", "multi_label": True}
    answer = client.post("/v1/zero-shot", json=native).json()
    assert answer["model"] == "nli" and answer["usage"]["input_tokens"] > 0
    named = {"candidate_labels": labels, "hypothesis_template": "it is {}", "multi_label": True}
    expected = {each["label"]: each["score"] for each in post(client, TEXT, parameters=named)}
    assert answer["outputs"][0]["scores"] == pytest.approx(expected)


def test_zero_shot_needs_entailment_and_a_place(asking):
    body = {"inputs": TEXT, "labels": ["a"]}
    unable = asking("pairs").post("/v1/zero-shot", json=body).json()["error"]["message"]
    assert unable == (
        "pairs cannot label without training: none of its labels (no, yes) is entailment; serve a "
        "model that was trained on natural language inference."
    )
    wrong = asking("nli", "pairs").post("/v1/zero-shot", json={**body, "template": "it"}).json()
    assert wrong["error"]["message"] == (
        "the template is 'it'; the label goes where {} stands in it; write it."
    )


def test_several_models_are_told_apart_by_the_body(asking, models):
    client = asking("answerer", "classifier", "gpt2", "nli")
    assert "answer" in post(client, QUESTION)
    assert post(client, TEXT, parameters={"function_to_apply": "softmax"})[0][0]["label"]
    assert post(client, TEXT, parameters={"candidate_labels": ["a"]})[0]["score"]
    assert post(client, TEXT, parameters={"max_new_tokens": 3})[0]["generated_text"]
    refused = client.post("/", json={"inputs": TEXT})
    assert refused.status_code == 404
    assert refused.json()["error"] == (
        "inputs could be for classifier (text-classification), gpt2 (text-generation); name one "
        "with the field model, or the task with the address: /pipeline/TASK."
    )
    assert post(client, TEXT, model="classifier")[0][0]["label"]
    assert post(client, TEXT, path="/pipeline/text-classification")[0][0]["label"]


def test_refusals_are_sentences_of_the_dialect(asking):
    client = asking("classifier")

    def refused(status=422, **body):
        answer = client.post("/", json={"inputs": TEXT, **body})
        assert answer.status_code == status and set(answer.json()) == {"error", "error_type"}
        return answer.json()["error"]

    assert refused(parameters={"topk": 3}).startswith("parameters has topk, which no task has;")
    assert refused(parameters={"top_k": 0}).startswith("parameters.top_k cannot be used: Input")
    assert refused(parameters={"targets": [], "stride": 2}).startswith("parameters has parameters")
    assert "gpt" not in refused(404, parameters={"max_new_tokens": 3})
    assert refused(404, model="other").startswith("model is 'other'; this server has 1 model")
    wrong = asking("gpt2").post("/", json={"inputs": TEXT, "parameters": {"watermark": True}})
    assert wrong.json()["error_type"] == "validation"
    assert wrong.json()["error"].startswith("parameters.watermark is True; this server does not")


def test_every_example_works(asking):
    client = asking("answerer", "classifier", "gpt2", "nli", "bert", "tagger")
    for endpoint in [*hub_endpoints()[1:], *zero_shot_endpoints()]:
        for body in endpoint.examples.values():
            answer = client.post(endpoint.path, json=body)
            assert answer.status_code == 200, (endpoint.path, answer.text)
