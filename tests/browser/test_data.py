"""The view Data: what a step sees, and what labelled files hold."""

import json
import time

import pytest

pytestmark = pytest.mark.browser


def test_a_step_is_shown_in_both_languages_and_colours(opened, visit, look, findings):
    page = visit(opened.url, **look).go("data/corpus/corpus")
    page.locator(".token.masked").first.wait_for()
    assert page.locator("article").count() == 3 and findings(page) == []
    label = {"en": "One step after", "zh": "下一步"}[look["language"]]
    before = page.locator(".tokens").first.inner_text()
    page.get_by_role("button", name=label).click()
    deadline = time.monotonic() + 60
    while page.locator(".tokens").first.inner_text() == before:
        assert time.monotonic() < deadline
        page.wait_for_timeout(100)


def test_it_shows_what_the_command_prints(opened, visit, workspace):
    """The same tokens, asked and shown, as the step has."""
    from clozeworks.serve.workspace.data_endpoints import BatchBody, seen_step

    page = visit(opened.url).go("data/corpus/corpus")
    page.locator(".token.masked").first.wait_for()
    page.get_by_label("Step", exact=True).fill("41")
    page.get_by_label("Step", exact=True).press("Enter")
    page.get_by_text("Step 41 (epoch").wait_for()
    seen = seen_step(workspace / "corpus", BatchBody(corpus="corpus", step=41))
    for number, example in enumerate(seen["examples"]):
        expected = " ".join(
            f"{original} {shown}" if original else shown for shown, _, original in example["tokens"]
        )
        assert page.locator(".tokens").nth(number).inner_text().split() == expected.split()


def test_a_wrong_objective_says_what_is_wrong(opened, visit):
    visited = visit(opened.url)
    visited.allowed = ["422"]
    page = visited.go("data/corpus/corpus")
    page.get_by_label("Objective").select_option("t5")
    page.get_by_text("the tokenizer has no token <extra_id_0>").wait_for()


def test_a_labelled_file_is_shown_in_both_languages_and_colours(opened, visit, look, findings):
    page = visit(opened.url, **look).go("data/file/reviews.csv")
    page.get_by_text("contradictions").wait_for()
    assert page.get_by_text("<img src=x onerror=").count() > 3
    assert page.locator("main img").count() == 0 and findings(page) == []


def test_another_task_finds_other_columns(opened, visit):
    visited = visit(opened.url)
    visited.allowed = ["422"]
    page = visited.go("data/file/reviews.csv")
    page.get_by_text("contradictions").wait_for()
    page.get_by_label("What the labels are for").select_option("answer")
    page.get_by_role("alert").wait_for()
    assert "reviews.csv" in page.get_by_role("alert").inner_text()


def test_hostile_names_of_files(running, visit, tmp_path):
    name = "<img src=x onerror=alert(1)>.csv"
    (tmp_path / name).write_text("text,label\n" + "<b>bold</b>,<i>x</i>\n" * 3)
    with running("open", tmp_path, "--no-browser") as server:
        page = visit(server.url, viewport={"width": 390, "height": 800}).go("data")
        page.get_by_text("<b>bold</b>").first.wait_for()
        assert page.locator("main img, main b, main i").count() == 0
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width <= 390, json.dumps(width)
        page.goto("about:blank")
