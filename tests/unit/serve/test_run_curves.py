"""What runs measured: read once, as much as a chart can show, and news for all who watch."""

import json
import os
import time
from queue import Queue
from threading import Thread

import pytest

from clozeworks.serve.work import Overloaded
from clozeworks.serve.workspace import curves as reading
from clozeworks.serve.workspace import watching
from clozeworks.serve.workspace.curves import Curve, Curves, parsed_line
from clozeworks.serve.workspace.run_endpoints import CurveBody, run_curves
from clozeworks.serve.workspace.run_records import parts_of, run_record, steps_per_second
from clozeworks.serve.workspace.watching import RunWatcher
from clozeworks.serve.workspace.workspace import Workspace


def line(step, loss=1.0, **more):
    """A line of metrics."""
    return {"step": step, "loss": loss, "seconds": step / 4, **more}


def test_a_line_is_numbers_by_name():
    found = parsed_line(
        json.dumps({
            "step": 3, "loss": None, "masked_lm": {"loss": 2, "accuracy": 0.5}, "skipped": 1,
            "spikes": 2, "deep": {"a": {"b": {"c": 1}}}, "flag": True, "text": "x",
        }).encode()
    )  # fmt: skip
    assert found.values == {
        "masked_lm.loss": 2.0, "masked_lm.accuracy": 0.5, "skipped": 1.0, "spikes": 2.0
    }  # fmt: skip
    assert found.marks == {"spike": 2, "skipped": 1}
    assert parsed_line(b'{"step": 1, "loss": NaN, "gradient": 3}').values == {"gradient": 3.0}
    for damaged in (
        b"{",
        b"[1]",
        b'{"step": "1"}',
        b'{"step": -1}',
        b"[" * 5000,
        b'{"step": true}',
    ):
        assert parsed_line(damaged) is None


def test_only_what_was_added_is_read(tmp_path):
    path = tmp_path / "metrics.jsonl"
    text = "".join(json.dumps(line(step)) + "\n" for step in range(100_000))
    path.write_text(text)
    curve = Curve(path)
    curve.update()
    assert curve.lines == 100_000 and curve.reader.read_bytes == len(text)
    curve.update()
    assert curve.reader.read_bytes == len(text), "nothing is read twice"
    added = json.dumps(line(100_000)) + "\n"
    with path.open("a") as file:
        file.write(added + '{"step": 100001, "lo')
    curve.update()
    assert curve.lines == 100_001 and curve.reader.offset == len(text) + len(added)
    with path.open("a") as file:
        file.write('ss": 7}\n')
    curve.update()
    assert curve.thinned("loss", 10, 100_001, 100_001) == ([100_001], [7.0])
    assert curve.reader.damaged == 0


def test_spikes_stay_at_any_scale(tmp_path):
    path = tmp_path / "metrics.jsonl"
    with path.open("w") as file:
        for step in range(100_000):
            value = {31_415: 99.0, 77_777: -5.0}.get(step, 1.0)
            more = {"spikes": 1} if step == 31_415 else {"skipped": 2} if step == 50_000 else {}
            file.write(json.dumps(line(step, value, **more)) + "\n")
    curve = Curve(path)
    curve.update()
    steps, values = curve.thinned("loss", 500, *curve.span())
    assert len(steps) <= 4 * 500 and steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, 99_999)
    assert dict(zip(steps, values, strict=True))[31_415] == 99.0 and -5.0 in values
    marks = curve.thinned_marks(500, *curve.span())
    assert [(each["step"], each["kind"], each["count"]) for each in marks] == [
        (31_415, "spike", 1), (50_000, "skipped", 2),
    ]  # fmt: skip
    inside, _ = curve.thinned("loss", 500, 31_400, 31_430)
    assert inside == list(range(31_400, 31_431)), "closer up, everything is there"


def test_a_file_that_was_replaced_is_read_anew(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text(json.dumps(line(1, 5)) + "\n" + json.dumps(line(2, 6)) + "\n")
    curve = Curve(path)
    curve.update()
    other = tmp_path / "other"
    other.write_text(json.dumps(line(1, 7)) + "\n")
    other.rename(path)
    curve.update()
    assert curve.thinned("loss", 10, 0, 9) == ([1], [7.0])


def test_huge_files_and_lines_are_bounded(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps(line(step)) + "\n" for step in range(1_000)]
    path.write_text("".join(lines))
    curve = Curve(path)
    is_another, found = curve.reader.read(most=1_000)
    assert is_another and 900 < found[0].step <= 999 and found[-1].step == 999
    assert curve.reader.read_bytes == 1_000 and curve.reader.left_out == len("".join(lines)) - 1_000
    monkeypatch.setattr(reading, "_LONGEST_LINE", 1_000)
    monkeypatch.setattr(reading, "_BLOCK", 300)
    path.write_text(lines[1] + '{"step": 2, "x": "' + "x" * 5_000 + '"}\n' + lines[3])
    curve = Curve(path)
    curve.update()
    assert (curve.lines, curve.reader.damaged, curve.span()) == (2, 1, (1, 3))


@pytest.mark.parametrize("what", ["link", "pipe", "folder", "nothing"])
def test_what_is_no_file_is_not_read(tmp_path, what):
    path = tmp_path / "metrics.jsonl"
    (tmp_path / "secret").write_text(json.dumps(line(1)) + "\n")
    if what == "link":
        path.symlink_to(tmp_path / "secret")
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    with pytest.raises((OSError, ValueError)):
        Curve(path).update()


def test_curves_that_nobody_looks_at_are_forgotten(tmp_path):
    several = Curves(most=250)
    for name in "abc":
        (tmp_path / name).write_text(
            "".join(json.dumps({"step": n, "loss": 1}) + "\n" for n in range(100))
        )
        several.of(tmp_path / name).update()
    first = several.of(tmp_path / "a")
    assert first.lines in (0, 100)
    assert sum(each.size for each in several._held.values()) <= 300


def test_a_chart_asks_for_what_it_shows(tmp_path, new_run):
    new_run(tmp_path / "run", [line(step, gradient=2.0) for step in range(1, 51)])
    workspace = Workspace([tmp_path])
    found = run_curves(workspace, CurveBody(run="run", series="loss,nothing", columns=10))
    assert found["series"]["nothing"] == {"steps": [], "values": []}
    assert len(found["series"]["loss"]["steps"]) <= 40
    assert (found["first_step"], found["last_step"], found["lines"]) == (1, 50, 50)
    assert found["names"] == ["loss", "seconds", "gradient"]
    part = run_curves(workspace, CurveBody(run="run", begin=10, end=12))
    assert part["series"]["loss"]["steps"] == [10, 11, 12]
    workspace.close()


def test_seeds_are_parts(tmp_path, new_run):
    run = new_run(tmp_path / "run", status="running", folder="seed-10")
    (run / "metrics.jsonl").unlink()
    for name in ("seed-2", "seed-10", "seed-1"):
        new_run(run / name, [line(1)])
    assert parts_of(run) == ["seed-1", "seed-2", "seed-10"]
    record = run_record("run", run)
    assert record["parts"] == parts_of(run) and record["status"] == "stopped"
    assert record["current"] == "seed-10"
    run_away = new_run(tmp_path / "away", [line(1)], folder="../../..")
    assert run_record("away", run_away)["current"] == "."


def test_the_pace_is_that_of_late(tmp_path, new_run):
    run = new_run(tmp_path / "run", [line(step) for step in range(5_000)])
    assert steps_per_second(run / "metrics.jsonl") == pytest.approx(4.0)
    assert steps_per_second(run / "nothing") is None


@pytest.fixture
def watched(tmp_path, new_run):
    """A workspace with a run, what happens in it, and how it is waited for."""
    run = new_run(tmp_path / "work" / "run", [line(1), line(2)])
    workspace = Workspace([tmp_path / "work"], seconds=0.02)
    workspace.look, look = lambda: _fresh(workspace, look), workspace.look
    happened, stop = Queue(), []

    def listen():
        for event in workspace.watcher.events(lambda: not stop):
            happened.put(event)

    threads = [Thread(target=listen, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()

    def until(kind):
        """The next event of a kind, which both of the listeners get."""
        found = []
        deadline = time.monotonic() + 10
        while len(found) < 2:
            event = happened.get(timeout=max(deadline - time.monotonic(), 0.01))
            if event["kind"] == kind:
                found.append(event)
        assert found[0] == found[1]
        return found[0]

    yield run, until, workspace
    stop.append(True)
    workspace.close()
    for thread in threads:
        thread.join(5)
        assert not thread.is_alive()


def _fresh(workspace, look):
    workspace._looked = 0.0
    return look()


def test_news_reach_everybody(watched, tmp_path, new_run):
    run, until, workspace = watched
    assert [each["name"] for each in until("runs")["runs"]] == ["run"]
    curve = run_curves(workspace, CurveBody(run="run"))
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps(line(3, 9.0, spikes=1)) + "\n")
    event = until("lines")
    assert event["run"] == "run" and event["begin"] == curve["offset"] < event["end"]
    assert event["identity"] == curve["identity"]
    assert event["lines"] == [
        {"step": 3, "values": {"loss": 9.0, "seconds": 0.75, "spikes": 1.0}, "marks": {"spike": 1}}
    ]
    new_run(tmp_path / "work" / "another")
    assert until("run")["run"]["name"] == "another"
    (run / "metrics.jsonl").write_text(json.dumps(line(1)) + "\n")
    assert until("anew")["run"] == "run"
    run.rename(tmp_path / "elsewhere")
    assert until("gone") == {"kind": "gone", "run": "run"}


def test_one_thread_looks_for_all_and_ends_with_the_last(watched):
    _, until, workspace = watched
    until("runs")
    watcher = workspace.watcher
    assert watcher._thread is not None and len(watcher._listeners) == 2
    workspace.close()
    deadline = time.monotonic() + 10
    while watcher._listeners:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_who_does_not_read_loses_the_news_and_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(watching, "_MOST_UNREAD", 3)
    watcher = RunWatcher(dict, lambda name, folder: {}, seconds=10)
    events = watcher.events(lambda: True)
    assert next(events) == {"kind": "runs", "runs": []}
    for number in range(9):
        watcher._tell({"kind": "run", "run": number})
    found = list(events)
    assert found[-1] == {"kind": "lost"} or {"kind": "lost"} in found
    watcher.close()


def test_not_everybody_can_watch_at_once(monkeypatch):
    monkeypatch.setattr(watching, "_MOST_WATCHERS", 1)
    watcher = RunWatcher(dict, lambda name, folder: {}, seconds=10)
    first = watcher.events(lambda: True)
    next(first)
    with pytest.raises(Overloaded, match="1 pages watch the runs"):
        next(watcher.events(lambda: True))
    first.close()
    next(watcher.events(lambda: True))
    watcher.close()


def test_streams_end_when_the_server_does(tmp_path, asking, new_run):
    from clozeworks.serve.workspace.endpoints import workspace_endpoints

    new_run(tmp_path / "run")
    workspace = Workspace([tmp_path], seconds=0.02)
    with asking(endpoints=workspace_endpoints(workspace), host="testserver") as client:
        Thread(target=lambda: (time.sleep(0.3), _drain(client)), daemon=True).start()
        text = client.get("/v1/runs/events").text  # which ends
    assert text.startswith('data: {"kind":"runs"')
    workspace.close()


def _drain(client):
    client.answering.draining = True
