"""The view Runs: a run watched while it trains, stopped and continued; runs that vanish."""

import json
import os
import re
import shutil
import subprocess
import sys
import time

import pytest

from clozeworks.runs.state import RunState

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=alert(1)>"
RECIPE = """
run = "live"
seed = 3
objective = "bert"
[model]
start = "bert-tiny"
config = {hidden_size = 32, num_attention_heads = 2, intermediate_size = 64}
[data]
corpus = "corpus"
stages = [{length = 24}]
[training]
steps = 100000
batch_tokens = 128
[logging]
every_steps = 1
report = false
[evaluation]
every_steps = 50
tokens = 256
[checkpointing]
every_steps = 20
"""


def made_run(folder, lines, status="stopped", **state):
    """A run with some lines of metrics."""
    folder.mkdir(parents=True)
    state = {"step": lines, "steps": 2 * lines, "loss": 2.0, **state}
    RunState("pretrain", status, **state).write(folder)
    with (folder / "metrics.jsonl").open("w") as file:
        for step in range(1, lines + 1):
            spike = {"spikes": 1} if step == lines // 2 else {}
            line = {"step": step, "loss": 3 + 5 * bool(spike) + 10 / step, "seconds": step / 5}
            file.write(json.dumps({**line, "learning_rate": 1e-3, **spike}) + "\n")
    (folder / "recipe.json").write_text(json.dumps({"seed": lines, "text": HOSTILE}))
    (folder / "notes.jsonl").write_text(json.dumps({"step": 1, "note": HOSTILE}) + "\n")
    return folder


def row(page, name):
    """The row of a run in the list."""
    return page.locator(".runs > li").filter(has=page.get_by_label(name, exact=True))


def test_it_is_shown_in_both_languages_and_colours(opened, visit, look, findings):
    page = visit(opened.url, **look).go("runs")
    row(page, "run").locator(".badge.finished").wait_for()
    page.locator("figure .line").first.wait_for(state="attached")
    assert page.locator("h1").inner_text() == {"en": "Runs", "zh": "训练"}[look["language"]]
    assert findings(page) == []
    with page.context.expect_page() as shown:
        row(page, "run").get_by_role("link").click()
    shown.value.wait_for_load_state()
    assert "pre-training" in shown.value.title()


def test_several_runs_share_a_chart(running, visit, tmp_path, findings):
    made_run(tmp_path / "work" / "first", 100)
    made_run(tmp_path / "work" / HOSTILE, 5_000, "failed", problem=HOSTILE)
    with running("open", tmp_path / "work", "--no-browser") as server:
        page = visit(server.url).go("runs")
        for name in ("first", HOSTILE):
            row(page, name).get_by_role("checkbox").check()
        loss = page.locator("figure").filter(has_text="Loss")
        loss.locator(".line").nth(1).wait_for(state="attached")
        assert sorted(loss.locator("circle title").all_text_contents()) == [
            "Spike near step 2,500 (1)", "Spike near step 50 (1)"
        ]  # fmt: skip
        assert page.get_by_role("heading", name="Settings that differ").is_visible()
        assert page.get_by_role("region", name="Settings that differ").get_by_text("5000").count()
        page.get_by_label("Logarithmic").check()
        page.get_by_label("Smoothing").fill("0.9")
        page.wait_for_timeout(500)
        assert loss.locator(".line").count() == 2
        page.get_by_text(f"Settings and notes of {HOSTILE}").click()
        assert page.get_by_text(HOSTILE).count() > 3 and page.locator("main img").count() == 0
        assert findings(page) == []
        page.goto("about:blank")


def test_a_long_run_opens_thinned(running, visit, tmp_path):
    made_run(tmp_path / "work" / "long", 100_000)
    with running("open", tmp_path / "work", "--no-browser") as server:
        visited = visit(server.url)
        sizes = []
        visited.page.on(
            "response", lambda reply: sizes.append(reply) if "curves" in reply.url else None
        )
        page = visited.go("runs")
        loss = page.locator("figure").filter(has_text="Loss")
        loss.locator(".line").wait_for(state="attached")
        assert len(sizes[0].body()) < 300_000
        assert loss.locator("circle title").all_text_contents() == ["Spike near step 50,000 (1)"]
        page.goto("about:blank")


@pytest.fixture
def live(tmp_path, small_corpus):
    """A folder with a run that trains until it is stopped."""
    folder = tmp_path / "work"
    shutil.copytree(small_corpus, folder / "corpus")
    (folder / "recipe.toml").write_text(RECIPE)
    command = [sys.executable, "-m", "clozeworks", "pretrain", "recipe.toml"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        command, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    yield folder, process
    process.kill()
    process.wait()
    process.stderr.close()
    state = json.loads((folder / "live" / "state.json").read_text())
    if state["pid"] is not None:
        os.kill(state["pid"], 9)


def test_a_run_is_watched_stopped_and_continued(live, running, visit):
    folder, process = live
    with running("open", folder, "--no-browser") as server:
        visited = visit(server.url)
        page, other = visited.go("runs"), visit(server.url, language="zh").go("runs")
        page.set_default_timeout(120_000)
        other.set_default_timeout(120_000)
        mine = row(page, "live")
        mine.locator(".badge.running").wait_for()
        page.locator("figure .line").first.wait_for(state="attached")

        def step():
            # Before its first step a run does not know how many it has.
            found = re.search(r"step ([\d,]+)", mine.inner_text())
            return int(found.group(1).replace(",", "")) if found else -1

        before, path = step(), page.locator("figure .line").first.get_attribute("d")
        deadline = time.monotonic() + 60
        while step() <= before or page.locator("figure .line").first.get_attribute("d") == path:
            assert time.monotonic() < deadline, "the curve grows"
            page.wait_for_timeout(200)
        row(other, "live").locator(".badge.running").wait_for()
        mine.get_by_role("button", name="Stop live").click()
        page.get_by_role("dialog").get_by_role("button", name="Leave it").click()
        assert process.poll() is None
        mine.get_by_role("button", name="Stop live").click()
        page.get_by_role("dialog").get_by_role("button", name="Stop").click()
        assert process.wait(60) == 75
        mine.locator(".badge.stopped").wait_for()
        row(other, "live").locator(".badge.stopped").wait_for()
        stopped = step()
        mine.get_by_role("button", name="Go on with live").click()
        box = page.get_by_role("dialog")
        assert "clozeworks pretrain recipe.toml" in box.inner_text()
        box.get_by_role("button", name="Go on").click()
        mine.locator(".badge.running").wait_for()
        deadline = time.monotonic() + 60
        while step() <= stopped:
            assert time.monotonic() < deadline
            page.wait_for_timeout(200)
        mine.get_by_role("button", name="Stop live").press("Enter")
        page.get_by_role("dialog").get_by_role("button", name="Stop").press("Enter")
        mine.locator(".badge.stopped").wait_for()
        page.goto("about:blank")
        other.goto("about:blank")


def test_runs_vanish_and_the_server_comes_back(running, visit, tmp_path):
    first = made_run(tmp_path / "work" / "first", 50)
    made_run(tmp_path / "work" / "second", 50)
    with running("open", tmp_path / "work", "--no-browser") as server:
        visited = visit(server.url)
        visited.allowed = ["Failed to load resource", "ERR_CONNECTION", "ERR_INCOMPLETE"]
        page = visited.go("runs")
        page.set_default_timeout(60_000)
        row(page, "first").wait_for()
        first.rename(tmp_path / "elsewhere")
        row(page, "first").wait_for(state="detached")
        assert page.get_by_text("first is not there any more.").is_visible()
        made_run(tmp_path / "work" / "third", 50)
        row(page, "third").wait_for()
        server.stop()
        page.get_by_text("The server does not answer.").first.wait_for()
        made_run(tmp_path / "work" / "fourth", 50)
        server.start()
        row(page, "fourth").wait_for()
        page.locator(".notice").wait_for(state="hidden")
        page.goto("about:blank")


def test_a_run_that_must_not_go_on_says_why(running, visit, tmp_path):
    run = made_run(tmp_path / "work" / "run", 50, command=("clozeworks", "pretrain", "/etc/passwd"),
                   where=str(tmp_path / "work"))  # fmt: skip
    with running("open", tmp_path / "work", "--no-browser") as server:
        visited = visit(server.url)
        visited.allowed = ["409"]
        page = visited.go("runs")
        row(page, run.name).get_by_role("button", name="Go on").click()
        page.get_by_role("dialog").get_by_role("button", name="Go on").click()
        page.get_by_text("which is not in what was opened").wait_for()
        page.goto("about:blank")


def test_the_keyboard_reaches_everything(running, visit, tmp_path):
    made_run(tmp_path / "work" / "run", 50, command=("clozeworks", "pretrain", "recipe.toml"),
             where=str(tmp_path / "work"))  # fmt: skip
    with running("open", tmp_path / "work", "--no-browser") as server:
        page = visit(server.url).go("runs")
        page.locator("figure .line").first.wait_for(state="attached")
        reached = set()
        for _ in range(40):
            page.keyboard.press("Tab")
            reached.add(
                page.evaluate(
                    "(document.activeElement.ariaLabel ?? '') + document.activeElement.tagName"
                )
            )
        assert {"Go on with runBUTTON", "Losssvg"} <= reached
        page.locator("figure svg").first.focus()
        page.keyboard.press("ArrowRight")
        assert page.locator("figure .cursor").count() == 1
        page.goto("about:blank")
