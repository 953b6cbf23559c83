"""The packages openai and langchain-openai, as they are published, get what Python gets.

`make clients` installs them. The server speaks all dialects at once.
"""

import dataclasses

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.serve.limits import Keys, ServerLimits, digest

pytestmark = pytest.mark.parity
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}<|endoftext|>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TEXTS = ["the cat sat", "a dog", "the dog lay in the garden of the house"]
KEY = "a-key-of-the-test"
BEGIN = """
import openai

texts = asked["texts"]
usual = {"base_url": asked["url"] + "/v1", "api_key": "a-key-of-the-test", "max_retries": 0}
client = openai.OpenAI(**usual)


def failed(call):
    try:
        call()
    except openai.APIError as error:
        return [type(error).__name__, getattr(error, "status_code", None), error.code, str(error)]


"""


@pytest.fixture(scope="module")
def models(tiny_models, writers):
    gpt2 = cw.load(writers["gpt2"])
    template = gpt2.tokenizer.with_chat_template(TEMPLATE)
    point = dataclasses.replace(gpt2.checkpoint, tokenizer=template)
    return {"bert": cw.load(tiny_models["bert"]), "gpt2": cw.LanguageModel(point, "gpt2")}


@pytest.fixture(scope="module")
def client(clients, models, serving):
    """Runs lines of Python in the environment of the packages and returns what they found."""
    with serving(models, keys=Keys([digest(KEY)])) as url:
        yield lambda lines, **asked: clients(BEGIN + lines, url=url, texts=TEXTS, **asked)


def test_vectors_by_either_encoding(client, models):
    found = client(
        """
import asyncio

usual_ones = client.embeddings.create(model="bert", input=texts)
listed = client.embeddings.create(model="bert", input=texts, encoding_format="float")
one = client.embeddings.create(model="bert", input=texts[0])
coded = client.embeddings.create(model="bert", input=texts, encoding_format="base64")
later = asyncio.run(openai.AsyncOpenAI(**usual).embeddings.create(model="bert", input=texts))
found["usual"] = [each.embedding for each in usual_ones.data]
found["listed"] = [each.embedding for each in listed.data]
found["later"] = [each.embedding for each in later.data]
found["coded"] = [each.embedding for each in coded.data]
found["one"] = [one.data[0].embedding]
found["usage"] = usual_ones.usage.total_tokens
"""
    )
    expected = models["bert"].embed(TEXTS)
    for name in ("usual", "listed", "later"):
        np.testing.assert_allclose(found[name], expected, atol=1e-6)
    np.testing.assert_allclose(found["usual"], found["listed"], atol=1e-6)
    assert all(isinstance(each, str) for each in found["coded"])
    np.testing.assert_allclose(found["one"], expected[:1], atol=1e-6)
    assert found["usage"] == sum(map(len, models["bert"].tokenizer.encode(TEXTS)))


def test_vectors_of_token_ids_and_of_all_dimensions(client, models):
    model = models["bert"]
    ids = [list(each.ids) for each in model.tokenizer.encode(TEXTS, special=False)]
    found = client(
        """
several = client.embeddings.create(model="bert", input=asked["ids"])
one = client.embeddings.with_raw_response.create(model="bert", input=asked["ids"][0])
wide = client.embeddings.create(model="bert", input=texts, dimensions=32)
found["several"] = [each.embedding for each in several.data]
found["one"] = [each.embedding for each in one.parse().data]
found["wide"] = [each.embedding for each in wide.data]
found["warning"] = one.headers["x-warning"]
""",
        ids=ids,
    )
    expected = model.embed(TEXTS)
    np.testing.assert_allclose(found["several"], expected, atol=1e-6)
    np.testing.assert_allclose(found["one"], expected[:1], atol=1e-6)
    np.testing.assert_allclose(found["wide"], expected, atol=1e-6)
    assert found["warning"].startswith("token ids were read as ids of bert's own vocabulary")


def test_completions_whole_and_as_they_come(client, models):
    found = client(
        """
asking = dict(model="gpt2", prompt=texts[:2], max_tokens=12, temperature=0)
whole = client.completions.create(**asking, logprobs=2, echo=True)
chunks = list(client.completions.create(
    **asking, stream=True, stream_options={"include_usage": True}
))
streamed = ["", ""]
for chunk in chunks[:-1]:
    streamed[chunk.choices[0].index] += chunk.choices[0].text
found["whole"] = [each.text for each in whole.choices]
found["streamed"] = streamed
found["logs"] = [each.logprobs.token_logprobs for each in whole.choices]
found["usage"] = [whole.usage.total_tokens, chunks[-1].usage.total_tokens]
found["reasons"] = [each.finish_reason for each in whole.choices]
"""
    )
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


def test_completions_of_token_ids_and_those_that_stop(client, models):
    model = models["gpt2"]
    usual = model.generate(TEXTS[0], max_new_tokens=12).text
    stop = usual[3:6]
    found = client(
        """
asking = dict(model="gpt2", max_tokens=12, temperature=0)
found["ids"] = client.completions.create(prompt=asked["ids"], **asking).choices[0].text
stopped = dict(prompt=texts[0], stop=["never there", asked["stop"]], **asking)
whole = client.completions.create(**stopped)
found["stopped"] = [whole.choices[0].text, whole.choices[0].finish_reason]
chunks = list(client.completions.create(**stopped, stream=True))
parts = [each.choices[0].text for each in chunks]
found["parts"] = ["".join(parts), chunks[-1].choices[0].finish_reason]
""",
        ids=list(model.tokenizer.encode([TEXTS[0]])[0].ids),
        stop=stop,
    )
    assert found["ids"] == usual
    assert found["stopped"] == found["parts"] == [usual[: usual.index(stop)], "stop"]


def test_several_completions_are_drawn_by_their_seed(client, models):
    found = client(
        """
asking = dict(
    model="gpt2", prompt=texts[:2], max_tokens=8, temperature=1.3, top_p=0.9, seed=5, n=3
)
whole = client.completions.create(**asking)
found["indexes"] = [each.index for each in whole.choices]
found["texts"] = [each.text for each in whole.choices]
found["again"] = [each.text for each in client.completions.create(**asking).choices]
streamed = [""] * 6
for chunk in client.completions.create(**asking, stream=True):
    streamed[chunk.choices[0].index] += chunk.choices[0].text
found["streamed"] = streamed
"""
    )
    drawn = models["gpt2"].generate(
        TEXTS[:2], max_new_tokens=8, temperature=1.3, top_p=0.9, seed=5, num_return_sequences=3
    )
    expected = [text.text for each in drawn for text in each]
    assert found["indexes"] == [0, 1, 2, 3, 4, 5]
    assert found["texts"] == found["again"] == found["streamed"] == expected
    assert len(set(expected)) > 2


def test_chats_whole_and_as_they_come(client, models):
    found = client(
        """
asking = dict(
    model="gpt2", messages=[{"role": "user", "content": "the cat"}], temperature=0,
    max_completion_tokens=10,
)
whole = client.chat.completions.create(**asking, logprobs=True, top_logprobs=2)
chunks = list(client.chat.completions.create(
    **asking, stream=True, stream_options={"include_usage": True}
))
found["whole"] = whole.choices[0].message.content
found["logs"] = [each.logprob for each in whole.choices[0].logprobs.content]
found["streamed"] = "".join(each.choices[0].delta.content or "" for each in chunks[:-1])
found["usage"] = [whole.usage.total_tokens, chunks[-1].usage.total_tokens]
found["others"] = [len(each.top_logprobs) for each in whole.choices[0].logprobs.content]
"""
    )
    expected = models["gpt2"].generate("the cat", chat=True, max_new_tokens=10)
    assert found["whole"] == found["streamed"] == expected.text
    assert found["logs"] == pytest.approx([each.log for each in expected.tokens], abs=1e-5)
    assert found["usage"][0] == found["usage"][1]
    assert set(found["others"]) == {2}


def test_errors_are_the_packages_own(client):
    found = client(
        """
stranger = openai.OpenAI(**{**usual, "api_key": "another"})
found["empty"] = failed(lambda: client.embeddings.create(model="bert", input=["a", ""]))
found["unknown"] = failed(lambda: client.embeddings.create(model="ada", input="a"))
found["narrow"] = failed(lambda: client.embeddings.create(model="bert", input="a", dimensions=8))
found["unable"] = failed(lambda: client.completions.create(model="bert", prompt="a"))
found["hot"] = failed(lambda: client.completions.create(model="gpt2", prompt="a", temperature=-1))
found["late"] = failed(lambda: list(client.completions.create(
    model="gpt2", prompt="the cat " * 90, stream=True
)))
found["stranger"] = failed(lambda: stranger.models.list())
found["listed"] = [[each.id, each.object, each.owned_by] for each in client.models.list()]
"""
    )
    empty, unknown, narrow = found["empty"], found["unknown"], found["narrow"]
    assert empty[:3] == ["BadRequestError", 400, None]
    assert "input[1] is empty; a vector needs at least one word" in empty[3]
    assert unknown[:3] == ["NotFoundError", 404, "model_not_found"]
    assert narrow[0] == "BadRequestError" and "at 32 dimensions, as it was trained" in narrow[3]
    assert found["unable"][0] == "NotFoundError" and "bert cannot generate" in found["unable"][3]
    assert found["hot"][0] == "BadRequestError" and "temperature" in found["hot"][3]
    assert found["late"][0] == "BadRequestError" and "tokens" in found["late"][3]
    assert found["stranger"][:3] == ["AuthenticationError", 401, "invalid_api_key"]
    assert found["listed"] == [["bert", "model", "clozeworks"], ["gpt2", "model", "clozeworks"]]


def test_limits_are_the_packages_own_errors(clients, models, serving):
    """One request may be answered at a time, and it is one whose body never comes."""
    limits = ServerLimits(requests=1, body_bytes=500)
    with serving({"bert": models["bert"]}, limits=limits) as url:
        found = clients(
            BEGIN
            + """
import socket, time

ask = lambda text: failed(lambda: client.embeddings.create(model="bert", input=text))
found["large"] = ask("the cat " * 100)
host, port = asked["url"].removeprefix("http://").split(":")
head = ["POST /v1/embeddings HTTP/1.1", "Host: x", "Content-Length: 9", ""]
until = time.monotonic() + 20
while found.get("busy") is None and time.monotonic() < until:
    with socket.create_connection((host, int(port))) as slow:
        slow.sendall("\\r\\n".join([*head, "", "{"]).encode())
        time.sleep(0.2)
        found["busy"] = ask("the cat")
""",
            url=url,
            texts=TEXTS,
        )
    assert found["large"][:2] == ["APIStatusError", 413]
    assert "larger than 500 bytes" in found["large"][3]
    assert found["busy"][:3] == ["RateLimitError", 429, "rate_limit_exceeded"]


LANGCHAIN = """
from langchain_openai import ChatOpenAI, OpenAI, OpenAIEmbeddings

"""


def test_langchain(client, models):
    found = client(
        LANGCHAIN
        + """
import asyncio

embeddings = OpenAIEmbeddings(model="bert", check_embedding_ctx_length=False, **usual)
written = OpenAI(model="gpt2", temperature=0, max_tokens=9, **usual)
chat = ChatOpenAI(model="gpt2", temperature=0, max_tokens=9, **usual)
found["documents"] = embeddings.embed_documents(texts)
found["later"] = asyncio.run(embeddings.aembed_documents(texts))
found["query"] = embeddings.embed_query(texts[0])
found["empty"] = failed(lambda: embeddings.embed_documents(["the cat", ""]))
found["text"] = written.invoke("the cat")
found["streamed"] = "".join(written.stream("the cat"))
found["chat"] = chat.invoke("the cat").content
found["chunks"] = "".join(each.content for each in chat.stream("the cat"))
"""
    )
    expected = models["bert"].embed(TEXTS)
    np.testing.assert_allclose(found["documents"], expected, atol=1e-6)
    np.testing.assert_allclose(found["later"], expected, atol=1e-6)
    np.testing.assert_allclose(found["query"], expected[0], atol=1e-6)
    assert found["empty"][0] == "BadRequestError" and "input[1] is empty" in found["empty"][3]
    text = models["gpt2"].generate("the cat", max_new_tokens=9).text
    assert found["text"] == found["streamed"] == text
    answer = models["gpt2"].generate("the cat", chat=True, max_new_tokens=9).text
    assert found["chat"] == found["chunks"] == answer


@pytest.mark.parametrize(
    ("ids", "sentence"),
    [("unknown", "so another tokenizer made it"), ("parts of words", "that no text has")],
)
def test_langchain_with_ids_of_another_tokenizer_is_told_what_to_set(client, models, ids, sentence):
    """As it usually is, it sends token ids of a tokenizer of its own.

    The tokenizer here has a token for each letter; those of OpenAI would have to be downloaded.
    """
    own = models["bert"].tokenizer
    parts = [each for each in range(own.size) if own.token_of(each).startswith("##")]
    letters = sorted({*"".join(TEXTS)})
    ranks = dict(
        zip(letters, parts if ids == "parts of words" else range(100_000, 100_100), strict=False)
    )
    assert len(ranks) == len(letters)
    found = client(
        LANGCHAIN
        + """
import tiktoken

ranks = {letter.encode(): rank for letter, rank in asked["ranks"].items()}
own = tiktoken.Encoding("own", pat_str=r"\\S+|\\s+", mergeable_ranks=ranks, special_tokens={})
tiktoken.get_encoding = tiktoken.encoding_for_model = lambda name: own
embeddings = OpenAIEmbeddings(model="bert", **usual)
found["documents"] = failed(lambda: embeddings.embed_documents(texts))
found["query"] = failed(lambda: embeddings.embed_query(texts[0]))
""",
        ranks=ranks,
    )
    for told in found.values():
        assert told[:2] == ["BadRequestError", 400] and sentence in told[3]
        assert "OpenAIEmbeddings(check_embedding_ctx_length=False)" in told[3]
