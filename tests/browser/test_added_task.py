"""A task that is added as one file has its fields and its answers on the page."""

import pytest

import clozeworks as cw
from clozeworks.tasks.task import task_class

pytestmark = pytest.mark.browser
TEXT = "😀 the river is near the town"


def select(page, words):
    """Selects a stretch of the text by keyboard, as a person does."""
    begin = TEXT.index(words)
    page.get_by_label("text", exact=True).focus()
    page.keyboard.press("Control+Home")
    for _ in range(begin):
        page.keyboard.press("ArrowRight")
    for _ in words:
        page.keyboard.press("Shift+ArrowRight")


def test_it_is_asked_and_shown(added_task, tiny_models, serving, visit, findings):
    task = task_class("relate")(labels=("near", "part_of"))
    with serving({"spans": cw.load(tiny_models["bert"]).for_task(task)}) as address:
        page = visit(address).go("try/spans")
        assert "Relations of spans" in page.locator("main").inner_text()
        page.get_by_label("text", exact=True).fill(TEXT)
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector(".mistake:has-text('“head” is empty')")
        for role, words in (("head", "river"), ("tail", "town")):
            select(page, words)
            page.get_by_role("button", name=f"as “{role}”").click()
            assert (
                f"“{words}”"
                in page.locator("output").nth(["head", "tail"].index(role)).inner_text()
            )
        page.get_by_role("button", name="Ask").click()
        page.wait_for_selector(".answer")
        assert page.locator(".headline strong").inner_text() in ("near", "part_of")
        assert page.locator(".bars li").count() == 2
        marks = page.locator(".answer mark").all_inner_texts()
        assert [each.split() for each in marks] == [["river", "head"], ["town", "tail"]]
        assert findings(page) == []
