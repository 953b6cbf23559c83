"""Chat templates run in a process of their own, which takes what it may and no more."""

import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from clozeworks.errors import InputError
from clozeworks.text.tokenizer import chat
from clozeworks.text.tokenizer.chat import ChatTemplate
from clozeworks.text.tokenizer.render_process import (
    RENDERER,
    RenderProcess,
    TemplateFailure,
    TemplateSyntax,
)

posix = pytest.mark.skipif(os.name != "posix", reason="Windows has neither fork nor limits")
CHAT = [{"role": "user", "content": "hi \ud83d 你好 \x00 \u2028"}]


@pytest.fixture(scope="module")
def small():
    """A process with little of everything."""
    process = RenderProcess(seconds=0.5, memory=150_000_000, characters=5_000)
    yield process
    process.close()


def pid(process):
    return process._process and process._process.pid


def test_one_process_serves_all(small):
    assert small.render("{{ a + 1 }}", {"a": 1}) == "2"
    first = pid(small)
    assert small.render("{{ m[0].content }}", {"m": CHAT}) == CHAT[0]["content"]
    with pytest.raises(TemplateSyntax) as caught:
        small.render("\n{% for %}", {})
    assert caught.value.line == 2
    with pytest.raises(TemplateFailure, match=r"^no system$"):
        small.render("{{ raise_exception('no system') }}", {})
    assert small.render("", {}) == ""
    assert pid(small) == first


@posix
@pytest.mark.parametrize(
    ("source", "said"),
    [
        (
            "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
            "it runs longer than 0.5 seconds",
        ),
        ("{{ 9 ** (9 ** 9) }}", "it runs longer than 0.5 seconds"),
        ("{{ ('x' * 10**9) | length }}", "it needs more than 150.0 MB of memory"),
        (
            "{% set ns = namespace(a='xx' * 999) %}{% for n in range(99) %}"
            "{% set ns.a = ns.a ~ ns.a %}{% endfor %}",
            "it needs more than 150.0 MB of memory",
        ),
        ("{{ 'x' * 5001 }}", "it writes more than 5,000 characters"),
        (
            "{% for n in range(9999) %}{{ 'x' * 100 }}{% endfor %}",
            "it writes more than 5,000 characters",
        ),
    ],
)
def test_a_limit_ends_it_and_the_next_chat_is_written(small, source, said):
    with pytest.raises(TemplateFailure) as caught:
        small.render(source, {})
    assert str(caught.value) == said
    assert pid(small) is None
    assert small.render("{{ 'x' * 5000 }}", {}) == "x" * 5000


def test_limits_are_told_with_the_chat(small, monkeypatch):
    monkeypatch.setattr(chat, "RENDERER", small)
    with pytest.raises(InputError) as caught:
        ChatTemplate("{{ messages[0].content * 9999 }}", {}).render(
            CHAT, source_location="a, row 2"
        )
    assert str(caught.value) == (
        "a, row 2: the chat template does not take this chat (it writes more than 5,000 "
        "characters); change the chat's roles and their order, or the template."
    )


def test_turns_that_are_no_data(small):
    with pytest.raises(TemplateFailure, match=r"^its turns are not plain data: Object of type obj"):
        small.render("", {"a": object()})


def test_a_process_that_was_ended_is_started_again(small):
    small.render("", {})
    before = small._process
    before.kill()
    before.wait()
    assert small.render("{{ 2 }}", {}) == "2"
    assert pid(small) != before.pid


def test_a_program_that_starts_none(small, monkeypatch):
    small.close()
    monkeypatch.setattr(sys, "executable", "/not/there/python")
    with pytest.raises(Exception) as caught:
        small.render("", {})
    assert str(caught.value) == (
        "the process that writes chats cannot be started (No such file or directory); chat "
        "templates run in a process of their own; let the program start one."
    )


def test_threads_take_turns(small):
    with ThreadPoolExecutor(8) as pool:
        numbers = range(400)
        texts = pool.map(lambda number: small.render("{{ a }}{{ a }}", {"a": number}), numbers)
        assert list(texts) == [f"{number}{number}" for number in numbers]


@posix
def test_an_interruption_leaves_no_reply_behind(small):
    """Otherwise the next chat would get the text of this one."""
    small.render("", {})
    fired = []

    def interrupt(*_):
        fired.append(1)
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGUSR1, interrupt)
    try:
        timer = threading.Timer(0.15, os.kill, [os.getpid(), signal.SIGUSR1])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            small.render(
                "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", {}
            )
    finally:
        timer.join()
        signal.signal(signal.SIGUSR1, before)
    assert fired and small.render("{{ 3 }}", {}) == "3"


@posix
def test_a_fork_has_a_process_of_its_own(small):
    small.render("", {})
    mine = pid(small)
    reading, writing = os.pipe()
    forked = os.fork()
    if not forked:
        try:
            text = small.render("{{ 'forked' }}", {})
            os.write(writing, f"{text} {pid(small) != mine}".encode())
            small.close()
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(forked, 0)
    assert os.read(reading, 100) == b"forked True"
    os.close(reading)
    assert small.render("{{ 'here' }}", {}) == "here" and pid(small) == mine


@posix
def test_it_ends_with_its_parent():
    """Also if the parent is killed, and a process that was forked from it goes on."""
    program = (
        "import os, time\n"
        "from clozeworks.text.tokenizer.render_process import RENDERER\n"
        "RENDERER.render('', {})\n"
        "forked = os.fork()\n"
        "if forked: print(RENDERER._process.pid, forked, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    child, forked = map(int, parent.stdout.readline().split())
    assert _runs(child)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    try:
        deadline = time.monotonic() + 30
        while _runs(child) and time.monotonic() < deadline:
            time.sleep(0.02)
        assert not _runs(child) and _runs(forked)
    finally:
        os.kill(forked, signal.SIGKILL)


def _runs(number):
    listed = subprocess.run(
        ["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True, check=False
    )
    return bool(listed.stdout.strip()) and not listed.stdout.strip().startswith("Z")


@posix
def test_what_it_may_not_reach():
    """Should the sandbox ever have a hole, behind it there is no file, network or program."""
    from clozeworks.text.tokenizer import rendering

    for event, arguments in (
        ("open", ("/etc/passwd", "r", 0)),
        ("socket.connect", (None, ("127.0.0.1", 1))),
        ("subprocess.Popen", ("ls", [], None, None)),
        ("os.system", ("ls",)),
        ("os.fork", ()),
    ):
        with pytest.raises(PermissionError):
            rendering._refuse_events(event, arguments)
    rendering._refuse_events("open", ("/usr/lib/python3/json/__init__.py", "r", 0))
    rendering._refuse_events("compile", ("", ""))


def test_late_imports_of_the_library_are_there():
    """All filters and functions of Jinja that templates may use."""
    sources = {
        "{{ 'a b' | title | wordwrap(2) | indent }}": "A\n    B",
        "{{ lipsum(1) | length > 9 }}": "True",
        "{{ [{'a': 1}, {'a': 2}] | groupby('a') | list | length }}": "2",
        "{{ {'b': '<你>'} | tojson(indent=1) }}": '{\n "b": "<你>"\n}',
        "{{ strftime_now('%Y') | int > 2000 }}": "True",
        "{{ {'b': 1} | pprint }}": "{'b': 1}",
        "{{ 'x' | urlencode ~ ('a.b' | urlize) ~ ([1, 2] | sum) }}": "xa.b3",
        "{{ dict(a=1) | items | list }}{{ [3, 1] | sort }}": "[('a', 1)][1, 3]",
        "{{ '%s-%d' | format('a', 2) }}{{ 'a' | escape | string }}": "a-2a",
        "{{ cycler('a', 'b').next() }}{{ joiner(',')() }}": "a",
        "{{ 1234567 | filesizeformat }}{{ [1] | random }}": "1.2 MB1",
    }
    for source, text in sources.items():
        assert RENDERER.render(source, {}) == text, source
