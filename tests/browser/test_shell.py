"""The page itself: navigation, language, colours, keys, without JavaScript, on a phone."""

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(running, workspace):
    """Some models, served."""
    with running("serve", workspace / "words", workspace / "spam") as server:
        yield server


def test_the_first_view_is_shown(served, visit, look, findings):
    visited = visit(served.url, **look)
    page = visited.go("")
    assert page.locator("html").get_attribute("lang") == look["language"]
    assert page.locator("h1").inner_text() == {"en": "Try", "zh": "试用"}[look["language"]]
    assert findings(page) == []


def test_language_and_colours_are_chosen_and_kept(served, visit):
    page = visit(served.url).go("")
    page.get_by_label("Language").select_option("zh")
    assert page.locator("h1").inner_text() == "试用"
    page.get_by_label("配色").select_option("dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.reload()
    page.wait_for_selector("main:not([aria-busy=true]) h1")
    assert page.locator("h1").inner_text() == "试用"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == dark


def test_an_unknown_view_ends_in_a_sentence(served, visit):
    page = visit(served.url).go("nothing")
    assert "There is no view called “nothing”" in page.locator("main").inner_text()
    page.get_by_role("link", name="Try").click()
    page.wait_for_selector("h1:text('Try')")


def test_without_javascript_a_sentence_is_shown(served, visit):
    page = visit(served.url, java_script_enabled=False).page
    page.goto(served.url)
    text = page.locator("body").inner_text()
    assert "needs JavaScript" in text and "需要 JavaScript" in text


def test_a_server_that_goes_away_and_comes_back(running, workspace, visit):
    with running("serve", workspace / "words", workspace / "spam") as server:
        visited = visit(server.url)
        visited.allowed.append("Failed to load resource")
        page = visited.go("")
        server.stop()
        page.get_by_role("link", name="Compare").click()
        page.get_by_role("link", name="Try").click()
        page.wait_for_selector(".notice:has-text('does not answer')")
        server.start()
        page.wait_for_selector(".notice", state="hidden", timeout=60_000)


def test_a_key_is_asked_for(running, workspace, visit, tmp_path):
    (tmp_path / "keys").write_text("key: secret\n")
    with running("serve", workspace / "words", "--keys", tmp_path / "keys") as server:
        visited = visit(server.url)
        visited.allowed.append("401")
        page = visited.page
        page.goto(server.url)
        page.get_by_label("Key").fill("secret")
        page.keyboard.press("Enter")
        page.wait_for_selector("h1:text('Try')")
        assert "secret" not in page.evaluate("JSON.stringify(localStorage)")
