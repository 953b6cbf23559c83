"""Hub names: what is asked, what is said when nobody answers, and a download that works.

The hub is a server in a thread of this process; the command runs in another process.
"""

import hashlib
import json
import re
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

COMMIT = "0123456789abcdef0123456789abcdef01234567"
UNREACHABLE = (
    "clozeworks: me/tiny is not a folder here, it is not in the local cache, and the hub cannot be "
    "reached; give the path of a model folder, or go online and try again.\n"
)
# Runs several commands in one process, because each process has to import torch.
SCRIPT = """
import contextlib, io, json, sys, time
from clozeworks.cli.main import run
for arguments in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    begin = time.monotonic()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    print(json.dumps([code, out.getvalue(), err.getvalue(), time.monotonic() - begin]))
"""


class Hub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Answers)
        self.files = files
        self.asked = []
        self.address = f"http://127.0.0.1:{self.server_port}"


class Answers(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(f"{self.command} {self.path.partition('?')[0]}")
        files = self.server.files
        if found := re.match(rf"/me/tiny/resolve/{COMMIT}/(.+)", self.path):
            content = files[found[1]]
            tag = f'"{hashlib.sha1(content).hexdigest()}"'
            size = str(len(content))
            self.reply(
                200, content, **{"X-Repo-Commit": COMMIT, "ETag": tag, "X-Linked-Size": size}
            )
        elif self.path.startswith(f"/api/models/me/tiny/tree/{COMMIT}"):
            self.reply(200, [
                {"type": "file", "oid": "0", "size": len(content), "path": name}
                for name, content in files.items()
            ])  # fmt: skip
        elif self.path in ("/api/models/me/tiny", "/api/models/me/tiny/revision/main"):
            siblings = [{"rfilename": name} for name in files]
            self.reply(200, {"id": "me/tiny", "sha": COMMIT, "siblings": siblings})
        elif "/me/tiny" in self.path:
            self.reply(404, {}, **{"X-Error-Code": "RevisionNotFound"})
        elif "/gated" in self.path:
            self.reply(403, {}, **{"X-Error-Code": "GatedRepo"})
        elif "/broken" in self.path:
            self.reply(500, {})
        else:
            self.reply(404, {}, **{"X-Error-Code": "RepoNotFound"})

    do_HEAD = do_GET  # noqa: N815

    def reply(self, code, content, **headers):
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


@pytest.fixture
def hub(tiny_models):
    folder = tiny_models["bert"]
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    files["pytorch_model.bin"] = b"never fetched"
    files |= {"spiece.model": b"SentencePiece", "chat_template.jinja": b"{{ messages }}"}
    files["1_Pooling/config.json"] = b"{}"
    server = Hub(files)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def ask(start, tmp_path):
    def begin(*commands, **environment):
        given = {"HF_HOME": str(tmp_path / "cache"), **environment}
        process = start(["-c", SCRIPT, json.dumps(commands)], **given)

        def answers():
            out, err = process.communicate(timeout=60)
            assert process.returncode == 0, err
            return [json.loads(line) for line in out.splitlines()]

        return answers

    return begin


def test_a_hub_that_answers(ask, hub, command, tiny_models):
    fill = ["fill", "me/tiny", "the [MASK]"]
    first, gated, unknown, broken, again = ask(
        fill, ["show", "me/gated"], ["show", "me/none"], ["show", "me/broken"], fill,
        HF_ENDPOINT=hub.address,
    )()  # fmt: skip
    assert first[:3] == [0, command("fill", tiny_models["bert"], "the [MASK]").out, ""]
    assert gated[:3] == [
        2,
        "",
        "clozeworks: me/gated is not a folder here, and the hub model 'me/gated' asks for "
        "permission; request access on its page, then log in with: hf auth login.\n",
    ]
    assert unknown[:3] == [
        2,
        "",
        "clozeworks: me/none is not a folder here, and the hub has no model 'me/none' (or it is "
        "private); check the spelling, or log in with: hf auth login.\n",
    ]
    assert broken[:3] == [2, "", UNREACHABLE.replace("me/tiny", "me/broken")]
    assert again[:3] == first[:3]
    fetched = [line for line in hub.asked if line.startswith("GET /me/tiny/resolve")]
    assert len(fetched) == len(set(fetched)) == len(hub.files) - 1
    assert not any("pytorch_model.bin" in line for line in hub.asked)

    # What was fetched serves without the hub, and without asking it.
    hub.asked.clear()
    offline, absent = ask(fill, ["show", "me/none"], HF_ENDPOINT=hub.address, HF_HUB_OFFLINE="1")()
    assert offline[:3] == first[:3]
    assert absent[:3] == [2, "", UNREACHABLE.replace("me/tiny", "me/none")]
    assert hub.asked == []


def test_a_hub_that_does_not_answer(ask):
    """A port that refuses, and a network that takes every packet and says nothing."""
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen(20)
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        waiting = [
            ask(["show", "me/tiny"], HF_ENDPOINT=endpoint)
            for endpoint in ("http://127.0.0.1:9", address)
        ]
        for answers in waiting:
            ((code, out, err, seconds),) = answers()
            assert (code, out, err) == (2, "", UNREACHABLE)
            assert seconds < 60  # not minutes of tries, however busy the machine is
