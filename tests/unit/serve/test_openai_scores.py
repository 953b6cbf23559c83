"""Scores, labels and tokens in the words of vLLM and infinity."""

import dataclasses

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.serve.dialects.openai import openai_endpoints
from clozeworks.serve.models import ServedModel
from clozeworks.tasks.rerank.task import Rerank

SOURCE = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant>"


@pytest.fixture(scope="module")
def reranker(tiny_models):
    return cw.load(tiny_models["bert"]).for_task(Rerank())


@pytest.fixture(scope="module")
def client(asking, reranker):
    served = [ServedModel("rerank", reranker)]
    names = ("bert", "spam", "gpt2", "ner")
    with asking(*names, endpoints=openai_endpoints(), served=served) as client:
        yield client


def ask(client, path, status=200, **body):
    response = client.post(path, json=body)
    assert response.status_code == status, response.text
    return response.json() if status == 200 else response.json()["error"]["message"]


@pytest.mark.parametrize("path", ["/score", "/v1/score"])
def test_scores_of_a_reranker(client, reranker, path):
    texts = ["a dog", "the cat sat", "a dog"]
    found = ask(client, path, model="rerank", text_1="the cat", text_2=texts)
    ranked = {each.index: each.score for each in reranker.rerank("the cat", texts)}
    assert [each["index"] for each in found["data"]] == [0, 1, 2]
    assert [each["score"] for each in found["data"]] == pytest.approx(
        [ranked[n] for n in range(3)], abs=1e-6
    )
    assert {each["object"] for each in found["data"]} == {"score"}
    assert found["usage"]["prompt_tokens"] > 0
    queries = ["the cat", "a hen", "the cat"]
    each_own = ask(client, path, model="rerank", text_1=queries, text_2=texts)
    for query, text, scored in zip(queries, texts, each_own["data"], strict=True):
        assert scored["score"] == pytest.approx(reranker.rerank(query, [text])[0].score, abs=1e-6)


def test_scores_of_vectors_are_cosines(client, language_models):
    texts = ["a dog", "the cat"]
    found = ask(client, "/score", model="bert", text_1="the cat", text_2=texts)["data"]
    expected = language_models["bert"].similarity("the cat", texts, kind="cosine")[0]
    np.testing.assert_allclose([each["score"] for each in found], expected, atol=1e-6)
    long = "the cat " * 600
    assert "tokens" in ask(client, "/score", 400, model="bert", text_1="a", text_2=long)
    cut = {"model": "bert", "text_1": "a", "text_2": long, "truncate_prompt_tokens": -1}
    assert ask(client, "/score", **cut)["data"]


def test_pairs_that_do_not_fit(client):
    sentence = "text_1 has 2 texts and text_2 3; each needs its partner; give one text_1 for all"
    body = {"model": "bert", "text_1": ["a", "b"], "text_2": ["a", "b", "c"]}
    assert ask(client, "/score", 400, **body).startswith(sentence)
    assert ask(client, "/score", 400, model="bert", text_1="a", text_2=[])
    assert "cannot embed" in ask(client, "/score", 404, model="ner", text_1="a", text_2="b")


def test_labels_in_two_shapes(asking, client, language_models):
    model, texts = language_models["spam"], ["the cat", "a dog"]
    expected = model.classify(texts)
    found = ask(client, "/classify", model="spam", input=texts)["data"]
    for number, (each, known) in enumerate(zip(found, expected, strict=True)):
        assert (each["index"], each["label"], each["num_classes"]) == (number, known.label, 2)
        assert each["probs"] == pytest.approx([known.scores["bad"], known.scores["good"]], abs=1e-6)
    with asking("spam", endpoints=openai_endpoints()) as alone:
        body = {"input": texts, "raw_scores": False, "model": "default/not-specified"}
        other = ask(alone, "/classify", **body)
    assert other["object"] == "classify"
    for each, known in zip(other["data"], expected, strict=True):
        assert each[0]["label"] == known.label and each[0]["score"] >= each[1]["score"]
        scores = {one["label"]: one["score"] for one in each}
        assert scores == pytest.approx(known.scores, abs=1e-6)
    raw = ask(client, "/classify", model="spam", input=texts[0], raw_scores=True)["data"][0]
    logits = dict(zip(("bad", "good"), model.logits(texts[0]).logits.tolist(), strict=True))
    assert {one["label"]: one["score"] for one in raw} == pytest.approx(logits, abs=1e-5)
    assert ask(client, "/classify", 400, model="spam", input=[]).startswith("input is empty")
    body = {"model": "spam", "input": [], "raw_scores": False}
    refused = client.post("/classify", json=body)
    assert refused.status_code == 422
    assert refused.json()["detail"][0]["msg"].startswith("input is empty")


def test_texts_to_tokens_and_back(client, language_models):
    tokenizer = language_models["gpt2"].tokenizer
    found = ask(client, "/tokenize", prompt="the cat", add_special_tokens=False)
    ids = tokenizer.encode(["the cat"], special=False)[0].ids
    assert (found["tokens"], found["count"], found["max_model_len"]) == (ids, len(ids), 96)
    assert found["token_strs"] is None
    assert ask(client, "/detokenize", tokens=ids) == {"prompt": "the cat"}
    assert ask(client, "/detokenize", tokens=[]) == {"prompt": ""}
    assert "the token id 99,999;" in ask(client, "/detokenize", 400, tokens=[99_999])
    bert = ask(client, "/tokenize", model="bert", prompt="the cat", return_token_strs=True)
    assert bert["token_strs"][0] == "[CLS]" and bert["token_strs"][-1] == "[SEP]"
    assert "prompt or messages" in ask(client, "/tokenize", 400, model="bert")


def test_the_tokenizer_describes_itself(asking, client, language_models):
    info = client.get("/tokenizer_info").json()
    assert info["eos_token"] == "<|endoftext|>" and info["chat_template"] is None
    assert info["model"] == "gpt2" and info["model_max_length"] == 96
    model = language_models["gpt2"]
    point = dataclasses.replace(
        model.checkpoint, tokenizer=model.tokenizer.with_chat_template(SOURCE)
    )
    served = [ServedModel("chat", cw.LanguageModel(point, "chat"))]
    with asking(endpoints=openai_endpoints(), served=served) as chat:
        assert chat.get("/tokenizer_info").json()["chat_template"] == SOURCE
        messages = [{"role": "user", "content": "the cat"}]
        found = ask(chat, "/tokenize", messages=messages)
        expected = model.tokenizer.encode(["<user>the cat<assistant>"], special=False)[0].ids
        assert found["tokens"] == expected
    with asking("gpt2", "t5", endpoints=openai_endpoints()) as two:
        response = two.get("/tokenizer_info")
        assert response.status_code == 404
        assert "gpt2, t5 could be meant" in response.json()["error"]["message"]


def test_a_harness_gets_the_likelihoods_of_continuations(client, language_models):
    """What lm-eval sends and how it reads the answer."""
    model, pairs = language_models["gpt2"], []
    for context, continuation in [("the cat", " is good"), ("a dog", " no"), ("yes", " the hen")]:
        ids = [ask(client, "/tokenize", prompt=text, add_special_tokens=False)["tokens"]
               for text in (context, continuation)]  # fmt: skip
        pairs.append((context, continuation, *ids))
    body = {
        "model": "gpt2", "prompt": [[*before, *after] for _, _, before, after in pairs],
        "temperature": 0, "max_tokens": 1, "logprobs": 1, "seed": 1234, "echo": True,
    }  # fmt: skip
    choices = ask(client, "/v1/completions", **body)["choices"]
    for choice, (context, continuation, before, after) in zip(choices, pairs, strict=True):
        read = choice["logprobs"]["token_logprobs"][len(before) : -1]
        top = choice["logprobs"]["top_logprobs"][len(before) : -1]
        assert len(read) == len(after)
        scored = model.score(context, continuation)
        assert read == pytest.approx(scored.logprobs, abs=1e-5)
        is_greedy = all(log == max(each.values()) for log, each in zip(read, top, strict=True))
        likeliest = model.generate(context, max_new_tokens=len(after))
        assert is_greedy == (likeliest.text == continuation)
    # The likeliest continuation is seen as such.
    written = model.generate("the cat", max_new_tokens=3)
    before = model.writer().encode(["the cat"])[0]
    following = [model.tokenizer.id_of(token.text) for token in written.tokens]
    body["prompt"] = [[*before, *following]]
    (choice,) = ask(client, "/v1/completions", **body)["choices"]
    read = choice["logprobs"]["token_logprobs"][len(before) : -1]
    top = choice["logprobs"]["top_logprobs"][len(before) : -1]
    assert all(log == max(each.values()) for log, each in zip(read, top, strict=True))
