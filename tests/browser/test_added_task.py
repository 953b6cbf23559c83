"""A task that is added as one file has its fields and its answers on the page."""

import sys
from pathlib import Path

import pytest

import clozeworks as cw
import clozeworks.tasks
from clozeworks import registry
from clozeworks.tasks.task import task_class

pytestmark = pytest.mark.browser
ADDED = Path(__file__).parents[1] / "contracts" / "added_task"
TEXT = "😀 the river is near the town"


@pytest.fixture
def added(monkeypatch):
    """Lays the folder beside the package's own tasks, as if the file stood among them."""
    paths = [*clozeworks.tasks.__path__, str(ADDED)]
    monkeypatch.setattr(clozeworks.tasks, "__path__", paths)
    registry.files.cache_clear()
    yield
    registry.files.cache_clear()
    module = sys.modules.pop("clozeworks.tasks.relate", None)
    if module is not None:  # else its task would stay in the registry
        module.Relate.folder = "taken away"


def select(page, words):
    """Selects a stretch of the text by keyboard, as a person does."""
    begin = TEXT.index(words)
    page.get_by_label("text", exact=True).focus()
    page.keyboard.press("Control+Home")
    for _ in range(begin):
        page.keyboard.press("ArrowRight")
    for _ in words:
        page.keyboard.press("Shift+ArrowRight")


def test_it_is_asked_and_shown(added, tiny_models, serving, visit, findings):
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
