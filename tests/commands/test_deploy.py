"""What `deploy/` says holds: of the command, of its files among each other, and of nginx for real.

No container engine is needed: an image is a few commands, which can be run anywhere.
"""

import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
import yaml

import clozeworks as cw

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
DOCKERFILE = (DEPLOY / "Dockerfile").read_text(encoding="utf-8")
NGINX = (DEPLOY / "nginx.conf").read_text(encoding="utf-8")
COMPOSE = yaml.safe_load((DEPLOY / "compose.yaml").read_text(encoding="utf-8"))
REPLICAS = [COMPOSE["services"]["replica-1"], COMPOSE["services"]["replica-2"]]
BALANCER = COMPOSE["services"]["balancer"]
ENTRYPOINT = json.loads(re.search(r"^ENTRYPOINT (.*)$", DOCKERFILE, re.MULTILINE).group(1))
HEALTH = json.loads(re.search(r"^HEALTHCHECK .*\\\n  CMD (.*)$", DOCKERFILE, re.MULTILINE).group(1))
KEEP_ALIVE = 30  # seconds for which a server keeps an idle connection
MISSING = "nginx is not installed here; on Debian: apt install nginx"


def seconds(text):
    return int(re.fullmatch(r"(\d+)s", text).group(1))


def megabytes(text):
    return int(re.fullmatch(r"(\d+)m", text).group(1))


def directive(name):
    [value] = re.findall(rf"^\s*{name} ([^;]+);", NGINX, re.MULTILINE)
    return value


# The image.


def test_what_is_copied_is_there_and_reaches_the_build():
    lines = (DEPLOY / "Dockerfile.dockerignore").read_text(encoding="utf-8").splitlines()
    let_in = {line[1:] for line in lines if line.startswith("!")}
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert names == let_in and "*" in lines
    assert all((ROOT / name).exists() for name in names)
    readme = re.search(r'^readme = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert readme.group(1) in names


def test_the_image_is_of_this_version_and_has_little_power():
    for path in DEPLOY.iterdir():
        named = re.findall(r"\bclozeworks:(\d[\w.]*)", path.read_text(encoding="utf-8"))
        assert set(named) <= {cw.__version__}, path.name
    assert all(each["image"] == f"clozeworks:{cw.__version__}" for each in REPLICAS)
    assert re.search(r"^USER 10001:10001$", DOCKERFILE, re.MULTILINE)
    assert "HF_HUB_OFFLINE=1" in DOCKERFILE and "-c constraints.txt" in DOCKERFILE
    for each in (*REPLICAS, BALANCER):
        assert each["read_only"] is True and each["cap_drop"] == ["ALL"]
        assert int(each["user"].partition(":")[0]) > 0
        assert all(mount.endswith(":ro") for mount in each["volumes"])


def test_options_are_those_of_the_command(command):
    shown = command("serve", "--help").out
    given = [word for word in ENTRYPOINT if word.startswith("--")]
    for each in REPLICAS:
        given += [word for word in each["command"] if word.startswith("--")]
    text = (DEPLOY / "README.md").read_text(encoding="utf-8")
    given += re.findall(r"(?<![\w-])(--(?:drain|keys|dry-run|body-mb|timeout|tokens)\b)", text)
    assert ENTRYPOINT[:2] == ["clozeworks", "serve"] and given
    assert [option for option in given if f"{option} " not in shown] == []


def test_files_agree_with_each_other():
    text = " ".join(REPLICAS[0]["command"])
    drain, timeout, body = (
        int(re.search(rf"--{name} (\d+)", text).group(1))
        for name in ("drain", "timeout", "body-mb")
    )
    for each in REPLICAS:
        assert seconds(each["stop_grace_period"]) > drain
        assert each["networks"]["default"]["ipv4_address"] + ":8000" in NGINX
    assert seconds(BALANCER["stop_grace_period"]) > timeout
    own = BALANCER["networks"]["default"]["ipv4_address"]
    assert all(each["environment"]["FORWARDED_ALLOW_IPS"] == own for each in REPLICAS)
    assert seconds(directive("proxy_read_timeout").split()[0]) > timeout
    assert megabytes(directive("client_max_body_size")) > body * (1 << 20) / 10**6
    source = (ROOT / "src" / "clozeworks" / "serve" / "server.py").read_text(encoding="utf-8")
    assert f"timeout_keep_alive={KEEP_ALIVE}," in source
    assert seconds(directive("keepalive_timeout")) < KEEP_ALIVE
    assert BALANCER["ports"] == ["127.0.0.1:8000:8000"]
    assert all("ports" not in each for each in REPLICAS)


# The same commands, here.


@contextmanager
def replica(folder, *arguments):
    """The image's entry point as a process; where it is asked."""
    words = [sys.executable, "-m", *ENTRYPOINT, folder, *arguments]
    words[words.index("0.0.0.0")] = "127.0.0.1"
    words[words.index("8000")] = "0"
    process = subprocess.Popen(list(map(str, words)), stderr=subprocess.PIPE, text=True)
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
    finally:
        process.kill()
        process.wait()
    rest.join(5)


def asked(address, path, body=None, timeout=60):
    connection = http.client.HTTPConnection(address, timeout=timeout)
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    connection.request("GET" if body is None else "POST", path, data)
    response = connection.getresponse()
    found = response.status, response.read()
    connection.close()
    return found


def test_the_health_check_tells_ready_from_not(tiny_models):
    with replica(tiny_models["bert"], "--drain", "5") as (process, address, _):
        check = [sys.executable, *(w.replace("127.0.0.1:8000", address) for w in HEALTH[1:])]
        assert subprocess.run(check, check=False).returncode == 0
        # A request whose body does not come keeps the server from ending.
        host, port = address.split(":")
        with socket.create_connection((host, int(port))) as slow:
            slow.sendall(b"POST /embed HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-length: 9\r\n\r\n")
            time.sleep(0.5)
            process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            done = subprocess.run(check, check=False, capture_output=True, text=True)
            assert done.returncode == 1 and "503" in done.stderr
        assert process.wait(30) == 0


@contextmanager
def balancer(folder, *addresses):
    """nginx with the configuration of `deploy/`, at a free port."""
    program = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
    if program is None:
        pytest.skip(MISSING)
    with socket.create_server(("127.0.0.1", 0)) as free:
        own = f"127.0.0.1:{free.getsockname()[1]}"
    text = NGINX.replace("listen 8000;", f"listen {own};").replace("/tmp/", f"{folder}/")
    for each, address in zip(REPLICAS, addresses, strict=True):
        text = text.replace(f"{each['networks']['default']['ipv4_address']}:8000", address)
    (folder / "nginx.conf").write_text(text, encoding="utf-8")
    directives = "daemon off;" + (" user root;" if os.geteuid() == 0 else "")
    words = [program, "-e", "stderr", "-p", folder, "-c", folder / "nginx.conf", "-g", directives]
    with (folder / "nginx.log").open("w") as log:
        process = subprocess.Popen(list(map(str, words)), stderr=log)
    try:
        for _ in range(100):
            try:
                socket.create_connection(tuple(own.split(":")), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, (folder / "nginx.log").read_text()
                time.sleep(0.1)
        yield own
    finally:
        process.send_signal(signal.SIGQUIT)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.terminate()
            process.wait(10)


def waited(done):
    deadline = time.monotonic() + 120
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGKILL])
def test_a_replica_that_ends_loses_nothing(tiny_models, tmp_path, how):
    found, stopping = [], threading.Event()
    # The last is larger than what nginx keeps in memory: that, too, it must be able to send again.
    bodies = [{"inputs": ["the cat sat on the mat"] * count} for count in (1, 20, 1000)]

    def ask(address):
        number = 0
        while not stopping.is_set():
            number += 1
            try:
                found.append(asked(address, "/v1/embed", bodies[number % 3])[0])
            except (OSError, http.client.HTTPException) as error:
                found.append(repr(error))

    with ExitStack() as stack:
        (first, one, said), (second, two, _) = (
            stack.enter_context(replica(tiny_models["bert"], "--drain", "20")) for _ in range(2)
        )
        own = stack.enter_context(balancer(tmp_path, one, two))
        threads = [threading.Thread(target=ask, args=(own,)) for _ in range(6)]
        for thread in threads:
            thread.start()
        waited(lambda: len(found) >= 60)
        first.send_signal(how)
        code = first.wait(30)
        count = len(found)
        waited(lambda: len(found) >= count + 60)
        stopping.set()
        for thread in threads:
            thread.join(60)
        assert second.poll() is None and asked(own, "/ready")[0] == 200
    assert set(found) == {200}, found
    if how == signal.SIGTERM:
        assert code == 0 and "Stopped; everything that was accepted was answered.\n" in said
        answered = [json.loads(line)["status"] for line in said if line.startswith("{")]
        assert answered.count(200) > 10 and set(answered) <= {200, 503}


@pytest.mark.slow
def test_streams_and_refusals_pass_as_they_are(gpt, tmp_path):
    with replica(gpt) as (_, address, _), balancer(tmp_path, address, address) as own:
        connection = http.client.HTTPConnection(own, timeout=60)
        body = {"inputs": "The cat", "max_new_tokens": 600, "min_new_tokens": 600, "stream": True}
        begin = time.monotonic()
        connection.request("POST", "/v1/generate", json.dumps(body).encode())
        response = connection.getresponse()
        arrivals = []
        while response.read1(1 << 16):
            arrivals.append(time.monotonic() - begin)
        connection.close()
        # Buffered, it would come in a few pieces of kilobytes, the first after hundreds of tokens.
        assert len(arrivals) > 50 and arrivals[0] < arrivals[-1] / 4
        status, told = asked(own, "/embed", b" " * 9_000_000)
        assert status == 413 and "send less at a time" in json.loads(told)["error"]
        assert asked(own, "/embed", b" " * 12_000_000)[0] == 413
        assert asked(own, "/metrics")[0] == 404 and asked(address, "/metrics")[0] == 200
