"""Tiny models behind a scheduler, asked over HTTP inside the test."""

import json
from contextlib import contextmanager

import pytest

import clozeworks as cw
from clozeworks.serve.app import Answering
from clozeworks.serve.models import ServedModel, ServedModels
from clozeworks.serve.native import native_endpoints
from clozeworks.serve.scheduler import Scheduler
from clozeworks.tasks.answer import Answer
from clozeworks.tasks.classify import Classify
from clozeworks.tasks.compare import Compare
from clozeworks.tasks.tag import Tag


@pytest.fixture(scope="session")
def language_models(tiny_models, writers):
    """Models by what they are for."""
    tasks = {
        "spam": Classify(labels=("bad", "good")),
        "pairs": Compare(labels=("other", "same")),
        "ner": Tag(labels=("O", "B-X", "I-X")),
        "qa": Answer(),
    }
    made = {name: cw.load(tiny_models["bert"]).for_task(task) for name, task in tasks.items()}
    plain = {"bert": tiny_models["bert"], "gpt2": writers["gpt2"], "t5": writers["t5"]}
    return made | {name: cw.load(folder) for name, folder in plain.items()}


@pytest.fixture(scope="session")
def asking(language_models):
    """Opens a client of a server with models and settings of the test's own."""
    from starlette.testclient import TestClient

    @contextmanager
    def opened(*names, endpoints=None, scheduler=None, served=(), **settings):
        models = [ServedModel(name, language_models[name]) for name in names]
        scheduler = scheduler or Scheduler()
        answering = Answering(
            ServedModels([*models, *served]), scheduler, endpoints or native_endpoints(), **settings
        )
        scheduler.start()
        try:
            with TestClient(answering.app(), raise_server_exceptions=False) as client:
                client.answering = answering
                yield client
        finally:
            scheduler.stop()

    return opened


@pytest.fixture(scope="session")
def new_run():
    """Makes a run that was stopped after some lines of metrics."""
    from clozeworks.runs.state import RunState

    def make(folder, lines=(), /, **state):
        folder.mkdir(parents=True)
        state = {"step": len(lines), "steps": 100, **state}
        RunState("pretrain", state.pop("status", "stopped"), **state).write(folder)
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (folder / "metrics.jsonl").write_text(text)
        return folder

    return make
