"""A model of a server answers as the same model does here."""

import asyncio
import dataclasses
import json
import threading
from unittest.mock import Mock

import numpy as np
import pytest

import clozeworks as cw
from clozeworks.data.labelled.bad_rows import BadRows
from clozeworks.errors import InputError, SettingError, UnknownName, UnsupportedError
from clozeworks.generate.settings import Generation
from clozeworks.serve.client import calls as remote_calls
from clozeworks.serve.client.calls import parts, relocated, settings_by_name
from clozeworks.serve.client.remote_model import AsyncRemoteModel, RemoteModel
from clozeworks.serve.models import UnknownModel
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify, TextItem
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.rerank.task import Rerank
from clozeworks.tasks.tag import Tag
from clozeworks.tasks.tagging.items import WordsItem
from clozeworks.tasks.text_to_text.items import ChatItem, SourceItem, Turn

TEXTS = ["the cat sat on the mat", "the dog", "a long day in the old city by the river " * 9]
PAIRS = [("the cat sat", "a dog lay"), ("the city", "the river")]
SETTINGS = {"max_new_tokens": 7, "sample": True, "seed": 4, "top_logprobs": 2}


@pytest.fixture(scope="module")
def models(tiny_models, writers):
    """Models by what they are for; none of two can do the same."""
    tasks = {
        "spam": Classify(labels=("bad", "good")),
        "pairs": Compare(labels=("other", "same")),
        "ner": Tag(labels=("O", "B-X", "I-X")),
        "qa": Answer(threshold=0.0),
        "ranks": Rerank(activation="sigmoid"),
    }
    made = {name: cw.load(tiny_models["bert"]).for_task(task) for name, task in tasks.items()}
    return made | {"bert": cw.load(tiny_models["bert"]), "gpt2": cw.load(writers["gpt2"])}


@pytest.fixture(scope="module")
def address(models, serving):
    with serving(models) as url:
        yield url


@pytest.fixture
def remote(address):
    """Connects to one of the models."""
    opened = []

    def connect(name=None, **options):
        opened.append(cw.connect(address, model=name, **options))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def alike(left, right):
    """Whether two results are equal, numbers up to rounding."""
    if isinstance(left, np.ndarray):
        return left.shape == right.shape and left.dtype == right.dtype and np.allclose(
            left, right, atol=1e-5
        )  # fmt: skip
    if isinstance(left, float):
        return type(right) is float and left == pytest.approx(right, abs=1e-5)
    if dataclasses.is_dataclass(left):
        fields = [each.name for each in dataclasses.fields(left) if each.compare]
        return type(left) is type(right) and all(
            alike(getattr(left, name), getattr(right, name)) for name in fields
        )
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(alike(left[key], right[key]) for key in left)
    if isinstance(left, tuple | list):
        return (
            type(left) is type(right) and len(left) == len(right) and all(map(alike, left, right))
        )
    return left == right


CALLS = {
    "spam": [
        lambda m: m.classify(TEXTS[0]),
        lambda m: m.classify(TEXTS),
        lambda m: m.classify([]),
        lambda m: m.predict([TextItem("the cat"), "the dog", {"review": "a day"}]),
        lambda m: m.predict({"review": TEXTS}, "classify", columns={"text": "review"}),
    ],
    "pairs": [
        lambda m: m.compare(*PAIRS[0]),
        lambda m: m.compare(PAIRS[0]),
        lambda m: m.compare(PAIRS),
        lambda m: m.compare(["the cat", "a dog"], ["the city", "a mat"]),
        lambda m: m.predict([{"premise": "the cat", "hypothesis": "a mat"}]),
        lambda m: m.rerank("the cat", ["a dog", "the mat", "a dog"]),
    ],
    "ner": [
        lambda m: m.tag(TEXTS[0]),
        lambda m: m.tag(["the cat, sat", ["the", "dog"], "a long day"]),
        lambda m: m.tag(TEXTS, scheme="BIOES"),
        lambda m: m.predict([WordsItem.of_words(["the", "cat"]), WordsItem.of_text("a mat.")]),
    ],
    "qa": [
        lambda m: m.answer("the cat", TEXTS[2]),
        lambda m: m.answer(["the cat", "a day"], TEXTS[:2]),
        lambda m: m.answer([{"question": "the cat", "context": TEXTS[0]}]),
    ],
    "ranks": [
        lambda m: m.rerank("the cat", ["the dog", "the cat sat", "the dog", "a mat"]),
        lambda m: m.rerank("the cat", TEXTS, top=2),
        lambda m: m.predict([("the cat", "a mat"), {"query": "a", "document": ["cat", "dog"]}]),
    ],
    "bert": [
        lambda m: m.embed(TEXTS[0]),
        lambda m: m.embed(TEXTS, pooling=("mean", "max"), normalize=True),
        lambda m: m.embed(TEXTS, max_length=8, truncate=True, truncate_dim=6),
        lambda m: m.similarity(TEXTS, TEXTS[:2]),
        lambda m: m.similarity(m.embed(TEXTS[:2]), kind="dot"),
        lambda m: m.fill("the [MASK] sat"),
        lambda m: m.fill(["the [MASK] sat", "[MASK] dog [MASK]"], top=2, words=["cat", "dog"]),
    ],
    "gpt2": [
        lambda m: m.score(TEXTS[0]),
        lambda m: m.score(TEXTS, max_length=20, overlap=3),
        lambda m: m.score(TEXTS[:2], ["a cat", "a dog"]),
        lambda m: m.generate("the cat", max_new_tokens=5),
        lambda m: m.generate(TEXTS[:2], **SETTINGS),
        lambda m: m.generate("the cat", max_new_tokens=4, num_beams=3, num_return_sequences=2),
        lambda m: m.generate("a", settings=Generation.of(max_new_tokens=3, top_k=2, stop="the")),
        lambda m: m.text_to_text(["the cat", SourceItem("a dog", prefix="say: ")]),
        lambda m: m.predict([SourceItem("a"), ChatItem((Turn("user", "cat"),))], "text-to-text"),
        lambda m: m.text_to_text([{"role": "user", "content": "a cat"}]),
        lambda m: list(m.stream(TEXTS[:2], **SETTINGS)),
    ],
}  # fmt: skip
EACH = [pytest.param(name, call, id=f"{name}-{n}") for name in CALLS for n, call in enumerate(CALLS[name])]  # fmt: skip  # noqa: E501


@pytest.mark.parametrize(("name", "call"), EACH)
def test_results_are_those_of_the_model_here(remote, models, name, call):
    assert alike(call(remote(name)), call(models[name]))


@pytest.mark.parametrize("name", CALLS)
def test_the_async_client_gives_the_same(address, models, name):
    calls = {
        "spam": ("classify", TEXTS),
        "pairs": ("compare", PAIRS),
        "ner": ("tag", TEXTS),
        "qa": ("answer", [{"question": "the cat", "context": TEXTS[2]}]),
        "ranks": ("predict", [("the cat", "a mat")]),
        "bert": ("embed", TEXTS),
        "gpt2": ("score", TEXTS),
    }
    method, given = calls[name]

    async def ask():
        async with cw.connect_async(f"{address}#{name}") as model:
            both = await asyncio.gather(getattr(model, method)(given), model.task_for("classify"),
                                        return_exceptions=True)  # fmt: skip
            chunks = []
            if name == "gpt2":
                chunks = [chunk async for chunk in model.stream("the cat", max_new_tokens=5)]
            return both[0], chunks

    found, chunks = asyncio.run(ask())
    assert alike(found, getattr(models[name], method)(given))
    if chunks:
        assert alike(chunks, list(models[name].stream("the cat", max_new_tokens=5)))
        assert chunks[-1].so_far() == chunks[-1].whole


def test_both_clients_have_the_same_methods():
    ways = {"close"}

    def names(kind):
        return {name for name in dir(kind) if not name.startswith("_")} - ways

    assert names(RemoteModel) == names(AsyncRemoteModel)
    for name in names(RemoteModel) - {"models", "described", "search"}:
        assert callable(getattr(cw.LanguageModel, name)), name
        assert getattr(RemoteModel, name).__doc__


def test_options_of_a_task_are_the_servers(remote, models):
    found = remote("qa").answer("the cat", TEXTS[0], threshold=1e6, top=3)
    assert found.text and len(found.candidates) == 3
    assert not remote("qa").answer("the cat", TEXTS[0], threshold=-1e6).text
    assert len(remote("spam").classify("the cat", top=1).scores) == 1
    task = models["qa"].task
    assert remote("qa").task_for("answer") == task == remote("qa").task_for(Answer)
    assert remote("qa").predict([("the cat", TEXTS[0])], task)
    with pytest.raises(SettingError, match="task is set; the model of the server has other"):
        remote("qa").predict([("the cat", TEXTS[0])], dataclasses.replace(task, threshold=3.0))


def test_lists_are_sent_in_parts_and_joined(remote, models, monkeypatch):
    monkeypatch.setattr(remote_calls, "parts", lambda inputs, most: parts(inputs, 3))
    texts = [f"{text} {n}" for n in range(4) for text in TEXTS[:2]]
    calls = {
        "spam": lambda model, **how: model.classify(texts, **how),
        "bert": lambda model, **how: model.embed(texts, **how),
        "ranks": lambda model, **how: model.rerank("the cat", texts, top=5, **how),
        "gpt2": lambda model, **how: model.score(texts, texts, **how),
    }
    for name, call in calls.items():
        model, progress = remote(name), Mock()
        sent = Mock(side_effect=model._transport.send)
        monkeypatch.setattr(model._transport, "send", sent)
        found = call(model, progress=progress)
        assert alike(found, call(models[name]))
        assert sent.call_count == 3
        assert [each.args for each in progress.call_args_list] == [(3, 8), (6, 8), (8, 8)]


def test_parts_are_not_too_large():
    assert list(parts(["a"] * 5, 2)) == [["a", "a"], ["a", "a"], ["a"]]
    assert list(parts(["aa", "aaaa", "a", "a"], 9, 4)) == [["aa"], ["aaaa"], ["a", "a"]]
    assert list(parts([])) == []


def test_progress_and_cancelling(remote):
    seen, calls = [], []
    model = remote("bert")
    texts = [f"the cat {n}" for n in range(1100)]
    assert len(model.embed(texts, progress=lambda *counts: seen.append(counts))) == 1100
    assert seen == [(1000, 1100), (1100, 1100)]

    def cancelled():
        calls.append(1)
        return len(calls) > 1

    with pytest.raises(cw.ClozeworksError, match="cancelled"):
        model.embed(texts, cancelled=cancelled)


def test_a_bar_shows_progress(remote, capsys):
    remote("spam").classify(TEXTS, progress=True)


def test_messages_name_inputs_as_the_caller_does(remote):
    assert relocated("text 3 is too long; x.", 1000, None) == "text 1,003 is too long; x."
    assert relocated("item 2: no", 0, ["a.csv, row 8", "a.csv, row 9"]) == "a.csv, row 9: no"
    assert relocated("items are many", 5, None) == "items are many"
    bert = remote("bert")
    with pytest.raises(InputError, match=r"^notes, line 2 .*tokens"):
        bert.embed(["a", "cat " * 900], source_locations=["notes, line 1", "notes, line 2"])
    with pytest.raises(InputError, match=r"^text 1,001 .*tokens"):
        bert.embed(["a"] * 1000 + ["cat " * 900])


def test_what_cannot_be_asked_is_said(remote, address):
    with pytest.raises(UnknownModel, match="bert cannot classify: it can"):
        remote("bert").classify("a")
    with pytest.raises(UnknownModel, match="this server has 7 models"):
        remote("other").classify("a")
    with pytest.raises(UnsupportedError, match=f"{address} has no model that can search"):
        remote().described("search")
    with pytest.raises(UnsupportedError, match="use embed"):
        remote("bert").predict(["a"], "embed")
    with pytest.raises(UnsupportedError, match="was not trained for a task; name one"):
        remote("gpt2").predict(["a"])
    with pytest.raises(SettingError, match="batch_tokens is 8; a server makes its own batches"):
        remote("spam").classify("a", batch_tokens=8)
    with pytest.raises(UnknownName, match="An argument is 'progres'"):
        remote("spam").classify("a", progres=True)
    with pytest.raises(SettingError, match="settings is set; `stop` is given, too"):
        remote("gpt2").generate("a", settings=Generation(), stop="a")
    with pytest.raises(UnknownName, match="setting is 'max_tokens'"):
        remote("gpt2").stream("a", max_tokens=3)
    with pytest.raises(InputError, match="the text is empty"):
        remote("spam").classify(["a", " "])
    with pytest.raises(InputError, match=r"item 1: .* has words at places of its own"):
        remote("ner").predict([WordsItem("a,b", ((0, 1), (2, 3)))])
    with pytest.raises(InputError, match="each text needs a continuation"):
        remote("gpt2").score(["a"], "b")
    with pytest.raises(InputError, match="lone surrogate"):
        remote("bert").embed("a \ud800")
    with pytest.raises(InputError, match=r"prompt 1 .*positions"):
        remote("gpt2").stream("the cat " * 90)


def test_who_stops_reading_a_stream_closes_the_connection(remote, models):
    model = remote("gpt2")
    stream = model.stream("the cat", max_new_tokens=80)
    first = next(stream)
    assert first.so_far().text == first.text and first.so_far().finish_reason is None
    stream.close()
    assert list(stream) == []
    assert model.generate("the cat", max_new_tokens=2).finish_reason == "length"


def test_threads_share_a_client(remote, models):
    model, found = remote("spam"), {}

    def ask(number):
        found[number] = model.classify(TEXTS[number % 3])

    threads = [threading.Thread(target=ask, args=(n,)) for n in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    right = models["spam"].classify(TEXTS)
    assert all(alike(found[n], right[n % 3]) for n in range(8))


def test_a_lost_model_is_found_by_what_it_can(remote):
    described = {each.name: each for each in remote().models()}
    assert described["spam"].task == "classify" and "fill" in described["bert"].abilities
    assert remote().tag("the cat").tags and remote().fill("a [MASK]").gaps
    with pytest.raises(UnknownModel, match="model is missing; spam, "):
        remote().classify("a")


@pytest.mark.parametrize(
    "named",
    [
        {},
        {"max_new_tokens": 9, "stop": ("a", "b"), "bad_words": ("c",)},
        {"sample": True},
        {"temperature": 0.5, "top_k": 3, "seed": 9, "num_return_sequences": 2},
        {"num_beams": 4, "length_penalty": 0.5, "early_stopping": "never"},
        {"sample": True, "top_logprobs": 3, "repetition_penalty": 1.2},
    ],
)
def test_settings_have_names_again(named):
    settings = Generation.of(**named)
    written = json.loads(json.dumps(settings_by_name(settings)))
    assert Generation.of(**written) == settings


@pytest.mark.parametrize(
    "item",
    [
        WordsItem.of_words(["the", "cat"]),
        WordsItem.of_text("the cat, sat"),
        SourceItem("a", prefix="b: ", task="c"),
        SourceItem("a", prefix=""),
        ChatItem((Turn("user", "a"), Turn("assistant", "b"))),
    ],
)
def test_what_is_asked_makes_the_same_item(item):
    cells = json.loads(json.dumps(item.asked()))
    kind = type(item).asked_as(cells.keys(), has_lists=any(isinstance(c, list) for c in cells))
    assert kind.from_row(cells, "", BadRows()) == item


def test_connecting_brings_no_heavy_library(start):
    heavy = {"torch", "fastapi", "httpx", "pydantic"}
    code = (
        "import sys, clozeworks as cw; cw.connect('http://localhost:1'); "
        f"sys.exit(sorted({heavy} & {{*sys.modules}}) or 0)"
    )
    process = start(["-c", code])
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors
