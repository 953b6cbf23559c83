"""The tour: six pictures of a sentence, with any model that fills gaps."""

import re

import pytest

pytestmark = pytest.mark.browser
STEPS = ("sentence", "pieces", "vectors", "attention", "masks", "gap")


@pytest.fixture(scope="module")
def served(running, workspace):
    with running("serve", workspace / "words") as server:
        yield server


def ready(page):
    page.wait_for_selector(".tour .result:not([aria-busy=true]) > *")
    assert page.locator(".mistake").count() == 0


def test_every_step_is_shown(served, visit, look, findings):
    page = visit(served.url, **look).go("tour")
    for number, step in enumerate(STEPS, 1):
        ready(page)
        assert str(number) in page.locator(".tour h2").inner_text()
        assert findings(page) == [], step
        if number < len(STEPS):
            page.locator(".tour button.main").last.click()
            page.wait_for_selector(f".steps li:nth-child({number + 1}) a[aria-current]")


def test_it_fits_a_phone(served, visit):
    visited = visit(served.url, viewport={"width": 360, "height": 640})
    for step in STEPS:
        page = visited.go(f"tour/{step}")
        ready(page)
        assert page.evaluate("document.documentElement.scrollWidth") == 360, step


def test_masks_are_drawn_as_the_paper_has_it(served, visit):
    page = visit(served.url).go("tour/masks")
    ready(page)
    for _ in range(5):
        page.get_by_role("button", name="Draw 200 times").click()
    shares = [
        float(each.rstrip("%")) / 100 for each in page.locator(".bars .number").all_inner_texts()
    ]
    text = page.locator(".tour [role=status]").inner_text()
    asked = int(re.search(r"([\d,]+) of", text).group(1).replace(",", ""))
    # Of so many draws, four standard deviations.
    for share, expected in zip(shares, (0.8, 0.1, 0.1), strict=True):
        assert abs(share - expected) < 4 * (expected * (1 - expected) / asked) ** 0.5
    assert page.locator(".piece.masked").count() > 0


def test_the_gap_is_filled_by_the_learner(served, visit):
    page = visit(served.url).go("tour/gap")
    ready(page)
    page.locator(".token").nth(1).click()
    assert "[MASK]" in page.locator(".headline").inner_text()
    page.get_by_label("Your guess").fill("the")
    page.keyboard.press("Enter")
    page.wait_for_selector(".bars")
    text = page.locator(".tour").inner_text()
    assert "stood there" in text and "Your “the”" in text
