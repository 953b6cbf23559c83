"""`clozeworks serve`: what it says before it serves, and how it ends."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager

import pytest

import clozeworks as cw


@pytest.fixture(scope="module")
def index(tiny_models, tmp_path_factory):
    folder = tmp_path_factory.mktemp("serve") / "pets"
    cw.Index.build(["the cat sat", "the dog lay"], tiny_models["bert"], folder)
    return folder


def test_a_dry_run(command, tiny_models, writers, index):
    models = (f"words={tiny_models['bert']}", writers["gpt2"], index)
    outcome = command("serve", *models, "--dry-run")
    assert outcome.code == 0, outcome.err
    lines = [line.split("  ") for line in outcome.out.splitlines()]
    rows = [[cell.strip() for cell in line if cell.strip()] for line in lines]
    assert rows[0] == ["name", "answers", "memory"]
    assert rows[1][:2] == ["words", "embed, fill"]
    assert rows[2][:2] == ["gpt2", "embed, text-to-text, generate, score"]
    assert rows[3] == ["pets", "search"]
    assert rows[4][0] == "together, at most"


def test_a_model_that_cannot_be_loaded_does_not_keep_others(command, tiny_models, tmp_path):
    (tmp_path / "empty").mkdir()
    outcome = command("serve", tiny_models["bert"], tmp_path / "empty", "--dry-run")
    assert outcome.code == 0 and "has no config.json" in outcome.out
    alone = command("serve", tmp_path / "empty", "--dry-run")
    assert alone.code == 2 and "empty" in alone.err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["MODEL", "MODEL"], "bert names two models; give one of them another name: NAME=MODEL."),
        (["MODEL", "--port", "70000"], "--port is 70,000; it must be between 0 and 65,535."),
        (["MODEL", "--tokens", "0"], "--tokens is 0; it must be at least 1."),
        (["MODEL", "--keys", "none.txt"], "none.txt cannot be read"),
        (["MODEL", "--truncate-dims", "bert"], "--truncate-dims is 'bert'; it must be NAME=64,128"),
        (["a/b=MODEL"], "'a/b' is not a name; write NAME=FOLDER."),
    ],
)
def test_what_is_refused(command, tiny_models, arguments, sentence):
    folder = str(tiny_models["bert"])
    outcome = command("serve", *(each.replace("MODEL", folder) for each in arguments))
    assert outcome.code == 2 and sentence.replace("MODEL", folder) in outcome.err


def test_a_port_in_use(command, tiny_models):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = command("serve", tiny_models["bert"], "--port", str(port))
    assert outcome.code == 2
    assert f"port {port:,} of 127.0.0.1 cannot be had (Address already in use)" in outcome.err


@contextmanager
def serving(*arguments):
    """A server in a process of its own, and where it is asked."""
    words = [sys.executable, "-m", "clozeworks", "serve", *map(str, arguments), "--port", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    said = []
    try:
        for line in process.stderr:
            said.append(line)
            if line.startswith("Serving at "):
                break
        else:
            raise AssertionError("".join(said))
        address = said[-1].removeprefix("Serving at http://").partition(";")[0]
        rest = threading.Thread(target=lambda: said.extend(process.stderr))
        rest.start()
        yield process, address, said
        process.wait(30)
        rest.join(5)
    finally:
        process.kill()
        process.wait()


def asked(address, path, body, headers=None):
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("POST", path, json.dumps(body), headers or {})
    response = connection.getresponse()
    found = response.status, json.loads(response.read())
    connection.close()
    return found


def test_it_serves_and_ends(tiny_models, index, tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("key: secret\n")
    key = {"authorization": "Bearer secret"}
    models = (tiny_models["bert"], f"another={tiny_models['bert']}", index)
    with serving(*models, "--keys", keys) as (process, address, said):
        body = {"inputs": "the cat", "model": "bert"}
        assert asked(address, "/v1/embed", body, {**key, "host": "models.example"})[0] == 200
        assert asked(address, "/v1/embed", body)[0] == 401
        status, found = asked(address, "/v1/embed", body, key)
        expected = cw.load(tiny_models["bert"]).embed("the cat")
        assert status == 200 and found["outputs"] == pytest.approx(expected.tolist(), abs=1e-6)
        status, hits = asked(address, "/v1/search", {"inputs": "the dog", "by": "words"}, key)
        assert status == 200 and hits["outputs"][0]["passage"] == "the dog lay"
        process.send_signal(signal.SIGTERM)
    assert process.returncode == 0
    assert said[-1] == "Stopped; everything that was accepted was answered.\n"
    [tried] = [line for line in said if line.startswith("Try it: ")]
    assert "-H 'Authorization: Bearer KEY'" in tried and '"model": "bert"' in tried
    lines = [json.loads(line) for line in said if line.startswith("{")]
    assert [(line["path"], line["status"]) for line in lines] == [
        ("/v1/embed", 200), ("/v1/embed", 401), ("/v1/embed", 200), ("/v1/search", 200),
    ]  # fmt: skip
    assert not any("the cat" in line for line in said)


def test_what_was_accepted_is_answered(tiny_models):
    """Clients that ask while the server is told to end get an answer or are told so."""
    found = []

    def ask(address):
        while True:
            status, _ = asked(address, "/v1/embed", {"inputs": ["the cat sat on the mat"] * 20})
            found.append(status)
            if status != 200:
                return

    with serving(tiny_models["bert"]) as (process, address, _):
        status, told = asked(address, "/v1/embed", {"inputs": "a"}, {"host": "evil.example"})
        assert status == 421 and "--keys" in told["error"]["message"]
        threads = [threading.Thread(target=ask, args=(address,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        while len(found) < 20:
            assert any(thread.is_alive() for thread in threads)
        process.send_signal(signal.SIGTERM)
        for thread in threads:
            thread.join(30)
    assert process.returncode == 0
    assert found.count(503) == 6 and set(found) == {200, 503}


def test_stopped_twice_it_waits_for_nobody(tiny_models):
    with serving(tiny_models["bert"]) as (process, address, said):
        host, _, port = address.partition(":")
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(
                b"POST /v1/embed HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n{"
            )
            while b"in_flight 1.0" not in metrics(address):
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            while not draining(address):
                assert process.poll() is None
            process.send_signal(signal.SIGINT)
            assert process.wait(10) == 1
    assert said[-1] == "Stopped; 1 request got no answer.\n"


def metrics(address):
    return got(address, "/metrics")[1]


def draining(address):
    return got(address, "/ready")[0] == 503


def got(address, path):
    connection = http.client.HTTPConnection(address, timeout=30)
    connection.request("GET", path)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found
