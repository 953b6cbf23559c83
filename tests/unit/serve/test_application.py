"""Models inside a program of somebody else's."""

import subprocess
import sys
import time
from threading import active_count

import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

import clozeworks as cw
from clozeworks.errors import InputError
from clozeworks.serve import create_app
from clozeworks.serve.application import all_endpoints
from clozeworks.serve.limits import Keys, ServerLimits, digest


@pytest.fixture(scope="module")
def index(tiny_models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("application") / "pets"
    cw.Index.build(["the cat sat", "the dog lay"], tiny_models["bert"], folder)
    return folder


def test_folders_models_and_indexes_are_served(tiny_models, index):
    model = cw.load(tiny_models["bert"])
    app = create_app({"words": tiny_models["bert"], "object": model, "pets": index})
    with TestClient(app) as client:
        names = [each["id"] for each in client.get("/v1/models").json()["data"]]
        assert names == ["words", "object", "pets"]
        body = {"inputs": "the cat", "model": "words"}
        found = client.post("/v1/embed", json=body).json()["outputs"]
        assert found == pytest.approx(model.embed("the cat").tolist(), abs=1e-6)
        hits = client.post("/v1/search", json={"inputs": "the dog", "by": "words"}).json()
        assert hits["outputs"][0]["passage"] == "the dog lay"
        assert client.get("/ready").json()["ready"] is True


def test_every_example_is_answered_by_its_own_endpoint():
    endpoints = all_endpoints()
    for endpoint in endpoints:
        for body in endpoint.examples.values():
            sharing = [each for each in endpoints if each.path == endpoint.path]
            meant = next(each for each in sharing if each.fits(body))
            assert meant is endpoint, (endpoint.path, endpoint.dialect.name, body)


def test_clients_are_told_names_and_no_folders(writers):
    with TestClient(create_app({"writer": writers["gpt2"]})) as client:
        told = client.post("/v1/generate", json={"inputs": "cat " * 3_000}).text
        assert "writer has positions for" in told and str(writers["gpt2"]) not in told


def test_it_computes_from_startup_to_shutdown(tiny_models):
    before = active_count()
    app = create_app({"words": str(tiny_models["bert"])})
    scheduler = app.state.answering.scheduler
    with TestClient(app) as client:
        assert client.post("/embed", json={"inputs": "the cat"}).status_code == 200
        assert scheduler._thread.is_alive()
    assert not scheduler._thread.is_alive() and scheduler.fatal is None
    deadline = time.monotonic() + 10
    while active_count() > before:  # threads that answered are on their way
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_below_another_application(tiny_models):
    inner = create_app({"words": tiny_models["bert"]})
    app = FastAPI(lifespan=inner.router.lifespan_context)
    app.mount("/models", inner)
    app.get("/hello")(lambda: "hello")
    with TestClient(app) as client:
        assert client.get("/hello").json() == "hello"
        assert client.post("/models/v1/embed", json={"inputs": "the cat"}).status_code == 200
        assert client.get("/models/info").json()["model_id"] == "words"
        metrics = client.get("/models/metrics").text
    assert 'clozeworks_requests_total{path="/v1/embed",status="200"} 1.0' in metrics


def test_behind_a_proxy_that_keeps_its_prefix(tiny_models):
    app = create_app({"words": tiny_models["bert"]})
    with TestClient(app, root_path="/models") as client:
        assert client.post("/models/v1/embed", json={"inputs": "the cat"}).status_code == 200
        assert client.head("/models/v1/models").status_code == 200


def test_limits_and_keys(tiny_models):
    limits, keys = ServerLimits(inputs=2, requests=3), Keys([digest("secret")])
    app = create_app({"words": tiny_models["bert"]}, limits=limits, keys=keys)
    with TestClient(app) as client:
        assert client.post("/embed", json={"inputs": "the cat"}).status_code == 401
        client.headers["authorization"] = "Bearer secret"
        assert client.post("/embed", json={"inputs": ["the cat"] * 3}).status_code == 413
        about = client.get("/info").json()
    assert about["max_client_batch_size"] == 2 and about["max_concurrent_requests"] == 3


def test_nothing_that_can_be_served(tmp_path):
    with pytest.raises(InputError, match="empty"):
        create_app({"empty": tmp_path / "empty"})


def test_what_is_missing_is_said():
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "import clozeworks.serve\n"
        "from clozeworks.errors import MissingExtra\n"
        "try:\n    clozeworks.serve.create_app\n"
        "except MissingExtra as error:\n    print(error)\n"
        "assert not hasattr(clozeworks.serve, 'other')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "Serving needs the library 'fastapi'" in done.stdout
    assert "pip install 'clozeworks[serve]'" in done.stdout


def test_ray_is_named_where_it_is_missing():
    code = (
        "import sys; sys.modules['ray'] = None\n"
        "from clozeworks.serve.ray import deployment\n"
        "from clozeworks.errors import MissingExtra\n"
        "try:\n    deployment({'words': 'folder'})\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "pip install 'clozeworks[ray]'" in done.stdout
