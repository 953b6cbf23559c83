"""What a page is told so that it can ask a model that it does not know, and show what it says."""

import json
import math

import pytest

from clozeworks.tasks.task import command_name, task_classes

EVERYTHING = ("spam", "pairs", "ner", "qa", "bert", "gpt2", "t5")


@pytest.fixture(scope="module")
def client(asking):
    with asking(*EVERYTHING) as client:
        yield client


@pytest.fixture(scope="module")
def models(client):
    return {each["name"]: each for each in client.get("/v1/abilities").json()["models"]}


def events(response):
    lines = [line for line in response.text.split("\n") if line.startswith("data: ")]
    return [json.loads(line[6:]) for line in lines]


def test_every_ability_has_a_form(models):
    for model in models.values():
        assert list(model["forms"]) == model["abilities"]
        for ability, form in model["forms"].items():
            assert form["path"] == f"/v1/{ability}" and form["kind"]
    named = {command_name(kind) for kind in task_classes()}
    shown = {ability for model in models.values() for ability in model["forms"]}
    assert named <= shown


def test_the_form_of_a_task_says_what_it_takes(models):
    form = models["qa"]["forms"]["answer"]
    assert form["kind"] == "task" and form["title"] and form["summary"]
    fields = {each["name"]: each for each in form["inputs"]}
    assert fields["question"]["kind"] == fields["context"]["kind"] == "text"
    assert fields["question"]["required"] and fields["question"]["example"]
    assert "passage" in fields["context"]["columns"]
    assert not fields["id"]["required"]
    options = {each["name"]: each for each in form["options"]}
    assert options["top"]["type"] == "integer" and options["threshold"]["help"]
    assert models["spam"]["forms"]["classify"]["labels"] == ["bad", "good"]
    assert [each["name"] for each in models["ner"]["forms"]["tag"]["inputs"]] == ["text"]


def test_forms_without_a_task(models):
    assert models["bert"]["forms"]["fill"]["mask"] == "[MASK]"
    assert models["bert"]["forms"]["fill"]["vocabulary"] > 100
    assert models["gpt2"]["forms"]["generate"]["chat"] is False
    assert models["bert"]["reads"] == ["en"]
    assert models["gpt2"]["reads"] == ["en", "zh"]  # bytes


@pytest.mark.parametrize("name", ["spam", "pairs", "ner", "qa"])
def test_what_a_form_says_can_be_asked_and_is_shown(client, models, name):
    ability = models[name]["task"]
    form = models[name]["forms"][ability]
    inputs = {each["name"]: each["example"] for each in form["inputs"] if each["required"]}
    body = {"model": name, "inputs": inputs, "show": True}
    answer = client.post(form["path"], json=body).json()
    shown = answer["shown"]
    assert shown["headline"] or shown["marked"]["text"] == inputs["text"]
    for mark in (shown["marked"] or {"marks": []})["marks"]:
        assert 0 <= mark["begin"] < mark["end"] <= len(shown["marked"]["text"])
    if name in ("spam", "pairs"):
        assert shown["headline"] == answer["outputs"]["label"]
        assert dict(shown["scores"]) == pytest.approx(answer["outputs"]["scores"])
        assert shown["scores"][0][1] >= shown["scores"][-1][1]
    several = client.post(form["path"], json={**body, "inputs": [inputs, inputs]}).json()
    assert len(several["shown"]) == 2 and several["shown"][0]["headline"] == shown["headline"]
    plain = client.post(form["path"], json={"model": name, "inputs": inputs}).json()
    assert "shown" not in plain


# Texts that are written.


def streamed(client, **body):
    settings = {"model": "gpt2", "max_new_tokens": 6, "stream": True, "show": True}
    response = client.post("/v1/generate", json={**settings, **body})
    assert response.status_code == 200, response.text
    begin, *rest, end = events(response)
    assert end["usage"]["output_tokens"] > 0
    return begin, rest


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_tokens_come_with_their_texts_and_alternatives(client, name):
    begin, chunks = streamed(client, model=name, inputs="the cat", top_logprobs=3)
    assert begin["prompts"] == ["the cat"] and begin["input_tokens"][0] > 0
    tokens = [token for chunk in chunks for token in chunk["tokens"]]
    whole = chunks[-1]["whole"]
    assert [each["token"] for each in tokens] == [each["text"] for each in whole["tokens"]]
    for token in tokens:
        assert len(token["others"]) == 3 and token["others"][0]["token"] == token["token"]
        assert token["log"] == pytest.approx(token["others"][0]["log"])
        assert sum(math.exp(each["log"]) for each in token["others"]) <= 1 + 1e-6


@pytest.mark.parametrize("name", ["gpt2", "t5"])
def test_a_text_goes_on_from_another_token(client, name):
    _, chunks = streamed(client, model=name, inputs="the cat", top_logprobs=2)
    tokens = [token for chunk in chunks for token in chunk["tokens"]]
    other = tokens[1]["others"][1]
    chosen = [tokens[0]["token"], other["token"]]
    _, again = streamed(client, model=name, inputs="the cat", top_logprobs=2, first_tokens=chosen)
    fresh = [token for chunk in again for token in chunk["tokens"]]
    assert [each["token"] for each in fresh[:2]] == chosen
    assert fresh[1]["log"] == pytest.approx(other["log"], abs=1e-4)  # the model's own
    wrong = client.post(
        "/v1/generate", json={"model": name, "inputs": "the", "first_tokens": ["no such entry"]}
    )
    assert wrong.status_code == 422
    assert "the vocabulary has no such entry" in wrong.json()["error"]["message"]


def test_a_chat_is_shown_as_the_model_reads_it(asking, writers):
    import clozeworks as cw
    from clozeworks.serve.models import ServedModel

    chat = cw.load(writers["gpt2"])
    template = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    chat.checkpoint.tokenizer = chat.tokenizer.with_chat_template(template)
    with asking(served=[ServedModel("chat", chat)]) as client:
        assert client.get("/v1/abilities").json()["models"][0]["forms"]["generate"]["chat"]
        messages = [{"role": "user", "content": "the cat"}]
        begin, chunks = streamed(client, model="chat", messages=messages)
        assert begin["prompts"] == ["user: the cat\nassistant:"]
        body = {"messages": messages, "max_new_tokens": 6}
        plain = client.post("/v1/generate", json=body).json()
        assert plain["outputs"]["text"] == chunks[-1]["whole"]["text"]


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "inputs or messages must be given"),
        ({"inputs": "a", "messages": [{"role": "user", "content": "b"}]}, "and not both"),
        ({"inputs": "a", "show": True}, "show is for streams"),
        ({"messages": [{"role": "user", "content": "b"}]}, "has no chat template"),
    ],
)
def test_what_cannot_be_written_gets_a_sentence(client, body, sentence):
    answer = client.post("/v1/generate", json={"model": "gpt2", **body})
    assert answer.status_code == 422 and sentence in answer.json()["error"]["message"]


# Gaps, and passages of documents.


def test_each_candidate_comes_with_the_text_that_it_makes(client):
    body = {"model": "bert", "inputs": "the [MASK] sat on the [MASK]", "top": 3, "show": True}
    answer = client.post("/v1/fill", json=body).json()
    first, second = answer["shown"]
    words = [[each["word"] for each in gap] for gap in answer["outputs"]["gaps"]]
    assert words[0][0] in first[0] and first[0].endswith("sat on the [MASK]")
    assert second[2].startswith("the [MASK] sat on the") and words[1][2].strip("#") in second[2]
    assert "shown" not in client.post("/v1/fill", json={**body, "show": False}).json()


def test_passages_stand_in_their_documents(asking, language_models, tiny_models, tmp_path):
    import clozeworks as cw
    from clozeworks.serve.models import ServedModel

    text = "The cat sat on the mat. " * 200
    index = cw.Index.build([text], tiny_models["bert"], tmp_path / "index")
    with asking(served=[ServedModel("documents", index=index)]) as client:
        assert client.get("/v1/abilities").json()["models"][0]["forms"]["search"]["documents"] == 1
        answer = client.post("/v1/search", json={"inputs": "a cat", "show": True}).json()
        (hit,), (around,) = answer["outputs"], answer["shown"]
        assert around["before"] == text[max(0, hit["begin"] - 300) : hit["begin"]]
        assert around["after"] == text[hit["end"] : hit["end"] + 300]
        assert around["before"] or around["after"]
