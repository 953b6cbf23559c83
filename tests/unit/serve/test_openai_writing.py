"""Completions and chats: the same texts as in Python, whole and as they come, and their tokens."""

import dataclasses
import json

import pytest

import clozeworks as cw
from clozeworks.serve.dialects.openai import openai_endpoints
from clozeworks.serve.models import ServedModel

TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
PROMPTS = ["the cat", "a dog is good", "the hen and the fox", "translate : yes"]


@pytest.fixture(scope="module")
def chatting(language_models):
    model = language_models["gpt2"]
    template = model.tokenizer.with_chat_template(TEMPLATE)
    return cw.LanguageModel(dataclasses.replace(model.checkpoint, tokenizer=template), "chat")


@pytest.fixture(scope="module")
def client(asking, chatting):
    served = [ServedModel("chat", chatting)]
    with asking("gpt2", "t5", "bert", endpoints=openai_endpoints(), served=served) as client:
        yield client


@pytest.fixture
def ask(client):
    """Posts a body and returns what came, as an object or, of a stream, as a list of them."""

    def asked(body, path="/v1/completions", status=200):
        body = {"model": "chat" if "messages" in body else "gpt2", "temperature": 0, **body}
        if body.get("stream") and status == 200:
            with client.stream("POST", path, json=body) as response:
                lines = [line for line in response.iter_lines() if line]
            assert response.status_code == 200 and lines[-1] == "data: [DONE]"
            return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]
        response = client.post(path, json=body)
        assert response.status_code == status, response.text
        return response.json() if status == 200 else response.json()["error"]["message"]

    return asked


def joined(events, field="text"):
    """The choices of a stream, put together."""
    texts, reasons, tokens = {}, {}, {}
    for event in events:
        for choice in event["choices"]:
            index = choice["index"]
            text = choice["text"] if field == "text" else choice["delta"].get("content") or ""
            texts[index] = texts.get(index, "") + text
            logprobs = choice["logprobs"] or {}
            tokens[index] = tokens.get(index, []) + logprobs.get("tokens", [])
            if choice["finish_reason"]:
                assert index not in reasons
                reasons[index] = choice["finish_reason"]
    return texts, reasons, tokens


def test_completions_are_those_of_generate(ask, language_models):
    model = language_models["gpt2"]
    found = ask({"prompt": PROMPTS, "max_tokens": 12})
    assert found["object"] == "text_completion" and found["id"].startswith("cmpl-")
    expected = model.generate(PROMPTS, max_new_tokens=12)
    assert [each["text"] for each in found["choices"]] == [each.text for each in expected]
    assert [each["index"] for each in found["choices"]] == [0, 1, 2, 3]
    assert all(each["logprobs"] is None for each in found["choices"])
    read = sum(map(len, model.writer().encode(PROMPTS)))
    written = sum(len(each.tokens) for each in expected)
    assert found["usage"] == {
        "prompt_tokens": read,
        "completion_tokens": written,
        "total_tokens": read + written,
    }
    one = ask({"prompt": PROMPTS[0]})["choices"]
    assert [each["text"] for each in one] == [model.generate(PROMPTS[0], max_new_tokens=16).text]


def test_drawn_texts(ask, language_models):
    drawn = {"temperature": 0.8, "top_p": 0.9, "top_k": 20, "min_p": 0.01, "seed": 5, "n": 3}
    found = ask({"prompt": PROMPTS[:2], "max_tokens": 9, **drawn})["choices"]
    settings = {key: value for key, value in drawn.items() if key != "n"}
    expected = language_models["gpt2"].generate(
        PROMPTS[:2], max_new_tokens=9, num_return_sequences=3, **settings
    )
    texts = [text.text for several in expected for text in several]
    assert [each["text"] for each in found] == texts
    # Without a seed no two answers are alike; without a temperature tokens are drawn, too.
    free = {"prompt": "the cat", "max_tokens": 24, "temperature": None}
    assert ask(free)["choices"][0]["text"] != ask(free)["choices"][0]["text"]
    off = {"top_p": 1, "top_k": -1, "min_p": 0, "repetition_penalty": 1.0, "logit_bias": {}}
    plain = ask({"prompt": "the cat", "presence_penalty": 0, "best_of": 1, "stop": [], **off})
    assert plain["choices"] == ask({"prompt": "the cat"})["choices"]
    penalties = {"presence_penalty": 1.5, "frequency_penalty": 0.5, "repetition_penalty": 1.3}
    punished = ask({"prompt": "the cat", **penalties})["choices"][0]["text"]
    assert (
        punished == language_models["gpt2"].generate("the cat", max_new_tokens=16, **penalties).text
    )


def test_prompts_of_token_ids_are_read_as_they_are(ask, client, language_models):
    model = language_models["gpt2"]
    ids = model.writer().encode(PROMPTS[:2])
    assert ask({"prompt": ids})["choices"] == ask({"prompt": PROMPTS[:2]})["choices"]
    assert ask({"prompt": ids[0]})["choices"] == ask({"prompt": PROMPTS[0]})["choices"]
    # Ids that no text has: the letters of a word one by one.
    letters = [model.tokenizer.id_of(each) for each in "the"]
    assert letters != model.tokenizer.encode(["the"])[0].ids
    found = ask({"prompt": letters, "echo": True, "max_tokens": 1, "logprobs": 1})
    assert found["usage"]["prompt_tokens"] == 3
    assert found["choices"][0]["logprobs"]["tokens"][:3] == ["t", "h", "e"]
    response = client.post("/v1/completions", json={"model": "gpt2", "prompt": letters})
    assert response.headers["x-warning"].startswith("token ids were read as ids of gpt2's own")
    assert "the token id 99,999;" in ask({"prompt": [99_999]}, status=400)


@pytest.mark.parametrize("prompt", PROMPTS)
@pytest.mark.parametrize("written", [0, 1, 4])
def test_an_echo_with_logprobs_is_what_score_says(ask, language_models, prompt, written):
    model = language_models["gpt2"]
    (choice,) = ask({"prompt": prompt, "echo": True, "logprobs": 2, "max_tokens": written})[
        "choices"
    ]
    found = choice["logprobs"]
    expected = model.score(prompt)
    ids = model.writer().encode([prompt])[0]
    assert len(found["tokens"]) == len(ids) + written
    assert found["token_logprobs"][0] is None and found["top_logprobs"][0] is None
    scored = found["token_logprobs"][1 : len(ids)]
    assert scored == pytest.approx(expected.logprobs, abs=1e-5)
    if not any(token.startswith("bytes:") for token in found["tokens"]):
        assert "".join(found["tokens"]) == choice["text"]
    generated = model.generate(prompt, max_new_tokens=written or 1, top_logprobs=2)
    assert choice["text"] == prompt + (generated.text if written else "")
    assert choice["finish_reason"] == "length"
    logs = [each.log for each in generated.tokens][:written]
    assert found["token_logprobs"][len(ids) :] == pytest.approx(logs, abs=1e-5)
    for token, begin in zip(found["tokens"], found["text_offset"], strict=True):
        assert token.startswith("bytes:") or choice["text"][begin:].startswith(token)
    for token, log, top in list(
        zip(found["tokens"], found["token_logprobs"], found["top_logprobs"], strict=True)
    )[1:]:
        # Harnesses see by equal numbers whether a token is the likeliest.
        assert 2 <= len(top) <= 3 and top[token] == log and max(top.values()) >= log
    logits = model.logits(prompt).logits[0]
    likeliest = model.tokenizer.decode([int(logits.argmax())])
    assert max(found["top_logprobs"][1], key=found["top_logprobs"][1].get) == likeliest


def test_one_token_more_needs_no_second_pass(asking, ask):
    body = {"prompt": PROMPTS, "temperature": 0, "echo": True, "logprobs": 1, "max_tokens": 1}
    with asking("gpt2", endpoints=openai_endpoints()) as client:
        quick = client.post("/v1/completions", json=body).json()
        assert client.answering.scheduler.steps == 0
    slow = ask({**body, "min_tokens": 1})
    assert quick["usage"] == slow["usage"]
    for one, other in zip(quick["choices"], slow["choices"], strict=True):
        assert (one["text"], one["finish_reason"]) == (other["text"], other["finish_reason"])
        numbers = [each["logprobs"].pop("token_logprobs")[1:] for each in (one, other)]
        assert numbers[0] == pytest.approx(numbers[1], abs=1e-5)
        tops = [each["logprobs"].pop("top_logprobs")[1:] for each in (one, other)]
        assert one["logprobs"] == other["logprobs"]
        for left, right in zip(*tops, strict=True):
            assert left == pytest.approx(right, abs=1e-5)


@pytest.mark.parametrize(
    "extra", [{}, {"echo": True}, {"logprobs": 2}, {"echo": True, "logprobs": 0}]
)
@pytest.mark.parametrize("n", [1, 3])
def test_chunks_are_the_whole(ask, extra, n):
    body = {"prompt": PROMPTS, "max_tokens": 14, "temperature": 1.2, "seed": 3, "n": n, **extra}
    whole = ask(body)["choices"]
    events = ask({**body, "stream": True})
    texts, reasons, tokens = joined(events)
    assert [texts[n] for n in range(len(whole))] == [each["text"] for each in whole]
    assert [reasons[n] for n in range(len(whole))] == [each["finish_reason"] for each in whole]
    assert "usage" not in events[-1]
    if "logprobs" in body:
        expected = [each["logprobs"]["tokens"] for each in whole]
        assert [tokens[n] for n in range(len(whole))] == expected
    counted = ask({**body, "stream": True, "stream_options": {"include_usage": True}})
    assert counted[-1]["choices"] == [] and counted[-1]["usage"] == ask(body)["usage"]
    assert all(each["usage"] is None for each in counted[:-1])


def test_a_stop_string_never_leaks(ask, language_models):
    plain = language_models["gpt2"].generate("the cat", max_new_tokens=24).text
    for begin in range(2, len(plain) - 6, 3):
        stop = plain[begin : begin + 5]
        body = {"prompt": "the cat", "max_tokens": 24, "stop": stop, "logprobs": 1}
        (whole,) = ask(body)["choices"]
        assert whole["text"] == plain[: plain.index(stop)] and whole["finish_reason"] == "stop"
        texts, reasons, tokens = joined(ask({**body, "stream": True, "stop": [stop, "\x00"]}))
        assert (texts[0], reasons[0]) == (whole["text"], "stop")
        assert tokens[0] == whole["logprobs"]["tokens"]
        assert "".join(tokens[0][:-1]) in whole["text"]
    both = ask({"prompt": "the cat", "max_tokens": 24, "stop": [plain[9:12], plain[4:7]]})
    assert both["choices"][0]["text"] == plain[: min(plain.index(plain[4:7]), 9)]


def test_a_part_of_a_character_is_its_bytes(ask, language_models):
    found = ask({"prompt": "the 我 cat", "echo": True, "logprobs": 0, "max_tokens": 0})["choices"]
    tokens = found[0]["logprobs"]["tokens"]
    parts = [token for token in tokens if token.startswith("bytes:")]
    assert parts == ["bytes:\\xe6", "bytes:\\x88", "bytes:\\x91"]
    assert found[0]["text"] == "the 我 cat"


def test_an_encoder_decoder_answers_and_has_no_scores_of_prompts(ask, language_models):
    body = {"model": "t5", "prompt": "translate : the cat", "max_tokens": 8}
    expected = language_models["t5"].generate("translate : the cat", max_new_tokens=8)
    assert ask(body)["choices"][0]["text"] == expected.text
    echoed = ask({**body, "echo": True})["choices"][0]["text"]
    assert echoed == "translate : the cat" + expected.text
    sentence = ask({**body, "echo": True, "logprobs": 1}, status=400)
    assert sentence.startswith("the tokens of a prompt have no likelihood with this model")


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"max_tokens": 0}, "max_tokens is 0; nothing would be written; raise it, or set echo."),
        ({"n": 2}, "n is 2 and temperature 0; without drawing all texts would be equal"),
        ({"best_of": 4}, "best_of is 4; all texts that are written are returned, 1 here"),
        ({"suffix": "."}, "suffix is given; texts are continued at their end alone"),
        ({"logit_bias": {"5": 1}}, "logit_bias is given; single tokens cannot be made likelier"),
        ({"logprobs": 21}, "logprobs cannot be used"),
        ({"stop": ""}, "stop is ['']; an empty string occurs everywhere"),
        ({"prompt": []}, "prompt is empty; there must be at least one text"),
        ({"prompt": [[]]}, "prompt[0] is empty; it must hold a token; add one."),
        ({"prompt": "the cat " * 60}, "prompt 1 has "),
        ({"temperature": -1}, "temperature cannot be used"),
        ({"model": "bert"}, "bert cannot generate"),
    ],
)
def test_what_cannot_be_continued(ask, fields, sentence):
    status = 404 if "model" in fields else 400
    told = ask({"prompt": "the cat", **fields}, status=status)
    assert told.startswith(sentence)
    assert ask({"prompt": "the cat", "stream": True, **fields}, status=status)


def test_long_prompts_are_cut_at_their_beginning_if_that_is_asked(ask, language_models):
    long = "the cat sat and a dog " * 30
    ids = language_models["gpt2"].tokenizer.encode([long])[0].ids
    found = ask({"prompt": long, "truncate_prompt_tokens": -1, "max_tokens": 6})
    assert found["usage"]["prompt_tokens"] == 96 - 6
    assert found["choices"] == ask({"prompt": list(ids[-90:]), "max_tokens": 6})["choices"]
    few = ask({"prompt": long, "truncate_prompt_tokens": 4, "max_tokens": 2, "echo": True})
    assert few["usage"]["prompt_tokens"] == 4
    assert few["choices"][0]["text"].startswith(language_models["gpt2"].tokenizer.decode(ids[-4:]))


# Chats.


CHAT = [
    {"role": "developer", "content": "the hen"},
    {
        "role": "user",
        "content": [{"type": "text", "text": "the cat"}, {"type": "text", "text": "a"}],
    },
]
WRITTEN = "<system>the hen<|endoftext|><user>the cat\na<|endoftext|><assistant>"


def test_chats_are_asked_with_the_template(ask, chatting, language_models):
    found = ask({"messages": CHAT, "max_completion_tokens": 10}, "/v1/chat/completions")
    expected = language_models["gpt2"].generate(WRITTEN, max_new_tokens=10)
    (choice,) = found["choices"]
    assert found["object"] == "chat.completion" and choice["message"]["role"] == "assistant"
    assert choice["message"]["content"] == expected.text and choice["logprobs"] is None
    read = len(chatting.tokenizer.encode([WRITTEN], special=False)[0])
    assert found["usage"]["prompt_tokens"] == read
    assert found["usage"]["completion_tokens"] == len(expected.tokens)
    said = chatting.generate("the cat", chat=True, max_new_tokens=10).text
    body = {"messages": [{"role": "user", "content": "the cat"}], "max_tokens": 10}
    assert ask(body, "/v1/chat/completions")["choices"][0]["message"]["content"] == said


def test_chunks_of_a_chat(ask):
    drawn = {"temperature": 1.1, "seed": 4, "n": 2, "logprobs": True, "top_logprobs": 2}
    body = {"messages": CHAT, "max_tokens": 12, **drawn}
    whole = ask(body, "/v1/chat/completions")
    body |= {"stream": True, "stream_options": {"include_usage": True}}
    events = ask(body, "/v1/chat/completions")
    assert {each["object"] for each in events} == {"chat.completion.chunk"}
    assert [each["choices"][0]["delta"] for each in events[:2]] == [
        {"role": "assistant", "content": ""}
    ] * 2
    texts, reasons, _ = joined(events, "delta")
    for choice in whole["choices"]:
        assert texts[choice["index"]] == choice["message"]["content"]
        assert reasons[choice["index"]] == choice["finish_reason"]
        content = [
            token
            for event in events
            for own in event["choices"]
            if own["index"] == choice["index"] and own["logprobs"]
            for token in own["logprobs"]["content"]
        ]
        assert content == choice["logprobs"]["content"]
        for token in content:
            assert bytes(token["bytes"]) and len(token["top_logprobs"]) == 2
            assert token["logprob"] < 0
    assert events[-1]["usage"] == whole["usage"] and events[-1]["choices"] == []


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"model": "gpt2"}, "messages cannot be written: gpt2 has no chat template; ask /v1/compl"),
        ({"messages": []}, "messages cannot be used"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "messages[0] has a part of type 'image_url'; models here read texts",
        ),
        ({"tools": [{}]}, "tools are given; models here call none; leave them out."),
        ({"response_format": {"type": "json_object"}}, "response_format is 'json_object'"),
        ({"top_logprobs": 2}, "top_logprobs is given without logprobs"),
    ],
)
def test_chats_that_cannot_be_answered(ask, fields, sentence):
    body = {"messages": CHAT, **fields}
    assert ask(body, "/v1/chat/completions", status=400).startswith(sentence)
