"""The view Server: what is asked, and how long it takes."""

import json
import urllib.request

import pytest

pytestmark = pytest.mark.browser


def asked(url, model, times):
    """Asks a model to fill a gap."""
    for _ in range(times):
        body = json.dumps({"inputs": "The [MASK] sat.", "model": model}).encode()
        request = urllib.request.Request(f"{url}/v1/fill", body)
        urllib.request.urlopen(request, timeout=60).read()


def value(page, title):
    """The number under a title."""
    return (
        page.locator(".figures > div").filter(has=page.get_by_text(title, exact=True)).locator("dd")
    )


def test_it_is_shown_in_both_languages_and_colours(opened, visit, look, findings):
    asked(opened.url, "words", 2)
    page = visit(opened.url, **look).go("server")
    page.get_by_role("rowheader", name="/v1/fill").wait_for()
    page.locator("figure .line").first.wait_for(state="attached")
    assert findings(page) == []


def test_requests_are_seen_as_they_come(running, workspace, visit):
    """Also where models alone are served; who only looks is not counted."""
    with running("serve", f"words={workspace / 'words'}") as server:
        page = visit(server.url).go("server")
        value(page, "Requests").filter(has_text="0").wait_for()
        page.wait_for_timeout(2_500)
        assert value(page, "Requests").inner_text().startswith("0\n")
        asked(server.url, "words", 5)
        value(page, "Requests").filter(has_text="5").wait_for()
        assert page.get_by_role("row", name="/v1/fill").get_by_text("5").count() == 1
        assert "ms" in value(page, "Time, median").inner_text()
        assert page.get_by_role("link", name="Runs").count() == 0
        page.goto("about:blank")
