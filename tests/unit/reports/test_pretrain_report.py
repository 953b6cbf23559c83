"""The report tells how a run went, is safe to open, and never costs a run."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from clozeworks.engine.guards import Diverged, Guards
from clozeworks.engine.trainer import Outcome, Trainer
from clozeworks.jobs.pretrain.job import pretrain
from clozeworks.jobs.pretrain.report import write_report
from clozeworks.reports import pretrain as report
from clozeworks.reports.curves import GuessingLoss
from clozeworks.reports.pretrain import PretrainSummary
from clozeworks.reports.pretrain import pretraining_page as page
from clozeworks.runs.folder import NOTES, command_of

MANIFEST = {
    "splits": {"train": {"documents": 12, "sentences": 345, "tokens": 6789}},
    "tokenizer": {"kind": "wordpiece", "size": 30522},
}
RECIPE = {
    "run": "run",
    "model": {"start": "bert-tiny"},
    "data": {"corpus": "<script>alert(1)</script>"},
    "training": {"steps": 20, "max_grad_norm": None},
}
PART = {"loss": 5.0, "accuracy": 0.25, "perplexity": 148.41}
RECORDS = [
    {"step": 0, "evaluation": {"loss": 8.0, "masked_lm": {**PART, "loss": 8.0}}},
    {"step": 10, "masked_lm": PART, "learning_rate": 1e-4, "tokens_per_second": 10.0},
    {"step": 10, "evaluation": {"loss": 5.0, "masked_lm": PART}},
]


class Checker(HTMLParser):
    """Every element is closed; everything the page would fetch is noted."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.fetched: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in ("meta", "wbr", "br"):
            self.open.append(tag)
        self.fetched += [
            value
            for name, value in attrs
            if name in ("src", "href", "xlink:href") and not value.startswith("#")
        ]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def story(**changes):
    outcome = Outcome(10, False, 15, 4000, 120.0, Guards(skipped=1, spikes=2))
    known = {
        "name": "run", "recipe": RECIPE, "manifest": MANIFEST, "records": RECORDS,
        "borders": {}, "outcome": outcome, "guessing": GuessingLoss("masked_lm", 6.5, 0.04),
    }  # fmt: skip
    return PretrainSummary(**{**known, **changes})


def words(text):
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", text))


def test_how_it_ended():
    finished = Outcome(20, True, 0, 4000, 120.0, Guards())
    said = words(page(story(outcome=finished), []))
    assert "Finished: 20 of 20 steps, 4,000 tokens in 2.0 minutes (33 tokens per second)." in said
    said = words(page(story(), []))
    assert "Stopped: 10 of 20 steps" in said
    assert "not finite: 1; steps with an unusually high loss: 2." in said
    said = words(page(story(outcome=None, problem="step 11: too <large>."), []))
    assert "An error ended the run after step 10 of 20: step 11: too &lt;large&gt;." in said


def test_tables():
    said = words(page(story(), []))
    assert "step 0 step 10 guessing by frequency masked_lm loss 8.0000 5.0000 6.5000" in said
    assert "accuracy 25.00% 25.00% 4.00%" in said
    assert "train 12 345 6,789" in said and "wordpiece, 30,522 entries" in said
    without = [{"step": 0, "evaluation": {"loss": 8.0, "cosine": {"loss": 8.0}}}]
    assert "accuracy" not in words(page(story(records=without), [])).partition("Measured on")[0]
    said = words(page(story(records=[]), []))
    assert "The corpus has no held-out part, so nothing was measured." in said


def test_what_users_write_is_text():
    text = page(
        story(
            name="<img src=x onerror=alert(2)>",
            sessions=[{"began": "<b>"}],
            notes=["a <u>note</u>"],
            command="clozeworks pretrain '<i>.toml'",
        ),
        [],
    )
    for tag in ("<script", "<img", "<b>", "<i>", "<u>"):
        assert tag not in text
    assert "a &lt;u&gt;note&lt;/u&gt;" in text
    assert "clozeworks pretrain &#39;&lt;i&gt;.toml&#39;" in text


def test_the_page_of_a_run_needs_nothing_else(tiny_recipe, listener):
    done = pretrain(tiny_recipe, callback=listener)
    text = done.report.read_text(encoding="utf-8")
    checker = Checker()
    checker.feed(text)
    assert checker.open == []
    assert checker.fetched == []
    assert "@import" not in text and not re.search(r"url\((?!#)", text)
    assert text.count("<svg") == 5  # two losses, accuracy, rate, speed
    assert "from step 3: texts of up to 24 tokens" in text
    assert (done.folder / "curves.png").read_bytes().startswith(b"\x89PNG")
    notes = [json.loads(line)["note"] for line in (done.folder / NOTES).open(encoding="utf-8")]
    assert notes == listener.notes
    assert all(note.split(";")[0][:20] in words(text) for note in notes)
    assert done.summary()[-1] == f"Curves and everything else: {done.report}"


def test_what_was_said_before_the_first_step_is_kept(tiny_recipe, listener):
    tiny_recipe["data"]["stages"] = [{"length": 16}]  # so that nothing is said later
    done = pretrain(tiny_recipe, callback=listener)
    assert "fresh weights; 6 steps of 128 tokens" in (done.folder / NOTES).read_text(
        encoding="utf-8"
    )
    assert "fresh weights; 6 steps of 128 tokens" in done.report.read_text(encoding="utf-8")


def test_drawing_cannot_fail_a_run(tiny_recipe, listener, monkeypatch):
    def broken(*_):
        raise RuntimeError("no fonts")

    monkeypatch.setattr(report, "draw_png", broken)
    done = pretrain(tiny_recipe, callback=listener)
    assert done.outcome.finished and done.model.exists()
    assert listener.notes[-1] == (
        "The curves could not be drawn (no fonts); the run itself is not affected."
    )
    assert "<svg" not in done.report.read_text(encoding="utf-8")


def test_a_page_that_cannot_be_written_is_a_note(tmp_path, listener):
    assert write_report(tmp_path, story(manifest={}), listener) is None
    assert listener.notes == [
        "The report could not be written ('splits'); the run itself is not affected."
    ]


def test_a_run_that_diverged_has_a_report_too(tiny_recipe, listener, monkeypatch):
    def diverge(self):
        raise Diverged("step 3: not finite.")

    monkeypatch.setattr(Trainer, "run", diverge)
    with pytest.raises(Diverged):
        pretrain(tiny_recipe, callback=listener)
    text = (Path(tiny_recipe["run"]) / "report.html").read_text(encoding="utf-8")
    assert "An error ended the run after step 0 of 6: step 3: not finite." in text


def test_a_refused_run_leaves_no_notes(tiny_recipe, listener, monkeypatch):
    from clozeworks.errors import OutputError
    from clozeworks.jobs import disk

    monkeypatch.setattr(disk.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 0})())
    with pytest.raises(OutputError, match="0 bytes free"):
        pretrain(tiny_recipe, callback=listener)
    assert listener.notes
    assert not Path(tiny_recipe["run"]).exists()


@pytest.mark.parametrize(
    ("session", "command"),
    [
        ({"command": ["/x/clozeworks", "pretrain", "a b.toml"]}, "clozeworks pretrain 'a b.toml'"),
        ({"command": ["/x/__main__.py", "pretrain", "r"], "ranks": 1}, "clozeworks pretrain r"),
        ({"command": ["/x/__main__.py", "pretrain", "r"], "ranks": 2},
         "torchrun --nproc-per-node 2 -m clozeworks pretrain r"),
        ({"command": ["/x/clozeworks", "pretrain", "r"], "where": "/a b"},
         "cd '/a b' && clozeworks pretrain r"),
        ({"command": ["script.py", "r"]}, None),
        ({"command": "clozeworks"}, None),
        ({}, None),
    ],
)  # fmt: skip
def test_the_command_to_go_on(session, command):
    assert command_of(session) == command


def test_training_begins_without_the_drawing_library(start):
    code = "import clozeworks.jobs.pretrain.job, sys; sys.exit('matplotlib' in sys.modules)"
    assert start(["-c", code]).wait(timeout=60) == 0
