"""Chromium, servers in processes of their own, and a folder with a tiny model for every view."""

import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

SOURCE = Path(__file__).resolve().parents[2] / "src"
NAMES = ("chromium", "chromium-browser", "google-chrome")
# Without these Chromium asks hosts of its own at every start.
QUIET = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"]
QUIET += ["--disable-background-networking", "--disable-component-update"]
TEMPLATE = (
    "{% for message in messages %}{{ message.role }} : {{ message.content }} {% endfor %}"
    "{% if add_generation_prompt %}assistant :{% endif %}"
)
# What somebody may write into a label, a text or the name of a file.
HOSTILE = "<img src=x onerror=\"alert('owned')\">"
DOCUMENTS = [
    "The capital of France is Paris, and Paris lies on the Seine.",
    "The cat sat on the mat and the dog lay on the rug.",
    "The dog sat beside the cat in the garden of the house.",
    "北京的天气很好，我们在公园里。",
    f"A document with {HOSTILE} in its text.",
]
LABELLED = [
    ("the cat sat on the mat", "good"),
    ("the dog lay on the rug", "bad"),
    ("the cat sat on the mat", "bad"),  # the same text with two labels
    (HOSTILE, "good"),
    ("我爱北京", "good"),
] * 4


@pytest.fixture(scope="session")
def workspace(tiny_models, writers, small_corpus, write_recipe, tmp_path_factory) -> Path:
    """A folder as people have them: models, an index, a corpus, a run, labelled files."""
    import clozeworks as cw
    from clozeworks.cli.main import run
    from clozeworks.tasks.answer import Answer
    from clozeworks.tasks.classify import Classify
    from clozeworks.tasks.compare import Compare
    from clozeworks.tasks.tag import Tag

    folder = tmp_path_factory.mktemp("browser") / "work"
    folder.mkdir()
    bert = tiny_models["bert"]
    shutil.copytree(bert, folder / "words")
    tasks = {
        "spam": Classify(labels=("good", "bad")),
        "hostile": Classify(labels=(HOSTILE, "plain")),
        "entities": Tag(labels=("O", "B-PLACE", "I-PLACE", "B-ANIMAL", "I-ANIMAL")),
        "questions": Answer(),
        "pairs": Compare(labels=("other", "same")),
    }
    for name, task in tasks.items():
        cw.load(bert).for_task(task).save(folder / name)
    shutil.copytree(writers["t5"], folder / "t5")
    chat = cw.load(writers["gpt2"])
    chat.checkpoint.tokenizer = chat.tokenizer.with_chat_template(TEMPLATE)
    chat.save(folder / "chat")
    cw.Index.build(DOCUMENTS, bert, folder / "documents")
    shutil.copytree(small_corpus, folder / "corpus")
    recipe = write_recipe(folder)
    assert run(["pretrain", str(recipe)]) == 0
    rows = [f'"{text.replace(chr(34), chr(34) * 2)}",{label}' for text, label in LABELLED]
    (folder / "reviews.csv").write_text("\n".join(["text,label", *rows]) + "\n", encoding="utf-8")
    return folder


@dataclass
class Server:
    """A server in a process of its own, and what it said."""

    arguments: list[str]
    port: int = 0
    process: subprocess.Popen[str] | None = None
    said: list[str] = field(default_factory=list)

    @property
    def url(self) -> str:
        """Where it is asked."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Starts it, at the same port as before if it was started before."""
        words = [sys.executable, "-m", "clozeworks", *self.arguments, "--port", str(self.port)]
        self.process = subprocess.Popen(
            words,
            env={**os.environ, "PYTHONPATH": str(SOURCE), "OMP_NUM_THREADS": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            encoding="utf-8",
        )
        lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._listen, args=(self.process, lines), daemon=True).start()
        while (line := lines.get(timeout=120)) is not None:
            address = next((word for word in line.split() if word.startswith("http://")), None)
            if address is not None:
                self.port = int(address.rstrip(";/.").rpartition(":")[2].partition("/")[0])
                return
        raise AssertionError("".join(self.said))

    def _listen(self, process: subprocess.Popen[str], lines: "queue.Queue[str | None]") -> None:
        assert process.stderr is not None
        for line in process.stderr:
            self.said.append(line)
            lines.put(line)
        lines.put(None)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Ends it, and waits until it has ended."""
        assert self.process is not None
        self.process.send_signal(number)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(30)


@pytest.fixture(scope="session")
def running() -> Callable[..., AbstractContextManager[Server]]:
    """Runs a command that serves: `with running("serve", folder) as server`."""

    @contextmanager
    def started(*arguments: object) -> Iterator[Server]:
        server = Server([str(each) for each in arguments])
        server.start()
        try:
            yield server
        finally:
            server.stop()

    return started


@pytest.fixture(scope="package")
def opened(running, workspace) -> Iterator[Server]:
    """The workspace, opened once for all tests that change nothing in it."""
    with running("open", workspace, "--no-browser") as server:
        yield server


@pytest.fixture(scope="package")
def chromium() -> Iterator[Any]:
    """Chromium without a window."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    found = os.environ.get("CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("Chromium is not installed; CHROMIUM names one that lies elsewhere")
    # Trap: Playwright holds an event loop in this thread until it is stopped; tests of other
    # folders that run one of their own come after that.
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=found, args=QUIET)
        yield browser
        browser.close()


@dataclass
class Visit:
    """A page that somebody looks at, and what went wrong on it."""

    page: Any
    url: str
    wrong: list[str] = field(default_factory=list)
    allowed: list[str] = field(default_factory=list)
    """Parts of sentences that a test expects in the console."""

    def go(self, place: str) -> Any:
        """Opens a view, such as `try/words`, and waits until it is shown."""
        self.page.goto(f"{self.url}/#/{place}")
        self.page.wait_for_selector("main:not([aria-busy=true]) > *")
        return self.page

    def check(self) -> None:
        """Nothing went wrong that was not expected."""
        unexpected = [each for each in self.wrong if not any(part in each for part in self.allowed)]
        assert not unexpected, unexpected


@pytest.fixture
def visit(chromium) -> Iterator[Callable[..., Visit]]:
    """Visits a server: `visit(server.url, language="zh", colors="dark")`.

    A test fails if the console shows an error, if a script fails, or if anything is asked of
    another host.
    """
    visits: list[tuple[Any, Visit]] = []

    def begin(url: str, language: str = "en", colors: str = "light", **settings: Any) -> Visit:
        locale = {"en": "en-GB", "zh": "zh-CN"}[language]
        context = chromium.new_context(locale=locale, color_scheme=colors, **settings)
        context.set_default_timeout(20_000)
        context.grant_permissions([])
        page = context.new_page()
        made = Visit(page, url)
        visits.append((context, made))

        def console(message: Any) -> None:
            if message.type == "error":
                made.wrong.append(f"console: {message.text} {message.location}")

        def asked(request: Any) -> None:
            if not request.url.startswith((url, "data:", "blob:")):
                made.wrong.append(f"asked elsewhere: {request.url}")

        def dialog(box: Any) -> None:
            made.wrong.append(f"dialog: {box.message}")
            box.dismiss()

        page.on("console", console)
        page.on("pageerror", lambda error: made.wrong.append(f"script: {error}"))
        page.on("request", asked)
        page.on("dialog", dialog)
        return made

    yield begin
    for context, _ in visits:
        context.close()
    for _, made in visits:
        made.check()


LOOKS = [(language, colors) for language in ("en", "zh") for colors in ("light", "dark")]


@pytest.fixture(params=LOOKS, ids=["-".join(look) for look in LOOKS])
def look(request) -> dict[str, str]:
    """A language and a colour scheme, each with each."""
    return dict(zip(("language", "colors"), request.param, strict=True))


@pytest.fixture(scope="session")
def until() -> Callable[[Any, str], None]:
    """Waits until something holds on a page: `until(page, "document.title")`."""

    # Trap: Playwright's own way evaluates a string in the page, which its policy forbids.
    def wait(page: Any, condition: str) -> None:
        for _ in range(400):
            if page.evaluate(condition):
                return
            page.wait_for_timeout(50)
        raise AssertionError(f"never true: {condition}")

    return wait


@pytest.fixture(scope="session")
def findings() -> Callable[[Any], list[str]]:
    """What axe-core finds on a page that is serious or critical, a line each."""
    axe = pytest.importorskip("axe_playwright_python", reason="axe-core is not installed")
    script = (Path(axe.__file__).parent / "axe.min.js").read_text(encoding="utf-8")

    def find(page: Any) -> list[str]:
        # By the debugger, which the page's own policy does not bind.
        page.evaluate(script + "; 0")
        found = page.evaluate("axe.run(document, {resultTypes: ['violations']})")
        return [
            f"{each['id']} ({each['impact']}): {node['html'][:200]} {json.dumps(node['any'])[:300]}"
            for each in found["violations"]
            if each["impact"] in ("serious", "critical")
            for node in each["nodes"]
        ]

    return find
