"""Curves show what was measured, and nothing that is not a number."""

import math
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from clozeworks.reports import charts
from clozeworks.reports.charts import (
    MOST_POINTS,
    VARIABLES,
    Marks,
    calibration_chart,
    confusion_chart,
    draw_png,
    draw_svg,
    scatter_chart,
)
from clozeworks.reports.curves import GuessingLoss, finetuning_panels
from clozeworks.reports.curves import pretraining_panels as panels
from clozeworks.reports.summary import SeedSummary
from clozeworks.tasks.metrics.calibration import Bin
from clozeworks.tasks.metrics.measured import Measured
from clozeworks.tasks.results.details import CalibrationCurve, ConfusionMatrix, ScatterPlot


def line(step, loss, **more):
    part = {"loss": loss, "accuracy": 0.1}
    return {
        "step": step,
        "masked_lm": part,
        "learning_rate": 1e-4,
        "tokens_per_second": 100.0,
        **more,
    }


def held_out(step, loss):
    part = {"loss": loss, "accuracy": 0.2, "perplexity": 2.0}
    return {"step": step, "evaluation": {"loss": loss, "masked_lm": part}}


RECORDS = [held_out(0, 8.0), line(10, 7.0, spikes=1), line(20, 6.0, skipped=2), held_out(20, 5.5)]
GUESS = GuessingLoss("masked_lm", 6.5, 0.05)


def test_each_part_has_a_loss_beside_what_guessing_costs():
    found = {panel.title: panel for panel in panels(RECORDS, GUESS)}
    assert list(found) == ["loss: masked_lm", "accuracy", "learning rate", "tokens per second"]
    training, measured = found["loss: masked_lm"].lines
    assert training.points == [(10, 7.0), (20, 6.0)]
    assert measured.points == [(0, 8.0), (20, 5.5)]
    assert found["loss: masked_lm"].level.value == 6.5
    assert found["accuracy"].level.value == 0.05


def test_no_baseline_no_dashed_line():
    assert all(panel.level is None for panel in panels(RECORDS, None))
    assert all(
        panel.level is None for panel in panels(RECORDS, GuessingLoss("contrastive", 6.5, 0.05))
    )


def test_what_is_not_a_number_is_left_out():
    records = [line(1, math.nan), line(2, None), line(3, math.inf), line(4, 2.0)]
    records.append(
        {"step": 5, "loss": None, "learning_rate": 1e-4, "tokens_per_second": 1.0}
    )  # skipped
    assert panels(records, None)[0].lines[0].points == [(4, 2.0)]


def test_very_many_points_become_means_that_keep_the_level():
    points = panels([line(step, 3.0) for step in range(12_345)], None)[0].lines[0].points
    assert len(points) <= 500
    assert points[-1] == (12_344, pytest.approx(3.0))


def test_nothing_measured_is_nothing_to_draw():
    assert panels([], GUESS) == []


def test_spikes_and_skipped_updates_are_marked():
    marks = Marks.of(RECORDS, {15: "texts of up to 512 tokens"})
    assert (marks.spikes, marks.skipped) == ([10], [20])
    assert list(Marks.of(RECORDS, {20: "here", 21: "in the future"}).borders) == [20]


def test_the_picture():
    found = draw_png(panels(RECORDS, GUESS), Marks.of(RECORDS, {15: "longer"}))
    assert found.startswith(b"\x89PNG")
    assert "matplotlib.pyplot" not in sys.modules  # no global figures


def every_chart():
    shown = panels(RECORDS, GUESS)
    return [
        *draw_svg(shown, Marks.of(RECORDS, {15: "texts of up to 512 tokens"})),
        *draw_svg(finetuning_panels([seed(3, 20, 0.5, 0.9), seed(4, 10, 0.7, 0.6)], "task", None)),
        confusion_chart(ConfusionMatrix(("<a>", "b"), ((3, 1), (0, 0)))),
        calibration_chart(CalibrationCurve((Bin(0.5, 0.6, 3, 0.55, 0.4), Bin(0.6, 1, 0, 0, 0)))),
        scatter_chart(ScatterPlot((1.0, 2.0), (1.5, 2.5))),
    ]


def test_elements_of_a_page():
    drawn = every_chart()
    assert drawn == every_chart()  # to the last byte
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
    assert "from step 15: texts of up to 512 tokens" in drawn[0]
    assert "skipped update" in drawn[0] and "unusually high loss" in drawn[0]


def seed(number, step, *values):
    records = [{"step": step, "task": {"loss": 2.0}} for step in range(1, 21)]
    for at, value in zip((10, 20), values, strict=True):
        judged = {"primary": "m", "values": {"m": value}, "best": True}
        evaluation = {"loss": 1.0, "task": {"loss": 1.0}}
        records.append({"step": at, "evaluation": evaluation, "judged": judged})
    return SeedSummary(number, step, 20, 1, 1.0, Measured({"m": 0.9}, "m", True, 9), records)


def test_seeds_have_a_line_each_and_a_ring_around_their_best_step():
    guess = Measured({"m": 0.1}, "m", True, 9)
    shown = finetuning_panels([seed(3, 20, 0.5, 0.9), seed(4, 10, 0.7, 0.6)], "task", guess)
    loss, value = shown
    assert [line.label for line in loss.lines] == [
        "seed 3, training", "seed 3, dev set", "seed 4, training", "seed 4, dev set",
    ]  # fmt: skip
    assert [line.thick for line in loss.lines] == [False, True, False, True]
    assert loss.lines[0].points == [(step, 2.0) for step in range(1, 21)]
    assert [line.points for line in value.lines] == [
        [(10, 0.5), (20, 0.9)], [(10, 0.7), (20, 0.6)],
    ]  # fmt: skip
    assert [ring.point for ring in value.rings] == [(20, 0.9), (10, 0.7)]
    assert len(loss.rings) == 2 and loss.level is None
    assert (value.level.label, value.level.value) == ("guessing", 0.1)
    drawn = draw_svg(shown)
    assert "<title>seed 3, best step 20: 0.9000</title>" in drawn[1]
    assert "<title>seed 4, best step 10: 0.7000</title>" in drawn[1]


@pytest.mark.parametrize("lines", [[], [{"step": 1, "task": {"loss": float("nan")}}]])
def test_a_seed_without_numbers_has_no_curves(lines):
    nothing = SeedSummary(3, 20, 20, 1, 1.0, Measured({"m": 0.9}, "m", True, 9), lines)
    assert finetuning_panels([nothing], "task", None) == []


def test_a_confusion_matrix_says_how_large_each_share_is():
    drawn = confusion_chart(ConfusionMatrix(("<a>", "$b$ 中文"), ((3, 1), (0, 0))))
    assert "<title>&lt;a&gt; → $b$ 中文: 1 (25.0%)</title>" in drawn and "<a>" not in drawn
    assert "opacity: 0.75" in drawn
    ElementTree.fromstring(drawn)
    many = tuple(map(str, range(31)))
    assert confusion_chart(ConfusionMatrix(many, tuple((0,) * 31 for _ in many))) == ""
    assert confusion_chart(ConfusionMatrix((), ())) == ""


def test_calibration_says_what_is_in_each_bin():
    bins = (Bin(0.7, 0.8, 5, 0.8, 0.6), Bin(0.8, 1.0, 0, 0.0, 0.0))
    drawn = calibration_chart(CalibrationCurve(bins))
    assert "<title>5 predictions, 80.0% confident, 60.0% right</title>" in drawn
    assert drawn.count("<title>") == 1
    ElementTree.fromstring(calibration_chart(CalibrationCurve(())))


def test_points_of_little_or_much():
    alike = scatter_chart(ScatterPlot((5.0, 5.0), (5.0, 5.0)))
    assert "nan" not in alike
    many = scatter_chart(ScatterPlot(tuple(range(9000)), tuple(range(9000))))
    assert MOST_POINTS <= many.count("<use") <= MOST_POINTS + 30  # and ticks


def test_colours_of_the_page_are_those_of_the_picture():
    style = Path(charts.__file__).parent.joinpath("templates/report.css").read_text("utf-8")
    light, dark = style.split("@media (prefers-color-scheme: dark)")
    for name, colour in VARIABLES.items():
        assert f"--{name}: {colour};" in light
        assert f"--{name}: #" in dark
