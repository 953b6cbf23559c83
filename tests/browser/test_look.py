"""The page's views into a model: each in both languages and colours, and as pages of their own."""

import time

import pytest

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def looked_at(running, workspace):
    """A server with a model of each kind."""
    names = ("words", "spam", "chat", "t5")
    with running("serve", *(workspace / name for name in names)) as server:
        yield server


def look_at(visited, place, text=None):
    page = visited.go(f"look/{place}")
    page.wait_for_selector("main form")
    if text is not None:
        page.locator("main textarea").first.fill(text)
    page.locator("main button.main").click()
    page.wait_for_selector(".looked section")
    return page


@pytest.mark.parametrize(
    "place",
    ["words/attention", "words/lens", "spam/attributions", "words/contexts", "chat/tokens"],
)
def test_every_view(looked_at, visit, look, findings, place):
    visited = visit(looked_at.url, **look)
    page = look_at(visited, place)
    assert findings(page) == []
    assert page.locator("html").get_attribute("lang") == look["language"]
    if place.endswith("attention"):
        canvases = page.locator("canvas.matrix")
        assert canvases.count() == 2
        first = page.evaluate("document.querySelector('canvas').toDataURL()")
        page.locator(".head[aria-pressed=true]").focus()
        page.keyboard.press("ArrowUp")
        page.wait_for_function(
            "before => document.querySelector('canvas').toDataURL() !== before", arg=first
        )
    if place.endswith("lens"):
        page.locator("table.lens button").first.click()
        assert page.locator(".bars li").count() == 5
    if place.endswith("contexts"):
        assert page.locator(".map .point").count() >= 2
    if place.endswith("attributions"):
        assert page.locator(".attributed .word").count() > 3


def test_what_is_written(looked_at, visit):
    visited = visit(looked_at.url)
    page = visited.go("look/t5/attention")
    page.wait_for_selector("main form")
    page.locator("main textarea").first.fill("a cat and a dog")
    page.locator("main form input").fill("good dog")
    page.locator("main button.main").click()
    page.wait_for_selector(".looked canvas")
    kinds = page.locator(".looked select").first
    kinds.select_option("cross")
    assert page.locator("canvas.matrix").count() == 2


def of_length(folder, tokens):
    """A text of nearly so many tokens, and never more."""
    import clozeworks as cw

    tokenizer = cw.load(folder).tokenizer
    own = len(tokenizer.encode(["the cat"], special=False)[0])
    return " ".join(["the cat"] * ((tokens - 2) // own))


def test_512_tokens_and_128_fast(looked_at, visit, workspace):
    visited = visit(looked_at.url)
    page = look_at(visited, "words/attention", of_length(workspace / "words", 512))
    assert page.locator("canvas.matrix").count() == 2
    assert page.evaluate("document.querySelector('canvas').width") > 500
    page.reload()
    page = look_at(visited, "words/attention", of_length(workspace / "words", 128))
    page.wait_for_timeout(1500)  # other layers come by themselves
    seconds = page.evaluate("""() => {
      const heads = [...document.querySelectorAll(".head")];
      const begin = performance.now();
      heads[0].click();
      return performance.now() - begin;
    }""")
    assert seconds < 2000  # a bound for a busy machine; a quiet one needs a few milliseconds
    assert page.locator(".head[aria-pressed=true]").count() == 1


def test_mistakes_are_sentences(looked_at, visit):
    visited = visit(looked_at.url)
    visited.allowed.append("status of 4")
    page = visited.go("look/words/attention")
    page.wait_for_selector("main form")
    page.locator("main textarea").first.fill("the cat " * 2000)
    page.locator("main button.main").click()
    page.wait_for_selector(".looked .mistake")
    assert "at most" in page.locator(".looked .mistake").inner_text()
    hostile = "<img src=x onerror=\"alert('owned')\"> [MASK]"
    look_at(visited, "words/lens", hostile)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_page_of_its_own(command, workspace, chromium, findings, tmp_path, language):
    model, page_file = workspace / "words", tmp_path / "look.html"
    context = chromium.new_context(offline=True)
    try:
        page = context.new_page()
        wrong = []
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: wrong.append(request.url)
                if not request.url.startswith(("file:", "data:")) else None)  # fmt: skip
        for view in ("attention", "lens", "attribute", "tokens"):
            outcome = command("look", view, model, "The cat sat on the [MASK].", "-o", page_file,
                              "--overwrite", "--language", language)  # fmt: skip
            assert outcome.code == 0, outcome.err
            begin = time.monotonic()
            page.goto(page_file.as_uri())
            page.wait_for_selector("html[data-ready]")
            assert time.monotonic() - begin < 30
            assert page.locator("main h1").inner_text()
            assert wrong == []
    finally:
        context.close()
