"""Models that are loaded when they are first asked."""

import gc
import shutil
import weakref

import pytest

import clozeworks as cw
from clozeworks.language_model import outline
from clozeworks.serve.application import all_endpoints
from clozeworks.serve.models import ServedModel, ServedModels, UnknownModel
from clozeworks.serve.workspace import on_demand
from clozeworks.serve.workspace.on_demand import FolderModel, ModelMemory
from clozeworks.tasks.classify import Classify


@pytest.fixture
def loads(monkeypatch):
    """The folders whose weights were read, in order."""
    done, load = [], on_demand.load
    monkeypatch.setattr(on_demand, "load", lambda name, **how: done.append(name) or load(name))
    return done


def test_weights_are_read_when_a_model_is_first_asked(tiny_models, loads, asking):
    served = [FolderModel(name, folder, ModelMemory()) for name, folder in tiny_models.items()]
    with asking(served=served) as client:
        found = client.get("/v1/abilities").json()["models"]
        assert [each["name"] for each in found] == ["bert", "roberta"] and loads == []
        assert found[0]["abilities"] == ["embed", "fill"] and found[0]["dtype"] == "float32"
        for _ in range(2):
            body = {"inputs": "the cat", "model": "bert"}
            answer = client.post("/v1/embed", json=body).json()
        assert loads == [tiny_models["bert"]]
    assert answer["outputs"] == pytest.approx(cw.load(loads[0]).embed("the cat").tolist(), abs=1e-6)


def test_no_weights_are_read_to_say_what_is_served(tiny_models, loads, asking):
    served = [FolderModel(name, folder, ModelMemory()) for name, folder in tiny_models.items()]
    with asking(served=served, endpoints=all_endpoints()) as client:
        about = client.get("/info").json()
        assert about["model_id"] == "bert" and about["model_dtype"] == "float32"
        assert about["max_input_length"] == 512 and "embedding" in about["model_type"]
        refused = client.post("/", json={"inputs": "the [MASK] sat"})
        assert refused.status_code == 404 and "bert (fill-mask), roberta (fill" in refused.text
        assert loads == []


def test_a_model_without_a_tokenizer_does_not_keep_others(tiny_models, tmp_path, asking):
    mute = tmp_path / "mute"
    shutil.copytree(tiny_models["bert"], mute)
    for name in ("tokenizer.json", "vocab.txt", "clozeworks.json"):
        (mute / name).unlink()
    served = [FolderModel("mute", mute, ModelMemory())]
    with asking("spam", served=served, endpoints=all_endpoints()) as client:
        assert client.get("/info").json()["models"].keys() == {"spam", "mute"}
        found = client.post("/", json={"inputs": "the cat", "parameters": {"top_k": 1}})
        assert found.status_code == 200 and found.json()[0][0]["label"] in ("good", "bad")


def test_an_outline_says_what_the_model_says(tiny_models, writers, tmp_path):
    spam = tmp_path / "spam"
    cw.load(tiny_models["bert"]).for_task(Classify(labels=("bad", "good"))).save(spam)
    for folder in (*tiny_models.values(), *writers.values(), spam):
        whole, read = cw.load(folder), outline(folder)
        assert read.blueprint == whole.blueprint and read.task == whole.task
        assert (read.dtype, read.max_length) == (whole.dtype, whole.max_length)
        assert str(read.pooling) == str(whole.pooling)
        assert read.device.type == "meta" and whole.device.type == "cpu"
        own = ServedModel("m", whole).abilities
        assert FolderModel("m", folder, ModelMemory()).abilities == own


def test_who_was_asked_longest_ago_makes_way(tiny_models, loads):
    memory = ModelMemory(most=1)
    first, second = (FolderModel(name, tiny_models[name], memory) for name in tiny_models)
    held = weakref.ref(first.language_model())
    vector = held().embed("the cat")
    second.language_model()
    gc.collect()
    assert held() is None, "its memory is free"
    assert first.language_model().embed("the cat") == pytest.approx(vector, abs=1e-6)
    assert loads == [tiny_models["bert"], tiny_models["roberta"], tiny_models["bert"]]


def test_a_model_that_writes_is_let_go_too(writers, tiny_models, asking):
    memory = ModelMemory(most=1)
    served = [
        FolderModel("gpt2", writers["gpt2"], memory),
        FolderModel("bert", tiny_models["bert"], memory),
    ]
    with asking(served=served) as client:
        body = {"inputs": "the cat", "max_new_tokens": 3, "model": "gpt2"}
        before = client.post("/v1/generate", json=body).json()["outputs"]
        held = weakref.ref(served[0]._model.model)
        assert client.post("/v1/embed", json={"inputs": "a", "model": "bert"}).status_code == 200
        gc.collect()
        assert held() is None
        assert client.post("/v1/generate", json=body).json()["outputs"] == before


def test_what_cannot_be_loaded_says_why(tmp_path, bert_model):
    (tmp_path / "empty").mkdir()
    memory = ModelMemory()
    empty = FolderModel("empty", tmp_path / "empty", memory)
    assert empty.abilities == () and "has no config.json" in empty.unloadable
    with pytest.raises(UnknownModel, match=r"empty could not be loaded: .* has no config\.json"):
        ServedModels([empty]).find("empty", "fill")
    late = FolderModel("late", bert_model, memory)
    assert late.abilities == ("embed", "fill")
    shutil.rmtree(bert_model)
    with pytest.raises(UnknownModel, match="late could not be loaded"):
        late.language_model()


def test_one_more_is_served_under_a_name_that_is_free(tiny_models):
    models = ServedModels([ServedModel("a", unloadable="no")])
    models.add(ServedModel("b"))
    models.add(ServedModel("a"))
    assert [each.name for each in models] == ["a", "b"] and models.find("b").name == "b"
