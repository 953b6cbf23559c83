"""`clozeworks open`: what it says, where it is asked, and how it ends."""

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import webbrowser

import pytest

import clozeworks as cw
from clozeworks.errors import InputError, SettingError
from clozeworks.serve.workspace import opening


@pytest.fixture
def folder(tmp_path, tiny_models):
    """A folder with two models and a labelled file."""
    for name in ("one", "two"):
        (tmp_path / "work" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "work" / name).symlink_to(tiny_models["bert"])
    cw.load(tiny_models["bert"]).save(tmp_path / "work" / "model")
    (tmp_path / "work" / "reviews.csv").write_text("text,label\na,b\n")
    return tmp_path / "work"


def got(url, path, **headers):
    """The status and the JSON of an answer."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.request("GET", path, headers=headers)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_it_opens_and_ends(folder, number):
    words = [sys.executable, "-m", "clozeworks", "open", str(folder), "--no-browser"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr.readline() == "Found 1 model or index, 1 labelled file.\n"
        said = process.stderr.readline()
        address, _, rest = said.removeprefix("Opened at ").partition(";")
        assert said.startswith("Opened at http://127.0.0.1:") and rest == " stop with Ctrl-C.\n"
        status, page = got(address, "/")
        assert status == 200 and b"<title>Clozeworks</title>" in page
        assert json.loads(got(address, "/v1/workspace")[1])["files"] == ["reviews.csv"]
        assert got(address, "/v1/runs", host="evil.example")[0] == 421
        process.send_signal(number)
        assert process.wait(30) == 0
        assert process.stderr.read() == "Closed.\n"
    finally:
        process.kill()
        process.wait()
        process.stderr.close()


def test_what_is_refused(refused, tmp_path):
    refused("--port is 70,000; it must be between 0 and 65,535.", "open", "--port", "70000")
    missing = tmp_path / "nothing"
    refused(f"{missing} does not exist; check the name and the folder.", "open", missing)


def test_a_port_in_use(command, folder):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        outcome = command("open", folder, "--port", str(port), "--no-browser")
    assert outcome.code == 2 and f"port {port:,} of 127.0.0.1 cannot be had" in outcome.err


def test_from_python_it_goes_on_in_the_background(folder, capsys):
    page = cw.open(folder, browser=False, wait=False)
    assert capsys.readouterr().out == f"Opened at {page.url}\n"
    assert repr(page) == f"OpenedPage('{page.url}')"
    names = [each["name"] for each in json.loads(got(page.url, "/v1/abilities")[1])["models"]]
    assert names == ["model"]
    page.close()
    with pytest.raises(OSError, match="refused"):
        got(page.url, "/")
    with pytest.raises(SettingError, match="port is -1"):
        cw.open(folder, port=-1)
    with pytest.raises(InputError, match="does not exist"):
        cw.open(folder / "nothing")
    assert "open" not in cw.__all__ and "open" in dir(cw)


def test_a_browser_is_opened_where_there_is_one(folder, monkeypatch):
    shown, done = [], threading.Event()

    def fail(url):
        shown.append(url)
        done.set()
        raise webbrowser.Error("no browser")

    monkeypatch.setattr(webbrowser, "open", fail)
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "SSH_CONNECTION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(sys, "platform", "linux")
    opening.show_in_browser("http://127.0.0.1:1")
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.setenv("SSH_CONNECTION", "1")
    opening.show_in_browser("http://127.0.0.1:2")
    assert shown == []
    monkeypatch.delenv("SSH_CONNECTION")
    page = cw.open(folder, wait=False)
    assert done.wait(10) and shown == [page.url], "and that it failed disturbs nobody"
    page.close()
