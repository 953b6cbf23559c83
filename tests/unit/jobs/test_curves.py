"""Curves show what was measured, and nothing that is not a number."""

import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from clozeworks.reports import curves
from clozeworks.reports.curves import VARIABLES, Marks, draw_png, draw_svg, panels


def line(step, loss, **more):
    part = {"loss": loss, "accuracy": 0.1}
    return {"step": step, "masked_lm": part, "rate": 1e-4, "tokens_per_second": 100.0, **more}


def held_out(step, loss):
    part = {"loss": loss, "accuracy": 0.2, "perplexity": 2.0}
    return {"step": step, "evaluation": {"loss": loss, "masked_lm": part}}


RECORDS = [held_out(0, 8.0), line(10, 7.0, spikes=1), line(20, 6.0, skipped=2), held_out(20, 5.5)]
GUESS = {"loss": 6.5, "accuracy": 0.05}


def test_each_part_has_a_loss_beside_what_guessing_costs():
    found = {panel.title: panel for panel in panels(RECORDS, GUESS, "masked_lm")}
    assert list(found) == ["loss: masked_lm", "right answers", "learning rate", "tokens a second"]
    training, measured = found["loss: masked_lm"].lines
    assert training.points == [(10, 7.0), (20, 6.0)]
    assert measured.points == [(0, 8.0), (20, 5.5)]
    assert found["loss: masked_lm"].level.value == 6.5
    assert found["right answers"].level.value == 0.05


def test_no_baseline_no_dashed_line():
    assert all(panel.level is None for panel in panels(RECORDS, None, "masked_lm"))
    assert all(panel.level is None for panel in panels(RECORDS, GUESS, "contrastive"))


def test_what_is_not_a_number_is_left_out():
    records = [line(1, math.nan), line(2, None), line(3, math.inf), line(4, 2.0)]
    records.append({"step": 5, "loss": None, "rate": 1e-4, "tokens_per_second": 1.0})  # skipped
    assert panels(records, None, "masked_lm")[0].lines[0].points == [(4, 2.0)]


def test_very_many_points_become_means_that_keep_the_level():
    points = panels([line(step, 3.0) for step in range(12_345)], None, "")[0].lines[0].points
    assert len(points) <= 500
    assert points[-1] == (12_344, pytest.approx(3.0))


def test_nothing_measured_is_nothing_to_draw():
    assert panels([], GUESS, "masked_lm") == []


def test_spikes_and_skipped_updates_are_marked():
    marks = Marks.of(RECORDS, {15: "texts of up to 512 tokens"})
    assert (marks.spikes, marks.skipped) == ([10], [20])
    assert list(Marks.of(RECORDS, {20: "here", 21: "in the future"}).borders) == [20]


def test_the_picture():
    found = draw_png(panels(RECORDS, GUESS, "masked_lm"), Marks.of(RECORDS, {15: "longer"}))
    assert found.startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules  # no global figures


def test_elements_of_a_page():
    shown = panels(RECORDS, GUESS, "masked_lm")
    drawn = draw_svg(shown, Marks.of(RECORDS, {15: "texts of up to 512 tokens"}))
    assert drawn == draw_svg(shown, Marks.of(RECORDS, {15: "texts of up to 512 tokens"}))
    names = []
    for svg in drawn:
        ElementTree.fromstring(svg)
        names += re.findall(r'\bid="([^"]*)"', svg)
        for used in re.findall(r"url\(#([^)]*)\)", svg) + re.findall(r'href="#([^"]*)"', svg):
            assert f'id="{used}"' in svg
        assert "<style" not in svg  # it would hold for the whole page
        # Every colour can be changed by the page.
        assert not re.sub(r"var\(--[\w-]+, #\w+\)", "", svg).count(": #")
    assert len(names) == len(set(names))
    assert "guessing by frequency" in drawn[0]
    assert "from step 15 on texts of up to 512 tokens" in drawn[0]
    assert "update left out" in drawn[0] and "loss far above the usual" in drawn[0]


def test_colours_of_the_page_are_those_of_the_picture():
    style = Path(curves.__file__).with_name("report.css").read_text(encoding="utf-8")
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for name, colour in VARIABLES.items():
        assert f"--{name}: {colour};" in light
        assert f"--{name}: #" in dark
