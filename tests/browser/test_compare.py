"""Compare: two models on one input and on a file."""

import csv

import pytest

pytestmark = pytest.mark.browser
HOSTILE = "<img src=x onerror=\"alert('owned')\">"


@pytest.fixture(scope="module")
def served(running, workspace):
    names = ("spam", "pairs", "hostile", "words", "t5")
    with running("serve", *(workspace / name for name in names)) as server:
        yield server


def choose(page, first, second, ability=None):
    page.get_by_label("First model").select_option(first)
    page.get_by_label("Second model").select_option(second)
    if ability is not None:
        page.get_by_label("What it is asked").select_option(ability)


def test_two_models_on_one_input(served, visit, look, findings):
    page = visit(served.url, **look).go("compare")
    page.wait_for_selector("[data-choice=first]")
    page.locator("[data-choice=first]").select_option("spam")
    page.locator("[data-choice=second]").select_option("pairs")
    page.locator(".card button.main").first.click()
    page.wait_for_selector(".answer")
    assert page.locator(".answer").count() == 2
    headings = page.locator(".columns h3").all_inner_texts()
    assert headings == ["spam", "pairs"]
    assert findings(page) == []


def test_vectors_of_two_models(served, visit):
    page = visit(served.url).go("compare")
    choose(page, "words", "t5", "embed")
    page.get_by_role("button", name="Compare", exact=True).click()
    page.wait_for_selector(".heat")
    assert page.locator(".heat").count() == 2
    assert "correlated with r =" in page.locator("main").inner_text()


def test_rows_on_which_they_disagree(served, visit, workspace):
    page = visit(served.url).go("compare")
    choose(page, "spam", "hostile", "classify")
    page.set_input_files("input[type=file]", workspace / "reviews.csv")
    page.get_by_role("button", name="Compare all rows").click()
    page.wait_for_selector("button:has-text('Save as CSV')")
    assert "They agree on 0 of 20 rows (0.0%)." in page.locator("main").inner_text()
    scores = [
        min(float(text.rpartition("(")[2].rstrip(")")) for text in row.split("\t")[2:])
        for row in page.locator("tbody tr").all_inner_texts()
    ]
    assert len(scores) == 20 and scores == sorted(scores, reverse=True)
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as CSV").click()
    with saved.value.path().open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 20 and {row["same"] for row in rows} == {"false"}
    assert {row["spam"] for row in rows} <= {"good", "bad"}
    assert {row["hostile"] for row in rows} <= {HOSTILE, "plain"}


def test_the_same_model_twice_never_disagrees(served, visit, workspace):
    page = visit(served.url).go("compare")
    for ability in ("classify", "embed"):
        model = "spam" if ability == "classify" else "words"
        choose(page, model, model, ability)
        page.set_input_files("input[type=file]", workspace / "reviews.csv")
        page.get_by_role("button", name="Compare all rows").click()
        page.wait_for_selector("text=They disagree nowhere.")
    assert "r = 1.000" in page.locator("main").inner_text()
